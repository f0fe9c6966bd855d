/* SPDX-License-Identifier: Apache-2.0 */
/* Learns hazards from availability traces by counting: ends / hours at risk. */
#include "hazards.h"

#include <math.h>
#include <string.h>

const double spotnik_hazard_age_h[SPOTNIK_HAZARD_BUCKETS - 1] = { 0.25, 0.6, 1.25, 3, 8 };

size_t spotnik_hazard_bucket(double age_s)
{
    size_t bucket = 0;

    while (bucket < SPOTNIK_HAZARD_BUCKETS - 1 && age_s / 3600 >= spotnik_hazard_age_h[bucket])
        bucket++;
    return bucket;
}

struct exposure {
    double ends[2][SPOTNIK_HAZARD_BUCKETS], hours[2][SPOTNIK_HAZARD_BUCKETS];
};

/* One window; its first and last stretches have no known start and end: the first is left out, the
 * last is censored. */
static void expose(const struct spotnik_window *window, double tick_s, struct exposure *seen)
{
    double age_s = -1;

    for (size_t i = 0; i < window->ticks; i++) {
        bool up = window->machines[i] > 0, known = age_s >= 0;
        bool ends = i + 1 < window->ticks && (window->machines[i + 1] > 0) != up;
        if (known) {
            size_t bucket = spotnik_hazard_bucket(age_s);
            seen->hours[up][bucket] += tick_s / 3600;
            seen->ends[up][bucket] += ends;
            age_s += tick_s;
        }
        if (ends)
            age_s = 0;
    }
}

void spotnik_hazard_table_learn(const struct spotnik_windows *windows,
                                struct spotnik_hazard_table *table_out)
{
    struct exposure seen = { 0 };

    for (size_t i = 0; i < windows->count; i++)
        expose(&windows->windows[i], windows->tick_s, &seen);
    for (int up = 0; up < 2; up++) {
        double ends = 0.5, hours = 1;
        for (size_t b = 0; b < SPOTNIK_HAZARD_BUCKETS; b++) {
            ends += seen.ends[up][b];
            hours += seen.hours[up][b];
        }
        double mean = ends / hours;
        for (size_t b = 0; b < SPOTNIK_HAZARD_BUCKETS; b++)
            table_out->end_per_h[up][b] = (seen.ends[up][b] + 1) / (seen.hours[up][b] + 1 / mean);
    }
}
