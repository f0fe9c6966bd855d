/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of every kernel. FOLD makes a function that combines any number of inputs into one, in
 * one pass over memory, UNROLL vectors at a time in registers. Types, conversions and the operation
 * are its arguments; lanes_*.h says what a vector is. It decides no bit of a result but the order:
 * input 0 first, then one after the other. */
#ifndef SPOTNIK_REDUCE_FOLD_H
#define SPOTNIK_REDUCE_FOLD_H

#include "reduce/tiers.h"

#include <string.h>

#if defined(__clang__)
#define EACH_VECTOR(u, held)                                                                       \
    _Pragma("clang loop unroll(full)") for (size_t u = 0; u < UNROLL(held); u++)
#else
#define EACH_VECTOR(u, held) _Pragma("GCC unroll 16") for (size_t u = 0; u < UNROLL(held); u++)
#endif

/* How many bytes to do before `out` is aligned for streaming stores. SIZE_MAX: it never will be. */
static inline size_t bytes_before_stream(const void *out, size_t bytes, size_t element,
                                         size_t vector)
{
    size_t before = -(uintptr_t)out & (vector - 1);

    return before % element == 0 && before < bytes ? before : SIZE_MAX;
}

/* name       of the function
 * element    bytes of one element
 * held, work vector types in memory and in computation; unpack and pack convert
 * bits       32 or 64: which of the converted weights
 * first(x, w), next(sum, x, w), last(sum, d): the operation; as macros they may use `in`, the
 * fold's argument The edges, shorter than a vector, go through one filled up with zeros. */
#define FOLD(name, element, held, work, unpack, pack, bits, first, next, last)                     \
    static void name##_edge(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t at,       \
                            size_t bytes)                                                          \
    {                                                                                              \
        work sum = { 0 };                                                                          \
        held edge = { 0 };                                                                         \
                                                                                                   \
        for (size_t i = 0; i < in->inputs; i++) {                                                  \
            memcpy(&edge, (const uint8_t *)in->input[i].data + at, bytes);                         \
            sum = i ? next(sum, unpack(edge), in->input[i].weight##bits)                           \
                    : first(unpack(edge), in->input[i].weight##bits);                              \
        }                                                                                          \
        edge = pack(last(sum, in->divisor##bits));                                                 \
        memcpy(out + at, &edge, bytes);                                                            \
    }                                                                                              \
                                                                                                   \
    static inline                                                                                  \
        __attribute__((always_inline)) void name##_block(uint8_t *out,                             \
                                                         const struct spotnik_reduce_inputs *in,   \
                                                         size_t at, bool is_streamed)              \
    {                                                                                              \
        const struct spotnik_reduce_input *input = in->input, *end = input + in->inputs;           \
        const uint8_t *from = (const uint8_t *)input->data + at;                                   \
        held x[UNROLL(held)];                                                                      \
        work sum[UNROLL(held)];                                                                    \
                                                                                                   \
        EACH_VECTOR(u, held) memcpy(&x[u], from + u * sizeof(held), sizeof(held));                 \
        EACH_VECTOR(u, held) sum[u] = first(unpack(x[u]), input->weight##bits);                    \
        while (++input < end) {                                                                    \
            from = (const uint8_t *)input->data + at;                                              \
            EACH_VECTOR(u, held) memcpy(&x[u], from + u * sizeof(held), sizeof(held));             \
            EACH_VECTOR(u, held) sum[u] = next(sum[u], unpack(x[u]), input->weight##bits);         \
        }                                                                                          \
        EACH_VECTOR(u, held) x[u] = pack(last(sum[u], in->divisor##bits));                         \
        if (is_streamed)                                                                           \
            EACH_VECTOR(u, held) STREAM(out + at + u * sizeof(held), x[u]);                        \
        else                                                                                       \
            EACH_VECTOR(u, held) memcpy(out + at + u * sizeof(held), &x[u], sizeof(held));         \
    }                                                                                              \
                                                                                                   \
    static void name(void *out, const struct spotnik_reduce_inputs *in)                            \
    {                                                                                              \
        size_t at = 0, bytes = in->bytes, step = UNROLL(held) * sizeof(held);                      \
        size_t before = bytes_before_stream(out, bytes, element, sizeof(held));                    \
        bool is_streamed = in->is_streamed && before != SIZE_MAX;                                  \
                                                                                                   \
        if (is_streamed && before > 0) {                                                           \
            name##_edge(out, in, 0, before);                                                       \
            at = before;                                                                           \
        }                                                                                          \
        for (; bytes - at >= step; at += step)                                                     \
            name##_block(out, in, at, is_streamed);                                                \
        for (; bytes - at >= sizeof(held); at += sizeof(held))                                     \
            name##_edge(out, in, at, sizeof(held));                                                \
        if (at < bytes)                                                                            \
            name##_edge(out, in, at, bytes - at);                                                  \
        if (is_streamed)                                                                           \
            STREAM_END();                                                                          \
    }

#endif
