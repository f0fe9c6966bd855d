/* SPDX-License-Identifier: Apache-2.0 */
/* How many steps an epoch of data has: as many as without losses, unless its last step is hit. */
#include "ledger/ledger.h"

#include "base/prng.h"
#include "tests.h"

#define SHARES_MAX 9

static uint64_t pool_total(const struct spotnik_ledger *ledger, uint32_t shares)
{
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint64_t total = 0;
    uint32_t count;

    for (uint32_t i = 0; i < shares; i++)
        total += spotnik_ledger_share(ledger, i, shares, ranges, &count);
    return total;
}

/* The steps of one epoch of data; in step `hit` some members are lost, but for the first. */
static uint64_t epoch_run(struct spotnik_ledger *ledger, struct spotnik_prng *prng, uint32_t shares,
                          uint64_t hit)
{
    bool in_view[SHARES_MAX];
    uint64_t steps = 0;

    for (; ledger->data_epoch == 0; steps++) {
        for (uint32_t i = 0; i < shares; i++)
            in_view[i] = steps != hit || i == 0 || spotnik_prng_chance(prng, 1, 2);
        assert_true(pool_total(ledger, shares) <= 2 * ledger->batch);
        spotnik_ledger_commit(ledger, shares, in_view);
        assert_true(steps < ledger->samples + 2);
    }
    return steps;
}

/* Whatever is lost in one of its steps but the last, an epoch has no step more, and no step more
 * than two batches. */
TEST(losses_add_no_steps)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;
    uint64_t added = 0;

    for (uint64_t seed = 0; seed < 2000; seed++) {
        spotnik_prng_seed(&prng, seed);
        uint64_t batch = spotnik_prng_between(&prng, 1, 40),
                 samples = spotnik_prng_between(&prng, 2 * batch, 2000);
        uint64_t planned = (samples + batch - 1) / batch, hit = spotnik_prng_below(&prng, planned);
        uint32_t shares = (uint32_t)spotnik_prng_between(&prng, 2, SHARES_MAX);
        spotnik_ledger_init(&ledger, samples, batch);
        uint64_t steps = epoch_run(&ledger, &prng, shares, hit);
        assert_true(steps == planned || (hit == planned - 1 && steps == planned + 1));
        added += steps != planned;
    }
    assert_true(added > 0); /* or the last step was never hit */
}
