/* SPDX-License-Identifier: Apache-2.0 */
/* Exact proportional division: published shares, properties on random divisions, bounds that leave
 * no choice. */
#include "adapt/apportion.h"

#include "random.h"
#include "tests.h"

#define CASES 20000
#define COUNT_MAX 40

/* Claim: speeds of 9:12:18 and 2:17:20 cores (ACSOS'20) divide 39 k samples in just these
 * shares. */
TEST(published_shares)
{
    static const double cores[3][3] = { { 9, 12, 18 }, { 2, 17, 20 }, { 3, 18, 18 } };
    uint64_t least[3] = { 1, 1, 1 }, most[3] = { 1 << 20, 1 << 20, 1 << 20 }, ret[3];

    for (int h = 0; h < 3; h++)
        for (uint64_t k = 1; k <= 100; k++) {
            assert_true(spotnik_batch_apportion(39 * k, 3, cores[h], least, most, ret));
            for (int i = 0; i < 3; i++)
                assert_int_equal(ret[i], k * (uint64_t)cores[h][i]);
        }
}

/* Claim: the largest remainder gets the sample that is left; ties go to the lower index. */
TEST(largest_remainder)
{
    uint64_t least[3] = { 0 }, most[3] = { 100, 100, 100 }, ret[3];
    double weight[3] = { 1, 1, 1 }, other[3] = { 1.0, 1.3, 1.7 }; /* 10: quotas 2.5, 3.25, 4.25 */

    assert_true(spotnik_batch_apportion(10, 3, weight, least, most, ret));
    assert_true(ret[0] == 4 && ret[1] == 3 && ret[2] == 3);
    assert_true(spotnik_batch_apportion(10, 3, other, least, most, ret));
    assert_true(ret[0] == 3 && ret[1] == 3 && ret[2] == 4);
}

/* Claim: what one bound cuts off is divided among the others in proportion, and it may push another
 * to its bound. */
TEST(bounds_pass_on)
{
    uint64_t least[4] = { 1, 1, 1, 1 }, most[4] = { 100, 20, 100, 100 }, ret[4];
    double weight[4] = { 1, 7, 1, 1 };

    assert_true(spotnik_batch_apportion(80, 4, weight, least, most, ret));
    assert_true(ret[0] == 20 && ret[1] == 20 && ret[2] == 20 && ret[3] == 20);
    most[2] = 10;
    assert_true(spotnik_batch_apportion(80, 4, weight, least, most, ret));
    assert_true(ret[0] == 25 && ret[1] == 20 && ret[2] == 10 && ret[3] == 25);
}

/* Claim: bounds that do not admit the total are refused, and nothing is written. */
TEST(impossible)
{
    uint64_t least[2] = { 5, 5 }, most[2] = { 10, 10 }, ret[2] = { 77, 77 };
    double weight[2] = { 1, 2 };

    assert_false(spotnik_batch_apportion(9, 2, weight, least, most, ret));
    assert_false(spotnik_batch_apportion(21, 2, weight, least, most, ret));
    least[0] = 11;
    assert_false(spotnik_batch_apportion(18, 2, weight, least, most, ret));
    assert_true(ret[0] == 77 && ret[1] == 77);
    least[0] = 5;
    assert_true(spotnik_batch_apportion(10, 2, weight, least, most, ret) && ret[0] == 5
                && ret[1] == 5);
    assert_true(spotnik_batch_apportion(20, 2, weight, least, most, ret) && ret[0] == 10
                && ret[1] == 10);
}

struct random_case {
    uint32_t count;
    uint64_t total, least[COUNT_MAX], most[COUNT_MAX], ret[COUNT_MAX];
    double weight[COUNT_MAX];
};

static struct random_case draw(struct spotnik_prng *prng)
{
    struct random_case c = { .count = (uint32_t)spotnik_prng_between(prng, 1, COUNT_MAX) };
    uint64_t low = 0, high = 0;
    bool bounded = spotnik_prng_chance(prng, 1, 2);

    for (uint32_t i = 0; i < c.count; i++) {
        c.least[i] = bounded ? spotnik_prng_below(prng, 50) : 0;
        c.most[i] = c.least[i] + (bounded ? spotnik_prng_below(prng, 200) : 100000);
        c.weight[i] = 1e-3 + uniform(prng) * (double)spotnik_prng_between(prng, 1, 1000);
        low += c.least[i];
        high += c.most[i];
    }
    c.total = bounded ? spotnik_prng_between(prng, low, high) : spotnik_prng_below(prng, 100000);
    return c;
}

/* Claim: conserved exactly and within bounds, always; without bounds every share is within one
 * sample of its quota. */
TEST(properties)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 5);
    for (int n = 0; n < CASES; n++) {
        struct random_case c = draw(&prng);
        uint64_t sum = 0;
        double weights = 0;
        assert_true(spotnik_batch_apportion(c.total, c.count, c.weight, c.least, c.most, c.ret));
        for (uint32_t i = 0; i < c.count; i++) {
            assert_true(c.ret[i] >= c.least[i] && c.ret[i] <= c.most[i]);
            sum += c.ret[i];
            weights += c.weight[i];
        }
        assert_int_equal(sum, c.total);
        for (uint32_t i = 0; i < c.count && c.most[i] == 100000 && c.least[i] == 0; i++) {
            double quota = (double)c.total * c.weight[i] / weights;
            assert_true((double)c.ret[i] > quota - 1.001 && (double)c.ret[i] < quota + 1.001);
        }
    }
}

/* Claim: in a bounded division, nobody who could take more is further below its proportion than
 * somebody who could give: members off their bounds all have the same samples per weight, but for
 * rounding. */
TEST(bounded_is_proportional)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 6);
    for (int n = 0; n < CASES; n++) {
        struct random_case c = draw(&prng);
        assert_true(spotnik_batch_apportion(c.total, c.count, c.weight, c.least, c.most, c.ret));
        for (uint32_t i = 0; i < c.count; i++)
            for (uint32_t k = 0; k < c.count; k++)
                if (c.ret[i] < c.most[i] && c.ret[k] > c.least[k])
                    assert_true(((double)c.ret[i] + 1.001) / c.weight[i]
                                >= ((double)c.ret[k] - 1.001) / c.weight[k]);
    }
}
