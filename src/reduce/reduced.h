/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of integers with its weights brought to the least ones that give the same mean. What they
 * and their sum have in common is divided out. Members that weigh the same weigh 1, and small
 * divisors have quick kernels. Decides when that changes no bit. Products, sums and their F64 are
 * exact then: the result is the mean of exact arithmetic, rounded once, whatever the weights. */
#ifndef SPOTNIK_REDUCE_REDUCED_H
#define SPOTNIK_REDUCE_REDUCED_H

#include "reduce/tiers.h"

/* With D < 2^20 sums of 32 bits stay below 2^52. A quotient that is no half is 1/(2D) > 2^-21 away
 * from the next half, and dividing moves it by 2^-22 at most. */
enum { REDUCED_INPUTS = 256, REDUCED_DIVISOR = 1 << 20 };

struct reduced {
    struct spotnik_reduce_input input[REDUCED_INPUTS];
    struct spotnik_reduce_inputs in;
    uint32_t divisor; /* the sum of the weights; 0: not reduced */
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool is_reducible(const struct spotnik_reduce_inputs *in, uint32_t *ret_common)
{
    uint64_t sum = 0;

    *ret_common = 0;
    if (in->inputs > REDUCED_INPUTS || !(in->divisor64 >= 1 && in->divisor64 < REDUCED_DIVISOR))
        return false;
    for (size_t i = 0; i < in->inputs; i++) {
        if (!(in->input[i].weight64 >= 1 && in->input[i].weight64 < REDUCED_DIVISOR))
            return false;
        uint32_t weight = (uint32_t)in->input[i].weight64;
        *ret_common = common_divisor(weight, *ret_common);
        sum += weight;
    }
    return sum == (uint64_t)in->divisor64;
}

static void reduced_make(struct reduced *ret, const struct spotnik_reduce_inputs *in)
{
    uint32_t common;

    ret->divisor = 0;
    if (!is_reducible(in, &common))
        return;
    ret->in = *in;
    ret->in.input = ret->input;
    ret->divisor = (uint32_t)in->divisor64 / common;
    for (size_t i = 0; i < in->inputs; i++) {
        uint32_t weight = (uint32_t)in->input[i].weight64 / common;
        ret->input[i] = (struct spotnik_reduce_input){ in->input[i].data, weight, (float)weight,
                                                       (uint16_t)weight };
    }
    ret->in.divisor64 = ret->divisor;
    ret->in.divisor32 = (float)ret->divisor;
}

#endif
