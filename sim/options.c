/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of world a seed gives: swarm testing, so each run has only some kinds of faults, and
 * some runs have none of a kind that would hide others. Decides the shape of a run, never a
 * happening in it. */
#include <inttypes.h>

#include "base/prng.h"
#include "base/dtype.h"
#include "base/time.h"
#include "sim/sim.h"

#define NEAR_STEPS 32 /* the sponsor judges */

const char *spotnik_sim_fault_name(enum spotnik_sim_fault fault)
{
    static const char *const name[SPOTNIK_SIM_FAULT_COUNT] = { "kill", "kill-group", "kill-host",
                                                               "cut",  "partition",  "one-way",
                                                               "stop", "break",      "lane",
                                                               "slow", "leave",      "join" };
    return fault < SPOTNIK_SIM_FAULT_COUNT ? name[fault] : "?";
}

const char *spotnik_sim_excuse_name(enum spotnik_sim_excuse excuse)
{
    static const char *const name[SPOTNIK_SIM_EXCUSE_COUNT] = { "none",   "lost",     "unserved",
                                                                "far",    "together", "ahead",
                                                                "fenced", "unmet" };
    return excuse < SPOTNIK_SIM_EXCUSE_COUNT ? name[excuse] : "?";
}

static uint64_t pick(struct spotnik_prng *prng, const uint64_t *of, uint64_t count)
{
    return of[spotnik_prng_below(prng, count)];
}

static void draw_network(struct spotnik_sim_options *options, struct spotnik_prng *prng)
{
    static const uint64_t slowest[] = { 60 * SPOTNIK_US, 500 * SPOTNIK_US, 3 * SPOTNIK_MS,
                                        10 * SPOTNIK_MS };

    options->latency_max_ns = pick(prng, slowest, 4);
    options->latency_min_ns = options->latency_max_ns / spotnik_prng_between(prng, 1, 10);
    options->jitter_ns = options->latency_max_ns / spotnik_prng_between(prng, 1, 8);
    options->bytes_per_ms = spotnik_prng_between(prng, 1, 100) * 2000;
    options->tick_late_ns =
        pick(prng, (const uint64_t[]){ 0, 100 * SPOTNIK_US, 3 * SPOTNIK_MS }, 3);
    options->channel_frames = (uint32_t)spotnik_prng_between(prng, 1, 12);
    options->dial_timeout_ns = spotnik_prng_between(prng, 50, 400) * SPOTNIK_MS;
    options->teardown_max_ns =
        pick(prng, (const uint64_t[]){ 0, SPOTNIK_MS, 20 * SPOTNIK_MS, 200 * SPOTNIK_MS }, 4);
    options->certificates = spotnik_prng_chance(prng, 1, 2);
    options->lost_with_death = spotnik_prng_chance(prng, 1, 6);
    options->zero_copy = spotnik_prng_chance(prng, 1, 2);
}

static void draw_limits(struct spotnik_sim_options *options, struct spotnik_prng *prng)
{
    struct spotnik_limits *limits = &options->limits;
    uint64_t round =
        options->members * (options->latency_max_ns + options->jitter_ns + options->tick_late_ns);

    uint64_t dial = 4 * (options->latency_max_ns + options->jitter_ns);

    /* three trips and something: drivers wait for a second and longer, whatever the network */
    if (options->dial_timeout_ns < dial)
        options->dial_timeout_ns = dial;
    spotnik_limits_init(limits, 16);
    limits->warm_count = (uint32_t)spotnik_prng_between(prng, 1, 4);
    limits->chunk_bytes = (uint32_t)spotnik_prng_between(prng, 1, 6) * 8;
    limits->silence_floor_ns =
        60 * SPOTNIK_MS
        + 6 * (options->latency_max_ns + options->jitter_ns + options->tick_late_ns);
    limits->silence_ceiling_ns = limits->silence_floor_ns * spotnik_prng_between(prng, 2, 8);
    limits->heartbeat_ns = limits->silence_floor_ns / spotnik_prng_between(prng, 4, 8);
    limits->stagger_ns = spotnik_prng_between(prng, 1, 5) * SPOTNIK_MS;
    limits->retry_ns = 50 * SPOTNIK_MS + spotnik_prng_between(prng, 2, 4) * round;
    limits->enter_wait_ns = spotnik_prng_between(prng, 5, 60) * SPOTNIK_MS
                            + 6 * (options->latency_max_ns + options->jitter_ns);
}

static void draw_faults(struct spotnik_sim_options *options, struct spotnik_prng *prng)
{
    static const uint32_t heavy[SPOTNIK_SIM_FAULT_COUNT] = { 10, 4, 2, 3, 4, 3, 5, 2, 2, 2, 3, 5 };

    for (int i = 0; i < SPOTNIK_SIM_FAULT_COUNT; i++)
        options->weight[i] = spotnik_prng_chance(prng, 2, 5) ? heavy[i] : 0;
    if (spotnik_prng_chance(prng, 1,
                            /* only deaths with proof, so that P6 and P7 are held to the letter */
                            4))
        for (int i = SPOTNIK_SIM_KILL_HOST; i < SPOTNIK_SIM_LEAVE; i++)
            options->weight[i] = 0;
    options->weight[SPOTNIK_SIM_KILL] += 1;
    options->faults = (uint32_t)spotnik_prng_between(prng, 0, 12);
    options->aimed =
        spotnik_prng_chance(prng, 1, 2) ? (uint32_t)spotnik_prng_between(prng, 1, 4) : 0;
    options->respawn_percent = (uint32_t)pick(prng, (const uint64_t[]){ 0, 50, 100 }, 3);
}

/* What came into the drawing later has a stream of its own, so that a seed gives the history it
 * always gave but for this. */
static void draw_later(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x6c61746572));
    options->per_member = options->samples > 0 && spotnik_prng_chance(&prng, 1, 4);
    if (options->per_member)
        options->batch = 1 + options->batch / 4;
    options->flat = spotnik_prng_chance(&prng, 1, 2);
    options->flat_small_bytes = pick(&prng, (const uint64_t[]){ 0, 40, 4096 }, 3);
    options->limits.flat_small_bytes = (uint32_t)options->flat_small_bytes;
    options->flat_page_bytes = 8 * spotnik_prng_between(&prng, 1, 4);
    options->flat_slice_bytes = 8 * spotnik_prng_between(&prng, 1, 16);
    options->flat_slice_max_ns =
        pick(&prng, (const uint64_t[]){ SPOTNIK_US, 100 * SPOTNIK_US, 5 * SPOTNIK_MS }, 3);
    options->all_types = spotnik_prng_chance(&prng, 1, 3);
}

/* And later still. */
static void draw_latest(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x6c6174657374));
    options->slow_replay = spotnik_prng_chance(&prng, 1, 4);
    if (options->slow_replay && options->limits.enter_wait_ns > options->compute_max_ns / 4)
        options->limits.enter_wait_ns = 1 + options->compute_max_ns / 4;
    options->struck =
        spotnik_prng_chance(&prng, 1, 2) ? (uint32_t)spotnik_prng_between(&prng, 1, 4) : 0;
    options->flat_fails_of = options->flat && spotnik_prng_chance(&prng, 1, 3) ? 100 : 0;
}

/* The news of a view dies with the processes that have it, except for a hint. */
static void draw_half_told(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x68616c66));
    options->half_told =
        spotnik_prng_chance(&prng, 1, 4) ? (uint32_t)spotnik_prng_between(&prng, 1, 6) : 0;
}

/* A folder that all share. */
static void draw_witness(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x7769746e657373));
    options->witnessed = spotnik_prng_chance(&prng, 1, 3);
    options->witness_host = spotnik_prng_chance(&prng, 1, 3)
                                ? (uint32_t)spotnik_prng_below(&prng, options->hosts)
                                : UINT32_MAX;
    options->witness_cleaned_ns =
        spotnik_prng_chance(&prng, 1, 6) ? spotnik_prng_between(&prng, 1, options->safety_ns) : 0;
}

/* A proxy between the hosts. */
static void draw_forged(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x666f72676564));
    if (!spotnik_prng_chance(&prng, 1, 6))
        return;
    options->forged = (uint32_t)spotnik_prng_between(&prng, 1, 4);
    options->between = spotnik_prng_chance(&prng, 1, 2);
    if (!options->between)
        options->weight[SPOTNIK_SIM_LEAVE] = 0; /* see spotnik_fact_is_forged() */
}

/* A path breaks. */
static void draw_pairs(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x7061746873));
    if (options->hosts >= 4 && spotnik_prng_chance(&prng, 1, 4))
        options->pairs = (uint32_t)spotnik_prng_between(&prng, 1, 2);
}

/* Which buckets do not go round the ring. */
static void draw_choice(struct spotnik_sim_options *options, uint64_t seed)
{
    static const struct spotnik_choice table[][3] = {
        { { 16, 64, SPOTNIK_SCHEDULE_DIRECT, false } },
        { { 16, 64, SPOTNIK_SCHEDULE_HUB, false } },
        { { 4, 64, SPOTNIK_SCHEDULE_DIRECT, false }, { 8, 64, SPOTNIK_SCHEDULE_HUB, false } },
        { { 5, 8, SPOTNIK_SCHEDULE_HUB, false }, { 3, 64, SPOTNIK_SCHEDULE_DIRECT, false } },
        { { 16, 8, SPOTNIK_SCHEDULE_DIRECT, false }, { 16, 24, SPOTNIK_SCHEDULE_HUB, false } },
    };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x736d616c6c));
    options->limits.choice =
        spotnik_prng_chance(&prng, 1, 3) ? NULL : table[spotnik_prng_below(&prng, 5)];
}

/* A third of the worlds have trees, alone or beside other ways; the others keep their histories. */
static void draw_tree(struct spotnik_sim_options *options, uint64_t seed)
{
    static const struct spotnik_choice table[][3] = {
        { { SPOTNIK_CHOICE_ALL, 64, SPOTNIK_SCHEDULE_TREE, false } },
        { { SPOTNIK_CHOICE_ALL, 16, SPOTNIK_SCHEDULE_TREE, false } },
        { { 3, 64, SPOTNIK_SCHEDULE_DIRECT, false },
          { SPOTNIK_CHOICE_ALL, 64, SPOTNIK_SCHEDULE_TREE, false } },
        { { 5, 24, SPOTNIK_SCHEDULE_HUB, false },
          { SPOTNIK_CHOICE_ALL, 64, SPOTNIK_SCHEDULE_TREE, false } },
    };
    struct spotnik_prng prng;

    options->limits.fan = SPOTNIK_TREE_FAN_MAX;
    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x74726565));
    if (!spotnik_prng_chance(&prng, 1, 3))
        return;
    options->limits.choice = table[spotnik_prng_below(&prng, 4)];
    options->limits.fan = (uint32_t)spotnik_prng_between(&prng, 1, 4);
}

/* Nothing may cut an element in two: an element is as long as a whole chunk was. */
static void draw_blocks(struct spotnik_sim_options *options, uint64_t seed)
{
    options->blocks = options->all_types && options->buckets > 0 && seed % 5 == 2;
    if (!options->blocks)
        return;
    options->limits.chunk_bytes *= SPOTNIK_DTYPE_BYTES_MAX / 8;
    options->flat_page_bytes *= SPOTNIK_DTYPE_BYTES_MAX / 8;
    options->flat_slice_bytes *= SPOTNIK_DTYPE_BYTES_MAX / 8;
}

/* Half of the worlds that share memory share it by hosts, of which there are fewer than members. */
static void draw_hierarchy(struct spotnik_sim_options *options, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x686f737473));
    options->limits.hierarchy = options->flat && spotnik_prng_chance(&prng, 1, 2);
    if (options->limits.hierarchy)
        options->hosts =
            (uint32_t)spotnik_prng_between(&prng, 2,
                                           options->members > 3 ? options->members - 1 : 2);
}

void spotnik_sim_options_draw(struct spotnik_sim_options *options, uint64_t seed, uint32_t members)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed ^ UINT64_C(0x53706f746e696b));
    *options =
        (struct spotnik_sim_options){ .seed = seed, .processes_max = 48, .near_steps = NEAR_STEPS };
    options->members = members ? members : (uint32_t)spotnik_prng_between(&prng, 3, 9);
    options->members_min = (uint32_t)spotnik_prng_between(&prng, 1, 2);
    options->hosts = spotnik_prng_chance(&prng, 1, 2)
                         ? options->members
                         : (uint32_t)spotnik_prng_between(&prng, 2, options->members);
    draw_network(options, &prng);
    draw_limits(options, &prng);
    draw_faults(options, &prng);
    options->samples = spotnik_prng_chance(&prng, 1, 4) ? 0 : spotnik_prng_between(&prng, 20, 300);
    options->batch = spotnik_prng_between(&prng, 1, 40);
    options->buckets = (uint32_t)spotnik_prng_below(&prng, 5);
    options->compute_max_ns = spotnik_prng_between(&prng, 1, 20) * SPOTNIK_MS;
    options->copy_max_ns = spotnik_prng_between(&prng, 1, 200) * SPOTNIK_MS;
    options->safety_ns = spotnik_prng_between(&prng, 300, 1500) * SPOTNIK_MS;
    options->liveness_ns = 60 * SPOTNIK_S;
    options->liveness_steps = 4;
    options->happenings_max = 3000000;
    draw_later(options, seed);
    draw_latest(options, seed);
    draw_choice(options, seed);
    draw_tree(options, seed);
    draw_blocks(options, seed);
    if (seed % 7 == 5) /* a job that waits whenever one is missing */
        options->members_min = options->members - (uint32_t)(seed / 7 % 2);
    draw_hierarchy(options, seed);
    draw_half_told(options, seed);
    draw_forged(options, seed);
    draw_pairs(options, seed);
    draw_witness(options, seed);
    /* not drawn: the others keep their histories */
    options->limits.deals = seed % 3 == 1 || seed % 12 == 0;
}

void spotnik_sim_options_print(const struct spotnik_sim_options *options, FILE *out)
{
    fprintf(out,
            "seed %" PRIu64
            ": %u members on %u hosts, members_min %u, warm %u, chunk %u bytes, %u buckets\n",
            options->seed, options->members, options->hosts, options->members_min,
            options->limits.warm_count, options->limits.chunk_bytes, options->buckets);
    for (const struct spotnik_choice *row = options->limits.choice; row && row->members_max; row++)
        fprintf(out, "  up to %u members and %" PRIu64 " bytes: %s\n", row->members_max,
                row->bytes_max, spotnik_schedule_name(row->schedule));
    if (options->limits.fan < SPOTNIK_TREE_FAN_MAX)
        fprintf(out, "  %u below one in a tree\n", options->limits.fan);
    fprintf(out,
            "  latency %.3f..%.3f ms, jitter %.3f ms, lane %u frames at %" PRIu64
            " bytes/ms, tick late %.3f ms\n",
            (double)options->latency_min_ns / 1e6, (double)options->latency_max_ns / 1e6,
            (double)options->jitter_ns / 1e6, options->channel_frames, options->bytes_per_ms,
            (double)options->tick_late_ns / 1e6);
    fprintf(out,
            "  silence %.0f..%.0f ms, heartbeat %.0f ms, retry %.0f ms, dial %.0f ms, tear-down "
            "%.0f ms%s%s%s\n",
            (double)options->limits.silence_floor_ns / 1e6,
            (double)options->limits.silence_ceiling_ns / 1e6,
            (double)options->limits.heartbeat_ns / 1e6, (double)options->limits.retry_ns / 1e6,
            (double)options->dial_timeout_ns / 1e6, (double)options->teardown_max_ns / 1e6,
            options->certificates ? ", certificates" : "",
            options->lost_with_death ? ", last words lost" : "",
            options->zero_copy ? ", zero copy" : "");
    if (options->flat)
        fprintf(out,
                "  shared memory: small up to %zu bytes, pages of %zu, slices of %zu within %.3f "
                "ms%s\n",
                options->flat_small_bytes, options->flat_page_bytes, options->flat_slice_bytes,
                (double)options->flat_slice_max_ns / 1e6,
                options->flat_fails_of ? ", fails at times" : "");
    if (options->limits.hierarchy)
        fprintf(out, "  reduced on each host, and between hosts by one member of each\n");
    fprintf(out,
            "  %" PRIu64 " samples, batch %" PRIu64
            "%s%s%s; compute %.0f ms%s, safety %.0f ms, %u faults, %u aimed at recovery, %u struck "
            "in the act%s:",
            options->samples, options->batch, options->per_member ? " per member" : "",
            options->limits.deals ? " dealt unevenly" : "",
            options->blocks      ? ", all types and blocks"
            : options->all_types ? ", all types"
                                 : "",
            (double)options->compute_max_ns / 1e6,
            options->slow_replay ? ", a replay the same" : "", (double)options->safety_ns / 1e6,
            options->faults, options->aimed, options->struck,
            options->half_told ? ", one view half told" : "");
    if (options->witnessed)
        fprintf(out, " witness (%s%s)",
                options->witness_host < options->hosts ? "on a host" : "elsewhere",
                options->witness_cleaned_ns ? ", cleaned away" : "");
    if (options->pairs)
        fprintf(out, " paths (%u)", options->pairs);
    if (options->forged)
        fprintf(out, " ends-forged (%u%s)", options->forged,
                options->between ? ", by a proxy" : "");
    for (int i = 0; i < SPOTNIK_SIM_FAULT_COUNT; i++)
        if (options->weight[i])
            fprintf(out, " %s", spotnik_sim_fault_name((enum spotnik_sim_fault)i));
    fputc('\n', out);
}
