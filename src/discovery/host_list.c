/* SPDX-License-Identifier: Apache-2.0 */
/* Host lists. See host_list.h. */
#include "discovery/host_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define RANGE_MAX 100000

struct output {
    char (*name)[SPOTNIK_HOST_NAME];
    uint32_t max, count;
};

static int wrong(const char *what, const char *list)
{
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                "host list \"%.100s\": %s; write n[01-03,7],m1", list, what);
}

static int emit(struct output *output, const char *name)
{
    if (name[0] == '\0')
        return wrong("an empty name", name);
    if (output->count < output->max)
        memcpy(output->name[output->count], name, strlen(name) + 1);
    output->count++;
    return 0;
}

static int expand(struct output *output, const char *done, const char *rest);

/* One number of a bracket, with leading zeros up to `width`, and whatever follows. */
static int expand_number(struct output *output, const char *done, unsigned long number, int width,
                         const char *rest)
{
    char longer[SPOTNIK_HOST_NAME];
    if (snprintf(longer, sizeof longer, "%s%0*lu", done, width, number) >= (int)sizeof longer)
        return wrong("a name is too long", done);
    return expand(output, longer, rest);
}

/* "01-03" or "7", up to `end`. */
static int expand_range(struct output *output, const char *done, const char *range, const char *end,
                        const char *rest)
{
    char *after;
    unsigned long first = strtoul(range, &after, 10), last = first;
    int width = (int)(after - range);
    if (width == 0)
        return wrong("no number in brackets", range);
    if (*after == '-') {
        const char *second = after + 1;
        last = strtoul(second, &after, 10);
        if (after == second)
            return wrong("a range without its end", range);
    }
    if (after != end || last < first)
        return wrong("a range that cannot be read", range);
    if (last - first >= RANGE_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT, "host list: a range of more than %d names",
                                    RANGE_MAX);
    int rc = 0;
    for (unsigned long number = first; rc == 0 && number <= last; number++)
        rc = expand_number(output, done, number, width, rest);
    return rc;
}

/* `done` is a beginning without brackets, `rest` what is to be expanded behind it. */
static int expand(struct output *output, const char *done, const char *rest)
{
    char longer[SPOTNIK_HOST_NAME];
    size_t plain = strcspn(rest, "[");
    if (snprintf(longer, sizeof longer, "%s%.*s", done, (int)plain, rest) >= (int)sizeof longer)
        return wrong("a name is too long", rest);
    if (strchr(longer, ']') != NULL)
        return wrong("] without [", rest);
    if (rest[plain] == '\0')
        return emit(output, longer);
    const char *close = strchr(rest + plain, ']');
    if (close == NULL)
        return wrong("[ without ]", rest);
    int rc = 0;
    for (const char *range = rest + plain + 1; rc == 0 && range <= close;) {
        const char *end = range + strcspn(range, ",]");
        rc = expand_range(output, longer, range, end, close + 1);
        range = end + 1;
    }
    return rc;
}

int spotnik_host_list_expand(const char *list, char (*ret)[SPOTNIK_HOST_NAME], uint32_t max,
                             uint32_t *ret_count)
{
    struct output output = { .name = ret, .max = max };
    int rc = 0;
    for (const char *at = list; rc == 0 && *at != '\0';) {
        char one[4096];
        size_t length = 0;
        for (bool inside = false; at[length] != '\0' && (inside || at[length] != ','); length++)
            inside = at[length] == '[' || (inside && at[length] != ']');
        if (length >= sizeof one)
            return wrong("an entry is too long", at);
        memcpy(one, at, length);
        one[length] = '\0';
        rc = expand(&output, "", one);
        at += length + (at[length] == ',');
    }
    *ret_count = output.count;
    return rc;
}
