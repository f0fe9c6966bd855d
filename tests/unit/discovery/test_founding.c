/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: nobody founds while a record in the directory may belong to somebody alive, whatever
 * became of the directory and of the network; and nobody waits longer than for T. Members are
 * threads of this process, or of a child where their process has to end; hosts are told apart by
 * what their records say. */
#include "meeting.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "link/slots.h"
#include "tests.h"

/* ---- files that are gone ---- */

static void everything_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -f -- %s/*", directory);
    assert_int_equal(system(command), 0);
}

/* It gives up, has founded nothing, and names what is missing. */
static void expect_refusal(struct seeker *newcomer, uint64_t number)
{
    seek(newcomer, number, STALE_NS);
    assert_int_equal(newcomer->rc, SPOTNIK_ERR_PEERS);
    if (strstr(spotnik_last_error(), "genesis-1 is missing, and member-") == NULL)
        fail_msg("%s", spotnik_last_error());
    assert_false(is_there("genesis-1") || is_there("genesis-2"));
    seeker_close(newcomer);
}

/* Somebody removes the founding of a job that lives: whoever reaches it joins. */
TEST_WITH(a_lost_genesis_founds_nothing, directory_make, directory_clear)
{
    struct seeker member, newcomer;
    char path[256];
    founder_start(&member, 1);
    path_make(path, "genesis-1");
    assert_int_equal(unlink(path), 0);
    seek(&newcomer, 10, 10 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    assert_false(newcomer.found);
    assert_true(spotnik_id_equal(newcomer.sponsor.id, cluster_id(1)));
    assert_false(is_there("genesis-1"));
    seeker_close(&newcomer);
    seeker_close(&member);
}

/* Whoever does not reach it founds nothing, while its members write and when they have long
 * stopped. */
TEST_WITH(a_member_of_a_lost_genesis_is_believed, directory_make, directory_clear)
{
    struct writer writer = { .record = stranger_make(50) };
    struct seeker newcomer;
    writer.record.generation = 1;
    writer.record.founding = writer.record.root = 88;
    writer_start(&writer);
    expect_refusal(&newcomer, 1);
    writer_end(&writer);
    expect_refusal(&newcomer, 2);
}

/* All files of the directory at once: who comes then sees nothing of a job that lives, and joins
 * it. */
TEST_WITH(an_emptied_directory_founds_nothing, directory_make, directory_clear)
{
    struct seeker member, newcomer;
    founder_start(&member, 1);
    everything_remove();
    seek(&newcomer, 2, 10 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    assert_false(newcomer.found);
    seeker_close(&newcomer);
    seeker_close(&member);
}

static void *late_write(void *context)
{
    struct writer *writer = context;
    nanosleep(&(struct timespec){ .tv_nsec = 150000000 }, NULL); /* of T/20 = 100 ms and the way */
    return write_on(writer);
}

/* Nor does one that does not reach it: members write again within one refresh. */
TEST_WITH(an_emptied_directory_is_watched, directory_make, directory_clear)
{
    struct writer writer = { .record = stranger_make(50) };
    struct seeker newcomer;
    writer.record.generation = 1;
    writer.record.founding = writer.record.root = 88;
    assert_int_equal(pthread_create(&writer.thread, NULL, late_write, &writer), 0);
    expect_refusal(&newcomer, 1);
    writer_end(&writer);
}

/* The member goes on, and says what has gone. */
TEST_WITH(a_member_names_what_has_gone, directory_make, directory_clear)
{
    struct seeker member;
    char text[320] = "", name[64];
    founder_start(&member, 1);
    spotnik_record_name(spotnik_runtime_credentials(member.runtime)->self.id, name);
    while (!is_there(name))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    everything_remove();
    while (strstr(text, "genesis-1 has vanished") == NULL) {
        spotnik_discovery_warning(member.discovery, text, sizeof text);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    until_there(name);
    while (strstr(member.discovery->advice, name) == NULL)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_true(spotnik_discovery_is_youngest(member.discovery));
    assert_false(is_there("genesis-1"));
    seeker_close(&member);
}

/* Without the mark of a fresh directory the first one watches for members that write. */
TEST_WITH(a_used_directory_is_watched_first, directory_make, directory_clear)
{
    struct seeker first, fresh;
    seek(&first, 1, 10 * SECOND);
    assert_int_equal(first.rc, 0);
    assert_true(first.found);
    assert_in_range(first.took_ns, 3 * first.discovery->times.refresh_ns, STALE_NS + MARGIN_NS);
    seeker_close(&first);
    directory_clear(state);
    directory_make(state);
    assert_int_equal(spotnik_discovery_fresh(directory), 0);
    seek(&fresh, 2, 10 * SECOND);
    assert_true(fresh.rc == 0 && fresh.found);
    assert_false(is_there("fresh"));
    assert_true(is_there("genesis-1"));
    seeker_close(&fresh);
}

/* ---- who is alive ---- */

/* A firewall that rejects, or two hosts of one private address: the address of a live member is
 * refused. It is alive as long as it writes; when it no longer does, T passes. */
TEST_WITH(a_refusal_proves_no_death, directory_make, directory_clear)
{
    struct writer writer = { .record = stranger_make(50) };
    struct seeker newcomer, late;
    founding_record_put(&writer.record);
    writer_start(&writer);
    seek(&newcomer, 1, 2 * STALE_NS);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "member-"));
    assert_false(is_there("genesis-2"));
    seeker_close(&newcomer);
    writer_end(&writer);
    seek(&late, 2, SECOND); /* less than T: it knows what it waits for, and waits on */
    assert_int_equal(late.rc, 0);
    assert_true(late.found);
    assert_true(is_there("genesis-2"));
    assert_in_range(late.took_ns, STALE_NS - SECOND / 2, STALE_NS + MARGIN_NS);
    seeker_close(&late);
}

/* Another process at the address of a record: proof where both are of one host, nothing else. */
TEST_WITH(another_id_proves_only_on_its_host, directory_make, directory_clear)
{
    struct seeker other, newcomer;
    struct spotnik_record record = stranger_make(50);
    seeker_open(&other, 60, 0);
    record.member = spotnik_runtime_credentials(other.runtime)->self;
    record.member.id = cluster_id(50);
    record_put(&record);
    founding_record_put(&record);
    seek_without_time(&newcomer, 1);
    seeker_close(&newcomer);
    directory_clear(state);
    directory_make(state);
    record.member.host = 77;
    record_put(&record);
    founding_record_put(&record);
    seek(&newcomer, 2, SECOND);
    assert_true(newcomer.rc == 0 && newcomer.found);
    assert_in_range(newcomer.took_ns, STALE_NS - SECOND / 2, STALE_NS + MARGIN_NS);
    seeker_close(&newcomer);
    spotnik_runtime_free(other.runtime, true);
}

/* Its own address is in the record of a member of another host (private addresses). */
TEST_WITH(an_echo_is_nobody, directory_make, directory_clear)
{
    struct seeker newcomer;
    struct writer writer = { .record = stranger_make(50) };
    seeker_open(&newcomer, 1, 0);
    writer.record.member = spotnik_runtime_credentials(newcomer.runtime)->self;
    writer.record.member.id = cluster_id(50);
    writer.record.member.host = 77;
    founding_record_put(&writer.record);
    writer_start(&writer);
    assert_int_equal(spotnik_discovery_new(spec, newcomer.runtime, &newcomer.discovery), 0);
    assert_int_equal(spotnik_discovery_find(newcomer.discovery, true, 2 * STALE_NS, NULL, NULL,
                                            &newcomer.found, &newcomer.sponsor),
                     SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "leads back to this process"));
    writer_end(&writer);
    seeker_close(&newcomer);
}

/* Nor is it when we are a member ourselves, and look because we are parked: where we listen
 * somebody else had listened before its machine lost power. */
TEST_WITH(an_echo_of_a_member_is_nobody, directory_make, directory_clear)
{
    struct seeker member;
    founder_start(&member, 1);
    const struct spotnik_credentials *self = spotnik_runtime_credentials(member.runtime);
    struct spotnik_member before = self->self;
    before.id = cluster_id(50);
    before.host = 77;
    struct spotnik_question question = { .expected = &before, .name = "member-50" };
    spotnik_discovery_ask(self, &question, 1, false, NULL);
    assert_true(question.answer.epoch > 0);
    assert_int_equal(question.reply, SPOTNIK_DISCOVERY_REPLY_ECHO);
    before.host = self->self.host; /* of our own machine: two do not listen on one port */
    spotnik_discovery_ask(self, &question, 1, false, NULL);
    assert_int_equal(question.reply, SPOTNIK_DISCOVERY_REPLY_GONE);
    seeker_close(&member);
}

/* Where a member of ours listened, a member of another job of our name does by now. */
TEST_WITH(another_job_at_an_address_is_not_joined, directory_make, directory_clear)
{
    struct seeker other, newcomer;
    struct spotnik_founding of = { .id = 0xb0, .root = 0xb0, .founded_at_ms = 1 };
    struct spotnik_record record = stranger_make(50);
    seeker_open(&other, 60, 0);
    spotnik_runtime_found(other.runtime, NULL, &of);
    record.member.port = spotnik_runtime_credentials(other.runtime)->self.port;
    record.founding = record.root = 0xa0;
    record.generation = 1;
    founding_record_put(&record);
    record_put(&record);
    seek(&newcomer, 1, STALE_NS + MARGIN_NS);
    assert_int_equal(newcomer.rc, 0);
    assert_true(newcomer.found);
    assert_true(newcomer.took_ns >= STALE_NS);
    seeker_close(&newcomer);
    seeker_close(&other);
}

/* A process that hangs before it ever asked to be let in holds up nobody. */
TEST_WITH(whoever_never_entered_blocks_nobody, directory_make, directory_clear)
{
    struct spotnik_record record = stranger_make(50), seeking = stranger_make(51);
    struct seeker newcomer;
    founding_record_put(&record);
    spotnik_process_self(&record.process);
    record.process.start++; /* the founder: its process has ended */
    record_put(&record);
    seeking.standing = SPOTNIK_STANDING_SEEKING;
    struct writer writer = { .record = seeking };
    writer_start(&writer);
    seek_without_time(&newcomer, 1);
    writer_end(&writer);
    seeker_close(&newcomer);
}

/* ---- what cannot be read ---- */

/* A member of a bucket looks for younger foundings seldom. One that is there may have been written
 * just now, though the job of its founder is over: the member may live, and commit, until it
 * looks. */
TEST_WITH(a_replaced_member_looks_first, directory_make, directory_clear)
{
    struct spotnik_record member = stranger_make(50), younger = stranger_make(60);
    struct spotnik_runtime_config config;
    struct seeker newcomer;
    char over[64];
    member.generation = 1;
    member.founding = member.root = younger.root = 88;
    member.every_ms = STALE_MS;
    record_put(&member);
    younger.generation = 2;
    younger.founding = 90;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &younger, store, "genesis-2", true),
                     0);
    snprintf(over, sizeof over, SPOTNIK_OVER_NAME, 90ULL);
    assert_int_equal(spotnik_record_write(&config.credentials, &younger, store, over, true), 0);
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    assert_true(newcomer.found);
    assert_true(newcomer.took_ns >= 3 * STALE_NS);
    seeker_close(&newcomer);
}

TEST_WITH(a_torn_record_is_waited_for, directory_make, directory_clear)
{
    struct writer writer = { .torn = true };
    struct spotnik_record record = stranger_make(50);
    struct seeker newcomer, late;
    spotnik_process_self(&record.process);
    record.process.start++;
    record_put(&record);
    founding_record_put(&record);
    writer_start(&writer);
    seek(&newcomer, 1, 2 * STALE_NS);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "member-torn: is no whole record"));
    seeker_close(&newcomer);
    writer_end(&writer);
    seek(&late, 2, SECOND);
    assert_true(late.rc == 0 && late.found);
    assert_in_range(late.took_ns, STALE_NS - SECOND / 2, STALE_NS + MARGIN_NS);
    seeker_close(&late);
}

/* Nor is it opened: a FIFO would never end. It is nobody's record when T has passed. */
TEST_WITH(a_fifo_is_no_record, directory_make, directory_clear)
{
    struct seeker newcomer;
    struct spotnik_record record;
    uint64_t print;
    int error;
    char path[256];
    path_make(path, "member-fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    seeker_open(&newcomer, 1, 0);
    assert_int_equal(spotnik_record_read(spotnik_runtime_credentials(newcomer.runtime), store,
                                         "member-fifo", &record, &print, &error),
                     SPOTNIK_READING_UNREADABLE);
    assert_int_equal(error, EINVAL);
    spotnik_runtime_free(newcomer.runtime, true);
    seek(&newcomer, 2, SECOND);
    assert_true(newcomer.rc == 0 && newcomer.found);
    seeker_close(&newcomer);
}

/* However many records lie before it. */
TEST_WITH(a_member_among_thousands_is_found, directory_make, directory_clear)
{
    struct spotnik_record record = stranger_make(1000);
    struct seeker member, newcomer;
    founder_start(&member, 1);
    for (uint64_t i = 0; i < 2000; i++) {
        record.member.id = cluster_id(1000 + i);
        record_put(&record);
    }
    seek(&newcomer, 2, 20 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    assert_false(newcomer.found);
    assert_true(spotnik_id_equal(newcomer.sponsor.id, cluster_id(1)));
    seeker_close(&newcomer);
    seeker_close(&member);
}

/* All machines of a large job are gone, and their addresses are mute: each question takes its half
 * second, and all of them together must not make T longer. */
TEST_WITH(hundreds_of_silent_members_take_no_longer, directory_make, directory_clear)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    struct spotnik_record record = stranger_make(1000);
    struct seeker newcomer;
    /* the kernel takes connections, and nobody reads them */
    int mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(mute, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(mute, 4096), 0);
    assert_int_equal(getsockname(mute, (struct sockaddr *)&address, &size), 0);
    record.member.port = ntohs(address.sin_port);
    founding_record_put(&record);
    for (uint64_t i = 0; i < 300; i++) {
        record.member.id = cluster_id(1000 + i);
        record_put(&record);
    }
    seek(&newcomer, 1, SECOND);
    if (newcomer.rc != 0)
        fail_msg("%s", spotnik_last_error());
    assert_true(newcomer.found);
    /* one after the other: 150 s a round */
    assert_in_range(newcomer.took_ns, STALE_NS - SECOND / 2, STALE_NS + 30 * SECOND);
    print_message("300 silent members: %.1f s, T = %.1f s\n", (double)newcomer.took_ns / 1e9,
                  (double)STALE_NS / 1e9);
    seeker_close(&newcomer);
    close(mute);
}

/* ---- who says what ---- */

/* Where a dead member listened, a program of another job listens now: what it says of our key
 * decides nothing. */
TEST_WITH(a_stranger_decides_nothing, directory_make, directory_clear)
{
    struct seeker stranger, member, newcomer;
    struct spotnik_record record = stranger_make(50);
    founder_start(&member, 1);
    seeker_open(&stranger, 60, 1);
    record.member.port = spotnik_runtime_credentials(stranger.runtime)->self.port;
    record_put(&record);
    seek(&newcomer, 2, 5 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    assert_false(newcomer.found);
    seeker_close(&newcomer);
    seeker_close(&member);
    /* and where nobody else is there, it is told in the end */
    struct writer writer = { .record = record };
    writer_start(&writer);
    seek(&newcomer, 3, STALE_NS);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_KEY);
    assert_non_null(strstr(spotnik_last_error(), "(record member-"));
    writer_end(&writer);
    seeker_close(&newcomer);
    spotnik_runtime_free(stranger.runtime, true);
}

/* ---- what is told of it ---- */

/* What the agent of a searching member reads, from the first word to the last. */
struct told {
    struct spotnik_slots *slots;
    int fd;
    bool stop;                            /* __atomic */
    uint64_t whole_ms, first_ms, last_ms; /* of the longest wait */
    bool too_long, back;                  /* beyond its end; less than before */
    pthread_t thread;
};

static void *told_listen(void *context)
{
    struct told *told = context;
    uint64_t ms, of_ms;
    while (!__atomic_load_n(&told->stop, __ATOMIC_SEQ_CST)) {
        if (spotnik_slots_wait(told->slots, &ms, &of_ms) && of_ms >= told->whole_ms) {
            told->first_ms = told->whole_ms != of_ms ? ms : told->first_ms;
            told->last_ms = told->whole_ms != of_ms ? ms : told->last_ms;
            told->too_long |= ms > of_ms;
            told->back |= ms < told->last_ms;
            told->whole_ms = of_ms;
            told->last_ms = ms;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return NULL;
}

static void told_begin(struct told *told)
{
    char text[16];
    *told = (struct told){ .fd = -1 };
    assert_int_equal(spotnik_slots_new(1, &told->fd, &told->slots), 0);
    snprintf(text, sizeof text, "%d", told->fd);
    setenv("SPOTNIK_SLOTS_FD", text, 1);
    setenv("SPOTNIK_SLOT", "0", 1);
    assert_int_equal(pthread_create(&told->thread, NULL, told_listen, told), 0);
}

static void told_end(struct told *told)
{
    uint64_t ms, of_ms;
    __atomic_store_n(&told->stop, true, __ATOMIC_SEQ_CST);
    pthread_join(told->thread, NULL);
    assert_false(spotnik_slots_wait(told->slots, &ms, &of_ms)); /* it is over */
    unsetenv("SPOTNIK_SLOTS_FD");
    unsetenv("SPOTNIK_SLOT");
    spotnik_slots_unmap(told->slots);
    close(told->fd);
    assert_false(told->too_long || told->back);
}

/* A wait is told by its own length, from nothing to its end: three refreshes where nobody has
 * founded, T where a record may belong to somebody alive. */
TEST_WITH(a_wait_is_told_by_its_own_length, directory_make, directory_clear)
{
    struct spotnik_record record = stranger_make(50);
    struct seeker first, second;
    struct told told;
    told_begin(&told);
    seek(&first, 1, 10 * SECOND);
    told_end(&told);
    assert_true(first.rc == 0 && first.found);
    assert_int_equal(told.whole_ms, 3 * first.discovery->times.refresh_ns / SPOTNIK_MS + 200);
    seeker_close(&first);
    directory_clear(state);
    directory_make(state);
    record_put(&record);
    founding_record_put(&record);
    told_begin(&told);
    seek(&second, 2, SECOND);
    told_end(&told);
    assert_true(second.rc == 0 && second.found);
    assert_int_equal(told.whole_ms, STALE_MS);
    assert_true(told.first_ms < told.last_ms);
    seeker_close(&second);
}

int main(void)
{
    char stale_ms[16];
    snprintf(stale_ms, sizeof stale_ms, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", stale_ms, 1);
    return tests_run(NULL, NULL);
}
