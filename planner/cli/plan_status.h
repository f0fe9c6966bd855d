/* SPDX-License-Identifier: Apache-2.0 */
/* Re-planning: where a job stands, and which of its machines still run. */
#ifndef SPOTNIK_CLI_PLAN_STATUS_H
#define SPOTNIK_CLI_PLAN_STATUS_H

#include "plan/planner.h"

#define SPOTNIK_RUNNING_MAX (SPOTNIK_FLEET_GROUPS - 1)

struct spotnik_standing {
    const char *path;                         /* NULL: a job that is not begun yet */
    const char *running[SPOTNIK_RUNNING_MAX]; /* "TYPE[@ZONE]=spot|on-demand[:N]": of what the members are */
    size_t running_count;
    double batch;     /* of the running job; 0: the profile's reference batch */
    double elapsed_s; /* NAN: as long as the member that answered has been up */
    double spent_usd; /* NAN: what the machines that run cost in that time */
};

/* Reads the file: the runtime's own (`spotnik status --json`), or one made by hand. What
 * is done comes off the work, what is spent off the budget, the time gone off the deadline, and the machines
 * that run stay in every fleet. Nothing is done without a path. */
int spotnik_standing_apply(const struct spotnik_standing *standing, const struct spotnik_profile *profile,
                           const struct spotnik_catalog *catalog, struct spotnik_wish *wish,
                           struct spotnik_fault *fault);

#endif
