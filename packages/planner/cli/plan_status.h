/* SPDX-License-Identifier: Apache-2.0 */
/* Re-planning: where a job stands, and which of its machines still run. */
#ifndef SPOTNIK_PLANNER_PLAN_STATUS_H
#define SPOTNIK_PLANNER_PLAN_STATUS_H

#include "plan_measured.h"
#include "plan/planner.h"

#define SPOTNIK_RUNNING_MAX (SPOTNIK_FLEET_GROUPS - 1)

/* Where machines of the job are, or were. */
struct spotnik_place {
    struct spotnik_offer *offer;
    bool spot;
    unsigned there, wanted;
};

struct spotnik_standing {
    const char *path; /* NULL: a job that is not begun yet */
    /* "TYPE[@ZONE]=spot|on-demand[:N[/WANTED]]": of what the members are */
    const char *running[SPOTNIK_RUNNING_MAX];
    size_t running_count;
    /* of the running job; 0: as its status says, else the profile's reference batch */
    double batch;
    /* NAN: since its founding, or as long as the member that answered has been up */
    double elapsed_s;
    double spent_usd; /* NAN: what the machines that were there cost in that time */
    double clock;     /* the job's clock runs this many times as fast as the planner's */
    /* what was read */
    struct spotnik_place places[SPOTNIK_RUNNING_MAX];
    size_t place_count;
    struct spotnik_pool pools[SPOTNIK_RUNNING_MAX];
    struct spotnik_job_measured measured;
    bool has_measured; /* the status is the runtime's own */
};

/* Reads the file: the runtime's own (`spotnik status --json`), or one made by hand. What is done
 * comes off the work, what is spent off the budget, the time gone off the deadline. What runs is
 * wish->kept. What the job has measured goes into profile and catalog, which then point into
 * `standing`. Nothing is done without a path. */
int spotnik_standing_apply(struct spotnik_standing *standing, struct spotnik_profile *profile,
                           struct spotnik_catalog *catalog, struct spotnik_wish *wish,
                           struct spotnik_fault *fault);
void spotnik_standing_free(struct spotnik_standing *standing);

#endif
