/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient noise, from three numbers a step: each member's own |g_k|^2, the |g|^2 of the averaged
 * gradient, and the samples behind each. The all-reduce carries them already, or a member can add
 * them. Norms here are squared norms.
 *
 * Gradient noise scale: McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv
 * 1812.06162), appendix A.1, smoothed and divided as KungFu does (OSDI'20). With mini-batches of
 * different sizes, B_small is their harmonic mean. Then the mean of |g_k|^2 is |G|^2 + S / B_small,
 * and both estimates stay unbiased.
 *
 * The noise itself determines the number of steps to average. With a batch far below the noise
 * scale, |G|^2 of one step is mostly noise. Its deviation is about noise scale / batch times |G|^2,
 * and less by the root of the dimensions of the noise. KungFu's ten steps then say little. So
 * numerator and denominator are each averaged until the error of |G|^2 is a tenth, over ten to a
 * thousand steps. The error is an output.
 *
 * Estimates only; decides nothing. No square roots: `deviation2` is the square of the relative
 * deviation. */
#ifndef SPOTNIK_ADAPT_NOISE_H
#define SPOTNIK_ADAPT_NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Exponentially weighted mean; the first value initialises it. `keep` is the weight of the past,
 * in [0, 1). */
struct spotnik_ewma {
    double value, keep;
    bool known;
};

static inline void spotnik_ewma_add(struct spotnik_ewma *ewma, double x)
{
    ewma->value = ewma->known ? ewma->keep * ewma->value + (1 - ewma->keep) * x : x;
    ewma->known = true;
}

struct spotnik_noise {
    struct spotnik_ewma signal;   /* |G|^2: squared norm of the true gradient */
    struct spotnik_ewma variance; /* S = tr(Sigma): variance of one sample's gradient */
    double keep;                  /* of the past, at least */
    double spread2;               /* variance of what single steps say of |G|^2 */
    /* sum of the squared weights of the steps in the means: 1 / how many they are worth */
    double weight2;
};

/* One step, as agreed. */
struct spotnik_noise_step {
    uint32_t members;     /* that contributed, >= 2 for anything to be learnt */
    double batch;         /* samples of all together */
    double small_batch;   /* harmonic mean of the members' samples */
    double members_norm2; /* mean over members of |g_k|^2, g_k the mean gradient over k's samples */
    double average_norm2; /* |g|^2, g = sum_k lambda_k g_k */
};

/* `keep`: weight of the past, at least, once there is as much of it. KungFu's optimiser wrapper
 * keeps 0.9, its operator 0.6. */
void spotnik_noise_init(struct spotnik_noise *noise, double keep);

/* Returns false, and learns nothing, from a step that says nothing. Such a step has one member, no
 * spread between batch sizes, norms that are not finite, or an average gradient of 0. */
bool spotnik_noise_observe(struct spotnik_noise *noise, const struct spotnik_noise_step *step);

/* S / |G|^2, in samples: the batch at which noise and signal are equal. 0 while unknown; not above
 * 0 also means that too few steps have been averaged. */
double spotnik_noise_scale(const struct spotnik_noise *noise);

/* The square of the relative standard error of |G|^2, and so nearly of the noise scale: to be
 * trusted where it is well below 1. 0 while unknown. */
double spotnik_noise_error2(const struct spotnik_noise *noise);

#endif
