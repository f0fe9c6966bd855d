/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a record that goes from the directory before our eyes counts for T as if it lay there: a
 * cleaner may have taken it from a member that cannot write just now. */
#include "meeting.h"

static void *find_main(void *context)
{
    struct seeker *seeker = context;
    seeker->rc = spotnik_peers_find(seeker->peers, true, 60 * SECOND, NULL, NULL, &seeker->found,
                                    &seeker->sponsor);
    seeker->took_ns = spotnik_peers_clock_ns();
    return NULL;
}

static void a_record_that_vanishes_counts_on(void **state)
{
    (void)state;
    struct writer writer = { .record = stranger_make(50) };
    struct seeker newcomer;
    char text[320] = "", path[256], name[64];
    pthread_t thread;
    seeker_open(&newcomer, 1, 0);
    writer_start(&writer);
    assert_int_equal(spotnik_peers_new(spec, newcomer.engine, &newcomer.peers), 0);
    assert_int_equal(pthread_create(&thread, NULL, find_main, &newcomer), 0);
    while (strstr(text, "member-") == NULL) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        spotnik_peers_warning(newcomer.peers, text, sizeof text);
    }
    writer_end(&writer);
    spotnik_record_name(writer.record.member.id, name);
    path_make(path, name);
    uint64_t gone_ns = spotnik_peers_clock_ns();
    assert_int_equal(unlink(path), 0);
    pthread_join(thread, NULL);
    assert_true(newcomer.rc == 0 && newcomer.found);
    assert_true(newcomer.took_ns - gone_ns >= STALE_NS);
    seeker_close(&newcomer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_that_vanishes_counts_on, directory_make,
                                        directory_clear),
    };
    char stale_ms[16];
    snprintf(stale_ms, sizeof stale_ms, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", stale_ms, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
