/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "milliseconds,add|remove,name", strictly: a trace that is misread would make a nice
 * but wrong experiment. */
#include "common/trace.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX 100000
#define SLOTS (1u << 18) /* a power of two, and more than twice NODES_MAX */

struct reader {
    struct spotnik_trace *trace;
    struct spotnik_fault *fault;
    const char *name;
    size_t capacity, names_capacity;
    unsigned line, held;
    bool *present;   /* per node */
    uint32_t *slots; /* by the hash of a name: 1 + its node; 0: free */
};

static bool wrong(struct reader *reader, const char *what)
{
    spotnik_fault_fill(reader->fault, "%s: line %u: %s", reader->name, reader->line, what);
    return false;
}

/* The slot of this name, or the free one where it belongs (FNV-1a). */
static uint32_t *find_slot(const struct reader *reader, const char *name, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    for (;; hash++) {
        uint32_t *slot = &reader->slots[hash % SLOTS];
        const char *there = *slot ? reader->trace->names[*slot - 1] : NULL;
        if (!there || (!strncmp(there, name, length) && !there[length]))
            return slot;
    }
}

/* Room for one name more. */
static bool make_room(struct reader *reader)
{
    struct spotnik_trace *trace = reader->trace;

    if (trace->name_count < reader->names_capacity)
        return true;
    size_t capacity = reader->names_capacity ? 2 * reader->names_capacity : 64;
    char **names = realloc(trace->names, capacity * sizeof(*names));
    if (names)
        trace->names = names;
    bool *present = realloc(reader->present, capacity * sizeof(*present));
    if (present)
        reader->present = present;
    if (!names || !present)
        return false;
    reader->names_capacity = capacity;
    return true;
}

static bool add_node(struct reader *reader, const char *name, size_t length, uint32_t *ret)
{
    struct spotnik_trace *trace = reader->trace;

    if (trace->name_count == NODES_MAX)
        return wrong(reader, "more nodes than this program can hold");
    char *copy = make_room(reader) ? strndup(name, length) : NULL;
    if (!copy)
        return wrong(reader, "out of memory");
    reader->present[trace->name_count] = false;
    trace->names[trace->name_count] = copy;
    *ret = trace->name_count++;
    return true;
}

static bool find_node(struct reader *reader, const char *name, size_t length, uint32_t *ret)
{
    uint32_t *slot = find_slot(reader, name, length);

    if (*slot) {
        *ret = *slot - 1;
        return true;
    }
    if (!add_node(reader, name, length, ret))
        return false;
    *slot = *ret + 1;
    return true;
}

static bool append(struct reader *reader, struct spotnik_trace_event event)
{
    struct spotnik_trace *trace = reader->trace;

    if (trace->event_count && event.at_ms < trace->events[trace->event_count - 1].at_ms)
        return wrong(reader, "time runs backwards; sort the file by its first column");
    if (reader->present[event.node] == event.add)
        return wrong(reader, event.add ? "this node was added already"
                                       : "this node is not there to be removed");
    if (trace->event_count == reader->capacity) {
        size_t capacity = reader->capacity ? 2 * reader->capacity : 64;
        struct spotnik_trace_event *grown = realloc(trace->events, capacity * sizeof(*grown));
        if (!grown)
            return wrong(reader, "out of memory");
        trace->events = grown;
        reader->capacity = capacity;
    }
    reader->present[event.node] = event.add;
    reader->held += event.add ? 1 : (unsigned)-1;
    trace->events[trace->event_count++] = event;
    double at_s = (double)(event.at_ms - trace->events[0].at_ms) / 1e3;
    return !spotnik_trace_append(trace, at_s, reader->held, reader->fault);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without the blanks around it. */
static const char *trim(const char *text, size_t *length)
{
    while (*length && is_blank(text[*length - 1]))
        --*length;
    for (; *length && is_blank(*text); text++)
        --*length;
    return text;
}

/* A remark begins a line, or follows a blank: the '#' of a name is the name's. */
static size_t until_remark(const char *line, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (line[at] == '#' && (!at || is_blank(line[at - 1])))
            return at;
    return length;
}

/* One line without its end. */
static bool read_line(struct reader *reader, const char *line, size_t length)
{
    struct spotnik_trace_event event = { 0 };
    size_t at = 0;

    length = until_remark(line, length);
    line = trim(line, &length);
    if (!length)
        return true;
    while (at < length && line[at] >= '0' && line[at] <= '9' && at < 18)
        event.at_ms = event.at_ms * 10 + (uint64_t)(line[at++] - '0');
    size_t digits = at;
    while (at < length && is_blank(line[at]))
        at++;
    if (!digits || at == length || line[at] != ',')
        return wrong(reader, "expected milliseconds,add|remove,node");
    line += at + 1;
    length -= at + 1;
    const char *comma = memchr(line, ',', length);
    size_t verb_length = comma ? (size_t)(comma - line) : length;
    size_t name_length = comma ? length - verb_length - 1 : 0;
    const char *verb = trim(line, &verb_length), *name = comma ? trim(comma + 1, &name_length) : "";
    event.add = verb_length == 3 && !memcmp(verb, "add", 3);
    if (!comma || (!event.add && !(verb_length == 6 && !memcmp(verb, "remove", 6))))
        return wrong(reader, "the second column must be add or remove");
    if (!name_length || memchr(name, ',', name_length) || memchr(name, 0, name_length))
        return wrong(reader, "the third column must be the name of a node");
    return find_node(reader, name, name_length, &event.node) && append(reader, event);
}

int spotnik_trace_events_read(const char *name, const char *bytes, size_t size,
                              struct spotnik_trace *trace, struct spotnik_fault *fault)
{
    struct reader reader = { .trace = trace, .fault = fault, .name = name };
    reader.slots = calloc(SLOTS, sizeof(*reader.slots));
    bool good = reader.slots || wrong(&reader, "out of memory");

    for (size_t at = 0; good && at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        reader.line++;
        good = read_line(&reader, bytes + at, length);
        at += length + 1;
    }
    if (good && !trace->event_count)
        good = wrong(&reader, "the trace holds no event");
    free(reader.present);
    free(reader.slots);
    return good ? 0 : -1;
}
