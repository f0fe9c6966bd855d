/* SPDX-License-Identifier: Apache-2.0 */
/* Members take part in checkpoints by the backoff of each. Claims: whatever they took or missed
 * before, and however differently fast they write, once all can keep to it they complete one, in
 * bounded time; in step with each other and fast enough they complete every one; two that had got
 * out of step by one boundary complete the next but one. */
#include "base/prng.h"
#include "checkpoint/checkpoint_backoff.h"
#include "tests.h"

#define MEMBERS 5
#define TICKS 10 /* of an interval between two boundaries */

struct member {
    struct spotnik_checkpoint_backoff backoff;
    uint64_t taken;         /* number of the boundary; 0: none */
    uint64_t written, told; /* ticks: our part is; and we know that all are */
    uint64_t write, hear;   /* how long that takes */
};

struct world {
    struct member member[MEMBERS];
    uint32_t count;
    uint64_t completed; /* how many */
};

static void take(struct member *member, uint64_t number, bool settled)
{
    spotnik_checkpoint_backoff_take(&member->backoff, settled);
    member->taken = number;
    member->written = number * TICKS + member->write;
    member->told = UINT64_MAX;
}

static bool is_settled(const struct member *member, uint64_t now)
{
    return !member->taken || member->told <= now;
}

/* Everybody has written its part of the same one before the first of them lets go of it. */
static void look(struct world *world, uint64_t now)
{
    uint64_t latest = 0;

    for (uint32_t i = 0; i < world->count; i++) {
        const struct member *member = &world->member[i];

        if (!member->taken || member->taken != world->member[0].taken || member->written > now
            || member->told != UINT64_MAX)
            return;
        latest = member->written > latest ? member->written : latest;
    }
    world->completed++;
    for (uint32_t i = 0; i < world->count; i++)
        world->member[i].told = latest + world->member[i].hear;
}

/* The boundary; `away`: a mask of those that miss it. */
static void boundary(struct world *world, uint64_t number, uint64_t away)
{
    uint64_t now = number * TICKS;

    look(world, now);
    for (uint32_t i = 0; i < world->count; i++) {
        struct member *member = &world->member[i];
        bool settled = is_settled(member, now);

        if (!(away >> i & 1) && member->written <= now
            && spotnik_checkpoint_backoff_is_turn(&member->backoff, number, settled))
            take(member, number, settled);
    }
}

TEST(whatever_happened)
{
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct world world = { .count = 2 + (uint32_t)(seed % (MEMBERS - 1)) };
        uint64_t number = 1 + seed % 100, calm;

        spotnik_prng_seed(&prng, seed);
        for (uint32_t i = 0; i < world.count; i++) {
            world.member[i].write = 1 + spotnik_prng_below(&prng, 6 * TICKS);
            world.member[i].hear = spotnik_prng_below(&prng, TICKS);
        }
        for (calm = number + spotnik_prng_below(&prng, 300); number < calm; number++)
            boundary(&world, number, spotnik_prng_below(&prng, 1 << MEMBERS));
        world.completed = 0;
        while (!world.completed && number < calm + 160)
            boundary(&world, number++, 0);
        if (!world.completed)
            fail_msg("seed %llu: none was completed in 160 boundaries", (unsigned long long)seed);
    }
}

TEST(in_step)
{
    struct world world = { .count = 3 };

    for (uint32_t i = 0; i < world.count; i++)
        world.member[i].write = 3 * (i + 1); /* of 10 */
    for (uint64_t number = 7; number < 107; number++)
        boundary(&world, number, 0);
    assert_int_equal(world.completed, 99); /* the last is being written */
}

TEST(out_of_step_by_one)
{
    for (uint64_t first = 1; first < 65; first++) {
        struct world world = { .count = 2 };

        world.member[0].write = world.member[1].write = 5;
        boundary(&world, first, 1);
        boundary(&world, first + 1, 0);
        boundary(&world, first + 2, 0);
        boundary(&world, first + 3, 0);
        assert_int_equal(world.completed >= 1, 1);
    }
}

/* Writing takes longer than an interval: as many boundaries are let go as that takes, not many
 * more. */
TEST(slow_disks)
{
    struct world world = { .count = 4 };

    for (uint32_t i = 0; i < world.count; i++)
        world.member[i].write = 15 + 3 * i; /* up to 2.4 intervals */
    for (uint64_t number = 1; number <= 1000; number++)
        boundary(&world, number, 0);
    if (world.completed < 125)
        fail_msg("%llu of 1000", (unsigned long long)world.completed);
}
