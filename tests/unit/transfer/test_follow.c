/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner's stream, with the runtime, the donor and the clock played. Claims: a joiner that
 * replays as slowly as the members step, and so never sees the end of its donor's results, asks to
 * be let in; so does one that sees it. One that lost its donors waits to be let in while a view
 * still may; where none may, it starts over at once. So does one that was near, and that its donor
 * dropped since: the donor says where the members are. One that finds its donor gone when it tells
 * it of a step does not wait for it to speak. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <pthread.h>

#include "base/time.h"
#include "link/dial.h"
#include "transfer/joiner_inside.h"
#include "tests.h"

enum { RESULTS = 100, BEHIND = 40, LOOKS = 20 };

static bool asked, lost;
static uint64_t replayed, step_ns, clock_ns;
/* looks at the runtime, after it has asked, until it is in */
static uint64_t looks;

/* The clock goes on by replaying, and by as much with each look at the runtime. */
static uint64_t look_ns;
/* the donor's last word, if any: it has dropped the joiner, with the members at that step */
static uint64_t dropped_at;
/* the donor's end, deaf once a result has been handed over; -1: it is not */
static int deaf_fd = -1;
uint64_t __wrap_spotnik_clock_ns(void);
uint64_t __wrap_spotnik_clock_ns(void)
{
    return __atomic_load_n(&clock_ns, __ATOMIC_ACQUIRE);
}

/* ---- the runtime, as far as a stream asks it ---- */

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    (void)runtime;
    memset(ret, 0, sizeof *ret);
    __atomic_fetch_add(&clock_ns, look_ns, __ATOMIC_ACQ_REL);
    ret->joining = !asked || looks > 0;
    looks -= asked && looks > 0;
}

void spotnik_runtime_enter(struct spotnik_runtime *runtime, const struct spotnik_member *sponsor)
{
    (void)runtime, (void)sponsor;
    asked = true;
}

int spotnik_runtime_handover(struct spotnik_runtime *runtime,
                             const struct spotnik_chunk_header *header, const void *payload,
                             size_t bytes)
{
    (void)runtime, (void)payload, (void)bytes;
    replayed = header->step;
    if (deaf_fd >= 0)
        shutdown(deaf_fd, SHUT_RD);
    __atomic_fetch_add(&clock_ns, step_ns, __ATOMIC_ACQ_REL);
    return 0;
}

/* ---- linked with joiner.c, and not called ---- */

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    (void)runtime;
    fail();
    return NULL;
}

int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                     uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                     struct spotnik_duplex *ret, struct spotnik_member *ret_peer)
{
    (void)credentials, (void)address, (void)port, (void)purpose, (void)timeout_ns, (void)ret;
    (void)ret_peer;
    fail();
    return SPOTNIK_ERR_PEERS;
}

static void on_lost(void *context)
{
    *(bool *)context = true;
}

/* ---- the donor: `behind` steps ahead of every result that the joiner gets, then gone ---- */

static void send_results(int fd, uint64_t behind)
{
    struct spotnik_duplex duplex = spotnik_duplex_bare(fd);
    uint8_t head[SPOTNIK_RESULT_BYTES];
    int64_t word = 1;

    for (uint64_t step = 1; step <= RESULTS; step++) {
        struct spotnik_result result = { .latest = step + behind };

        result.header = (struct spotnik_chunk_header){
            .handover = 1, .dtype = SPOTNIK_I64, .step = step, .count = 1
        };
        spotnik_result_write(&result, head);
        if (spotnik_packet_send(&duplex, SPOTNIK_PACKET_RESULT, head, sizeof head, &word,
                                sizeof word))
            return; /* it is in, and has closed its end */
    }
    if (dropped_at)
        spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_DROPPED, dropped_at);
}

static struct spotnik_joiner joiner;

/* The joiner is in with the `in_after`th look that follows its asking. `deaf`: what it says after
 * the first result is refused. */
static void follow_donor(uint64_t behind, uint64_t each_step_ns, uint64_t in_after, bool deaf)
{
    int pair[2];

    asked = lost = false;
    replayed = 0;
    looks = in_after;
    step_ns = each_step_ns;
    clock_ns = SPOTNIK_S;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    joiner = (struct spotnik_joiner){
        .config = { .lost = on_lost, .context = &lost, .patience_ns = SPOTNIK_S },
        .source = { { .duplex = spotnik_duplex_bare(pair[0]) } },
        .source_count = 1,
        .next_step = 1
    };
    assert_int_equal(pthread_mutex_init(&joiner.lock, NULL), 0);
    send_results(pair[1], behind);
    assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
    deaf_fd = deaf ? pair[1] : -1;
    assert_int_equal(spotnik_joiner_follow(&joiner), 0);
    pthread_join(joiner.thread, NULL);
    close(pair[1]);
    pthread_mutex_destroy(&joiner.lock);
    spotnik_packet_done(&joiner.source[0].packet);
}

static void follow(uint64_t behind, uint64_t each_step_ns, uint64_t in_after)
{
    follow_donor(behind, each_step_ns, in_after, false);
}

TEST(as_slow_as_the_members)
{
    follow(BEHIND, 100 * SPOTNIK_MS, 0);
    assert_true(asked);
    assert_false(lost);
    assert_int_equal(replayed, 1 + 8);
}

/* All the results take 100 ms: too short a time to judge by. */
TEST(quick_steps)
{
    follow(BEHIND, SPOTNIK_MS, 0);
    assert_false(asked);
    assert_true(lost);
    assert_int_equal(replayed, RESULTS);
}

TEST(at_the_end)
{
    follow(1, SPOTNIK_MS, 0);
    assert_true(asked);
    assert_false(lost);
    assert_int_equal(replayed, 1);
}

/* It is in long after its donor has gone. */
TEST(near_without_donors)
{
    follow(1, SPOTNIK_MS, RESULTS + LOOKS);
    assert_false(lost);
    assert_int_equal(replayed, RESULTS);
}

/* It asked from afar, and its donor has gone: the members would wait for it in vain. */
TEST(far_without_donors)
{
    follow(BEHIND, 100 * SPOTNIK_MS, RESULTS + LOOKS);
    assert_true(asked);
    assert_true(lost);
    assert_int_equal(replayed, RESULTS);
}

/* With the same looks it would be in, were a view to let it in. */
TEST(dropped)
{
    dropped_at = RESULTS + BEHIND;
    follow(1, SPOTNIK_MS, RESULTS + LOOKS);
    dropped_at = 0;
    assert_true(asked);
    assert_true(lost);
    assert_int_equal(replayed, RESULTS);
}

/* The results are in the buffer, so there is something to replay and nobody to tell. Its patience
 * lasts for ten looks. */
TEST(gone_donor)
{
    look_ns = SPOTNIK_DONOR_PATIENCE_NS / 10;
    follow_donor(BEHIND, SPOTNIK_MS, 0, true);
    look_ns = 0;
    assert_true(lost);
    assert_int_equal(replayed, 2); /* the first is none to be told of */
}
