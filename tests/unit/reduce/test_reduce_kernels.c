/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every tier against the oracle, by bits: all types and operations, 1 to 9 inputs, lengths 0 to
 * 257 and some large ones, all alignments of each array, in place, streamed; nothing may be written beyond the end.
 * Tiers that this processor lacks are named and left out. */
#include "oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { LENGTH_MAX = 257, LARGE_MAX = 10007, INPUTS_MAX = 9, EDGE = 64, GUARD = 0xa5 };

struct shape {
    size_t count, inputs, shift; /* shift: where `out` stands from a multiple of 64 */
    int in_place;                /* which input is `out`; -1: none */
    bool is_streamed;
};

static uint8_t *memory[INPUTS_MAX], *result, *want;

static int memory_make(void **state)
{
    (void)state;
    size_t room = LARGE_MAX * 8 + 2 * EDGE;

    for (int i = 0; i < INPUTS_MAX; i++)
        memory[i] = aligned_alloc(EDGE, (room + EDGE - 1) / EDGE * EDGE);
    result = aligned_alloc(EDGE, (room + EDGE - 1) / EDGE * EDGE);
    want = malloc(room);
    return 0;
}

static int memory_free(void **state)
{
    (void)state;
    for (int i = 0; i < INPUTS_MAX; i++)
        free(memory[i]);
    free(result);
    free(want);
    return 0;
}

static uint64_t draw_weight(struct spotnik_prng *prng)
{
    switch (spotnik_prng_below(prng, 4)) {
    case 0:
        return 1;
    case 1:
        return 1 + (spotnik_prng_next(prng) >> 8);
    default:
        return 1 + spotnik_prng_below(prng, 1000);
    }
}

static void check(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype, enum spotnik_op op,
                  const struct shape *shape, struct spotnik_prng *prng)
{
    struct spotnik_reduce_input input[INPUTS_MAX];
    struct spotnik_reduce_inputs in = { .input = input,
                                        .inputs = shape->inputs,
                                        .bytes = shape->count * spotnik_dtype_bytes(dtype),
                                        .is_streamed = shape->is_streamed };
    uint64_t total = 0;
    uint8_t *out = result + shape->shift;

    for (size_t i = 0; i < shape->inputs; i++) {
        uint64_t weight = draw_weight(prng);
        uint8_t *data = memory[i] + spotnik_prng_below(prng, EDGE);
        if (shape->in_place == (int)i)
            data = out = memory[i] + shape->shift;
        oracle_fill(data, shape->count, dtype, prng);
        input[i] = (struct spotnik_reduce_input){ data, (double)weight, (float)weight };
        total += weight;
    }
    /* F32 and F64 also leave the division out; the mean of other types would be none. */
    if ((dtype == SPOTNIK_F32 || dtype == SPOTNIK_F64) && spotnik_prng_below(prng, 4) == 0)
        total = 1;
    in.divisor32 = (float)total;
    in.divisor64 = (double)total;
    for (size_t i = 0; i < shape->count; i++)
        oracle_fold(want, &in, i, dtype, op);
    out[in.bytes] = GUARD;
    tier->kernels->fold[dtype][op](out, &in);
    for (size_t i = 0; i < in.bytes; i++)
        if (out[i] != want[i])
            fail_msg(
                "%s: type %d, operation %d, %zu elements, %zu inputs, shift %zu, in place %d, streamed %d: "
                "byte %zu is %02x, not %02x",
                tier->name, dtype, op, shape->count, shape->inputs, shape->shift, shape->in_place,
                shape->is_streamed, i, out[i], want[i]);
    assert_int_equal(out[in.bytes], GUARD);
}

static void check_shapes(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype, enum spotnik_op op,
                         struct spotnik_prng *prng)
{
    static const size_t large[] = { 1023, 4099, LARGE_MAX };

    for (size_t count = 0; count <= LENGTH_MAX; count++) {
        struct shape shape = { .count = count,
                               .inputs = 1 + spotnik_prng_below(prng, INPUTS_MAX),
                               .shift = count % EDGE,
                               .is_streamed = spotnik_prng_below(prng, 2) };
        shape.in_place = (int)spotnik_prng_below(prng, shape.inputs + 1) - 1;
        check(tier, dtype, op, &shape, prng);
    }
    for (size_t shift = 0; shift < EDGE; shift++) {
        struct shape shape = { 131 + shift % 3, 2 + shift % 2, shift, -1, true };
        check(tier, dtype, op, &shape, prng);
    }
    for (size_t i = 0; i < 3; i++) {
        struct shape shape = { large[i], 2 + i, 8 * i, -1, i == 1 };
        check(tier, dtype, op, &shape, prng);
    }
}

static void every_kernel_equals_the_oracle(void **state)
{
    (void)state;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 1);
    for (size_t i = 0; i < spotnik_reduce_tier_count; i++) {
        const struct spotnik_reduce_tier *tier = &spotnik_reduce_tiers[i];
        if (!tier->is_supported()) {
            print_message("%s: not on this processor, not tested\n", tier->name);
            continue;
        }
        for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_DTYPE_LAST; dtype++)
            for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++)
                check_shapes(tier, dtype, op, &prng);
    }
}

/* Every pair of awkward halves, and every half alone: conversions of both kinds, exhaustively. */
static void every_half_survives(void **state)
{
    (void)state;
    static const enum spotnik_dtype dtypes[] = { SPOTNIK_F16, SPOTNIK_BF16 };
    static uint16_t all[65536], out[65536];
    const struct spotnik_reduce_input one = { all, 1, 1 };
    const struct spotnik_reduce_inputs in = {
        .input = &one, .inputs = 1, .bytes = sizeof all, .divisor64 = 1, .divisor32 = 1
    };

    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t d = 0; d < 2 && spotnik_reduce_tiers[t].is_supported(); d++) {
            spotnik_reduce_tiers[t].kernels->fold[dtypes[d]][SPOTNIK_MEAN](out, &in);
            for (uint32_t i = 0; i < 65536; i++)
                assert_int_equal(out[i], oracle_half_of(oracle_of_half(all[i], dtypes[d]), dtypes[d]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_equals_the_oracle),
        cmocka_unit_test(every_half_survives),
    };
    return cmocka_run_group_tests(tests, memory_make, memory_free);
}
