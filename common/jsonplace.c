/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a JSON file a value stands, for faults about values that are JSON but make no sense.
 * jansson knows lines of broken JSON only. So once something is wrong, this file reads the text
 * again. The container is the first object or list in the text that equals it; its members are
 * counted off. An equal one further up has the same fault. What does not come from a file of that
 * name, such as a profile kept in a database, has no place. */
#include "common/jsonfile.h"
#include "common/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    const char *bytes;
    size_t size;
};

/* Just behind the string that begins at `at`. */
static size_t string_end(struct text text, size_t at)
{
    for (at++; at < text.size && text.bytes[at] != '"'; at++)
        at += text.bytes[at] == '\\';
    return at + 1;
}

/* The next byte, from `at`, that belongs to a value, a key or the end of a container. */
static size_t token(struct text text, size_t at)
{
    while (at < text.size && strchr(" \t\r\n,:", text.bytes[at]))
        at++;
    return at;
}

/* Just behind the value that begins at `at`. */
static size_t value_end(struct text text, size_t at)
{
    size_t depth = 0;

    do {
        char byte = text.bytes[at];
        depth += byte == '{' || byte == '[';
        depth -= byte == '}' || byte == ']';
        at = byte == '"' ? string_end(text, at) : at + 1;
    } while (at < text.size && (depth || !strchr(" \t\r\n,:]}", text.bytes[at])));
    return at;
}

static bool equals(struct text text, size_t at, const json_t *container)
{
    json_t *here = json_loadb(text.bytes + at, text.size - at, JSON_DISABLE_EOF_CHECK, NULL);
    bool same = here && json_equal(here, container);

    json_decref(here);
    return same;
}

/* text.size: there is none. */
static size_t container_find(struct text text, const json_t *container)
{
    size_t at = 0;

    while (at < text.size) {
        if ((text.bytes[at] == '{' || text.bytes[at] == '[') && equals(text, at, container))
            return at;
        at = text.bytes[at] == '"' ? string_end(text, at) : at + 1;
    }
    return text.size;
}

/* The value under `key`, or the index-th one of a list; the container itself when it has none
 * such. */
static size_t member_find(struct text text, size_t container, const char *key, size_t index)
{
    size_t length = key ? strlen(key) : 0, at = token(text, container + 1);

    for (size_t i = 0; at < text.size && text.bytes[at] != '}' && text.bytes[at] != ']'; i++) {
        size_t name = at;
        if (key)
            at = token(text, string_end(text, name));
        if (at >= text.size)
            break;
        if (key ? !strncmp(text.bytes + name + 1, key, length)
                      && text.bytes[name + 1 + length] == '"'
                : i == index)
            return at;
        at = token(text, value_end(text, at));
    }
    return container;
}

static void place_write(const char *path, struct text text, size_t at, char *place, size_t size)
{
    size_t line = 1, begin = 0;

    for (size_t i = 0; i < at; i++)
        if (text.bytes[i] == '\n') {
            line++;
            begin = i + 1;
        }
    snprintf(place, size, "%s:%zu:%zu", path, line, at - begin + 1);
}

static void place_find(const char *path, const json_t *container, const char *key, size_t index,
                       char *place, size_t size)
{
    char *bytes;
    struct text text;

    snprintf(place, size, "%s", path);
    if (spotnik_file_read(path, &bytes, &text.size, NULL))
        return;
    text.bytes = bytes;
    size_t at = container_find(text, container);
    if (at < text.size)
        place_write(path, text, member_find(text, at, key, index), place, size);
    free(bytes);
}

int spotnik_json_fault(struct spotnik_fault *fault, const char *path, const json_t *container,
                       const char *key, size_t index, const char *format, ...)
{
    char place[sizeof(fault->text) / 2], what[sizeof(fault->text) / 2];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    place_find(path, container, key, index, place, sizeof(place));
    return spotnik_fault_set(fault, "%s: %s", place, what);
}
