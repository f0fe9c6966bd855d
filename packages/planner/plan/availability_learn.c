/* SPDX-License-Identifier: Apache-2.0 */
/* Learns the regimes of spot capacity (Baum-Welch). Ages are seen, so that only the regime is
 * hidden: the forward and backward passes give each tick's share in every regime. Hazards are ends
 * / ticks at risk by those shares; two pseudo-ticks draw them towards the mean of their regime. The
 * best of a few random beginnings is kept. */
#include "plan/availability.h"
#include "plan/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 50
#define BEGINNINGS 3
#define STAY 0.99

struct sequence {
    unsigned char *up, *bucket;
    size_t count;
    double *forward, *scale; /* [tick][regime] */
};

struct counts {
    double ends[SPOTNIK_REGIMES_MAX][2][SPOTNIK_AGES], ticks[SPOTNIK_REGIMES_MAX][2][SPOTNIK_AGES];
    double goes[SPOTNIK_REGIMES_MAX][SPOTNIK_REGIMES_MAX], time[SPOTNIK_REGIMES_MAX],
        up[SPOTNIK_REGIMES_MAX];
    double log_likelihood;
};

static double seen(const struct spotnik_availability *w, const struct sequence *s, size_t tick,
                   size_t regime)
{
    double end = w->end[regime][s->up[tick]][s->bucket[tick]];

    if (tick + 1 == s->count)
        return 1;
    return s->up[tick + 1] != s->up[tick] ? end : 1 - end;
}

static void forward(const struct spotnik_availability *w, struct sequence *s, struct counts *counts)
{
    size_t n = w->regimes;

    for (size_t t = 0; t < s->count; t++) {
        double *now = s->forward + t * n;
        s->scale[t] = 0;
        for (size_t r = 0; r < n; r++) {
            double from = t ? 0 : w->share[r];
            for (size_t q = 0; t && q < n; q++)
                from += now[q - n] * w->go[q][r];
            now[r] = from * seen(w, s, t, r);
            s->scale[t] += now[r];
        }
        for (size_t r = 0; r < n; r++)
            now[r] /= s->scale[t];
        counts->log_likelihood += log(s->scale[t]);
    }
}

static void count_tick(const struct sequence *s, size_t t, const double *share, size_t n,
                       struct counts *counts)
{
    unsigned up = s->up[t], bucket = s->bucket[t];

    for (size_t r = 0; r < n; r++) {
        counts->time[r] += share[r];
        counts->up[r] += up ? share[r] : 0;
        if (t + 1 == s->count)
            continue;
        counts->ticks[r][up][bucket] += share[r];
        counts->ends[r][up][bucket] += s->up[t + 1] != up ? share[r] : 0;
    }
}

static void backward(const struct spotnik_availability *w, const struct sequence *s,
                     struct counts *counts)
{
    double behind[SPOTNIK_REGIMES_MAX], share[SPOTNIK_REGIMES_MAX], weighed[SPOTNIK_REGIMES_MAX];
    size_t n = w->regimes;

    for (size_t r = 0; r < n; r++)
        behind[r] = 1;
    for (size_t t = s->count; t-- > 0;) {
        double total = 0;
        for (size_t r = 0; r < n; r++)
            total += share[r] = s->forward[t * n + r] * behind[r];
        for (size_t r = 0; r < n; r++)
            share[r] /= total;
        count_tick(s, t, share, n, counts);
        for (size_t r = 0; r < n; r++)
            weighed[r] = seen(w, s, t, r) * behind[r] / s->scale[t];
        for (size_t q = 0; t && q < n; q++) {
            behind[q] = 0;
            for (size_t r = 0; r < n; r++) {
                double way = w->go[q][r] * weighed[r];
                behind[q] += way;
                counts->goes[q][r] += s->forward[(t - 1) * n + q] * way;
            }
        }
    }
}

static void improve(struct spotnik_availability *w, const struct counts *c)
{
    double all = 0;

    for (size_t r = 0; r < w->regimes; r++)
        all += c->time[r];
    for (size_t r = 0; r < w->regimes; r++) {
        double goes = 0;
        for (unsigned up = 0; up < 2; up++) {
            double ends = 0.5, ticks = 5;
            for (size_t b = 0; b < SPOTNIK_AGES; b++) {
                ends += c->ends[r][up][b];
                ticks += c->ticks[r][up][b];
            }
            for (size_t b = 0; b < SPOTNIK_AGES; b++)
                w->end[r][up][b] =
                    fmin(fmax((c->ends[r][up][b] + 2 * ends / ticks) / (c->ticks[r][up][b] + 2),
                              0.0005),
                         0.95);
        }
        for (size_t q = 0; q < w->regimes; q++)
            goes += c->goes[r][q] + 0.02;
        for (size_t q = 0; q < w->regimes; q++)
            w->go[r][q] = (c->goes[r][q] + 0.02) / goes;
        w->share[r] = c->time[r] / all;
        w->up[r] = c->time[r] > 0 ? c->up[r] / c->time[r] : 0.5;
    }
}

static void begin(struct spotnik_availability *w, size_t regimes, struct spotnik_prng *prng)
{
    *w = (struct spotnik_availability){ .regimes = regimes };
    for (size_t r = 0; r < regimes; r++) {
        w->share[r] = 1.0 / (double)regimes;
        for (size_t q = 0; q < regimes; q++)
            w->go[r][q] = q == r ? (regimes > 1 ? STAY : 1) : (1 - STAY) / (double)(regimes - 1);
        for (unsigned up = 0; up < 2; up++)
            for (size_t b = 0; b < SPOTNIK_AGES; b++)
                w->end[r][up][b] =
                    fmin(fmax(0.15 * exp(0.9 * spotnik_draw_normal(prng)), 0.002), 0.8);
    }
}

static double learn_once(struct spotnik_availability *w, struct sequence *sequences, size_t count)
{
    struct counts counts = { .log_likelihood = 0 };

    for (unsigned round = 0; round < ROUNDS; round++) {
        counts = (struct counts){ .log_likelihood = 0 };
        for (size_t i = 0; i < count; i++) {
            forward(w, &sequences[i], &counts);
            backward(w, &sequences[i], &counts);
        }
        improve(w, &counts);
    }
    return counts.log_likelihood;
}

static int sequence_make(const struct spotnik_trace *trace, size_t regimes, struct sequence *s)
{
    unsigned age = 0;

    s->up = spotnik_availability_ticks(trace, 1, INFINITY, &s->count);
    s->bucket = malloc(s->count + 1);
    s->forward = malloc((s->count + 1) * regimes * sizeof(double));
    s->scale = malloc((s->count + 1) * sizeof(double));
    if (!s->up || !s->bucket || !s->forward || !s->scale)
        return -1;
    for (size_t i = 0; i < s->count; i++) {
        age = i && s->up[i] == s->up[i - 1] ? age + 1 : 0;
        s->bucket[i] = (unsigned char)spotnik_availability_bucket(age);
    }
    return 0;
}

static void sequences_free(struct sequence *sequences, size_t count)
{
    for (size_t i = 0; sequences && i < count; i++) {
        free(sequences[i].up);
        free(sequences[i].bucket);
        free(sequences[i].forward);
        free(sequences[i].scale);
    }
    free(sequences);
}

int spotnik_availability_learn(const struct spotnik_trace *traces, size_t count, size_t regimes,
                               unsigned seed, struct spotnik_availability *availability_out,
                               struct spotnik_fault *fault)
{
    struct sequence *sequences = calloc(count + 1, sizeof(*sequences));
    double best = -INFINITY, ticks = 0;
    struct spotnik_availability availability;
    struct spotnik_prng prng;
    int rc = sequences ? 0 : -1;

    for (size_t i = 0; !rc && i < count; i++) {
        rc = sequence_make(&traces[i], regimes, &sequences[i]);
        ticks += (double)sequences[i].count;
    }
    if (!rc && ticks < 144) {
        sequences_free(sequences, count);
        return spotnik_fault_set(
            fault, "%.1f h of traces are too little to learn from; a day is the least",
            ticks * SPOTNIK_AVAILABILITY_TICK_S / 3600);
    }
    spotnik_prng_seed(&prng, seed);
    for (unsigned i = 0; !rc && i < BEGINNINGS; i++) {
        begin(&availability, regimes, &prng);
        double likely = learn_once(&availability, sequences, count);
        if (likely > best) {
            best = likely;
            *availability_out = availability;
        }
    }
    sequences_free(sequences, count);
    if (rc)
        return spotnik_fault_set(fault, "out of memory for the traces");
    snprintf(availability_out->name, sizeof(availability_out->name), "%zu traces, %.0f h", count,
             ticks * SPOTNIK_AVAILABILITY_TICK_S / 3600);
    return 0;
}
