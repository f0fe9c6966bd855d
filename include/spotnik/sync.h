/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sync.h
 * Strategies that keep replicas together: synchronous SGD, model averaging, elastic averaging,
 * local steps, gossip, or a rule of the program's own. On top of spotnik.h, whose
 * promises about views, losses, joins and samples hold in every strategy.
 *
 *     spotnik_sync *sync;
 *     spotnik_sync_open(job, NULL, w, n, apply, &optimiser, &sync); // NULL: as SPOTNIK_SYNC says
 *     while ((rc = spotnik_sync_begin(sync, &step)) == 0) { // in place of spotnik_step_begin()
 *         compute(w, g, &step);
 *         rc = spotnik_sync_step(sync, g); // in place of allreduce, step_commit and the update
 *     }
 *
 * The *agreed model* (spotnik_sync_agreed()) has the same bits on every member at every commit. It
 * is the model itself in "ssgd" and "lookahead", elsewhere an average of the models. Validate, save
 * and compare it; joiners and checkpoints receive it. Buckets 230 to 250 of every step belong to
 * the library in a job with a spotnik_sync. One spotnik_sync per job, on the thread of the job.
 */
#ifndef SPOTNIK_SYNC_H
#define SPOTNIK_SYNC_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A model under a strategy. Opaque. */
typedef struct spotnik_sync spotnik_sync;

/** Settings; 0 and NULL mean the default. Fill with spotnik_sync_config_init(), then change fields.
 * The same on every member. */
typedef struct spotnik_sync_config {
    /** sizeof(spotnik_sync_config), set by spotnik_sync_config_init() */
    size_t size;
    /** SPOTNIK_SYNC: "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+NAME" around
     * another, "adpsgd", "asp", "hogwild" (members of one host share one model); or "auto", a
     * policy that chooses between two while the job runs, see below. Default "ssgd" */
    const char *strategy;
    float alpha;               /**< strength of the pull to the average: sma 0.1, easgd 0.9 */
    uint32_t period;           /**< steps between two averages: easgd 4, localsgd 8 */
    float lookahead_alpha;     /**< 0.5 */
    uint32_t lookahead_period; /**< 5 */
    /** asynchronous strategies: steps between two averages that replace all models; joiners and
     * checkpoints receive the average. Default 64 */
    uint32_t average_period;
} spotnik_sync_config;

#define SPOTNIK_SYNC_TELL_MAX 4

/** The memory of a strategy, in a rule of the program's own. */
typedef struct spotnik_sync_view {
    size_t count; /**< elements of every vector */
    float *model; /**< the point at which gradients are computed */
    /** this member's gradient; its mean after an average. NULL before it is computed */
    float *gradient;
    float *scratch; /**< free for use, for what travels */
    /** the agreed model: compute it from averages alone, alike on every member */
    float *centre;
    float *slow;         /**< a second model to keep; registered like the centre */
    uint64_t step;       /**< the running one */
    uint32_t rank, size; /**< in its view */
    uint32_t arrived;    /**< in finish: 1 if the pull or exchange has brought data */
} spotnik_sync_view;

/** Promises of a rule; add them up. */
enum spotnik_rule_promise {
    SPOTNIK_RULE_SYNCHRONOUS = 1, /**< every member averages the same vectors in the same steps */
    /** models are equal after every finish; the library then keeps the centre equal to them */
    SPOTNIK_RULE_SAME_BITS = 2,
    /** begin does not read the gradient: the library calls it before the gradient is computed, and
     * the data travel meanwhile */
    SPOTNIK_RULE_EARLY = 4,
};

/** Defaults, and the strategy that SPOTNIK_SYNC names. */
SPOTNIK_API void spotnik_sync_config_init_sized(spotnik_sync_config *config, size_t size);
#define spotnik_sync_config_init(config)                                                           \
    spotnik_sync_config_init_sized((config), sizeof(spotnik_sync_config))

/**
 * Put @p model, @p count elements, under a strategy. Call before the first step. The call registers
 * what joiners need; do not register @p model yourself. The memory belongs to the caller and must
 * stay valid to the end of the job. *@p ret_sync ends with the job.
 *
 * @param config  NULL: from the environment.
 * @param apply   one step of the optimiser: change @p model by @p gradient. spotnik_sync_step()
 *                calls it on the caller's thread; @p model is not always the one given here.
 * Errors: ARGUMENT (no such strategy: the detail lists them), STATE (after the first step; or there
 * is one already), MEMORY, LIMIT.
 */
SPOTNIK_API int
spotnik_sync_open(spotnik_job *job, const spotnik_sync_config *config, float *model, size_t count,
                  void (*apply)(void *context, float *model, const float *gradient, size_t count),
                  void *context, spotnik_sync **ret_sync);

/**
 * Register memory of the optimiser (moments, step counters), before the first step. It is equal on
 * all members where the strategy keeps models equal. Elsewhere each member has its own, and a
 * joiner starts with pieces of the others'. A switch from an asynchronous to a synchronous strategy
 * averages it with the models (F32 and F64 only). At most 16.
 */
SPOTNIK_API int spotnik_sync_state_add(spotnik_sync *sync, const char *name, void *data,
                                       size_t count, enum spotnik_dtype dtype);

/** spotnik_step_begin(), then the strategy's work before the gradient: the model may have changed.
 * Same errors; MISMATCH also when the job runs another strategy. */
SPOTNIK_API int spotnik_sync_begin(spotnik_sync *sync, spotnik_step *ret_step);

/**
 * Finish the step with this member's gradient. Exchange what the strategy exchanges, commit, update
 * the model.
 *
 * @p gradient, count elements, is the mean over the share's samples; the call overwrites it. It
 * ignores it with an empty share. Errors: as spotnik_step_commit(). After AGAIN and PARKED call it
 * again, with the same gradient; after EXCLUDED, ROOT and 0 begin the next step.
 */
SPOTNIK_API int spotnik_sync_step(spotnik_sync *sync, float *gradient);

/** The name of the current strategy, as in the config. Static storage, or the caller's. */
SPOTNIK_API const char *spotnik_sync_name(const spotnik_sync *sync);

/** 1: the current strategy keeps models equal; 0: members agree on their average only. */
SPOTNIK_API int spotnik_sync_is_same_bits(const spotnik_sync *sync);

/** 1: all that step @p step does is to call apply on the model, with this member's gradient, unless
 * it is a joiner's repeat. So where a program keeps its model in other memory than
 * spotnik_sync_open() was given, that memory must be up to date in other steps only, from
 * spotnik_sync_begin() on. */
SPOTNIK_API int spotnik_sync_is_local(const spotnik_sync *sync, uint64_t step);

/** The agreed model after the last committed step, count elements: the same bits on every member.
 * In asynchronous strategies the average is at most average_period steps old. Read only; valid
 * until the next step is finished. */
SPOTNIK_API const float *spotnik_sync_agreed(const spotnik_sync *sync);

/** XXH3-64 of the agreed model: equal on all members between spotnik_sync_step() and the next. */
SPOTNIK_API uint64_t spotnik_sync_digest(const spotnik_sync *sync);

/** Numbers for the log, @p index below SPOTNIK_SYNC_TELL_MAX. Tell before spotnik_sync_step(); the
 * step sums the numbers of its contributors. Asynchronous strategies sum with the next step, so
 * that no member waits. */
SPOTNIK_API int spotnik_sync_tell(spotnik_sync *sync, uint32_t index, double value);
SPOTNIK_API double spotnik_sync_told(const spotnik_sync *sync, uint32_t index);

/* ---- Policies ----
 *
 * "auto[:POLICY][:SYNCHRONOUS/ASYNCHRONOUS]" changes between two strategies ("ssgd/adpsgd") by
 * measurement, at the same step on every member, with the same processes and connections. POLICY is
 * one of
 *     throughput[=LOW[,HIGH]]  asynchronous below LOW (0.4) of a lone member's throughput, back
 *     above HIGH (0.5); the default
 *     fastest                  throughput=0.9,0.95: the strategy with the higher throughput
 *     waiting[=HIGH[,LOW]]     asynchronous above HIGH (0.3) of a step spent waiting for the
 *     slowest, back below LOW (0.15)
 *     schedule=PART            synchronous for the first PART of the work (steps_max steps), then
 *                              asynchronous
 * A switch needs three windows of 8 steps in a row, except by schedule. While members run
 * asynchronously, the steps that average all models (average_period) measure the throughput. */

/** The input of a policy: the same numbers on every member. */
typedef struct spotnik_sync_numbers {
    size_t size;           /**< of this struct */
    uint64_t step;         /**< the last committed one */
    uint32_t members;      /**< contributors to it */
    uint32_t asynchronous; /**< 1: members run asynchronously now */
    /** of a member in a synchronous step, relative to one alone; 0: not known yet in this mode */
    double throughput;
    /** of a step, over members; medians of a window; 0: not known yet */
    double mean_compute_s, max_compute_s;
    /** work of the job; steps in a job without a fixed batch. Total 0: unknown */
    uint64_t samples_done, samples_total;
    /** 8 numbers for the policy to keep: registered state, 0 at first */
    double *memory;
} spotnik_sync_numbers;

/** Use @p policy in place of that of "auto"; call before the first step. The library calls it once
 * a window of 8 steps; it returns 1 for asynchronous, 0 for synchronous. It must depend on @p
 * numbers alone (memory included): members that ever differ stop with SPOTNIK_ERR_MISMATCH one
 * step later. Errors: ARGUMENT, STATE. */
SPOTNIK_API int spotnik_sync_policy_set(spotnik_sync *sync,
                                        int (*policy)(void *context,
                                                      const spotnik_sync_numbers *numbers),
                                        void *context);

/** The decisions so far, for the log. */
typedef struct spotnik_sync_report {
    size_t size;                /**< set by the caller: sizeof(spotnik_sync_report) */
    uint32_t asynchronous;      /**< 1: members run asynchronously */
    uint32_t switches;          /**< since the job began */
    uint64_t switched_step;     /**< the step of the last switch; 0: none */
    const char *reason;         /**< of the last change, in words. Static storage */
    double value, limit;        /**< the numbers compared then */
    double throughput, waiting; /**< last measurements; 0: none yet */
} spotnik_sync_report;

/** Errors: ARGUMENT. */
SPOTNIK_API int spotnik_sync_report_get(const spotnik_sync *sync, spotnik_sync_report *ret);

/* ---- Rules of the program's own ----
 *
 * begin starts what travels; finish updates the model after its arrival. Each runs once a step,
 * whatever member dies. begin does not change the model. In a step that a joiner repeats, and with
 * an empty share, spotnik_sync_apply() of the own gradient does nothing. Where models differ, a
 * joiner takes the centre as its model. */

/** Use a rule in place of the config's strategy. Call before the first step, alike on every member.
 * @p name is borrowed. */
SPOTNIK_API int spotnik_sync_rule_set(spotnik_sync *sync, const char *name, uint32_t promises,
                                      void (*begin)(void *context, spotnik_sync *sync,
                                                    const spotnik_sync_view *view),
                                      void (*finish)(void *context, spotnik_sync *sync,
                                                     const spotnik_sync_view *view),
                                      void *context);

/** In begin: average @p data over all members, weighted by samples, until finish. At most 4 in a
 * step, in the same order and the same steps on every member. spotnik_sync_step() returns its
 * errors. */
SPOTNIK_API void spotnik_sync_average(spotnik_sync *sync, float *data);

/** In begin or finish: one step of the optimiser. */
SPOTNIK_API void spotnik_sync_apply(spotnik_sync *sync, float *model, const float *gradient);

#ifdef __cplusplus
}
#endif
#endif
