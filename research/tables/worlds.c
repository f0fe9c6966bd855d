/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds.h"
#include "windows_cut.h"

#include <math.h>
#include <stdlib.h>

static int place_load(const char *path, double length_s, double stride_s,
                      struct spotnik_windows *windows_out, bool *cut_out,
                      struct spotnik_fault *fault)
{
    struct spotnik_windows raw;

    if (spotnik_windows_load(path, &raw, fault))
        return -1;
    if (raw.count > 1 || (double)raw.windows[0].ticks * raw.tick_s < length_s + stride_s) {
        *windows_out = raw;
        return 0; /* not cut */
    }
    *cut_out = true;
    int rc = spotnik_windows_cut(&raw, length_s, stride_s, windows_out, fault);
    spotnik_windows_free(&raw);
    return rc;
}

int spotnik_worlds_load(char const *const *paths, size_t count, double length_s, double stride_s,
                        struct spotnik_worlds *worlds_out, struct spotnik_fault *fault)
{
    *worlds_out = (struct spotnik_worlds){ .place_count = 0 };
    for (size_t i = 0; i < count; i++) {
        struct spotnik_windows *windows = &worlds_out->places[i];
        if (place_load(paths[i], length_s, stride_s, windows, &worlds_out->cut, fault))
            return -1;
        worlds_out->place_count++;
        if (!i || windows->count < worlds_out->count)
            worlds_out->count = windows->count;
        worlds_out->tick_s = worlds_out->places[0].tick_s;
        if (fabs(windows->tick_s - worlds_out->tick_s) > 1e-6)
            return spotnik_fault_set(fault,
                                     "%s has a value every %g s, %s one every %g s; places need "
                                     "the same, so convert one",
                                     paths[i], windows->tick_s, paths[0], worlds_out->tick_s);
    }
    return 0;
}

void spotnik_worlds_at(const struct spotnik_worlds *worlds, size_t i,
                       struct spotnik_window *places_out)
{
    for (size_t place = 0; place < worlds->place_count; place++)
        places_out[place] = worlds->places[place].windows[i];
}

struct spotnik_window spotnik_window_any(const struct spotnik_window *places, size_t count)
{
    size_t ticks = places[0].ticks;

    for (size_t i = 1; i < count; i++)
        ticks = places[i].ticks < ticks ? places[i].ticks : ticks;
    uint8_t *machines = calloc(ticks, 1);
    for (size_t i = 0; machines && i < count; i++)
        for (size_t tick = 0; tick < ticks; tick++)
            machines[tick] |= places[i].machines[tick] > 0;
    return (struct spotnik_window){ machines, machines ? ticks : 0 };
}

void spotnik_worlds_free(struct spotnik_worlds *worlds)
{
    for (size_t i = 0; i < worlds->place_count; i++)
        spotnik_windows_free(&worlds->places[i]);
    worlds->place_count = 0;
}
