/* SPDX-License-Identifier: Apache-2.0 */
/* What a running job tells of itself (`spotnik status --json`), and what the planner learns from
 * that: how long steps take, what losses and newcomers cost, how often single machines are lost,
 * when the place had capacity, and the price. */
#ifndef SPOTNIK_PLANNER_PLAN_MEASURED_H
#define SPOTNIK_PLANNER_PLAN_MEASURED_H

#include "plan/planner.h"
#include "plan/pool.h"

struct spotnik_job_measured {
    double members, steps, batch; /* batch: samples of a step over all members; 0: not told */
    /* of the members of now; 0: not known, for the view is too new */
    double step_s, predicted_s;
    double recover_s, join_s;   /* means of what was seen; 0: none was */
    unsigned recoveries, joins; /* of which those are means */
    double losses;              /* of machines while others of the place stayed */
    double uptime_s, elapsed_s; /* of the member that answered; of the job */
    double machine_s;           /* of all members, in uptime_s */
    /* of spot machines; what the answering member costs, 0: not told */
    double spot_machine_s, usd_per_h;
    struct spotnik_trace spot; /* spot machines that were there, in uptime_s */
};

/* Reads a status. `on_demand` of the members are not spot machines; the job's clock runs `clock`
 * times as fast as the planner's. The caller frees `measured_out->spot`. */
int spotnik_measured_read(const char *path, const json_t *json, double on_demand, double clock,
                          struct spotnik_job_measured *measured_out, struct spotnik_fault *fault);
/* The profile steps, recovers and admits as the job does. `wish->kept` is what runs, at
 * wish->kept_batch. */
void spotnik_measured_teach_profile(struct spotnik_job_measured *measured,
                                    const struct spotnik_wish *wish,
                                    struct spotnik_profile *profile);
/* Nobody is left of the job: the status is the last one, and time has gone since. */
void spotnik_measured_end(const char *path, double clock, struct spotnik_job_measured *measured);
/* What the spot machines of `offer` went through, as what is known of its capacity: into `pool`,
 * which the offer then names. `running` of `wanted` machines of it are there. */
void spotnik_measured_teach_place(const struct spotnik_job_measured *measured,
                                  const struct spotnik_work *work, unsigned running,
                                  unsigned wanted, struct spotnik_offer *offer,
                                  struct spotnik_pool *pool);

#endif
