/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik backtest --calibration`: chances stated for starts in traces, and what then came. */
#ifndef SPOTNIK_RESEARCH_CALIBRATE_H
#define SPOTNIK_RESEARCH_CALIBRATE_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

struct spotnik_calibrate {
    /* files; without any to learn from, the built-in model counts */
    const char *const *traces, *const *learn_from;
    size_t trace_count, learn_from_count;
    /* traces of one folder with one of these in their names are of one region */
    const char *const *regions;
    size_t region_count;
    double work_s, deadline_s; /* 0: a set of jobs, from 4 to 36 h, from easy to hard */
    double startup_s, stride_s, block_s, past_s;
    unsigned machines, runs, regimes;
    bool unknown; /* nothing is known of the place */
    const char *plot;
    bool json;
};

int spotnik_calibrate(const struct spotnik_calibrate *call, struct spotnik_fault *fault);

#endif
