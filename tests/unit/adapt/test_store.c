/* SPDX-License-Identifier: Apache-2.0 */
/* A shard with a primary and a copy, whose holders are killed at every point of an update: no
 * update is lost, none counts twice. Updates are whole numbers, so sums are exact whatever their
 * order. */
#include "adapt/store.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define SENDERS 5
#define COUNT 3
#define UPDATES 20000

static struct spotnik_store store[2];
static float data[2][COUNT];

/* Claim: an update counts once; one that comes too early is refused, and it says what is wanted. */
TEST(once)
{
    float update[COUNT] = { 1, 2, 3 };
    uint64_t expected = 0;

    memset(data, 0, sizeof data);
    spotnik_store_init(&store[0], data[0], COUNT);
    assert_true(spotnik_store_add(&store[0], 2, 1, update, NULL));
    assert_false(spotnik_store_add(&store[0], 2, 1, update, &expected));
    assert_int_equal(expected, 2);
    assert_false(spotnik_store_add(&store[0], 2, 3, update, &expected));
    assert_true(expected == 2 && data[0][0] == 1 && data[0][2] == 3);
    assert_true(spotnik_store_add(&store[0], 3, 1, update, NULL));
    assert_true(data[0][1] == 4);
}

/* The primary dies, its copy takes over and makes a new copy. */
static void fail_over(uint32_t *primary)
{
    memset(data[*primary], 0x7f, sizeof data[0]);
    memset(store[*primary].applied, 0x7f, sizeof store[0].applied);
    *primary = 1 - *primary;
    memcpy(store[1 - *primary].data, store[*primary].data, sizeof data[0]);
    memcpy(store[1 - *primary].applied, store[*primary].applied, sizeof store[0].applied);
}

/* One update, repeated until it is acknowledged; the primary may die before it has added, before it
 * has passed on, before it has answered. */
static void send(struct spotnik_prng *prng, uint32_t *primary, uint32_t sender, uint64_t number,
                 const float *update)
{
    for (;;) {
        uint64_t death = spotnik_prng_below(prng, 40); /* three points of 40 */
        if (death == 0) {
            fail_over(primary);
            continue;
        }
        spotnik_store_add(&store[*primary], sender, number, update, NULL);
        if (death == 1) {
            fail_over(primary);
            continue;
        }
        spotnik_store_add(&store[1 - *primary], sender, number, update, NULL);
        if (death != 2)
            return;
        fail_over(primary);
    }
}

/* Claim: both holders end with the sum of all updates, to the bit. */
TEST(killed_holders)
{
    struct spotnik_prng prng;
    uint64_t number[SENDERS] = { 0 };
    uint32_t primary = 0;
    float sum[COUNT] = { 0 };

    memset(data, 0, sizeof data);
    spotnik_prng_seed(&prng, 1);
    for (int i = 0; i < 2; i++)
        spotnik_store_init(&store[i], data[i], COUNT);
    for (int n = 0; n < UPDATES; n++) {
        uint32_t sender = (uint32_t)spotnik_prng_below(&prng, SENDERS);
        float update[COUNT];
        for (int i = 0; i < COUNT; i++) {
            update[i] = (float)spotnik_prng_below(&prng, 100) - 50;
            sum[i] += update[i];
        }
        send(&prng, &primary, sender, ++number[sender], update);
    }
    assert_memory_equal(data[0], sum, sizeof sum);
    assert_memory_equal(data[1], sum, sizeof sum);
}
