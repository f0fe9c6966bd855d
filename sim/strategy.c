/* SPDX-License-Identifier: Apache-2.0 */
/* Switching strategies in every simulated job: what src/api does with adapt/judge.h and
 * adapt/switch.h. Measurements come from the results of committed steps, as the real ones do. So
 * the same steps switch whatever is lost or comes in between. Beside the replica each process has a
 * few numbers for a model of its own. It drifts while members run apart, and the switching step
 * averages it. Causes no happening: seeds keep their histories. */
#include <string.h>

#include "base/hash.h"
#include "reduce/reduce.h"
#include "sim/world.h"

void spotnik_sim_strategy_init(struct sim_process *process)
{
    struct sim_strategy *strategy = &process->app.strategy;

    memset(strategy, 0, sizeof *strategy);
    spotnik_sync_judge_init(&strategy->judge, SPOTNIK_SYNC_SYNCHRONOUS);
    for (uint32_t i = 0; i < SIM_OWN; i++)
        strategy->own[i] = 1.0f / (float)(i + 1);
}

/* Registered state: a joiner has it from its donor, with what the donor has for a model. */
void spotnik_sim_strategy_copy(const struct sim_world *world, struct sim_process *to,
                               const struct sim_process *from)
{
    struct sim_strategy *strategy = &to->app.strategy;
    struct spotnik_sync_judge own = strategy->judge;

    *strategy = from->app.strategy;
    if (world->options.bugs & SPOTNIK_BUG_POLICY_NOT_COPIED)
        strategy->judge = own;
}

/* The bucket in which models travel; SIM_BUCKETS: there is none that can carry them. */
static uint32_t carrier(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.buckets; i++)
        if (world->bucket[i].dtype == SPOTNIK_F32 && world->bucket[i].op == SPOTNIK_MEAN
            && world->bucket[i].count >= SIM_OWN)
            return i;
    return SIM_BUCKETS;
}

/* Gradients are computed: in a switching step it is models that travel. */
void spotnik_sim_strategy_input(const struct sim_world *world, struct sim_process *process)
{
    uint32_t bucket = carrier(world);

    if (bucket < SIM_BUCKETS && process->app.strategy.sw.act == SPOTNIK_SYNC_ACT_AVERAGE)
        memcpy(process->app.in[bucket], process->app.strategy.own,
               sizeof process->app.strategy.own);
}

static enum spotnik_sync_mode turns(void *context, const struct spotnik_sync_metrics *metrics,
                                    enum spotnik_sync_mode mode, double *memory)
{
    (void)context;
    (void)metrics;
    (void)memory;
    return mode == SPOTNIK_SYNC_SYNCHRONOUS ? SPOTNIK_SYNC_ASYNCHRONOUS : SPOTNIK_SYNC_SYNCHRONOUS;
}

/* A third of the seeds switch as often as can be, the others for reasons that come and go. */
static struct spotnik_sync_rules rules_of(const struct sim_world *world)
{
    uint64_t kind = world->options.seed % 3;

    return (struct spotnik_sync_rules){
        .rule = kind == 1 ? SPOTNIK_SYNC_RULE_THROUGHPUT : SPOTNIK_SYNC_RULE_WAITING,
        .own = kind == 0 ? turns : NULL,
        .limits = { .low = 0.4, .high = 0.5, .patience = 1 },
        .window = 1 + (uint32_t)(world->options.seed / 3 % 2),
    };
}

static uint32_t rows_draw(uint64_t digest, uint64_t step, struct spotnik_sync_row rows[SIM_ROWS])
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, digest ^ step);
    uint32_t count = (uint32_t)spotnik_prng_below(&prng, SIM_ROWS + 1);
    uint32_t wait_us = spotnik_prng_chance(&prng, 1, 2) ? 100 : 1000;

    for (uint32_t i = 0; i < count; i++)
        rows[i] =
            (struct spotnik_sync_row){ 1 + (uint32_t)spotnik_prng_below(&prng, 400),
                                       (uint32_t)spotnik_prng_below(&prng, 20),
                                       wait_us + (uint32_t)spotnik_prng_below(&prng, 100), 1 };
    return count;
}

/* What the step has made of our own model. */
static void own_update(const struct sim_world *world, struct sim_process *process, uint64_t step,
                       uint64_t digest)
{
    struct sim_strategy *strategy = &process->app.strategy;
    bool meets = strategy->sw.act == SPOTNIK_SYNC_ACT_AVERAGE,
         apart = strategy->sw.mode == SPOTNIK_SYNC_ASYNCHRONOUS;
    uint32_t bucket = carrier(world);
    uint64_t mark =
        apart ? digest ^ ((uint64_t)process->index + 1) * UINT64_C(0x9e3779b97f4a7c15) : digest;

    if (meets && bucket < SIM_BUCKETS)
        memcpy(strategy->own, process->app.out[step & 1][bucket], sizeof strategy->own);
    for (uint32_t i = 0; i < SIM_OWN; i++) {
        float pull = (float)(mark >> (8 * i) & 0xff) / 256;
        strategy->own[i] = meets && bucket == SIM_BUCKETS ? pull : 0.5f * strategy->own[i] + pull;
    }
}

/* The order of src/api/sync_policy.c: what was decided a step ago counts from now on. */
void spotnik_sim_strategy_committed(const struct sim_world *world, struct sim_process *process,
                                    uint64_t step)
{
    struct sim_strategy *strategy = &process->app.strategy;
    struct spotnik_sync_rules rules = rules_of(world);
    struct spotnik_sync_row rows[SIM_ROWS];
    uint64_t digest = spotnik_sim_memory_digest(world, process, step);
    enum spotnik_sync_mode confirmed = (enum spotnik_sync_mode)strategy->judge.mode;
    bool alone = world->options.bugs & SPOTNIK_BUG_POLICY_ALONE;
    uint32_t count = rows_draw(alone ? digest + process->index : digest, step, rows);
    bool averaged = strategy->sw.mode == SPOTNIK_SYNC_SYNCHRONOUS || step % 3 == 0;

    strategy->ran = 1 + strategy->sw.mode + 2 * (uint32_t)strategy->sw.act;
    strategy->equal = strategy->sw.mode == SPOTNIK_SYNC_SYNCHRONOUS;
    own_update(world, process, step, digest);
    spotnik_sync_judge_step(&strategy->judge, &rules, step, rows, count, averaged);
    strategy->sw.committed = step - 1;
    spotnik_sync_switch_commit(&strategy->sw, step, confirmed);
}

uint64_t spotnik_sim_strategy_decided(const struct sim_process *process)
{
    const struct sim_strategy *strategy = &process->app.strategy;
    uint64_t sw[] = { strategy->sw.mode, strategy->sw.act, strategy->sw.committed,
                      strategy->sw.switched_step, strategy->sw.switches };
    struct spotnik_hash hash;

    spotnik_hash_begin(&hash);
    spotnik_hash_add(&hash, &strategy->judge, sizeof strategy->judge);
    spotnik_hash_add(&hash, sw, sizeof sw);
    return spotnik_hash_end(&hash);
}
