/* SPDX-License-Identifier: Apache-2.0 */
#include "windows_cut.h"
#include "common/jsonfile.h"
#include "common/table.h"
#include "common/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_TICK_S 60.0

/* The fewest machines that are there at any instant of a tick. */
static unsigned fewest(const struct spotnik_trace *trace, double from_s, double length_s)
{
    double stays_s, until_s = from_s + length_s;
    unsigned least = spotnik_trace_at(trace, from_s, &stays_s);

    for (from_s += stays_s; from_s < until_s - 1e-6; from_s += fmax(stays_s, 1e-3)) {
        unsigned machines = spotnik_trace_at(trace, from_s, &stays_s);
        least = machines < least ? machines : least;
    }
    return least;
}

static int trace_sample(const struct spotnik_trace *trace, struct spotnik_windows *windows,
                        struct spotnik_fault *fault)
{
    size_t ticks = (size_t)fmax(1, floor(trace->length_s / TRACE_TICK_S));

    if (ticks > 100u * SPOTNIK_WINDOWS_MAX)
        return spotnik_fault_set(fault, "the trace is absurdly long: %.0f h",
                                 trace->length_s / 3600);
    if (spotnik_windows_reserve(windows, 1, ticks, fault))
        return -1;
    for (size_t i = 0; i < ticks; i++) {
        unsigned machines = fewest(trace, trace->start_s + (double)i * TRACE_TICK_S, TRACE_TICK_S);
        windows->storage[i] = (uint8_t)(machines > 255 ? 255 : machines);
    }
    windows->tick_s = TRACE_TICK_S;
    windows->windows[0] = (struct spotnik_window){ windows->storage, ticks };
    return 0;
}

static int trace_load(const char *spec, struct spotnik_windows *windows_out,
                      struct spotnik_fault *fault)
{
    struct spotnik_windows windows = { 0 };
    struct spotnik_trace trace;

    if (spotnik_trace_load_seen(spec, &trace, fault))
        return -1;
    int rc = trace_sample(&trace, &windows, fault);
    spotnik_trace_free(&trace);
    if (!rc)
        *windows_out = windows;
    return rc;
}

int spotnik_windows_load(const char *path, struct spotnik_windows *windows_out,
                         struct spotnik_fault *fault)
{
    char *bytes;
    size_t size;

    if (strchr(path, ',') || !spotnik_json_looks_like(path))
        return trace_load(path, windows_out, fault);
    if (spotnik_file_read(path, &bytes, &size, fault))
        return -1;
    int rc = spotnik_windows_parse(path, bytes, size, windows_out, fault);
    free(bytes);
    return rc;
}

int spotnik_windows_cut(const struct spotnik_windows *from, double length_s, double stride_s,
                        struct spotnik_windows *windows_out, struct spotnik_fault *fault)
{
    size_t length = (size_t)ceil(length_s / from->tick_s),
           stride = (size_t)fmax(1, round(stride_s / from->tick_s));
    struct spotnik_windows cut = { .tick_s = from->tick_s };
    size_t count = 0, at = 0;

    for (size_t i = 0; i < from->count; i++)
        if (from->windows[i].ticks >= length)
            count += (from->windows[i].ticks - length) / stride + 1;
    if (!count || count > SPOTNIK_WINDOWS_MAX)
        return spotnik_fault_set(fault, "no trace is as long as %.1f h", length_s / 3600);
    if (spotnik_windows_reserve(&cut, count, count * length, fault))
        return -1;
    for (size_t i = 0; i < from->count; i++) {
        for (size_t j = 0; j + length <= from->windows[i].ticks; j += stride, at++) {
            uint8_t *to = cut.storage + at * length;
            memcpy(to, from->windows[i].machines + j, length);
            cut.windows[at] = (struct spotnik_window){ to, length };
        }
    }
    *windows_out = cut;
    return 0;
}
