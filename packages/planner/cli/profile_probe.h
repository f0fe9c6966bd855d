/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the user's job for some seconds on this machine and reads from its own status where its time
 * goes. The job is run by `spotnik run`, asked by `spotnik status`: nothing here knows the runtime
 * but by those two. */
#ifndef SPOTNIK_PLANNER_PROFILE_PROBE_H
#define SPOTNIK_PLANNER_PROFILE_PROBE_H

#include "common/fault.h"

#include <stdbool.h>

struct spotnik_probe_order {
    /* "{batch}" in a word becomes the batch, which is also in SPOTNIK_BATCH */
    char *const *command;
    unsigned workers;
    double batch, seconds; /* seconds to measure, after the first steps */
    /* kill a worker at the end, and see what its loss and its successor cost */
    bool lose_one;
    bool one_thread; /* a worker is one processor, however few there are */
};

struct spotnik_probe {
    double step_s;    /* between commits */
    double compute_s; /* of a step, with the optimiser; mean over the members that were asked */
    double exposed_s; /* of a step: waiting in commit and in begin */
    double reduce_bytes;
    double steps;
    double others; /* processors that something else kept busy meanwhile; NAN: unknown */
    double recover_s, startup_s, join_s; /* with lose_one */
};

/* Others may have so much of all processors before a measurement is taken again. */
#define SPOTNIK_PROBE_OTHERS_MOST 0.05

/* Blocks for as long as the order says and a few seconds more, three times as long on a busy host:
 * the quietest of the three counts. The fault tells what the job printed last. */
int spotnik_probe_run(const struct spotnik_probe_order *order, struct spotnik_probe *probe_out,
                      struct spotnik_fault *fault);

#endif
