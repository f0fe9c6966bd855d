/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies: how replicas of the model are kept together. Each is one short file. It says what it
 * starts when a gradient is ready (`begin`), and what it does to the model when all that is
 * complete (`finish`).
 *
 *     driver                          strategy                        primitives
 *     gradient computed  ---begin-->  average(gradient)  ----------->  start an all-reduce
 *     ... losses, recoveries, other members' requests ...              wait until complete
 *     complete           ---finish->  apply(model, gradient) ------->  the user's optimiser
 *
 * Between the two, memory given to a primitive belongs to it. The driver starts operations again
 * after losses, so each of the two runs once a step. `begin` leaves the model as it is. Pure;
 * decides nothing about when to change strategy (policy.h). */
#ifndef SPOTNIK_ADAPT_STRATEGY_H
#define SPOTNIK_ADAPT_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

/* What a strategy may use. A driver fills it in: members, or a cluster in memory. `start` means:
 * complete before `finish`. replica->arrived is false when no member could answer. */
struct spotnik_sync_primitives {
    void *context;
    /* Start: data becomes its mean over all members, weighted by samples; the same bits on all of
     * them. */
    void (*average)(void *context, float *data, uint64_t count);
    /* Start: the newest snapshot that member `rank` has published; of another one if that is
     * lost. */
    void (*pull)(void *context, uint32_t rank, float *ret, uint64_t count);
    /* At once: what others pull from now on is a copy of this. */
    void (*publish)(void *context, const float *model, uint64_t count);
    /* Start: add `update` to the store that all members share, exactly once. */
    void (*push)(void *context, const float *update, uint64_t count);
    /* Start, after push: what the store holds, our own pushed updates included. */
    void (*fetch)(void *context, float *ret, uint64_t count);
    /* At once: the memory that all members of this host write to, at first a copy of `initial`.
     * NULL: none can be had. */
    float *(*common)(void *context, const float *initial, uint64_t count);
    /* At once: one step of the user's optimiser. */
    void (*apply)(void *context, float *model, const float *gradient, uint64_t count);
};

struct spotnik_sync_strategy;

struct spotnik_sync_options {
    float alpha;           /* how strongly the model is pulled to the average */
    uint32_t period;       /* steps between two averages, >= 1 */
    float lookahead_alpha; /* of the wrapper */
    uint32_t lookahead_period;
    const struct spotnik_sync_strategy *inner; /* what Lookahead wraps */
};

/* One member's memory. Vectors have `count` elements and are the driver's. */
struct spotnik_sync_replica {
    uint64_t count;
    float *model;    /* registered state */
    float *gradient; /* the local one, until a strategy averages it */
    float *scratch;  /* what travels */
    /* registered state: the model that all agree on, in strategies whose replicas differ */
    float *centre;
    float *slow; /* registered state: Lookahead's slow weights */
    /* memory of this host, every access of which is atomic; NULL: none, or not asked for yet */
    float *common;
    uint64_t step;            /* the running one, from 1 */
    uint32_t rank, size;      /* in the view of the running step */
    bool arrived;             /* set by the driver before finish */
    struct spotnik_prng prng; /* each member's own */
    struct spotnik_sync_options options;
};

struct spotnik_sync_strategy {
    const char *name;
    bool synchronous; /* all members take part in every average at the same step */
    /* replicas are bit-identical after every finish; else the centre, if synchronous */
    bool same_bits;
    /* `begin` does not need the gradient: what it starts may travel while that is computed */
    bool early;
    /* between two averages, `options.period` steps apart, a step applies the gradient to the model
     * and does nothing else */
    bool local;
    bool shares;                         /* members of one host write to one model: common */
    struct spotnik_sync_options options; /* usual ones */
    void (*enter)(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use);
    void (*begin)(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use);
    void (*finish)(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use);
};

extern const struct spotnik_sync_strategy spotnik_sync_ssgd, spotnik_sync_sma, spotnik_sync_easgd,
    spotnik_sync_localsgd, spotnik_sync_lookahead, spotnik_sync_adpsgd, spotnik_sync_asp,
    spotnik_sync_hogwild;

/* By name, as in `--sync NAME`; NULL: there is none. */
const struct spotnik_sync_strategy *spotnik_sync_find(const char *name);

/* Helpers of strategies: to = from, and to = (1 - part) to + part from. */
void spotnik_sync_copy(float *to, const float *from, uint64_t count);
void spotnik_sync_mix(float *to, const float *from, float part, uint64_t count);

/* Memory in common: += part update, element by element; and a copy of it. */
void spotnik_sync_common_add(float *common, const float *update, float part, uint64_t count);
void spotnik_sync_common_read(const float *common, float *ret, uint64_t count);

/* Is the running step one in which models are averaged? */
bool spotnik_sync_is_due(const struct spotnik_sync_replica *replica);

#endif
