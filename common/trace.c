/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: which format a file has, what the options of a spec change, and questions about the
 * result. */
#include "common/trace.h"
#include "base/prng.h"
#include "common/jsonfile.h"
#include "common/prices.h"
#include "common/table.h"
#include "common/windows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_MAX 100000
#define YEAR_S (365.25 * 86400)
#define LENGTH_MAX_S (100 * YEAR_S)

struct options {
    double nodes, start_s, bid, unit_s, window; /* NAN: not given */
    bool random;
    double seed;
};

static int option_read(const char *name, char *item, struct options *options,
                       struct spotnik_fault *fault)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "h", 3600 }, { "m", 60 }, { "s", 1 }, { "ms", 1e-3 } };
    char *value = strchr(item, '=');

    if (!value)
        return spotnik_fault_set(fault, "%s: option '%s' has no value; write %s=...", name, item,
                                 item);
    *value++ = '\0';
    if (!strcmp(item, "nodes") && spotnik_number_parse(value, &options->nodes)
        && options->nodes >= 1 && options->nodes <= MACHINES_MAX
        && options->nodes == floor(options->nodes))
        return 0;
    if (!strcmp(item, "bid") && spotnik_number_parse(value, &options->bid) && options->bid > 0)
        return 0;
    if (!strcmp(item, "window") && spotnik_number_parse(value, &options->window)
        && options->window >= 1)
        return 0;
    if (!strcmp(item, "start") && !strncmp(value, "random", 6)) {
        options->random = true;
        if (value[6] == '\0'
            || (value[6] == ':' && spotnik_number_parse(value + 7, &options->seed)
                && options->seed >= 0))
            return 0;
    }
    if (!strcmp(item, "start") && spotnik_duration_parse(value, &options->start_s)
        && options->start_s >= 0)
        return 0;
    for (size_t i = 0; !strcmp(item, "unit") && i < sizeof(units) / sizeof(*units); i++)
        if (!strcmp(value, units[i].name)) {
            options->unit_s = units[i].seconds;
            return 0;
        }
    return spotnik_fault_set(
        fault,
        "%s: option '%s=%s' is none of nodes=N, start=2h, start=random, start=random:SEED, "
        "unit=h|m|s|ms, bid=USD and window=N",
        name, item, value);
}

static int options_read(const char *name, const char *text, struct options *options,
                        struct spotnik_fault *fault)
{
    char copy[256], *rest = copy, *item;

    *options = (struct options){ NAN, NAN, NAN, NAN, NAN, false, NAN };
    if (!text)
        return 0;
    if (strlen(text) >= sizeof(copy))
        return spotnik_fault_set(fault, "%s: the options are too long", name);
    snprintf(copy, sizeof(copy), "%s", text);
    while ((item = strsep(&rest, ",")))
        if (option_read(name, item, options, fault))
            return -1;
    return 0;
}

int spotnik_trace_append(struct spotnik_trace *trace, double at_s, unsigned machines,
                         struct spotnik_fault *fault)
{
    trace->length_s = at_s;
    trace->highest = machines > trace->highest ? machines : trace->highest;
    if (trace->count && trace->machines[trace->count - 1] == machines)
        return 0;
    /* several changes at one instant */
    if (trace->count && trace->at_s[trace->count - 1] == at_s) {
        trace->machines[trace->count - 1] = machines;
        return 0;
    }
    if (trace->count == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : 256;
        double *at = realloc(trace->at_s, capacity * sizeof(*at));
        if (at)
            trace->at_s = at;
        unsigned *counts = realloc(trace->machines, capacity * sizeof(*counts));
        if (counts)
            trace->machines = counts;
        if (!at || !counts)
            return spotnik_fault_set(fault, "out of memory for the trace");
        trace->capacity = capacity;
    }
    trace->at_s[trace->count] = at_s;
    trace->machines[trace->count++] = machines;
    return 0;
}

static int json_read(const char *name, const char *bytes, size_t size,
                     const struct options *options, struct spotnik_trace *trace,
                     struct spotnik_fault *fault)
{
    struct spotnik_windows windows;
    int rc = 0;

    if (spotnik_windows_parse(name, bytes, size, &windows, fault))
        return -1;
    size_t which = isnan(options->window) ? 0 : (size_t)options->window - 1;
    if (which >= windows.count)
        rc = spotnik_fault_set(fault, "%s: window=%zu, but the file has %zu", name, which + 1,
                               windows.count);
    for (size_t i = 0; !rc && i < windows.windows[which].ticks; i++)
        rc = spotnik_trace_append(trace, (double)i * windows.tick_s,
                                  windows.windows[which].machines[i], fault);
    if (!rc)
        trace->length_s = (double)windows.windows[which].ticks * windows.tick_s;
    trace->on_off = trace->highest <= 1;
    spotnik_windows_free(&windows);
    return rc;
}

/* The unit that the header names; without one, hours when any time has a fraction, else seconds. */
static double unit_of(const struct spotnik_table *table, bool header)
{
    const char *first = spotnik_table_column_name(table, 0);

    if (header)
        return !strncasecmp(first, "h", 1) || strcasestr(first, "hour") || strcasestr(first, "_h")
                   ? 3600
               : strcasestr(first, "ms") || strcasestr(first, "milli") ? 1e-3
               : strcasestr(first, "min")                              ? 60
                                                                       : 1;
    for (size_t row = 0; row < spotnik_table_rows(table); row++)
        if (strchr(spotnik_table_text(table, row, 0), '.'))
            return 3600;
    return strchr(first, '.') ? 3600 : 1;
}

static int machines_take(const struct spotnik_table *table, size_t row, double *machines_out,
                         struct spotnik_fault *fault)
{
    if (spotnik_table_number(table, row, 1, 0, MACHINES_MAX, machines_out, fault))
        return -1;
    return *machines_out == floor(*machines_out)
               ? 0
               : spotnik_fault_set(fault, "%s:%zu: column 2: %s is not a whole number of machines",
                                   spotnik_table_name(table), spotnik_table_line(table, row),
                                   spotnik_table_text(table, row, 1));
}

/* Two columns of numbers, with a header or (then the "header" is the first row) without. */
static int counts_read(const struct spotnik_table *table, const struct options *options,
                       struct spotnik_trace *trace, struct spotnik_fault *fault)
{
    double first_s = 0, last_s = -INFINITY, at, machines;
    bool header = !spotnik_number_parse(spotnik_table_column_name(table, 0), &at)
                  || !spotnik_number_parse(spotnik_table_column_name(table, 1), &machines);
    double unit_s = isnan(options->unit_s) ? unit_of(table, header) : options->unit_s;
    size_t rows = spotnik_table_rows(table);

    if (!header) {
        if (machines < 0 || machines > MACHINES_MAX || machines != floor(machines))
            return spotnik_fault_set(fault, "%s: line 1: %g machines", spotnik_table_name(table),
                                     machines);
        first_s = last_s = at * unit_s;
        if (spotnik_trace_append(trace, 0, (unsigned)machines, fault))
            return -1;
    }
    for (size_t row = 0; row < rows; row++) {
        if (spotnik_table_number(table, row, 0, 0, 1e15, &at, fault)
            || machines_take(table, row, &machines, fault))
            return -1;
        first_s = isinf(last_s) ? at * unit_s : first_s;
        if (at * unit_s < last_s)
            return spotnik_fault_set(
                fault, "%s: line %zu: time runs backwards; sort the file by its first column",
                spotnik_table_name(table), spotnik_table_line(table, row));
        last_s = at * unit_s;
        if (spotnik_trace_append(trace, last_s - first_s, (unsigned)machines, fault))
            return -1;
    }
    trace->on_off = trace->highest <= 1;
    return 0;
}

static int prices_read(const struct spotnik_table *table, const struct options *options,
                       struct spotnik_trace *trace, struct spotnik_fault *fault)
{
    struct spotnik_prices prices;
    int rc = 0;

    if (isnan(options->bid))
        return spotnik_fault_set(
            fault,
            "%s is a price history: say with ,bid=USD up to which price machines are there "
            "(the on-demand price, say)",
            spotnik_table_name(table));
    if (spotnik_prices_of(table, &prices, fault))
        return -1;
    for (size_t i = 0; !rc && i + 1 < prices.count; i++)
        rc =
            spotnik_trace_append(trace, prices.at_s[i], prices.usd_per_h[i] <= options->bid, fault);
    trace->length_s = spotnik_prices_length_s(&prices);
    trace->on_off = true;
    spotnik_prices_free(&prices);
    return rc;
}

static int table_read(const char *name, const char *bytes, size_t size,
                      const struct options *options, struct spotnik_trace *trace,
                      struct spotnik_fault *fault)
{
    struct spotnik_table *table;

    if (spotnik_table_parse(name, bytes, size, &table, fault))
        return -1;
    int rc = spotnik_table_find(table, "spot_usd_per_h") >= 0
                 ? prices_read(table, options, trace, fault)
             : spotnik_table_columns(table) == 2
                 ? counts_read(table, options, trace, fault)
                 : spotnik_fault_set(
                       fault,
                       "%s: not a trace: lines milliseconds,add|remove,node or time,count, a price "
                       "history (timestamp_utc,spot_usd_per_h) or availability as JSON",
                       name);
    spotnik_table_free(table);
    return rc;
}

/* The first line that is neither blank nor a remark has add or remove in its second column. */
static bool events_look_like(const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        const char *comma = memchr(bytes + at, ',', length);
        if (length && bytes[at] != '#' && bytes[at] != '\r') {
            size_t left = comma ? length - (size_t)(comma - bytes - at) : 0;
            for (; left > 1 && (comma[1] == ' ' || comma[1] == '\t'); left--)
                comma++;
            return left > 3
                   && (!memcmp(comma + 1, "add", 3)
                       || (left > 6 && !memcmp(comma + 1, "remove", 6)));
        }
        at += length + 1;
    }
    return true; /* nothing at all: the reader of events says so best */
}

static void events_drop(struct spotnik_trace *trace)
{
    for (uint32_t i = 0; i < trace->name_count; i++)
        free(trace->names[i]);
    free(trace->names);
    free(trace->events);
    trace->names = NULL;
    trace->events = NULL;
    trace->event_count = trace->name_count = 0;
}

static void options_apply(const struct options *options, struct spotnik_trace *trace)
{
    struct spotnik_prng prng;

    if (!isnan(options->nodes) && trace->highest) {
        for (size_t i = 0; i < trace->count; i++)
            trace->machines[i] =
                (unsigned)lround(trace->machines[i] * options->nodes / trace->highest);
        trace->highest = (unsigned)options->nodes;
        trace->on_off = false;
    }
    trace->start_given = !isnan(options->start_s) || !isnan(options->seed);
    trace->start_s = isnan(options->start_s) ? 0 : fmod(options->start_s, fmax(trace->length_s, 1));
    if (!isnan(options->seed)) {
        spotnik_prng_seed(&prng, (uint64_t)options->seed);
        trace->start_s = (double)(spotnik_prng_next(&prng) >> 11) * 0x1p-53 * trace->length_s;
    }
    if (!isnan(options->nodes) || trace->start_s > 0)
        events_drop(trace);
}

/* `wanted`: machines are to come from it, so it must have some. */
static int parse(const char *name, const char *bytes, size_t size, const char *text, bool wanted,
                 struct spotnik_trace *trace_out, struct spotnik_fault *fault)
{
    struct spotnik_trace trace = { 0 };
    struct options options;
    size_t at = strspn(bytes, " \t\r\n");

    if (options_read(name, text, &options, fault))
        return -1;
    int rc = bytes[at] == '{' || bytes[at] == '['
                 ? json_read(name, bytes, size, &options, &trace, fault)
             : events_look_like(bytes, size)
                 ? spotnik_trace_events_read(name, bytes, size, &trace, fault)
                 : table_read(name, bytes, size, &options, &trace, fault);
    if (!rc && wanted && !trace.highest)
        rc = spotnik_fault_set(fault, "%s: the trace never has a machine", name);
    if (!rc && trace.length_s > LENGTH_MAX_S)
        rc = spotnik_fault_set(
            fault, "%s: the trace lasts %.3g years; is its unit of time right? (unit=h|m|s|ms)",
            name, trace.length_s / YEAR_S);
    if (rc) {
        spotnik_trace_free(&trace);
        return -1;
    }
    options_apply(&options, &trace);
    *trace_out = trace;
    return 0;
}

int spotnik_trace_parse(const char *name, const char *bytes, size_t size, const char *text,
                        struct spotnik_trace *trace_out, struct spotnik_fault *fault)
{
    return parse(name, bytes, size, text, true, trace_out, fault);
}

static int load(const char *spec, bool wanted, struct spotnik_trace *trace_out,
                struct spotnik_fault *fault)
{
    char path[1024], *bytes;
    const char *options = strchr(spec, ',');
    size_t size;

    if ((size_t)snprintf(path, sizeof(path), "%s", spec) >= sizeof(path))
        return spotnik_fault_set(fault, "'%s': the name is too long", spec);
    if (options)
        path[options++ - spec] = '\0';
    if (spotnik_file_read(path, &bytes, &size, fault))
        return -1;
    int rc = parse(path, bytes, size, options, wanted, trace_out, fault);
    free(bytes);
    return rc;
}

int spotnik_trace_load(const char *spec, struct spotnik_trace *trace_out,
                       struct spotnik_fault *fault)
{
    return load(spec, true, trace_out, fault);
}

int spotnik_trace_load_seen(const char *spec, struct spotnik_trace *trace_out,
                            struct spotnik_fault *fault)
{
    return load(spec, false, trace_out, fault);
}

void spotnik_trace_free(struct spotnik_trace *trace)
{
    events_drop(trace);
    free(trace->at_s);
    free(trace->machines);
    *trace = (struct spotnik_trace){ 0 };
}

unsigned spotnik_trace_at(const struct spotnik_trace *trace, double at_s, double *stays_s_out)
{
    size_t low = 0, high = trace->count;

    if (!(trace->length_s > 0)) {
        *stays_s_out = INFINITY;
        return trace->machines[trace->count - 1];
    }
    at_s = fmod(at_s, trace->length_s);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (trace->at_s[middle] <= at_s)
            low = middle;
        else
            high = middle;
    }
    *stays_s_out = (low + 1 < trace->count ? trace->at_s[low + 1] : trace->length_s) - at_s;
    return trace->machines[low];
}

void spotnik_trace_scale(struct spotnik_trace *trace, double factor)
{
    for (size_t i = 0; i < trace->count; i++)
        trace->at_s[i] *= factor;
    trace->length_s *= factor;
    trace->start_s *= factor;
}

/* The nodes that are there, as a list of numbers. */
struct crowd {
    uint32_t *node;
    unsigned count;
    uint32_t next;
};

static int event_put(struct spotnik_trace *trace, size_t *capacity, double at_s, bool add,
                     uint32_t node)
{
    if (trace->event_count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 256;
        struct spotnik_trace_event *grown = realloc(trace->events, *capacity * sizeof(*grown));
        if (!grown)
            return -1;
        trace->events = grown;
    }
    trace->events[trace->event_count++] =
        (struct spotnik_trace_event){ (uint64_t)llround(at_s * 1e3), add, node };
    return 0;
}

static int crowd_follow(struct spotnik_trace *trace, struct crowd *crowd, size_t *capacity,
                        double at_s, unsigned machines, struct spotnik_prng *prng)
{
    while (crowd->count < machines) {
        if (event_put(trace, capacity, at_s, true, crowd->next))
            return -1;
        crowd->node[crowd->count++] = crowd->next++;
    }
    while (crowd->count > machines) {
        unsigned gone = (unsigned)spotnik_prng_below(prng, crowd->count);
        if (event_put(trace, capacity, at_s, false, crowd->node[gone]))
            return -1;
        crowd->node[gone] = crowd->node[--crowd->count];
    }
    return 0;
}

static int names_make(struct spotnik_trace *trace, uint32_t count)
{
    trace->names = calloc(count + 1, sizeof(*trace->names));
    for (uint32_t i = 0; trace->names && i < count; i++) {
        char name[24];
        snprintf(name, sizeof(name), "%u", i + 1);
        if (!(trace->names[i] = strdup(name)))
            return -1;
        trace->name_count = i + 1;
    }
    return trace->names ? 0 : -1;
}

int spotnik_trace_events_make(struct spotnik_trace *trace, uint64_t seed,
                              struct spotnik_fault *fault)
{
    struct crowd crowd = { .node = calloc(trace->highest + 1, sizeof(*crowd.node)) };
    struct spotnik_prng prng;
    size_t capacity = 0;
    double stays_s;
    int rc = crowd.node ? 0 : -1;

    events_drop(trace);
    spotnik_prng_seed(&prng, seed);
    for (double at_s = 0; !rc && at_s < trace->length_s - 1e-9; at_s += fmax(stays_s, 1e-6)) {
        unsigned machines = spotnik_trace_at(trace, trace->start_s + at_s, &stays_s);
        rc = crowd_follow(trace, &crowd, &capacity, at_s, machines, &prng);
    }
    if (!rc)
        rc = names_make(trace, crowd.next);
    free(crowd.node);
    return rc ? spotnik_fault_set(fault, "out of memory for the trace") : 0;
}
