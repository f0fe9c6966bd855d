/* SPDX-License-Identifier: Apache-2.0 */
/* How many machines a place gave, over time: the one reader of traces, for plan, backtest, run
 * --churn and sim. The format is recognised by the first line (docs/reference/traces.md has each,
 * with a sample):
 *   milliseconds,add|remove,name        machines that come and go; the names mean nothing beyond
 *                                       the file
 *   time,count                          counts that change; a header may name the unit (hours,
 *                                       seconds, ms)
 *   {"metadata":{"gap_seconds":g},"data":[n,...]}                             counts per tick
 *   {"metadata_of_last":{...},"traces_1_means_UNAVAILABLE":["0011...",...]}   windows of one machine
 *   timestamp_utc,spot_usd_per_h        a price history: machines are there while the price is at
 *                                       most the bid
 * A file name may be followed by ",key=value" options:
 *   nodes=N        the highest count stands for N machines
 *   start=2h       begin there; what was before follows the end
 *   start=random   plan and backtest begin every run elsewhere (their default); run takes
 *                  random:SEED
 *   unit=h|m|s|ms  of the first column
 *   bid=USD        of a price history
 *   window=N       of a file with several */
#ifndef SPOTNIK_COMMON_TRACE_H
#define SPOTNIK_COMMON_TRACE_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event of a file of events, as the file has it. */
struct spotnik_trace_event {
    uint64_t at_ms;
    bool add;
    uint32_t node; /* index in order of first appearance */
};

/* machines[i] are there from at_s[i] to at_s[i + 1]; at_s[0] is 0. Beyond length_s the trace begins
 * again. */
struct spotnik_trace {
    double *at_s;
    unsigned *machines;
    size_t count, capacity;
    double length_s, start_s; /* start_s: what `start=` said */
    unsigned highest;
    bool on_off;      /* says whether machines can be had, not how many */
    bool start_given; /* every run starts at start_s */
    /* of a file of events that no option has changed; else null */
    struct spotnik_trace_event *events;
    size_t event_count;
    char **names;
    uint32_t name_count;
};

/* `spec` is a path with options. */
int spotnik_trace_load(const char *spec, struct spotnik_trace *trace_out,
                       struct spotnik_fault *fault);
/* What was seen of a place: that there never was a machine is worth knowing, and no fault. */
int spotnik_trace_load_seen(const char *spec, struct spotnik_trace *trace_out,
                            struct spotnik_fault *fault);
/* spotnik_trace_load on bytes; `options` is what follows the first comma of a spec, or null.
 * `bytes[size]` is 0. */
int spotnik_trace_parse(const char *name, const char *bytes, size_t size, const char *options,
                        struct spotnik_trace *trace_out, struct spotnik_fault *fault);
void spotnik_trace_free(struct spotnik_trace *trace);

/* Machines at `at_s` (any time from 0 on), and for how long it stays so. */
unsigned spotnik_trace_at(const struct spotnik_trace *trace, double at_s, double *stays_s_out);

/* Stretches time by `factor`. */
void spotnik_trace_scale(struct spotnik_trace *trace, double factor);

/* Makes events with names of their own ("1", "2", ...) from counts: what goes is drawn with
 * `seed`. */
int spotnik_trace_events_make(struct spotnik_trace *trace, uint64_t seed,
                              struct spotnik_fault *fault);

/* For the readers of single formats. */
int spotnik_trace_append(struct spotnik_trace *trace, double at_s, unsigned machines,
                         struct spotnik_fault *fault);
int spotnik_trace_events_read(const char *name, const char *bytes, size_t size,
                              struct spotnik_trace *trace, struct spotnik_fault *fault);

#endif
