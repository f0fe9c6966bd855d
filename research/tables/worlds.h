/* SPDX-License-Identifier: Apache-2.0 */
/* What a backtest runs in: windows of one place, or of several places at the same time. */
#ifndef SPOTNIK_RESEARCH_WORLDS_H
#define SPOTNIK_RESEARCH_WORLDS_H

#include "common/windows.h"

#include <stdbool.h>

#define SPOTNIK_PLACES_MAX 32

/* Window i of each place begins at the same instant. */
struct spotnik_worlds {
    struct spotnik_windows places[SPOTNIK_PLACES_MAX];
    size_t place_count, count; /* of windows that every place has */
    double tick_s;
    bool cut; /* windows are of one trace, one every stride */
};

/* Reads a trace for each place; one that is longer than `length_s` is cut into windows, one every
 * `stride_s`. Places with different ticks are a fault. Free it also after a fault. */
int spotnik_worlds_load(char const *const *paths, size_t count, double length_s, double stride_s,
                        struct spotnik_worlds *worlds_out, struct spotnik_fault *fault);
/* Window `i` of every place. */
void spotnik_worlds_at(const struct spotnik_worlds *worlds, size_t i,
                       struct spotnik_window *places_out);
/* A window that has spot where any of the places has: what no policy can do better than. The caller
 * frees its machines; no ticks: out of memory. */
struct spotnik_window spotnik_window_any(const struct spotnik_window *places, size_t count);
void spotnik_worlds_free(struct spotnik_worlds *worlds);

#endif
