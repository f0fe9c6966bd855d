/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a trace, strictly: a trace that is misread would make a nice but wrong experiment. */
#include "churn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 100000

struct reader {
    struct churn *churn;
    size_t capacity;
    unsigned line;
    char *error;
    size_t error_size;
    bool *present; /* per node */
};

static bool wrong(struct reader *reader, const char *what)
{
    snprintf(reader->error, reader->error_size, "line %u: %s", reader->line, what);
    return false;
}

static bool find_node(struct reader *reader, const char *name, size_t length, uint32_t *ret)
{
    struct churn *churn = reader->churn;
    for (uint32_t i = 0; i < churn->node_count; i++)
        if (strlen(churn->node[i]) == length && !memcmp(churn->node[i], name, length)) {
            *ret = i;
            return true;
        }
    if (churn->node_count == NODES_MAX)
        return wrong(reader, "more nodes than this program can hold");
    char **node = realloc(churn->node, (churn->node_count + 1) * sizeof(*node));
    if (node)
        churn->node = node;
    bool *present = realloc(reader->present, (churn->node_count + 1) * sizeof(*present));
    if (present)
        reader->present = present;
    char *copy = strndup(name, length);
    if (!node || !present || !copy) {
        free(copy);
        return wrong(reader, "out of memory");
    }
    present[churn->node_count] = false;
    churn->node[churn->node_count] = copy;
    *ret = churn->node_count++;
    return true;
}

static bool append(struct reader *reader, struct churn_event event)
{
    struct churn *churn = reader->churn;
    if (churn->event_count && event.at_ms < churn->event[churn->event_count - 1].at_ms)
        return wrong(reader, "time runs backwards; sort the file by its first column");
    if (reader->present[event.node] == event.add)
        return wrong(reader, event.add ? "this node was added already" : "this node is not there to be removed");
    if (churn->event_count == reader->capacity) {
        size_t capacity = reader->capacity ? 2 * reader->capacity : 64;
        struct churn_event *grown = realloc(churn->event, capacity * sizeof(*grown));
        if (!grown)
            return wrong(reader, "out of memory");
        churn->event = grown;
        reader->capacity = capacity;
    }
    reader->present[event.node] = event.add;
    churn->event[churn->event_count++] = event;
    return true;
}

/* One line without its end: "milliseconds,add|remove,node". */
static bool read_line(struct reader *reader, const char *line, size_t length)
{
    struct churn_event event = {0};
    size_t at = 0;

    if (length && line[length - 1] == '\r')
        length--;
    if (!length || line[0] == '#')
        return true;
    while (at < length && line[at] >= '0' && line[at] <= '9' && at < 18)
        event.at_ms = event.at_ms * 10 + (uint64_t)(line[at++] - '0');
    if (!at || at == length || line[at] != ',')
        return wrong(reader, "expected milliseconds,add|remove,node");
    line += at + 1;
    length -= at + 1;
    const char *comma = memchr(line, ',', length);
    size_t verb = comma ? (size_t)(comma - line) : length;
    event.add = verb == 3 && !memcmp(line, "add", 3);
    if (!comma || (!event.add && !(verb == 6 && !memcmp(line, "remove", 6))))
        return wrong(reader, "the second column must be add or remove");
    if (verb + 1 == length || memchr(comma + 1, ',', length - verb - 1) || memchr(comma + 1, 0, length - verb - 1))
        return wrong(reader, "the third column must be the name of a node");
    return find_node(reader, comma + 1, length - verb - 1, &event.node) && append(reader, event);
}

bool churn_parse(const char *text, size_t size, struct churn *ret, char *error, size_t error_size)
{
    struct churn churn = {0};
    struct reader reader = {.churn = &churn, .error = error, .error_size = error_size};
    bool good = true;

    for (size_t at = 0; good && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        reader.line++;
        good = read_line(&reader, text + at, length);
        at += length + 1;
    }
    if (good && !churn.event_count)
        good = wrong(&reader, "the trace holds no event");
    free(reader.present);
    if (!good) {
        churn_free(&churn);
        return false;
    }
    *ret = churn;
    return true;
}

bool churn_read(const char *path, struct churn *ret, char *error, size_t error_size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, capacity = 0, got;

    if (!file) {
        snprintf(error, error_size, "%s", strerror(errno));
        return false;
    }
    do {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *grown = realloc(text, capacity);
            if (!grown)
                break;
            text = grown;
        }
        got = fread(text + size, 1, capacity - size, file);
        size += got;
    } while (got);
    bool whole = feof(file) && !ferror(file);
    fclose(file);
    if (!whole)
        snprintf(error, error_size, "the file could not be read to its end");
    bool good = whole && churn_parse(text, size, ret, error, error_size);
    free(text);
    return good;
}

void churn_free(struct churn *churn)
{
    for (uint32_t i = 0; i < churn->node_count; i++)
        free(churn->node[i]);
    free(churn->node);
    free(churn->event);
    *churn = (struct churn){0};
}
