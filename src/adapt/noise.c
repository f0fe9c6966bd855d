/* SPDX-License-Identifier: Apache-2.0 */
/* The estimators of noise.h. E|g_k|^2 = |G|^2 + S / b_k and E|g|^2 = |G|^2 + S / B are two
 * equations for |G|^2 and S. */
#include "adapt/noise.h"

#include "adapt/same_bits.h"

#define GAIN_LEAST 0.002 /* about a thousand steps */
#define ERROR2 0.01      /* the square of what is aimed at: a tenth */

void spotnik_noise_init(struct spotnik_noise *noise, double keep)
{
    struct spotnik_ewma empty = { .keep = keep };

    *noise = (struct spotnik_noise){ .signal = empty, .variance = empty, .keep = keep };
}

static bool says_something(const struct spotnik_noise_step *step)
{
    return step->members >= 2 && step->small_batch > 0 && step->batch > step->small_batch
           && step->members_norm2 < 1e300 && step->members_norm2 >= 0 && step->average_norm2 < 1e300
           && step->average_norm2 > 0;
}

/* A mean with the newest weight g is worth (2 - g) / g steps: about as many as are wanted. */
static double newest_weight(const struct spotnik_noise *noise)
{
    double signal = noise->signal.value, most = 1 - noise->keep, gain = most;
    double of_all = noise->weight2 / (noise->weight2 + 1); /* that of a plain mean of all so far */

    if (!noise->signal.known)
        return 1;
    if (!(signal > 0) || noise->spread2 * GAIN_LEAST > 2 * ERROR2 * signal * signal)
        gain = GAIN_LEAST;
    else if (noise->spread2 * most > 2 * ERROR2 * signal * signal)
        gain = 2 * ERROR2 * signal * signal / noise->spread2;
    gain = gain > most ? most : gain;
    return gain > of_all ? gain : of_all;
}

static void smooth(struct spotnik_noise *noise, double signal)
{
    double gain = newest_weight(noise), away = signal - noise->signal.value;

    noise->signal.keep = noise->variance.keep = 1 - gain;
    if (noise->signal.known)
        noise->spread2 = (1 - gain) * (noise->spread2 + gain * away * away);
    noise->weight2 = (1 - gain) * (1 - gain) * noise->weight2 + gain * gain;
}

bool spotnik_noise_observe(struct spotnik_noise *noise, const struct spotnik_noise_step *step)
{
    double big = step->batch, small = step->small_batch;

    if (!says_something(step))
        return false;
    double signal = (big * step->average_norm2 - small * step->members_norm2) / (big - small);

    smooth(noise, signal);
    spotnik_ewma_add(&noise->signal, signal);
    spotnik_ewma_add(&noise->variance,
                     (step->members_norm2 - step->average_norm2) / (1 / small - 1 / big));
    return true;
}

double spotnik_noise_scale(const struct spotnik_noise *noise)
{
    return noise->signal.known && noise->signal.value != 0
               ? noise->variance.value / noise->signal.value
               : 0;
}

double spotnik_noise_error2(const struct spotnik_noise *noise)
{
    double signal = noise->signal.value;

    return noise->signal.known && signal != 0 ? noise->spread2 * noise->weight2 / (signal * signal)
                                              : 0;
}
