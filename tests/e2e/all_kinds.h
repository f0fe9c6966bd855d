/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which gradients travel as bytes, beside a broadcast, an all-gather and a reduce-scatter,
 * all of whose results go into the weights: what differs on any member shows in its digest. For
 * e2e-worker, with WORKER_ALL_KINDS in its environment. */
#ifndef SPOTNIK_TESTS_ALL_KINDS_H
#define SPOTNIK_TESTS_ALL_KINDS_H

#include <stdint.h>

#include "spotnik/spotnik.h"

struct all_kinds;

/* NULL: no memory. `w` and `g` are the worker's, `count` elements. */
struct all_kinds *all_kinds_new(spotnik_job *job, float *w, float *g, uint64_t count);
void all_kinds_free(struct all_kinds *all);

/* Start buckets 0 and 3 to 5 of the running step; 1 and 2 are the worker's. */
int all_kinds_start(struct all_kinds *all, const spotnik_step *step);

/* What the commit returned. 0 or an error: a lost root is none, it is part of the result.
 * SPOTNIK_ERR_STATE: a part of the reduce-scatter is not what the whole result says. */
int all_kinds_finish(struct all_kinds *all, int rc);

#endif
