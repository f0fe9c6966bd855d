/* SPDX-License-Identifier: Apache-2.0 */
/* A kill leaves as many members that hold the job's state as the minimum says. */
#include <stdlib.h>

#include "run_state.h"
#include "tests.h"

#define PLACES 3

uint64_t run_committed(const struct run *run, const struct agent_worker *worker)
{
    return run->agent.slots->slot[worker - run->agent.worker].committed;
}

/* Three members of view 5 that have committed; the minimum is 2. */
static struct spotnik_slots *members(struct run *run, struct run_options *options)
{
    struct spotnik_slots *slots = calloc(1, sizeof(*slots) + PLACES * sizeof(struct spotnik_slot));

    spotnik_prng_seed(&run->prng, 1);
    options->min = 2;
    run->options = options;
    run->agent.places = PLACES;
    run->agent.slots = slots;
    run->agent.worker = calloc(PLACES, sizeof(struct agent_worker));
    for (uint32_t i = 0; i < PLACES; i++) {
        run->agent.worker[i].pid = 100 + (int)i;
        slots->slot[i].epoch = 5;
        slots->slot[i].committed = 40 + i % 2;
    }
    return slots;
}

static void drop(struct run *run)
{
    free(run->agent.worker);
    free(run->agent.slots);
}

/* Claim: each member comes up as a victim; none where the minimum is reached. */
TEST(a_victim_is_one_of_the_members)
{
    struct run_options options = { 0 };
    struct run run = { 0 };
    unsigned seen = 0;

    members(&run, &options);
    for (int i = 0; i < 100; i++)
        seen |= 1U << (run_victim(&run) - run.agent.worker);
    assert_int_equal(seen, 7);
    options.min = 3;
    assert_null(run_victim(&run));
    drop(&run);
}

/* Claim: no worker counts that is gone, killed, on its way, or excluded from the others' view. */
TEST(only_those_that_stay_count)
{
    struct run_options options = { 0 };
    struct run run = { 0 };
    struct spotnik_slots *slots = members(&run, &options);

    run.agent.worker[1].killed = true; /* and not reaped yet */
    assert_null(run_victim(&run));
    run.agent.worker[1].killed = false;
    slots->slot[1].committed = 0; /* it joins, perhaps again */
    assert_null(run_victim(&run));
    slots->slot[1].committed = 41;
    slots->slot[1].epoch = 4; /* the others went on without it */
    assert_null(run_victim(&run));
    options.min = 1;
    for (int i = 0; i < 100; i++)
        assert_true(run_victim(&run) != &run.agent.worker[1]);
    slots->slot[1].epoch = 6; /* and here it is the others that are behind */
    assert_null(run_victim(&run));
    run.agent.worker[1].pid = 0; /* what it left in its slot does not count */
    assert_non_null(run_victim(&run));
    drop(&run);
}
