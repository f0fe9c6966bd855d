/* SPDX-License-Identifier: Apache-2.0 */
/* Reads availability traces. An empty trace, a tick of no length and a letter other than 0 and 1
 * are refused with the place where they are. */
#include "plan/windows.h"
#include "plan/jsonfile.h"
#include "plan/table.h"
#include "plan/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_TICK_S 60.0

/* Room for `count` windows of `ticks` ticks altogether. */
static int windows_reserve(struct spotnik_windows *windows, size_t count, size_t ticks,
                           struct spotnik_fault *fault)
{
    windows->count = count;
    windows->windows = calloc(count, sizeof(*windows->windows));
    windows->storage = malloc(ticks ? ticks : 1);
    if (windows->windows && windows->storage)
        return 0;
    spotnik_windows_free(windows);
    return spotnik_fault_set(fault, "out of memory for %zu windows", count);
}

static int letters_read(const char *path, const json_t *list, struct spotnik_windows *windows,
                        struct spotnik_fault *fault)
{
    size_t total = 0, i;
    json_t *item;

    json_array_foreach(list, i, item) total += json_string_length(item);
    if (windows_reserve(windows, json_array_size(list), total, fault))
        return -1;
    uint8_t *to = windows->storage;
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);
        size_t ticks = json_string_length(item);
        if (!text || !ticks)
            return spotnik_json_fault(fault, path, list, NULL, i,
                                      "window %zu is empty or not a string", i + 1);
        for (size_t j = 0; j < ticks; j++) {
            if (text[j] != '0' && text[j] != '1')
                return spotnik_json_fault(
                    fault, path, list, NULL, i,
                    "window %zu, tick %zu: '%c'; only 0 (available) and 1 (not)", i + 1, j + 1,
                    text[j]);
            to[j] = text[j] == '0';
        }
        windows->windows[i] = (struct spotnik_window){ to, ticks };
        to += ticks;
    }
    return 0;
}

static int counts_read(const char *path, const json_t *list, struct spotnik_windows *windows,
                       struct spotnik_fault *fault)
{
    size_t i;
    json_t *item;

    if (windows_reserve(windows, 1, json_array_size(list), fault))
        return -1;
    json_array_foreach(list, i, item)
    {
        double value = json_is_number(item) ? json_number_value(item) : -1;
        if (value < 0 || value != floor(value))
            return spotnik_json_fault(fault, path, list, NULL, i,
                                      "data[%zu] is not a whole number of machines", i);
        windows->storage[i] = value > 255 ? 255 : (uint8_t)value;
    }
    windows->windows[0] = (struct spotnik_window){ windows->storage, json_array_size(list) };
    return 0;
}

static int windows_read(const char *path, const json_t *json, struct spotnik_windows *windows,
                        struct spotnik_fault *fault)
{
    const json_t *letters = json_object_get(json, "traces_1_means_UNAVAILABLE");
    const json_t *counts = json_object_get(json, "data");
    const json_t *list = letters ? letters : counts;
    const json_t *metadata = json_object_get(json, letters ? "metadata_of_last" : "metadata");

    if (!json_is_array(list))
        return spotnik_fault_set(fault,
                                 "%s: neither 'traces_1_means_UNAVAILABLE' nor 'data' is a list",
                                 path);
    if (!json_array_size(list) || json_array_size(list) > 10u * SPOTNIK_WINDOWS_MAX * 100u)
        return spotnik_fault_set(fault, "%s: the trace is empty (or absurdly long)", path);
    if (spotnik_json_number(path, metadata, "gap_seconds", 1e-3, 86400, NAN, &windows->tick_s,
                            fault))
        return -1;
    return letters ? letters_read(path, letters, windows, fault)
                   : counts_read(path, counts, windows, fault);
}

int spotnik_windows_parse(const char *name, const char *bytes, size_t size,
                          struct spotnik_windows *windows_out, struct spotnik_fault *fault)
{
    struct spotnik_windows windows = { 0 };
    json_t *json;

    if (spotnik_json_parse(name, bytes, size, &json, fault))
        return -1;
    int rc = windows_read(name, json, &windows, fault);
    json_decref(json);
    if (rc) {
        spotnik_windows_free(&windows);
        return -1;
    }
    *windows_out = windows;
    return 0;
}

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
    if (windows_reserve(windows, 1, ticks, fault))
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
    if (windows_reserve(&cut, count, count * length, fault))
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

void spotnik_windows_free(struct spotnik_windows *windows)
{
    free(windows->windows);
    free(windows->storage);
    windows->windows = NULL;
    windows->storage = NULL;
    windows->count = 0;
}
