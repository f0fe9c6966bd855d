/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the digest is of what the program has now, also where what is registered is a copy that
 * somebody has to bring up to date. */
#include <stdlib.h>

#include "base/hash.h"
#include "spotnik/spotnik.h"
#include "tests.h"

static float present, copy;

static void present_copy(void *context)
{
    ++*(int *)context;
    copy = present;
}

TEST(a_digest_is_of_what_the_program_has_now)
{
    spotnik_job *job = NULL;
    spotnik_config config;
    spotnik_step step;
    int calls = 0;

    unsetenv("SPOTNIK_PEERS");
    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_state_add(job, "copy", &copy, 1, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_state_refresh_set(job, present_copy, &calls), 0);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    present = 7; /* as an update that is under way: no part of any step yet */
    calls = 0;
    spotnik_state_digest(job);
    assert_int_equal(calls, 0);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_state_digest(job), spotnik_hash_bytes(&present, sizeof present));
    assert_int_equal(calls, 1);
    assert_int_equal(spotnik_leave(job), 0);
}
