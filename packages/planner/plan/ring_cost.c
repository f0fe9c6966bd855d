/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/ring_cost.h"

#include <math.h>

double spotnik_ring_allreduce_s(double bytes, double members, double link_bytes_per_s, double hop_s)
{
    if (members <= 1)
        return 0;
    return 2 * (members - 1) / members * bytes / link_bytes_per_s + 2 * (members - 1) * hop_s;
}

double spotnik_ring_step_s(double compute_s, double allreduce_s, double overlap)
{
    return compute_s + fmax(0, allreduce_s - overlap * compute_s);
}
