/* SPDX-License-Identifier: Apache-2.0 */
/* Divides a whole number of samples in proportion to weights, exactly, by largest remainder
 * (Hamilton's method), within bounds. Decides nothing about where the weights come from. */
#ifndef SPOTNIK_ADAPT_APPORTION_H
#define SPOTNIK_ADAPT_APPORTION_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_BATCH_MEMBERS_MAX 1024
#define SPOTNIK_BATCH_TOTAL_MAX (UINT64_C(1) << 52) /* a double holds every number of samples */

/* ret[i] sums to `total`, lies in [least[i], most[i]], and is total * weight[i] / sum of weights as
 * nearly as those allow. What bounds cut off is divided among the others. Ties go to the lower
 * index. Weights are above 0 and finite. False, and ret untouched, when the bounds do not admit the
 * total. 1 <= count <= SPOTNIK_BATCH_MEMBERS_MAX. */
bool spotnik_batch_apportion(uint64_t total, uint32_t count, const double *weight,
                             const uint64_t *least, const uint64_t *most, uint64_t *ret);

#endif
