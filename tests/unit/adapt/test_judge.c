/* SPDX-License-Identifier: Apache-2.0 */
/* The judge, fed with rows. Claims: throughput is what members lose by exchanging, whoever is slow
 * or comes and goes; it switches once below the limit and back above the other, never in between;
 * while members run apart only steps that average count; a state that is copied goes on alike; the
 * schedule counts samples; a policy of the program is asked once a window. */
#include <string.h>

#include "base/prng.h"
#include "adapt/judge.h"
#include "tests.h"

static struct spotnik_sync_rules rules_of(enum spotnik_sync_rule rule)
{
    struct spotnik_sync_rules rules = { .rule = rule, .part = 0.5, .samples_total = 10000 };

    rules.limits = rule == SPOTNIK_SYNC_RULE_WAITING ? spotnik_sync_waiting_usual()
                                                     : spotnik_sync_throughput_usual();
    return rules;
}

/* A step of four members that compute for 10 ms and then exchange for so long. */
static enum spotnik_sync_mode run(struct spotnik_sync_judge *judge,
                                  const struct spotnik_sync_rules *rules, uint32_t exchange_us,
                                  bool averaged)
{
    struct spotnik_sync_row rows[4];

    for (uint32_t i = 0; i < 4; i++)
        rows[i] = (struct spotnik_sync_row){ 9000, 1000, exchange_us, 25 };
    return spotnik_sync_judge_step(judge, rules, judge->step + 1, rows, 4, averaged);
}

static enum spotnik_sync_mode runs(struct spotnik_sync_judge *judge,
                                   const struct spotnik_sync_rules *rules, uint32_t exchange_us,
                                   bool averaged, uint32_t steps)
{
    enum spotnik_sync_mode mode = SPOTNIK_SYNC_SYNCHRONOUS;

    for (uint32_t i = 0; i < steps; i++)
        mode = run(judge, rules, exchange_us, averaged);
    return mode;
}

TEST(switches_once_below_the_limit)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_judge judge;

    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(runs(&judge, &rules, 14000, true, 1000), SPOTNIK_SYNC_SYNCHRONOUS); /* 0.417 */
    assert_true(judge.last_ratio > 0.416 && judge.last_ratio < 0.417);
    uint64_t before = judge.step;
    while (run(&judge, &rules, 16000, true) == SPOTNIK_SYNC_SYNCHRONOUS) /* 0.385 */
        assert_true(judge.step < before + 5 * SPOTNIK_SYNC_WINDOW);
    assert_true(judge.step > before + 2 * SPOTNIK_SYNC_WINDOW);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_SLOW);
    assert_true(judge.value > 0.38 && judge.value < 0.39 && judge.limit == 0.4);
    /* nothing is measured */
    assert_int_equal(runs(&judge, &rules, 0, false, 1000), SPOTNIK_SYNC_ASYNCHRONOUS);
    for (uint32_t i = 0; i < 50; i++) { /* between the limits: 0.455 */
        assert_int_equal(run(&judge, &rules, 0, true), SPOTNIK_SYNC_ASYNCHRONOUS);
        assert_int_equal(run(&judge, &rules, 12000, false), SPOTNIK_SYNC_ASYNCHRONOUS);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(run(&judge, &rules, 0, true), SPOTNIK_SYNC_ASYNCHRONOUS);
        assert_int_equal(run(&judge, &rules, 5000, false), SPOTNIK_SYNC_ASYNCHRONOUS); /* 0.667 */
    }
    assert_int_equal(run(&judge, &rules, 0, true), SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(run(&judge, &rules, 5000, false), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_FAST);
}

/* The slowest has waited for nothing but the exchange; a joiner's first row tells of seconds in
 * which it copied. */
TEST(who_waits_for_others_loses_nothing)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_row rows[3] = { { 5000, 0, 6000, 1 },
                                        { 10000, 0, 1000, 1 },
                                        { 8000, 0, 5000000, 1 } };
    struct spotnik_sync_judge judge;

    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    for (uint64_t step = 1; step <= 50; step++)
        spotnik_sync_judge_step(&judge, &rules, step, rows, 3, true);
    double expected = (5000.0 + 10000 + 8000) / 3 / (10000 + 1000);
    assert_true(judge.last_ratio > expected - 0.001 && judge.last_ratio < expected + 0.001);
}

TEST(single_steps_do_not_count)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_judge judge;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 3);
    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    for (uint32_t i = 0; i < 4000; i++) { /* one step in eight is disturbed, as by a loss */
        uint32_t exchange_us = spotnik_prng_below(&prng, 8) == 0 ? 300000 : 10000;
        assert_int_equal(run(&judge, &rules, exchange_us, true), SPOTNIK_SYNC_SYNCHRONOUS);
    }
}

TEST(stragglers)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_WAITING);
    struct spotnik_sync_row even[2] = { { 10000, 0, 0, 1 }, { 10000, 0, 0, 1 } };
    struct spotnik_sync_row slow[2] = { { 10000, 0, 0, 1 }, { 30000, 0, 0, 1 } };
    struct spotnik_sync_judge judge;
    uint64_t step = 1;

    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    for (; step <= 100; step++)
        assert_int_equal(spotnik_sync_judge_step(&judge, &rules, step, even, 2, true),
                         SPOTNIK_SYNC_SYNCHRONOUS);
    while (spotnik_sync_judge_step(&judge, &rules, step++, slow, 2, true)
           == SPOTNIK_SYNC_SYNCHRONOUS)
        assert_true(step < 200);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_WAITING);
    while (spotnik_sync_judge_step(&judge, &rules, step++, even, 2, false)
           == SPOTNIK_SYNC_ASYNCHRONOUS)
        assert_true(step < 300);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_EVEN);
}

TEST(schedule_counts_samples)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_SCHEDULE);
    struct spotnik_sync_judge judge;

    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    /* 100 each, of 10000 */
    assert_int_equal(runs(&judge, &rules, 0, true, 49), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(run(&judge, &rules, 0, true), SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_WORK_DONE);
    assert_int_equal(runs(&judge, &rules, 0, true, 500), SPOTNIK_SYNC_ASYNCHRONOUS);
}

/* In the middle of everything. */
TEST(copies_go_on_alike)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_judge judge, copy;
    struct spotnik_prng prng;
    uint32_t switched = 0;

    spotnik_prng_seed(&prng, 11);
    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    memcpy(&copy, &judge, sizeof copy);
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t exchange_us =
            (uint32_t)spotnik_prng_below(&prng, 4000) + (i / 300 % 2 ? 20000 : 3000);
        uint64_t before = judge.mode;
        bool averaged = before == SPOTNIK_SYNC_SYNCHRONOUS || i % 10 == 0;
        enum spotnik_sync_mode mode = run(&judge, &rules, exchange_us, averaged);

        assert_int_equal(run(&copy, &rules, exchange_us, averaged), mode);
        assert_memory_equal(&copy, &judge, sizeof copy);
        switched += judge.mode != before;
        if (i % 97 == 0) {
            memset(&copy, 0xee, sizeof copy);
            memcpy(&copy, &judge, sizeof copy);
        }
    }
    assert_true(switched >= 10 && switched <= 17);
}

struct asked {
    uint32_t times;
    double value;
};

static enum spotnik_sync_mode own(void *context, const struct spotnik_sync_metrics *metrics,
                                  enum spotnik_sync_mode mode, double *memory)
{
    struct asked *asked = context;

    asked->times++;
    asked->value = metrics->speed;
    memory[3] += 1;
    return memory[3] >= 5 ? SPOTNIK_SYNC_ASYNCHRONOUS : mode;
}

TEST(a_policy_of_the_program)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_judge judge;
    struct asked asked = { 0 };

    rules.own = own;
    rules.own_context = &asked;
    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(runs(&judge, &rules, 10000, true, 5 * SPOTNIK_SYNC_WINDOW - 1),
                     SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(run(&judge, &rules, 10000, true), SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(asked.times, 5);
    assert_true(asked.value == 0.5);
    assert_int_equal(judge.reason, SPOTNIK_SYNC_REASON_OWN);
}

TEST(nobody_gave_anything)
{
    struct spotnik_sync_rules rules = rules_of(SPOTNIK_SYNC_RULE_THROUGHPUT);
    struct spotnik_sync_judge judge;

    spotnik_sync_judge_init(&judge, SPOTNIK_SYNC_ASYNCHRONOUS);
    for (uint64_t step = 1; step < 100; step += 3) /* barriers took numbers, too */
        assert_int_equal(spotnik_sync_judge_step(&judge, &rules, step, NULL, 0, true),
                         SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(judge.windows, 0);
}
