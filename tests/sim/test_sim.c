/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator itself: it repeats itself exactly, it catches every planted bug, it replays every
 * seed that once broke something, and at a thousand members it counts messages as P6 wants them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "tests.h"

static struct spotnik_sim_result run(uint64_t seed, uint32_t members, uint32_t bugs, FILE *trace)
{
    struct spotnik_sim_options options;
    struct spotnik_sim_result result;

    spotnik_sim_options_draw(&options, seed, members);
    options.bugs = bugs;
    options.trace = trace;
    spotnik_sim_run(&options, &result);
    return result;
}

/* Claim: one seed is one run, told or not. */
TEST(same_seed_same_run)
{
    FILE *trace = fopen("/dev/null", "w");

    assert_non_null(trace);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct spotnik_sim_result first = run(seed, 0, 0, NULL), second = run(seed, 0, 0, trace);
        assert_int_equal(first.digest, second.digest);
        assert_int_equal(first.happenings, second.happenings);
        assert_int_equal(first.virtual_ns, second.virtual_ns);
        assert_int_not_equal(first.digest, run(seed + 1, 0, 0, NULL).digest);
    }
    fclose(trace);
}

/* Claim: a core that is saved and loaded elsewhere goes on as if nothing had been: the flight
 * recorder's dumps begin so. */
TEST(saved_core_goes_on)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct spotnik_sim_options options;
        struct spotnik_sim_result left_alone = run(seed, 0, 0, NULL), reloaded;
        spotnik_sim_options_draw(&options, seed, 0);
        options.reload = 1 + (uint32_t)seed % 17;
        spotnik_sim_run(&options, &reloaded);
        assert_int_equal(reloaded.digest, left_alone.digest);
        assert_int_equal(reloaded.happenings, left_alone.happenings);
    }
}

/* Claim: the swarm switches every kind of fault off in some runs and on in others, and draws 3 to 9
 * members. */
TEST(swarm_draws_all_kinds)
{
    uint32_t on[SPOTNIK_SIM_FAULT_COUNT] = { 0 }, sizes[10] = { 0 };

    for (uint64_t seed = 0; seed < 200; seed++) {
        struct spotnik_sim_options options;
        spotnik_sim_options_draw(&options, seed, 0);
        assert_in_range(options.members, 3, 9);
        sizes[options.members]++;
        for (int i = 0; i < SPOTNIK_SIM_FAULT_COUNT; i++)
            on[i] += options.weight[i] > 0;
    }
    for (int size = 3; size <= 9; size++)
        assert_true(sizes[size] > 0);
    for (int i = SPOTNIK_SIM_KILL_GROUP; i < SPOTNIK_SIM_FAULT_COUNT; i++)
        assert_in_range(on[i], 20, 180);
}

static void assert_caught(uint32_t bug, uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++)
        if (run(seed, 0, bug, NULL).failed)
            return;
    fail_msg("planted bug %u is not caught by seeds %llu and on", bug, (unsigned long long)first);
}

/* Claim: breaking any one of these rules is noticed, within the seeds given. */
TEST(planted_bugs_are_caught)
{
    assert_caught(SPOTNIK_BUG_COMMIT_AFTER_PROMISE, 1, 20);
    assert_caught(SPOTNIK_BUG_ANY_QUORUM, 1, 60);
    assert_caught(SPOTNIK_BUG_SKIP_HANDOVER, 1, 20);
    assert_caught(SPOTNIK_BUG_FORGET_RETURNED, 1, 60);
    assert_caught(SPOTNIK_BUG_FLAT_UNASKED, 1, 60);
    assert_caught(SPOTNIK_BUG_SMALL_EARLY, 1, 20);
    assert_caught(SPOTNIK_BUG_POLICY_NOT_COPIED, 1, 20);
    assert_caught(SPOTNIK_BUG_POLICY_ALONE, 1, 20);
    assert_caught(SPOTNIK_BUG_HOLDER_ALONE, 1, 60);
    assert_caught(SPOTNIK_BUG_JUDGE_ANY_CHANNEL, 1, 60);
    assert_caught(SPOTNIK_BUG_SUM_EARLY, 1, 60);
    assert_caught(SPOTNIK_BUG_TREE_EARLY, 1, 20);
    assert_caught(SPOTNIK_BUG_SHOW_EARLY, 1, 60);
    assert_caught(SPOTNIK_BUG_IGNORE_ACCEPTED, 1, 60);
    assert_caught(SPOTNIK_BUG_NO_PAUSE_CHECK, 745, 10);
    assert_caught(SPOTNIK_BUG_END_IS_GONE, 1, 60);
    assert_caught(SPOTNIK_BUG_WITNESS_COPIED, 30, 10);
    /* two members: most of what they decide are ties */
    assert_true(run(100, 2, SPOTNIK_BUG_WITNESS_KEPT, NULL).failed);
}

/* A line of the list: seed, members (0: drawn), and the world that it broke in. */
static struct spotnik_sim_result run_line(const char *line, uint64_t seed, uint32_t members)
{
    struct spotnik_sim_options options;
    struct spotnik_sim_result result;

    spotnik_sim_options_draw(&options, seed, members);
    if (strstr(line, "--brief 0"))
        options.limits.brief_members = 0;
    if (strstr(line, "--near 1"))
        options.near_steps = 1;
    if (strstr(line, "--tree 3"))
        options.limits.tree_members = 3;
    spotnik_sim_run(&options, &result);
    return result;
}

/* Claim: what was broken once stays mended. One line of the list: seed, members (0: drawn), and why
 * it is there. It names --brief 0, --near 1 or --tree 3 where the world broke with that. */
TEST(regression_seeds)
{
    const char *name = getenv("SPOTNIK_SEEDS");
    FILE *list = fopen(name ? name : "tests/sim/seeds.txt", "r");
    char line[256];
    uint32_t count = 0;

    assert_non_null(list);
    while (fgets(line, sizeof(line), list)) {
        unsigned long long seed;
        unsigned members;
        if (sscanf(line, "%llu %u", &seed, &members) != 2)
            continue;
        struct spotnik_sim_result result = run_line(line, seed, members);
        if (result.failed)
            fail_msg("%s is broken again: %s\n%s", result.promise, result.detail, line);
        count++;
    }
    fclose(list);
    assert_true(count > 0);
}

/* Claim: in these worlds, with nothing but kills, joins and leaves, the last survivor goes on. */
TEST(last_survivor_goes_on)
{
    static const uint64_t seeds[] = { 13, 65, 191, 233, 355, 478, 3558 };

    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        struct spotnik_sim_result result = run(seeds[i], 0, 0, NULL);
        assert_true(result.calm);
        assert_int_equal(result.excuse, SPOTNIK_SIM_EXCUSE_NONE);
    }
}

/* Claim (P6): control messages per survivor do not grow with the ring, and by a few with the
 * losses; every part of the time is told. */
TEST(messages_bounded_at_scale)
{
    static const uint32_t members[] = { 20, 100 }, losses[] = { 1, 3 };

    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 2; k++) {
            struct spotnik_sim_scale scale = { .members = members[m],
                                               .losses = losses[k],
                                               .seed = 1 };
            spotnik_sim_scale_run(&scale);
            assert_false(scale.failed);
            assert_int_equal(scale.survivors, members[m] - losses[k]);
            assert_true(scale.reconcile_ns && scale.accept_ns && scale.restart_ns
                        && scale.commit_ns);
            uint64_t sum_ns = scale.detect_ns + scale.reconcile_ns + scale.accept_ns
                              + scale.restart_ns + scale.commit_ns;
            assert_int_equal(sum_ns, scale.total_ns);
            assert_true(scale.messages >= 2 * scale.survivors);
            assert_true(scale.messages <= (8 + 6 * losses[k]) * (uint64_t)scale.survivors);
        }
}

static uint64_t bytes_of_loss(uint32_t members, uint32_t brief_members)
{
    struct spotnik_sim_scale scale = {
        .members = members, .losses = 1, .seed = 1, .brief_members = brief_members
    };

    spotnik_sim_scale_run(&scale);
    assert_false(scale.failed);
    assert_true(scale.bytes_sent >= scale.messages && scale.bytes_longest < scale.bytes_sent);
    assert_true(scale.processor_ns >= scale.processor_max_ns
                && scale.processor_max_ns >= scale.event_max_ns);
    return scale.bytes_sent / scale.survivors;
}

/* Claim: what a survivor sends when one of many is lost grows more slowly than their number, since
 * messages say only what differs; whole messages grow with it. */
TEST(bytes_at_scale)
{
    uint64_t brief[] = { bytes_of_loss(100, 0), bytes_of_loss(300, 0) },
             whole[] = { bytes_of_loss(100, 300), bytes_of_loss(300, 300) };

    assert_true(whole[1] > 3 * whole[0] / 2);
    assert_true(brief[1] < 2 * brief[0]);
    assert_true(brief[1] < whole[1] / 5);
}

/* Claim: a small bucket of members on hosts of their own takes a tenth of the time of the ring, or
 * less, and about as long again with eight times as many members, since it goes up a tree. */
TEST(trees_at_scale)
{
    uint64_t step_ns[2];

    for (int i = 0; i < 2; i++) {
        struct spotnik_sim_scale scale = {
            .members = i ? 256 : 32, .losses = 1, .seed = 1, .bytes = 4096, .bytes_per_ms = 1250000
        };
        spotnik_sim_scale_run(&scale);
        assert_false(scale.failed);
        step_ns[i] = scale.step_ns;
    }
    assert_true(step_ns[1] < 2 * step_ns[0]);
    struct spotnik_sim_scale ring = {
        .members = 32, .losses = 1, .seed = 1, .bytes = 4096, .bytes_per_ms = 1250000, .ring = true
    };
    spotnik_sim_scale_run(&ring);
    assert_true(10 * step_ns[0] < ring.step_ns);
}

static struct spotnik_sim_scale on_hosts(uint32_t host_members, bool ring, bool scattered,
                                         uint64_t bytes)
{
    struct spotnik_sim_scale scale = { .members = 32,
                                       .losses = 1,
                                       .seed = 1,
                                       .host_members = host_members,
                                       .ring = ring,
                                       .scattered = scattered,
                                       .bytes = bytes,
                                       .bytes_per_ms = 1250000 };
    spotnik_sim_scale_run(&scale);
    assert_false(scale.failed);
    assert_int_equal(scale.survivors, 31);
    return scale;
}

/* Claim: scale mode knows hosts. By hosts a small bucket makes fewer hops than round the ring of
 * all, and a large one needs each host's card once, where a scattered ring needs it as often as a
 * host has members. Nothing is faster than the wire. */
TEST(hosts_at_scale)
{
    const uint64_t small = 4096, large = UINT64_C(25) << 20,
                   wire_ns = UINT64_C(2) * 3 * large / 4 * 1000 / 1250;

    assert_true(2 * on_hosts(8, false, false, small).step_ns
                < on_hosts(8, true, false, small).step_ns);
    assert_true(on_hosts(8, true, false, small).step_ns < on_hosts(1, true, false, small).step_ns);
    assert_true(on_hosts(8, false, false, large).step_ns > wire_ns);
    assert_true(on_hosts(1, false, false, large).step_ns
                == on_hosts(1, true, false, large).step_ns);
    assert_true(3 * on_hosts(8, false, true, large).step_ns
                < on_hosts(8, true, true, large).step_ns);
}
