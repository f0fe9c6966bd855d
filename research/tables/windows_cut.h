/* SPDX-License-Identifier: Apache-2.0 */
/* Windows for backtests, from any trace of availability. */
#ifndef SPOTNIK_RESEARCH_WINDOWS_CUT_H
#define SPOTNIK_RESEARCH_WINDOWS_CUT_H

#include "common/windows.h"

/* All windows of a file of one of the two formats; of any other trace (trace.h, with its options),
 * and where options are given, one window by the minute: as many machines as there are throughout
 * it. */
int spotnik_windows_load(const char *spec, struct spotnik_windows *windows_out,
                         struct spotnik_fault *fault);
/* Windows of `length_s` every `stride_s`, for each window that is longer; the result shares no
 * memory with `from`. */
int spotnik_windows_cut(const struct spotnik_windows *from, double length_s, double stride_s,
                        struct spotnik_windows *windows_out, struct spotnik_fault *fault);

#endif
