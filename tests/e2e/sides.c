/* SPDX-License-Identifier: Apache-2.0 */
#include "sides.h"

#include <inttypes.h>
#include <string.h>

#include "probe.h"

struct sides sides;

bool sides_those_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (sides.among[i]
            && (cluster->worker[i].size != sides.size || cluster->worker[i].step <= sides.step))
            return false;
    return true;
}

static void swap_sides(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        sides.among[i] = !sides.among[i];
}

/* An exact tie goes to whoever takes the witness first (docs/design/0014-ties.md). From now
 * on `among` says which half that was. */
bool sides_one_half_goes_on(struct cluster *cluster)
{
    for (int side = 0; side < 2; side++) {
        if (sides_those_go_on(cluster))
            return true;
        swap_sides(cluster);
    }
    return false;
}

bool sides_all_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].step <= sides.step)
            return false;
    return cluster_is_whole(cluster);
}

/* Parked, or excluded and on the way in again: two cables are pulled one after the other, and a
 * slow machine may make a view in between, which the second to be cut off tells the first. */
bool sides_others_are_parked(struct cluster *cluster)
{
    char text[16384];

    for (uint32_t i = 0; i < cluster->places; i++) {
        struct spotnik_member member = probe_member(cluster, i);

        if (sides.among[i])
            continue;
        if (!probe_status(cluster, i, &member, text, sizeof text)
            || (!strstr(text, "\"parked\":true") && !strstr(text, "\"joining\":true")))
            return false;
        sides.told_step[i] = probe_step(text, cluster->worker[i].step);
    }
    return true;
}

/* Since they said that they were parked. Lines that their processes had not written by then are no
 * commits of a parked member. */
void sides_parked_made_none(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (!sides.among[i] && cluster->worker[i].step > sides.told_step[i])
            cluster_fail(cluster,
                         "w%u was parked after step %" PRIu64 ", and committed step %" PRIu64,
                         cluster->worker[i].number, sides.told_step[i], cluster->worker[i].step);
}

void sides_set(struct cluster *cluster, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        sides.among[i] = i != a && i != b;
}
