/* SPDX-License-Identifier: Apache-2.0 */
/* Traces for `spotnik run --churn`, by the planner's one reader: files of events as they are,
 * everything else as events that follow the counts. */
#include "churn.h"

#include "common/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 1 /* of the choice of leavers when the count falls */

/* Takes events and names out of the trace. */
static bool take(struct spotnik_trace *trace, struct churn *ret, struct spotnik_fault *fault)
{
    if (!trace->events && spotnik_trace_events_make(trace, SEED, fault)) {
        spotnik_trace_free(trace);
        return false;
    }
    struct churn churn = { .event_count = trace->event_count,
                           .node = trace->names,
                           .node_count = trace->name_count };
    churn.event = malloc((churn.event_count + 1) * sizeof(*churn.event));
    for (size_t i = 0; churn.event && i < churn.event_count; i++) {
        const struct spotnik_trace_event *event = &trace->events[i];
        churn.event[i] = (struct churn_event){ event->at_ms, event->add, event->node };
    }
    if (churn.event) {
        trace->names = NULL;
        trace->name_count = 0;
    }
    spotnik_trace_free(trace);
    *ret = churn;
    return churn.event || spotnik_fault_set(fault, "out of memory") == 0;
}

static bool give(bool good, const char *name, const struct spotnik_fault *fault, char *error,
                 size_t error_size)
{
    size_t length = strlen(name);

    if (!good) { /* the caller names the file */
        bool named = !strncmp(fault->text, name, length) && !strncmp(fault->text + length, ": ", 2);
        snprintf(error, error_size, "%s", fault->text + (named ? length + 2 : 0));
    }
    return good;
}

bool churn_parse(const char *text, size_t size, struct churn *ret, char *error, size_t error_size)
{
    char *copy = malloc(size + 1);
    struct spotnik_trace trace;
    struct spotnik_fault fault = { "out of memory" };

    if (copy) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    bool good = copy && !spotnik_trace_parse("trace", copy, size, NULL, &trace, &fault)
                && take(&trace, ret, &fault);
    free(copy);
    return give(good, "trace", &fault, error, error_size);
}

bool churn_read(const char *path, struct churn *ret, char *error, size_t error_size)
{
    struct spotnik_trace trace;
    struct spotnik_fault fault;
    char file[1024];

    snprintf(file, sizeof(file), "%.*s", (int)strcspn(path, ","), path);
    bool good = !spotnik_trace_load(path, &trace, &fault) && take(&trace, ret, &fault);
    return give(good, file, &fault, error, error_size);
}

void churn_free(struct churn *churn)
{
    for (uint32_t i = 0; i < churn->node_count; i++)
        free(churn->node[i]);
    free(churn->node);
    free(churn->event);
    *churn = (struct churn){ 0 };
}
