/* SPDX-License-Identifier: Apache-2.0 */
/* What reduce.h promises, computed one element at a time and written from the promise, not from the
 * kernels: no vectors, no bit tricks, half precision by powers of two. Also the values that are
 * worth trying. */
#ifndef TESTS_REDUCE_ORACLE_H
#define TESTS_REDUCE_ORACLE_H

#include "base/prng.h"
#include "reduce/tiers.h"

/* Element `index` of out[i] = last((input 0 op input 1) op ...), as a kernel has to write it. */
void oracle_fold(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t index,
                 enum spotnik_dtype dtype, enum spotnik_op op);

/* Round to the type, ties to even; NaN becomes the one NaN. */
uint16_t oracle_half_of(double value, enum spotnik_dtype dtype);
double oracle_of_half(uint16_t half, enum spotnik_dtype dtype);

/* Elements that are awkward (NaN with payloads, infinities, denormals, signed zeros, extremes,
 * ties), any bits at all, or ordinary. */
void oracle_fill(void *out, size_t count, enum spotnik_dtype dtype, struct spotnik_prng *prng);

#endif
