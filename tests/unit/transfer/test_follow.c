/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner's stream, with the engine and the donor played. Claims: one that replays as slowly as
 * the members step, and so never sees the end of its donor's results, asks to be let in; so does
 * one that sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <pthread.h>

#include "base/hash.h"
#include "link/dial.h"
#include "transfer/joiner_inside.h"

enum { RESULTS = 100, BEHIND = 40 };

static bool entered, lost;
static uint64_t replayed;

/* ---- the engine, as far as a stream asks it ---- */

void spotnik_engine_status(struct spotnik_engine *engine, spotnik_job_status *ret)
{
    (void)engine;
    memset(ret, 0, sizeof *ret);
    ret->joining = !__atomic_load_n(&entered, __ATOMIC_ACQUIRE);
}

void spotnik_engine_enter(struct spotnik_engine *engine, const struct spotnik_member *sponsor)
{
    (void)engine, (void)sponsor;
    __atomic_store_n(&entered, true, __ATOMIC_RELEASE);
}

int spotnik_engine_handover(struct spotnik_engine *engine,
                            const struct spotnik_chunk_header *header, const void *payload,
                            size_t bytes)
{
    (void)engine, (void)payload, (void)bytes;
    replayed = header->step;
    return 0;
}

/* ---- linked with joiner.c, and not called ---- */

const struct spotnik_credentials *spotnik_engine_credentials(const struct spotnik_engine *engine)
{
    (void)engine;
    fail();
    return NULL;
}

int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                     uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns, int *ret_fd,
                     struct spotnik_member *ret_peer)
{
    (void)credentials, (void)address, (void)port, (void)purpose, (void)timeout_ns, (void)ret_fd;
    (void)ret_peer;
    fail();
    return SPOTNIK_ERR_PEERS;
}

int spotnik_net_dial_narrow(const struct spotnik_credentials *credentials,
                            const uint8_t address[16], uint16_t port, enum spotnik_purpose purpose,
                            uint64_t timeout_ns, int *ret_fd, struct spotnik_member *ret_peer)
{
    return spotnik_net_dial(credentials, address, port, purpose, timeout_ns, ret_fd, ret_peer);
}

static void on_lost(void *context)
{
    *(bool *)context = true;
}

/* ---- the donor: `behind` steps ahead of every result that the joiner gets, then gone ---- */

static void send_results(int fd, uint64_t behind)
{
    uint8_t head[SPOTNIK_RESULT_BYTES];
    int64_t word = 1;

    for (uint64_t step = 1; step <= RESULTS; step++) {
        struct spotnik_result result = { .latest = step + behind,
                                         .hash = spotnik_hash_bytes(&word, sizeof word) };

        result.header = (struct spotnik_chunk_header){
            .handover = 1, .dtype = SPOTNIK_I64, .step = step, .count = 1
        };
        spotnik_result_write(&result, head);
        if (spotnik_packet_send(fd, SPOTNIK_PACKET_RESULT, head, sizeof head, &word, sizeof word))
            return; /* it is in, and has closed its end */
    }
}

static void follow(uint64_t behind)
{
    static struct spotnik_joiner joiner;
    int pair[2];

    entered = lost = false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    joiner = (struct spotnik_joiner){ .config = { .lost = on_lost, .context = &lost },
                                      .source = { { .fd = pair[0] } },
                                      .source_count = 1,
                                      .next_step = 1 };
    assert_int_equal(pthread_mutex_init(&joiner.lock, NULL), 0);
    send_results(pair[1], behind);
    assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
    assert_int_equal(spotnik_joiner_follow(&joiner), 0);
    pthread_join(joiner.thread, NULL);
    close(pair[1]);
    pthread_mutex_destroy(&joiner.lock);
}

static void test_as_slow_as_the_members(void **state)
{
    (void)state;
    follow(BEHIND);
    assert_true(entered);
    assert_false(lost);
    assert_in_range(replayed, 8, 32);
}

static void test_at_the_end(void **state)
{
    (void)state;
    follow(1);
    assert_true(entered);
    assert_false(lost);
    assert_int_equal(replayed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_slow_as_the_members),
        cmocka_unit_test(test_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
