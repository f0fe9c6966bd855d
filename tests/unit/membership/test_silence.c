/* SPDX-License-Identifier: Apache-2.0 */
/* The silence of one peer alone. */
#include "base/time.h"
#include "membership/detection.h"
#include "tests.h"

#define FLOOR_NS (80 * SPOTNIK_MS)
#define CEILING_NS (2 * SPOTNIK_S)
#define HEARTBEAT_NS (20 * SPOTNIK_MS)

static struct silence silence;
static struct silence_input in;

static int open_peer(void **state)
{
    (void)state;
    silence = (struct silence){ .kernel_ns = 0 };
    in = (struct silence_input){ .now_ns = SPOTNIK_S,
                                 .linked = true,
                                 .peer_floor_ns = FLOOR_NS,
                                 .floor_ns = FLOOR_NS,
                                 .ceiling_ns = CEILING_NS,
                                 .heartbeat_ns = HEARTBEAT_NS };
    silence_start(&silence, in.now_ns);
    return 0;
}

/* How long the peer may still be silent, in milliseconds. */
static uint64_t patience_ms(bool kernel)
{
    uint64_t begin_ns = in.now_ns;
    while (!silence_is_loss(&silence, &in)) {
        in.now_ns += SPOTNIK_MS;
        if (kernel)
            silence_kernel(&silence, in.now_ns);
    }
    uint64_t took_ms = (in.now_ns - begin_ns) / SPOTNIK_MS;
    in.now_ns = begin_ns;
    return took_ms;
}

/* Claim: with a link the floor of this peer counts; without one the ceiling. */
TEST_WITH(the_limit, open_peer, NULL)
{
    assert_int_equal(patience_ms(false), FLOOR_NS / SPOTNIK_MS);
    in.peer_floor_ns = 3 * FLOOR_NS;
    assert_int_equal(patience_ms(false), 3 * FLOOR_NS / SPOTNIK_MS);
    in.linked = false;
    assert_int_equal(patience_ms(false), CEILING_NS / SPOTNIK_MS);
}

/* Claim: one whose kernel answers is given three floors, and the ceiling if its heartbeats were
 * late before. An old answer gives it nothing. */
TEST_WITH(its_kernel_answers, open_peer, NULL)
{
    assert_int_equal(patience_ms(true), 3 * FLOOR_NS / SPOTNIK_MS);
    silence.kernel_ns = 0;
    assert_int_equal(patience_ms(false), FLOOR_NS / SPOTNIK_MS);
    in.now_ns += FLOOR_NS / 2;
    silence_end(&silence, in.now_ns, FLOOR_NS);
    assert_int_equal(patience_ms(true), CEILING_NS / SPOTNIK_MS);
}

/* Claim: our own lateness is added to its time, and makes no sign of life of the future. */
TEST_WITH(we_were_late, open_peer, NULL)
{
    in.now_ns += FLOOR_NS;
    assert_true(silence_is_loss(&silence, &in));
    silence_forgive(&silence, in.now_ns, FLOOR_NS / 2);
    assert_int_equal(patience_ms(false), FLOOR_NS / 2 / SPOTNIK_MS);
    silence_forgive(&silence, in.now_ns, CEILING_NS);
    assert_int_equal(patience_ms(false), FLOOR_NS / SPOTNIK_MS);
}

/* Claim: half of the floor is near. */
TEST_WITH(it_is_near, open_peer, NULL)
{
    assert_false(silence_is_near(&silence, in.now_ns + FLOOR_NS / 2 - 1, FLOOR_NS));
    assert_true(silence_is_near(&silence, in.now_ns + FLOOR_NS / 2, FLOOR_NS));
}
