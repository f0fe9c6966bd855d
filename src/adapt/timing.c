/* SPDX-License-Identifier: Apache-2.0 */
/* Medians of blocks and their mean; the constants are those of normal noise. */
#include "adapt/timing.h"

#include <stdbool.h>

#include "base/assert.h"
#include "adapt/same_bits.h"

#define NOISE_HEARD 10   /* values that the noise is the mean of: it is followed, slowly */
#define ASTRAY 4.0       /* deviations of a median */
#define DIFFERENCE 1.128 /* mean difference of two values of deviation 1 */

/* Deviation of a block's median, from the difference of the two values that enclose it (of five:
 * the second and the fourth). So one very long step does not count as noise of the median. */
static const double enclosed[SPOTNIK_BATCH_BLOCK + 1] = { 0, 0, 0.627, 0.396, 0.919, 0.541 };

static void sort(double *x, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && x[k] < x[k - 1]; k--) {
            double smaller = x[k];
            x[k] = x[k - 1];
            x[k - 1] = smaller;
        }
}

static double distance(double a, double b)
{
    return a > b ? a - b : b - a;
}

static void noise_hear(struct spotnik_batch_timing *t, double noise)
{
    t->heard += t->heard < NOISE_HEARD;
    t->noise += (noise - t->noise) / t->heard;
}

/* What a block tells of noise: within it, and against the one before, whichever is more; steps that
 * follow each other are alike. */
static void noise_learn(struct spotnik_batch_timing *t, uint32_t block, double median_s,
                        double within)
{
    double between = t->last_s > 0 ? distance(median_s, t->last_s) / DIFFERENCE / median_s : 0;

    if (block > 1 || t->last_s > 0)
        noise_hear(t, between > within ? between : within);
}

static void begin_with(struct spotnik_batch_timing *t, double time_s)
{
    t->time_s = time_s;
    t->doubt2 = 1;
    t->astray = 0;
}

/* Mean of all medians at first, then with `smoothing` for the newest. */
static void take(struct spotnik_batch_timing *t, double smoothing, double median_s)
{
    double gain = t->doubt2 / (t->doubt2 + 1);

    if (gain < smoothing)
        gain = smoothing;
    t->time_s += gain * (median_s - t->time_s);
    t->doubt2 = (1 - gain) * (1 - gain) * t->doubt2 + gain * gain;
    t->astray = 0;
}

static void block_end(struct spotnik_batch_timing *t, const struct spotnik_batch_pace *pace)
{
    uint32_t n = t->filled, outer = n > 3 ? 1 : 0;

    sort(t->block, n);
    double median_s = (t->block[(n - 1) / 2] + t->block[n / 2]) / 2;
    double within = enclosed[n] * (t->block[n - 1 - outer] - t->block[outer]) / median_s;
    double away = (median_s - t->time_s) / t->time_s, limit = pace->band + ASTRAY * t->noise;
    int32_t side = away > 0 ? 1 : -1;

    t->filled = 0;
    if (t->time_s > 0 && (away > limit || -away > limit)) {
        if (t->astray == side)
            begin_with(t, median_s);
        else
            t->astray = side;
    } else {
        noise_learn(t, n, median_s, within);
        if (t->time_s > 0)
            take(t, pace->smoothing, median_s);
        else
            begin_with(t, median_s);
    }
    t->last_s = t->astray ? t->last_s : median_s;
}

void spotnik_batch_timing_add(struct spotnik_batch_timing *t, const struct spotnik_batch_pace *pace,
                              double time_s)
{
    SPOTNIK_ASSERT(time_s > 0 && pace->block >= 1 && pace->block <= SPOTNIK_BATCH_BLOCK);
    t->block[t->filled++] = time_s;
    if (t->filled >= pace->block)
        block_end(t, pace);
}

void spotnik_batch_timing_restart(struct spotnik_batch_timing *t)
{
    t->time_s = t->doubt2 = t->last_s = 0;
    t->filled = 0;
    t->astray = 0;
}
