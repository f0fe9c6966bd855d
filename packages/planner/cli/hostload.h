/* SPDX-License-Identifier: Apache-2.0 */
/* How busy this host is with other things than what this process started. It measures; what is too
 * busy is the caller's question. */
#ifndef SPOTNIK_PLANNER_HOSTLOAD_H
#define SPOTNIK_PLANNER_HOSTLOAD_H

#include <stdbool.h>

struct spotnik_host_look {
    double at_s;   /* monotonic */
    double busy_s; /* processor time that anybody used, steal included; ever growing */
    double ours_s; /* of it, what this process and its descendants used, living or waited for */
};

/* False where /proc does not tell. */
bool spotnik_host_look(struct spotnik_host_look *look_out);
/* Processors that others kept busy between two looks, 0 at least. */
double spotnik_host_others(const struct spotnik_host_look *from,
                           const struct spotnik_host_look *to);
/* Processors that this host has. */
double spotnik_host_processors(void);

#endif
