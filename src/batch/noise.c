/* SPDX-License-Identifier: Apache-2.0 */
/* The estimators of noise.h. E|g_k|^2 = |G|^2 + S / b_k and E|g|^2 = |G|^2 + S / B are two equations for
 * |G|^2 and S. */
#include "batch/noise.h"

#include "sync/agreed.h"

void spotnik_noise_init(struct spotnik_noise *noise, double keep)
{
    struct spotnik_ewma empty = { .keep = keep };

    *noise = (struct spotnik_noise){ empty, empty, empty };
}

static bool says_something(const struct spotnik_noise_step *step)
{
    return step->members >= 2 && step->small_batch > 0 && step->batch > step->small_batch
           && step->members_norm2 < 1e300 && step->members_norm2 >= 0 && step->average_norm2 < 1e300
           && step->average_norm2 > 0;
}

bool spotnik_noise_observe(struct spotnik_noise *noise, const struct spotnik_noise_step *step)
{
    double big = step->batch, small = step->small_batch;

    if (!says_something(step))
        return false;
    spotnik_ewma_add(&noise->signal,
                     (big * step->average_norm2 - small * step->members_norm2) / (big - small));
    spotnik_ewma_add(&noise->variance, (step->members_norm2 - step->average_norm2) / (1 / small - 1 / big));
    spotnik_ewma_add(&noise->relative, step->members_norm2 / step->average_norm2 / step->members);
    return true;
}

double spotnik_noise_scale(const struct spotnik_noise *noise)
{
    return noise->signal.known && noise->signal.value != 0 ? noise->variance.value / noise->signal.value : 0;
}

double spotnik_noise_deviation2(const struct spotnik_noise *noise, double batch)
{
    return spotnik_noise_scale(noise) / batch;
}
