/* SPDX-License-Identifier: Apache-2.0 */
/* Spot availability over time, one value per tick, as a set of windows. Two formats are read:
 *   {"metadata_of_last":{"gap_seconds":g}, "traces_1_means_UNAVAILABLE":["0011...", ...]}
 *                                                     of Can't Be Late
 *   {"metadata":{"gap_seconds":g}, "data":[n, ...]}   n = machines available; SkyPilot spot traces
 * The second is one long window; spotnik_windows_cut makes many of it. */
#ifndef SPOTNIK_PLAN_WINDOWS_H
#define SPOTNIK_PLAN_WINDOWS_H

#include "plan/fault.h"

#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_WINDOWS_MAX 100000

struct spotnik_window {
    const uint8_t *machines; /* machines that spot would give, per tick, 255 at most */
    size_t ticks;
};

struct spotnik_windows {
    double tick_s;
    size_t count;
    struct spotnik_window *windows;
    uint8_t *storage;
};

/* All windows of a file of one of the two formats; of any other trace (trace.h, with its options),
 * and where options are given, one window by the minute: as many machines as there are throughout
 * it. */
int spotnik_windows_load(const char *spec, struct spotnik_windows *windows_out,
                         struct spotnik_fault *fault);
/* The same on bytes; `name` is what faults call the file. */
int spotnik_windows_parse(const char *name, const char *bytes, size_t size,
                          struct spotnik_windows *windows_out, struct spotnik_fault *fault);
/* Windows of `length_s` every `stride_s`, for each window that is longer; the result shares no
 * memory with `from`. */
int spotnik_windows_cut(const struct spotnik_windows *from, double length_s, double stride_s,
                        struct spotnik_windows *windows_out, struct spotnik_fault *fault);
void spotnik_windows_free(struct spotnik_windows *windows);

#endif
