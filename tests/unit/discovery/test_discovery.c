/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the job: specs, directories, lists; one founder, whoever comes in whatever order. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "link/auth.h"
#include "discovery/inside.h"
#include "discovery/discovery.h"
#include "discovery/record.h"
#include "discovery/spec.h"
#include "tests.h"

#define SECOND UINT64_C(1000000000)
#define NAME "member-ffffffffffffffffffffffffffffffff" /* the longest */
#define SEEKERS 4

struct seeker {
    struct spotnik_runtime *runtime;
    struct spotnik_discovery *discovery;
    char spec[512];
    int rc;
    bool found;
    struct spotnik_member sponsor;
    pthread_t thread;
};

static char directory[64];

static int directory_make(void **state)
{
    (void)state;
    int length = snprintf(directory, sizeof directory, "/tmp/spotnik-peers-");
    memset(directory + length, 'X', 6); /* what mkdtemp() replaces */
    directory[length + 6] = '\0';
    return mkdtemp(directory) == NULL || spotnik_discovery_fresh(directory) != 0;
}

static int directory_clear(void **state)
{
    (void)state;
    char path[512];
    DIR *list = opendir(directory);
    if (list == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    closedir(list);
    return rmdir(directory);
}

static void runtime_start(struct seeker *seeker, uint64_t number, uint16_t port)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(number);
    config.credentials.self.port = port;
    assert_int_equal(spotnik_runtime_new(&config, &seeker->runtime), 0);
}

static bool is_never(void *context)
{
    (void)context;
    return false;
}

static void *seek(void *context)
{
    struct seeker *seeker = context;
    seeker->rc = spotnik_discovery_find(seeker->discovery, true, 20 * SECOND, is_never, NULL,
                                        &seeker->found, &seeker->sponsor);
    if (seeker->rc == 0 && seeker->found)
        spotnik_runtime_found(seeker->runtime, NULL, NULL);
    return NULL;
}

static void seek_all(struct seeker *seeker, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(spotnik_discovery_new(seeker[i].spec, seeker[i].runtime,
                                               &seeker[i].discovery),
                         0);
    for (unsigned i = 0; i < count; i++)
        pthread_create(&seeker[i].thread, NULL, seek, &seeker[i]);
    for (unsigned i = 0; i < count; i++)
        pthread_join(seeker[i].thread, NULL);
}

static void seekers_free(struct seeker *seeker, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        spotnik_discovery_free(seeker[i].discovery);
        spotnik_runtime_free(seeker[i].runtime, true);
    }
}

/* Exactly one founds; everybody else is sent to it. */
static void one_founder_check(const struct seeker *seeker, unsigned count)
{
    unsigned founders = 0, founder = 0;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(seeker[i].rc, 0);
        founders += seeker[i].found;
        founder = seeker[i].found ? i : founder;
    }
    assert_int_equal(founders, 1);
    struct spotnik_id id = spotnik_runtime_credentials(seeker[founder].runtime)->self.id;
    for (unsigned i = 0; i < count; i++)
        assert_true(seeker[i].found || spotnik_id_equal(seeker[i].sponsor.id, id));
}

/* Lists and directories are told apart; nonsense is refused with the reason. */
TEST(specs_are_read)
{
    struct spotnik_discovery_spec spec;
    assert_int_equal(spotnik_discovery_spec_parse("file:/some/where", NULL, &spec), 0);
    assert_true(spec.is_store);
    assert_string_equal(spec.location, "/some/where");
    assert_int_equal(spotnik_discovery_spec_parse("s3://bucket/job", NULL, &spec), 0);
    assert_true(spec.is_store);
    assert_string_equal(spec.location, "s3://bucket/job");
    assert_int_equal(spotnik_discovery_spec_parse("gs://bucket/job", NULL, &spec), 0);
    assert_true(spec.is_store);
    assert_int_equal(spotnik_discovery_spec_parse("az://container/job", NULL, &spec), 0);
    assert_true(spec.is_store);
    assert_int_equal(spotnik_discovery_spec_parse("127.0.0.1:7000, [::1]:7001,", NULL, &spec), 0);
    assert_int_equal(spec.count, 2);
    assert_int_equal(spec.listed[0].port, 7000);
    assert_int_equal(spec.listed[1].address[15], 1);
    const char *wrong[] = { "",
                            ",",
                            "file:",
                            "abfs://container/job",
                            "127.0.0.1",
                            "127.0.0.1:99999",
                            "127.0.0.1:x",
                            "[::1",
                            "127.0.0.1:0",
                            "127.0.0.1:1,127.0.0.1:1" };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(spotnik_discovery_spec_parse(wrong[i], NULL, &spec), SPOTNIK_ERR_ARGUMENT);
}

/* A record survives the way through text, and no altered one does. */
TEST(records_are_signed)
{
    struct spotnik_runtime_config config;
    char text[SPOTNIK_RECORD_BYTES];
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(3);
    config.credentials.self.port = 1234;
    struct spotnik_record record = { .member = config.credentials.self,
                                     .process = { .boot = 1, .pid = 2, .start = 3, .space = 4 },
                                     .counter = UINT64_MAX,
                                     .every_ms = UINT64_MAX,
                                     .generation = UINT64_MAX,
                                     .founding = UINT64_MAX,
                                     .epoch = UINT64_MAX,
                                     .step = UINT64_MAX,
                                     .standing = SPOTNIK_STANDING_ENTERED };
    struct spotnik_record read;
    memset(record.member.address, 0xff, sizeof record.member.address); /* the longest text */
    size_t size = spotnik_record_format(&config.credentials, NAME, &record, text);
    assert_in_range(size, 1, SPOTNIK_RECORD_BYTES);
    assert_int_equal(spotnik_record_parse(&config.credentials, NAME, text, size, &read),
                     SPOTNIK_READING_RECORD);
    assert_memory_equal(&read, &record, sizeof read);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= 1;
        assert_int_not_equal(spotnik_record_parse(&config.credentials, NAME, text, size, &read),
                             SPOTNIK_READING_RECORD);
        text[i] ^= 1;
        assert_int_not_equal(spotnik_record_parse(&config.credentials, NAME, text, i, &read),
                             SPOTNIK_READING_RECORD);
    }
    struct spotnik_credentials other = config.credentials;
    other.key = key_copy(other.key);
    other.key[3] ^= 1;
    assert_int_equal(spotnik_record_parse(&other, NAME, text, size, &read), SPOTNIK_READING_KEY);
    other.old_key = config.credentials.key; /* after it was rotated */
    assert_int_equal(spotnik_record_parse(&other, NAME, text, size, &read), SPOTNIK_READING_RECORD);
    other = config.credentials;
    other.job[3] ^= 1;
    assert_int_equal(spotnik_record_parse(&other, NAME, text, size, &read), SPOTNIK_READING_JOB);
}

/* A process that writes its record seldom counts as gone the later. */
TEST(a_record_that_is_written_seldom_is_stale_late)
{
    static const uint64_t minute_ns = 60 * SPOTNIK_S;
    struct spotnik_record record = { .every_ms = 0 };
    assert_true(spotnik_record_stale_ns(&record, minute_ns) == minute_ns);
    record.every_ms = 20000;
    assert_true(spotnik_record_stale_ns(&record, minute_ns) == minute_ns);
    record.every_ms = 40000;
    assert_true(spotnik_record_stale_ns(&record, minute_ns) == 2 * minute_ns);
    record.every_ms = UINT64_MAX;
    assert_true(spotnik_record_stale_ns(&record, minute_ns) == UINT64_MAX);
}

/* A silent process whose record says that it is written every T is waited for three T. */
TEST(silence_is_measured_by_what_the_record_says)
{
    static const struct spotnik_discovery_times times = { .stale_ns = SPOTNIK_S };
    struct spotnik_question question = { .reply = SPOTNIK_DISCOVERY_REPLY_SILENT };
    struct spotnik_watcher_entry entry = { .name = NAME,
                                           .reading = SPOTNIK_READING_RECORD,
                                           .record = { .every_ms = 1000,
                                                       .standing = SPOTNIK_STANDING_ENTERED },
                                           .unchanged_ns = 2 * SPOTNIK_S };
    uint64_t left_ns;
    assert_int_equal(spotnik_discovery_liveness_check(&entry, &question, &times, NULL, 0, &left_ns),
                     SPOTNIK_DISCOVERY_LIVENESS_WAIT);
    assert_true(left_ns == SPOTNIK_S);
    entry.unchanged_ns = 3 * SPOTNIK_S;
    assert_int_equal(spotnik_discovery_liveness_check(&entry, &question, &times, NULL, 0, &left_ns),
                     SPOTNIK_DISCOVERY_LIVENESS_STALE);
}

/* Its name says what a record is for: the same bytes are none in another file. */
TEST(a_record_counts_under_its_own_name_alone)
{
    struct spotnik_runtime_config config;
    char text[SPOTNIK_RECORD_BYTES];
    static const char *const others[] = { "",           "over-1",    "genesis-",
                                          "genesis-11", "genesis-2", "member-1" };
    cluster_config(&config, 1);
    struct spotnik_record record = { .member = { .id = cluster_id(3), .port = 1 } }, read;
    size_t size = spotnik_record_format(&config.credentials, "genesis-1", &record, text);
    assert_int_equal(spotnik_record_parse(&config.credentials, "genesis-1", text, size, &read),
                     SPOTNIK_READING_RECORD);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(spotnik_record_parse(&config.credentials, others[i], text, size, &read),
                         SPOTNIK_READING_TORN);
    char *digit = strstr(text, "genesis-1");
    assert_non_null(digit);
    digit[8] = '2';
    assert_int_equal(spotnik_record_parse(&config.credentials, "genesis-2", text, size, &read),
                     SPOTNIK_READING_KEY);
}

/* Four seekers, who end without a word. Their records stay. */
static int four_seek(void)
{
    struct seeker seeker[SEEKERS] = { 0 };
    for (unsigned i = 0; i < SEEKERS; i++) {
        runtime_start(&seeker[i], i + 1, 0);
        snprintf(seeker[i].spec, sizeof seeker[i].spec, "file:%s", directory);
    }
    seek_all(seeker, SEEKERS);
    one_founder_check(seeker, SEEKERS);
    return 0;
}

/* All at once through one directory: one founds. When their process is gone, the next one founds
 * anew, and at once: the kernel of this host knows that it has ended. */
TEST_WITH(directory_has_one_founder, directory_make, directory_clear)
{
    struct seeker late[1] = { 0 };
    int status;
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0)
        _exit(four_seek());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    runtime_start(&late[0], 9, 0);
    snprintf(late[0].spec, sizeof late[0].spec, "file:%s", directory);
    setenv("SPOTNIK_STALE_MS", "3600000", 1); /* no time passes */
    seek_all(late, 1);
    setenv("SPOTNIK_STALE_MS", "4000", 1);
    assert_int_equal(late[0].rc, 0);
    assert_true(late[0].found);
    seekers_free(late, 1);
}

/* While the founder lives nobody else founds, not even one that comes later and sees only it. */
TEST_WITH(directory_joins_existing, directory_make, directory_clear)
{
    struct seeker first[1] = { 0 }, second[1] = { 0 };
    runtime_start(first, 1, 0);
    snprintf(first->spec, sizeof first->spec, "file:%s", directory);
    seek_all(first, 1);
    assert_true(first->found);
    runtime_start(second, 2, 0);
    snprintf(second->spec, sizeof second->spec, "file:%s", directory);
    seek_all(second, 1);
    assert_int_equal(second->rc, 0);
    assert_false(second->found);
    assert_true(spotnik_id_equal(second->sponsor.id, cluster_id(1)));
    seekers_free(second, 1);
    seekers_free(first, 1);
}

/* The founder itself, excluded later, finds those that went on, and founds nothing. */
TEST_WITH(excluded_founder_finds_the_others, directory_make, directory_clear)
{
    struct seeker seeker[2] = { 0 };
    bool found;
    struct spotnik_member sponsor;
    for (unsigned i = 0; i < 2; i++) {
        runtime_start(&seeker[i], i + 1, 0);
        snprintf(seeker[i].spec, sizeof seeker[i].spec, "file:%s", directory);
    }
    seek_all(seeker, 1);
    assert_true(seeker[0].found);
    seek_all(seeker + 1, 1);
    assert_false(seeker[1].found);
    assert_int_equal(spotnik_discovery_renew(seeker[1].discovery), 0);
    spotnik_runtime_found(seeker[1].runtime, NULL, NULL); /* stands for the view that went on */
    spotnik_discovery_free(seeker[0].discovery);
    spotnik_runtime_free(seeker[0].runtime, false);
    runtime_start(&seeker[0], 1, 0);
    assert_int_equal(spotnik_discovery_new(seeker[0].spec, seeker[0].runtime, &seeker[0].discovery),
                     0);
    assert_int_equal(spotnik_discovery_find(seeker[0].discovery, false, 5 * SECOND, NULL, NULL,
                                            &found, &sponsor),
                     0);
    assert_false(found);
    assert_true(spotnik_id_equal(sponsor.id, cluster_id(2)));
    seekers_free(seeker, 2);
}

/* Another key, another job, no directory: an error that says so, at once. */
TEST_WITH(directory_errors_are_clear, directory_make, directory_clear)
{
    struct seeker first[1] = { 0 };
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime;
    struct spotnik_discovery *discovery;
    bool found;
    struct spotnik_member sponsor;
    runtime_start(first, 1, 0);
    snprintf(first->spec, sizeof first->spec, "file:%s", directory);
    seek_all(first, 1);
    for (unsigned i = 0; i < 2; i++) {
        cluster_config(&config, 1);
        if (i == 0)
            config.credentials.key[0] ^= 1;
        else
            config.credentials.job[0] ^= 1;
        assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
        assert_int_equal(spotnik_discovery_new(first->spec, runtime, &discovery), 0);
        assert_int_equal(spotnik_discovery_find(discovery, true, 20 * SECOND, NULL, NULL, &found,
                                                &sponsor),
                         i == 0 ? SPOTNIK_ERR_KEY : SPOTNIK_ERR_JOB);
        assert_non_null(strstr(spotnik_last_error(), i == 0 ? "another job key" : "another job"));
        spotnik_discovery_free(discovery);
        spotnik_runtime_free(runtime, true);
    }
    assert_int_equal(spotnik_discovery_new("file:/nowhere/at/all", first->runtime, &discovery),
                     SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "/nowhere/at/all"));
    seekers_free(first, 1);
}

/* A directory that vanishes later is a warning and nothing more. */
TEST_WITH(vanished_directory_is_a_warning, directory_make, directory_clear)
{
    struct seeker first[1] = { 0 };
    char text[256] = "", moved[80];
    runtime_start(first, 1, 0);
    snprintf(first->spec, sizeof first->spec, "file:%s", directory);
    seek_all(first, 1);
    spotnik_discovery_warning(first->discovery, text, sizeof text);
    assert_string_equal(text, "");
    snprintf(moved, sizeof moved, "%s.moved", directory);
    assert_int_equal(rename(directory, moved), 0);
    spotnik_discovery_renew(first->discovery); /* refreshes now */
    while (text[0] == '\0')
        spotnik_discovery_warning(first->discovery, text, sizeof text);
    assert_non_null(strstr(text, directory));
    assert_int_equal(rename(moved, directory), 0);
    spotnik_discovery_renew(first->discovery);
    while (text[0] != '\0')
        spotnik_discovery_warning(first->discovery, text, sizeof text);
    seekers_free(first, 1);
}

static bool record_is_there(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

/* Who looks while the founder is dead and a member has no record founds the job a second time
 * beside it: there must be no such moment. */
TEST_WITH(a_new_id_is_in_the_directory_at_once, directory_make, directory_clear)
{
    struct seeker first[1] = { 0 };
    char before[64], after[64];
    runtime_start(first, 1, 0);
    snprintf(first->spec, sizeof first->spec, "file:%s", directory);
    seek_all(first, 1);
    for (uint64_t id = 100; id < 110; id++) {
        spotnik_record_name(spotnik_runtime_credentials(first->runtime)->self.id, before);
        assert_int_equal(spotnik_runtime_join(first->runtime, cluster_id(id), 0), 0);
        assert_true(record_is_there(before));
        spotnik_discovery_renew(first->discovery);
        spotnik_record_name(cluster_id(id), after);
        assert_true(record_is_there(after));
        assert_false(record_is_there(before));
    }
    seekers_free(first, 1);
}

/* That a job is over is said about one lineage, by one who holds the key. */
TEST_WITH(the_end_is_told, directory_make, directory_clear)
{
    struct seeker last[1] = { 0 }, cut_off[1] = { 0 };
    char path[256];
    runtime_start(last, 1, 0);
    runtime_start(cut_off, 2, 0);
    snprintf(last->spec, sizeof last->spec, "file:%s", directory);
    assert_int_equal(spotnik_discovery_new(last->spec, last->runtime, &last->discovery), 0);
    assert_int_equal(spotnik_discovery_new(last->spec, cut_off->runtime, &cut_off->discovery), 0);
    spotnik_discovery_over_set(last->discovery, false); /* of no lineage: nothing is said */
    assert_false(spotnik_discovery_is_over(cut_off->discovery));
    spotnik_discovery_founding_set(cut_off->discovery, 0xabc);
    snprintf(path, sizeof path, "%s/over-%016x", directory, 0xabc);
    FILE *forged = fopen(path, "w");
    assert_non_null(forged);
    fclose(forged);
    assert_false(spotnik_discovery_is_over(cut_off->discovery));
    spotnik_discovery_founding_set(last->discovery, 0xabd);
    spotnik_discovery_over_set(last->discovery, false);
    assert_true(spotnik_discovery_is_over(last->discovery));
    assert_false(spotnik_discovery_is_over(cut_off->discovery));
    spotnik_discovery_founding_set(last->discovery, 0xabc);
    /* they were told to go: whoever was cut off goes on */
    spotnik_discovery_over_set(last->discovery, true);
    assert_true(record_is_there("stopped-0000000000000abc"));
    assert_false(spotnik_discovery_is_over(cut_off->discovery));
    spotnik_discovery_over_set(last->discovery, false);
    assert_true(spotnik_discovery_is_over(cut_off->discovery));
    seekers_free(last, 1);
    seekers_free(cut_off, 1);
}

/* Whoever has nothing else to do answers at once, too: those that start together ask each other all
 * the time, and who hears nothing of one dares not found the job. A few may be late on a busy
 * machine. */
TEST(an_idle_process_answers)
{
    struct seeker idle[1] = { 0 };
    struct spotnik_answer answer;
    unsigned answers = 0;
    runtime_start(idle, 1, 0);
    struct spotnik_credentials asker = *spotnik_runtime_credentials(idle->runtime);
    asker.self.id = cluster_id(2);
    for (unsigned i = 0; i < 40; i++)
        answers += spotnik_net_ask(&asker, asker.self.address, asker.self.port, 2 * SECOND / 5,
                                   &answer, NULL)
                   == 0;
    assert_in_range(answers, 36, 40);
    assert_int_equal(answer.epoch, 0);
    spotnik_runtime_free(idle->runtime, true);
}

/* Ports that are free just now. */
static void ports_take(uint16_t *port, unsigned count)
{
    struct seeker probe[SEEKERS] = { 0 };
    for (unsigned i = 0; i < count; i++) {
        runtime_start(&probe[i], i + 1, 0);
        port[i] = spotnik_runtime_credentials(probe[i].runtime)->self.port;
    }
    for (unsigned i = 0; i < count; i++)
        spotnik_runtime_free(probe[i].runtime, true);
}

static void list_write(char *text, size_t size, const uint16_t *port, unsigned count)
{
    size_t at = 0;
    for (unsigned i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, size - at, "127.0.0.1:%u,", port[i]);
}

/* Three of three listed and one that is not: one founds, the others join it. */
TEST(list_has_one_founder)
{
    struct seeker seeker[SEEKERS] = { 0 };
    uint16_t port[3];
    ports_take(port, 3);
    for (unsigned i = 0; i < SEEKERS; i++) {
        runtime_start(&seeker[i], 20 - i, i < 3 ? port[i] : 0);
        list_write(seeker[i].spec, sizeof seeker[i].spec, port, 3);
    }
    seek_all(seeker, SEEKERS);
    one_founder_check(seeker, SEEKERS);
    assert_false(seeker[3].found);
    seekers_free(seeker, SEEKERS);
}

/* Two of three listed found nothing, and the error says why. With the third they do. */
TEST(list_needs_all)
{
    struct seeker seeker[3] = { 0 };
    uint16_t port[3];
    bool found;
    struct spotnik_member sponsor;
    ports_take(port, 3);
    for (unsigned i = 0; i < 2; i++) {
        runtime_start(&seeker[i], 5 + i, port[2 - i]);
        list_write(seeker[i].spec, sizeof seeker[i].spec, port, 3);
    }
    assert_int_equal(spotnik_discovery_new(seeker[0].spec, seeker[0].runtime, &seeker[0].discovery),
                     0);
    assert_int_equal(spotnik_discovery_find(seeker[0].discovery, true, SECOND / 2, NULL, NULL,
                                            &found, &sponsor),
                     SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "2 of 3 listed processes are up"));
    spotnik_discovery_free(seeker[0].discovery);
    seeker[0].discovery = NULL;
    runtime_start(&seeker[2], 7, port[0]);
    list_write(seeker[2].spec, sizeof seeker[2].spec, port, 3);
    seek_all(seeker, 3);
    one_founder_check(seeker, 3);
    seekers_free(seeker, 3);
}

int main(void)
{
    setenv("SPOTNIK_STALE_MS", "4000", 1);
    return tests_run(NULL, NULL);
}
