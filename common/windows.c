/* SPDX-License-Identifier: Apache-2.0 */
/* Reads availability traces. An empty trace, a tick of no length and a letter other than 0 and 1
 * are refused with the place where they are. */
#include "common/windows.h"
#include "common/jsonfile.h"
#include "common/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int spotnik_windows_reserve(struct spotnik_windows *windows, size_t count, size_t ticks,
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
    if (spotnik_windows_reserve(windows, json_array_size(list), total, fault))
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

    if (spotnik_windows_reserve(windows, 1, json_array_size(list), fault))
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

void spotnik_windows_free(struct spotnik_windows *windows)
{
    free(windows->windows);
    free(windows->storage);
    windows->windows = NULL;
    windows->storage = NULL;
    windows->count = 0;
}
