/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: of two processes that found under different numbers at the same moment, where link() lets
 * both succeed, the one that looks last takes its genesis back. Also where the answer of the file
 * server was lost. link() is this file's own: the other one founds inside of it. */
#include "meeting.h"

static struct {
    const char *name; /* of the genesis that the other one makes; NULL: it made it */
    bool lost;        /* the answer to ours, and what would tell that we made it */
    struct writer writer;
} other;

/* As founders do: the record before the genesis, so it names no founding yet. */
static void other_founds(void)
{
    struct spotnik_engine_config config;
    struct spotnik_record genesis = other.writer.record;
    const char *name = other.name;
    other.name = NULL;
    genesis.founding = genesis.root = 88;
    genesis.generation = spotnik_genesis_parse(name);
    cluster_config(&config, 1);
    writer_start(&other.writer);
    assert_int_equal(spotnik_record_write(&config.credentials, &genesis, directory, name, true), 0);
}

int link(const char *from, const char *to)
{
    bool ours = other.name != NULL && strstr(to, "/genesis-") != NULL;
    if (ours)
        other_founds();
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) != 0)
        return -1;
    if (!ours || !other.lost)
        return 0;
    unlink(from);
    errno = EEXIST;
    return -1;
}

static void contest(const char *name, bool lost, struct seeker *seeker)
{
    other.name = name;
    other.lost = lost;
    other.writer = (struct writer){ .record = stranger_make(50) };
    seek(seeker, 1, 1);
    assert_null(other.name);
    writer_end(&other.writer);
    assert_int_equal(seeker->rc, SPOTNIK_ERR_PEERS);
    seeker_close(seeker);
}

static void under_a_higher_number(void **state)
{
    (void)state;
    struct seeker seeker;
    contest("genesis-2", false, &seeker);
    assert_false(is_there("genesis-1"));
    assert_true(is_there("genesis-2"));
}

/* A record tells of a life whose genesis a cleaner took: ours is the second. */
static void under_a_lower_number(void **state, bool lost)
{
    (void)state;
    struct seeker seeker;
    struct spotnik_record dead = stranger_make(51);
    dead.founding = 77;
    dead.generation = 1;
    record_put(&dead);
    contest("genesis-1", lost, &seeker);
    assert_true(is_there("genesis-1"));
    assert_false(is_there("genesis-2"));
}

static void lower(void **state)
{
    under_a_lower_number(state, false);
}

static void lower_and_the_answer_is_lost(void **state)
{
    under_a_lower_number(state, true);
}

/* A copy of a genesis under the last number that is one: whatever was founded behind it, nobody
 * would see. */
static void a_number_that_nobody_would_read_founds_nothing(void **state)
{
    (void)state;
    struct spotnik_record copy = stranger_make(50);
    struct spotnik_engine_config config;
    struct seeker newcomer;
    copy.founding = copy.root = 88;
    copy.generation = copy.size = 1;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &copy, directory,
                                          "genesis-999999999999999999", true),
                     0);
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), ": remove genesis-999999999999999999"));
    assert_false(is_there("genesis-1000000000000000000"));
    seeker_close(&newcomer);
}

/* Members that had taken that number for theirs died with it: all files that have it are named at
 * once, and no others. Without them the job is founded. */
static void all_records_of_such_a_number_are_named(void **state)
{
    (void)state;
    struct seeker newcomer;
    char path[256], said[512], *at = NULL;
    int named = 0;
    for (uint32_t number = 52; number < 57; number++) {
        struct spotnik_record dead = stranger_make(number);
        dead.founding = 88;
        dead.generation = number == 56 ? 3 : 999999999999999999;
        record_put(&dead);
    }
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_SYSTEM);
    seeker_close(&newcomer);
    snprintf(said, sizeof said, "%s", spotnik_last_error());
    assert_non_null(strstr(said, ": remove "));
    for (char *name = strtok_r(strstr(said, ": remove ") + 9, ", ", &at); name != NULL;
         name = strtok_r(NULL, ", ", &at)) {
        path_make(path, name);
        assert_int_equal(unlink(path), 0);
        named++;
    }
    assert_int_equal(named, 4);
    seek(&newcomer, 2, 60 * SECOND);
    assert_int_equal(newcomer.rc, 0);
    seeker_close(&newcomer);
}

/* More than there is room for: those that are not named are counted. */
static void many_of_them_are_counted(void **state)
{
    (void)state;
    struct seeker newcomer;
    for (uint32_t number = 60; number < 80; number++) {
        struct spotnik_record dead = stranger_make(number);
        dead.founding = 88;
        dead.generation = 999999999999999999;
        record_put(&dead);
    }
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_SYSTEM);
    const char *said = spotnik_last_error(), *more = strstr(said, ", and ");
    int named = 0, counted = more != NULL ? atoi(more + strlen(", and ")) : 0;
    for (const char *name = strstr(said, "member-"); name != NULL;
         name = strstr(name + 1, "member-"))
        named++;
    assert_true(named > 0 && counted > 0);
    assert_int_equal(named + counted, 20);
    seeker_close(&newcomer);
}

int main(void)
{
    setenv("SPOTNIK_STALE_MS", "2000", 1);
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(under_a_higher_number, directory_make, directory_clear),
        cmocka_unit_test_setup_teardown(lower, directory_make, directory_clear),
        cmocka_unit_test_setup_teardown(lower_and_the_answer_is_lost, directory_make,
                                        directory_clear),
        cmocka_unit_test_setup_teardown(a_number_that_nobody_would_read_founds_nothing,
                                        directory_make, directory_clear),
        cmocka_unit_test_setup_teardown(all_records_of_such_a_number_are_named, directory_make,
                                        directory_clear),
        cmocka_unit_test_setup_teardown(many_of_them_are_counted, directory_make, directory_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
