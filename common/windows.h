/* SPDX-License-Identifier: Apache-2.0 */
/* Spot availability over time, one value per tick, as a set of windows. Two formats are read:
 *   {"metadata_of_last":{"gap_seconds":g}, "traces_1_means_UNAVAILABLE":["0011...", ...]}
 *                                                     of Can't Be Late
 *   {"metadata":{"gap_seconds":g}, "data":[n, ...]}   n = machines available; SkyPilot spot traces
 * The second is one long window. */
#ifndef SPOTNIK_COMMON_WINDOWS_H
#define SPOTNIK_COMMON_WINDOWS_H

#include "common/fault.h"

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

/* All windows of a file's bytes; `name` is what faults call the file. */
int spotnik_windows_parse(const char *name, const char *bytes, size_t size,
                          struct spotnik_windows *windows_out, struct spotnik_fault *fault);
/* Room for `count` windows of `ticks` ticks altogether. */
int spotnik_windows_reserve(struct spotnik_windows *windows, size_t count, size_t ticks,
                            struct spotnik_fault *fault);
void spotnik_windows_free(struct spotnik_windows *windows);

#endif
