/* SPDX-License-Identifier: Apache-2.0 */
/* What a synchronous step by ring all-reduce takes: compute plus 2 (n-1)/n bytes over the slowest
 * link plus 2 (n-1) hops. */
#ifndef SPOTNIK_PLAN_RING_COST_H
#define SPOTNIK_PLAN_RING_COST_H

double spotnik_ring_allreduce_s(double bytes, double members, double link_bytes_per_s,
                                double hop_s);
/* One synchronous step; `overlap` is the part of the all-reduce that hides behind the backward
 * pass, in [0, 1]. */
double spotnik_ring_step_s(double compute_s, double allreduce_s, double overlap);

#endif
