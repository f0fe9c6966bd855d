/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: of two processes that found under different numbers at the same moment, where link() lets
 * both succeed, the one that looks last takes its founding record back. link() is this file's own:
 * the other one founds inside of it. */
#include "meeting.h"
#include "tests.h"

static struct {
    const char *name; /* of the founding record that the other one makes; NULL: it made it */
    struct writer writer;
} other;

/* As founders do: the record before the founding record, so it names no founding yet. */
static void other_founds(void)
{
    struct spotnik_runtime_config config;
    struct spotnik_record founding_record = other.writer.record;
    const char *name = other.name;
    other.name = NULL;
    founding_record.founding = founding_record.root = 88;
    founding_record.generation = spotnik_founding_record_parse(name);
    cluster_config(&config, 1);
    writer_start(&other.writer);
    assert_int_equal(spotnik_record_write(&config.credentials, &founding_record, store, name, true),
                     0);
}

int link(const char *from, const char *to)
{
    bool ours = other.name != NULL && strstr(to, "/genesis-") != NULL;
    if (ours)
        other_founds();
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) != 0)
        return -1;
    return 0;
}

static void contest(const char *name, struct seeker *seeker)
{
    other.name = name;
    other.writer = (struct writer){ .record = stranger_make(50) };
    seek(seeker, 1, 1);
    assert_null(other.name);
    writer_end(&other.writer);
    assert_int_equal(seeker->rc, SPOTNIK_ERR_PEERS);
    seeker_close(seeker);
}

TEST_WITH(under_a_higher_number, directory_make, directory_clear)
{
    struct seeker seeker;
    contest("genesis-2", &seeker);
    assert_false(is_there("genesis-1"));
    assert_true(is_there("genesis-2"));
}

/* A copy of a founding record under the last number that is one: whatever was founded behind it,
 * nobody would see. */
TEST_WITH(a_number_that_nobody_would_read_founds_nothing, directory_make, directory_clear)
{
    struct spotnik_record first = stranger_make(50);
    struct seeker newcomer;
    char path[256], copy[256];
    first.founding = first.root = 88;
    founding_record_put(&first);
    path_make(path, "genesis-1");
    path_make(copy, "genesis-999999999999999999");
    assert_int_equal(rename(path, copy), 0);
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "/genesis-999999999999999999 has the last"));
    assert_false(is_there("genesis-1000000000000000000"));
    seeker_close(&newcomer);
}

/* It was about to found at our look before. Whatever became of its founding record, it is in a job
 * now. */
TEST_WITH(a_founder_that_names_its_founding_has_woken, directory_make, directory_clear)
{
    struct spotnik_watcher watch = { .count = 0 };
    struct spotnik_runtime_config config;
    struct spotnik_record record = stranger_make(50);
    cluster_config(&config, 1);
    record_put(&record);
    assert_int_equal(spotnik_watcher_look(&watch, &config.credentials, store, 0), 0);
    assert_false(spotnik_watcher_has_woken(&watch, &config.credentials, store, STALE_NS, 0));
    record.founding = record.root = 88;
    record.generation = 1;
    record_put(&record);
    assert_true(spotnik_watcher_has_woken(&watch, &config.credentials, store, STALE_NS, 0));
    assert_false(spotnik_watcher_has_woken(&watch, &config.credentials, store, STALE_NS, 0));
    spotnik_watcher_done(&watch);
}

int main(void)
{
    setenv("SPOTNIK_STALE_MS", "2000", 1);
    return tests_run(NULL, NULL);
}
