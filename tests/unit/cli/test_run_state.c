/* SPDX-License-Identifier: Apache-2.0 */
/* A run moves forward through its states. */
#include "run_state.h"
#include "tests.h"

/* Claim: from each state a run reaches each later one, and never goes back to an earlier one. */
TEST(a_run_moves_forward)
{
    for (int from = 0; from < RUN_STATES; from++)
        for (int to = 0; to < RUN_STATES; to++) {
            struct run run = { .state = (enum run_state)from };
            run_state_reach(&run, (enum run_state)to);
            assert_int_equal(run.state, from > to ? from : to);
        }
}

/* Claim: what is done stays done, and a refusal outlasts a run of crashes. */
TEST(the_end_of_a_run)
{
    struct run run = { .state = RUN_TRAINS };

    run_state_reach(&run, RUN_REFUSING);
    run_state_reach(&run, RUN_CRASHING);
    assert_int_equal(run.state, RUN_REFUSING);
    run_state_reach(&run, RUN_DONE);
    run_state_reach(&run, RUN_REFUSING);
    assert_int_equal(run.state, RUN_DONE);
}
