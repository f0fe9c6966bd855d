/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of a host for its workers. Claims: each place gets its own, the same for a replacement;
 * what CUDA_VISIBLE_DEVICES names is dealt, and nothing else; one GPU, or none, changes nothing. */
#include "agent_gpus.h"
#include "tests.h"

static void expect(const struct agent_gpus *gpus, uint32_t place, const char *wanted)
{
    char found[AGENT_GPUS_MAX * AGENT_GPU_NAME];

    assert_true(agent_gpus_of(gpus, place, found, sizeof(found)));
    assert_string_equal(found, wanted);
}

static void expect_none(const struct agent_gpus *gpus)
{
    char found[64];

    assert_false(agent_gpus_of(gpus, 0, found, sizeof(found)));
}

TEST(each_worker_of_a_host_gets_its_own)
{
    struct agent_gpus gpus = { .per_worker = 1 };

    agent_gpus_find(&gpus, 8, NULL);
    assert_int_equal(gpus.count, 8);
    expect(&gpus, 0, "0");
    expect(&gpus, 7, "7");
    expect(&gpus, 8, "0"); /* more workers than GPUs share them */
    gpus.per_worker = 2;
    expect(&gpus, 3, "6,7");
    gpus.per_worker = 100;
    expect(&gpus, 1, "0,1,2,3,4,5,6,7");
}

TEST(those_that_are_named_are_dealt)
{
    struct agent_gpus gpus = { .per_worker = 1 };

    agent_gpus_find(&gpus, 8, "3,GPU-1f2e,5");
    assert_int_equal(gpus.count, 3);
    expect(&gpus, 0, "3");
    expect(&gpus, 1, "GPU-1f2e");
    expect(&gpus, 4, "GPU-1f2e");
}

TEST(where_there_is_nothing_to_deal_the_variable_stays)
{
    struct agent_gpus gpus = { .per_worker = 1 };
    static const char *lone[] = { "", "2", "-1", "-1,0", "NoDevFiles", ",1" };

    for (uint32_t here = 0; here < 2; here++) {
        agent_gpus_find(&gpus, here, NULL);
        expect_none(&gpus);
    }
    for (size_t i = 0; i < sizeof(lone) / sizeof(*lone); i++) {
        agent_gpus_find(&gpus, 8, lone[i]);
        expect_none(&gpus);
    }
    agent_gpus_find(&gpus, 8, "0,1");
    gpus.per_worker = 0;
    expect_none(&gpus);
}

TEST(what_does_not_fit_is_left_out_whole)
{
    char found[4];
    struct agent_gpus gpus = { .per_worker = 2 };

    agent_gpus_find(&gpus, 8, "10,11");
    assert_false(agent_gpus_of(&gpus, 0, found, sizeof(found)));
}
