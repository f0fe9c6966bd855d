/* SPDX-License-Identifier: Apache-2.0 */
/* A group that keeps its job waiting ends after the limit, and no other does. */
#include <signal.h>
#include <stdlib.h>

#include "base/time.h"
#include "run_state.h"
#include "tests.h"

static int signalled, said;

uint64_t run_committed(const struct run *run, const struct agent_worker *worker)
{
    return run->agent.slots->slot[worker - run->agent.worker].committed;
}

void run_say(const struct run *run, const char *format, ...)
{
    (void)run, (void)format;
    said++;
}

void agent_signal(const struct agent_worker *worker, int number)
{
    (void)worker;
    signalled = number;
}

/* A group of two that has committed 7 steps: its process of rank 1 makes no call for `after_ns`. */
static void stall(uint32_t done, uint64_t after_ns)
{
    struct run_options options = { .stall_ns = 4 * SPOTNIK_S };
    struct agent_worker worker = { .pid = 100, .group.size = 2, .group.running = 2 };
    struct spotnik_slots *slots = calloc(1, sizeof(*slots) + sizeof(struct spotnik_slot));
    struct run run = { .options = &options,
                       .agent = { .places = 1, .worker = &worker, .slots = slots } };

    slots->slot[0].committed = 7;
    slots->slot[0].absent = 2;
    slots->slot[0].done = done;
    signalled = said = 0;
    for (uint64_t ns = 0; ns <= after_ns; ns += SPOTNIK_S)
        run_stall_look(&run, SPOTNIK_S + ns);
    free(slots);
}

TEST(one_that_hangs_is_named_and_then_ended)
{
    stall(0, 1 * SPOTNIK_S);
    assert_int_equal(said, 0);
    stall(0, 3 * SPOTNIK_S);
    assert_int_equal(said, 1);
    assert_int_equal(signalled, 0);
    stall(0, 5 * SPOTNIK_S);
    assert_int_equal(said, 2);
    assert_int_equal(signalled, SIGKILL);
}

/* Its program saves the model, and no member waits for it. */
TEST(one_whose_job_is_over_takes_its_time)
{
    stall(1, 60 * SPOTNIK_S);
    assert_int_equal(said, 0);
    assert_int_equal(signalled, 0);
}
