/* SPDX-License-Identifier: Apache-2.0 */
/* How long a file has stayed the same while we watched, by our own clock. Nothing else shows that a
 * process on another machine is gone for good. Pure. Time counts only between two good looks that
 * follow each other closely: not while we were stopped, nor while the folder did not answer. Used
 * for the records of a job's members (watcher.h) and of a bag's workers (bag/workers.h). */
#ifndef SPOTNIK_BASE_STILL_H
#define SPOTNIK_BASE_STILL_H

#include <stdbool.h>

#include "base/time.h"

/* What counts between our last good look (0: none) and this one. */
static inline uint64_t spotnik_still_spent_ns(uint64_t looked_ns, uint64_t now_ns,
                                              uint64_t gap_max_ns)
{
    return looked_ns != 0 ? spotnik_time_min(spotnik_time_since(now_ns, looked_ns), gap_max_ns) : 0;
}

/* A file that was the same for `unchanged_ns` is looked at again. `known`: it was seen before;
 * print 0: nothing is known of it. */
static inline uint64_t spotnik_still_unchanged_ns(uint64_t unchanged_ns, bool known,
                                                  uint64_t print_before, uint64_t print,
                                                  uint64_t spent_ns)
{
    bool same = known && print != 0 && print == print_before;
    return same ? spotnik_time_add(unchanged_ns, spent_ns) : 0;
}

#endif
