/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sync.h
 * How replicas are kept together: synchronous SGD, model averaging, elastic averaging, local steps, gossip, or a rule of the
 * program's own. On top of spotnik.h; what is promised there of views, losses, joins and samples holds in every strategy.
 *
 *     spotnik_sync *sync;
 *     spotnik_sync_open(job, NULL, w, n, apply, &optimiser, &sync);        NULL: the strategy that SPOTNIK_SYNC names
 *     while ((rc = spotnik_sync_begin(sync, &step)) == 0) {                 in place of spotnik_step_begin()
 *         compute(w, g, &step);
 *         rc = spotnik_sync_step(sync, g);                                 in place of allreduce, step_commit and the update
 *     }
 *
 * What is the same bits on every member at every commit is the *agreed model* (spotnik_sync_agreed()): in "ssgd" and "lookahead"
 * the model itself, elsewhere an average of the models. Validate, save and compare that; joiners and checkpoints get it.
 * Buckets 230 to 250 of every step belong to the library in a job with a spotnik_sync. One for a job; same thread as the job.
 */
#ifndef SPOTNIK_SYNC_H
#define SPOTNIK_SYNC_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A model under a strategy. Opaque. */
typedef struct spotnik_sync spotnik_sync;

/** Settings; 0 and NULL: the usual. Fill with spotnik_sync_config_init(), then change fields. The same on every member. */
typedef struct spotnik_sync_config {
    size_t size;                 /**< sizeof(spotnik_sync_config), set by spotnik_sync_config_init() */
    const char *strategy;        /**< SPOTNIK_SYNC: "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+NAME" around another,
                                      "adpsgd", "adpsgd-symmetric", "asp", "hogwild" (members of one host share one model); or a policy that chooses between two while the job runs, "auto":
                                      see below. Default "ssgd" */
    float alpha;                 /**< how strongly the model is pulled to the average: sma 0.1, easgd 0.9 */
    uint32_t period;             /**< steps between two averages: easgd 4, localsgd 8 */
    float lookahead_alpha;       /**< 0.5 */
    uint32_t lookahead_period;   /**< 5 */
    uint32_t average_period;     /**< asynchronous strategies: every so many steps all models are replaced by their average, which
                                      joiners and checkpoints get. Default 64 */
} spotnik_sync_config;

#define SPOTNIK_SYNC_TELL_MAX 4

/** The memory of a strategy, in a rule of the program's own. */
typedef struct spotnik_sync_view {
    size_t count;                /**< elements of every vector */
    float *model;                /**< what gradients are computed at */
    float *gradient;             /**< this member's own; becomes the mean where it is averaged. NULL before it is computed */
    float *scratch;              /**< free for use: what travels */
    float *centre;               /**< the agreed model: to be computed from averages alone, alike on every member */
    float *slow;                 /**< a second model to keep; registered like the centre */
    uint64_t step;               /**< the running one */
    uint32_t rank, size;         /**< in its view */
    uint32_t arrived;            /**< in finish: what was pulled or exchanged has come */
} spotnik_sync_view;

/** What a rule promises, to be added up. */
enum spotnik_rule_promise {
    SPOTNIK_RULE_SYNCHRONOUS = 1, /**< every member averages the same vectors in the same steps */
    SPOTNIK_RULE_SAME_BITS = 2,   /**< models are equal after every finish; the library keeps the centre equal to them then */
    SPOTNIK_RULE_EARLY = 4,       /**< begin does not look at the gradient: it is called before that is computed, and what it starts
                                      travels meanwhile */
};

/** Defaults, and the strategy that SPOTNIK_SYNC names. */
SPOTNIK_API void spotnik_sync_config_init_sized(spotnik_sync_config *config, size_t size);
#define spotnik_sync_config_init(config) spotnik_sync_config_init_sized((config), sizeof(spotnik_sync_config))

/**
 * Put @p model, @p count elements, under a strategy. Before the first step; registers what joiners need (not @p model itself: do not
 * register it). The memory stays the caller's, and must stay valid to the end of the job, with
 * which *@p ret_sync ends, too.
 *
 * @param config  NULL: that of the environment.
 * @param apply   one step of the optimiser: change @p model by @p gradient. Called inside spotnik_sync_step(), on the caller's thread;
 *                @p model is not always the one given here.
 * Errors: ARGUMENT (no such strategy: the detail lists them), STATE (after the first step; or there is one already), MEMORY, LIMIT.
 */
SPOTNIK_API int spotnik_sync_open(spotnik_job *job, const spotnik_sync_config *config, float *model, size_t count,
                                  void (*apply)(void *context, float *model, const float *gradient, size_t count),
                                  void *context, spotnik_sync **ret_sync);

/**
 * Register memory of the optimiser (moments, step counters), before the first step. Equal on all members where the strategy keeps
 * models equal; elsewhere each member has its own, and a joiner begins with some of those of others. Averaged with the models
 * when the job goes over from an asynchronous to a synchronous strategy (F32 and F64 only). At most 16.
 */
SPOTNIK_API int spotnik_sync_state_add(spotnik_sync *sync, const char *name, void *data, size_t count,
                                       enum spotnik_dtype dtype);

/** spotnik_step_begin(), and what the strategy has to do before the gradient is computed: @p model may have changed. Same errors;
 *  MISMATCH also when the job runs another strategy. */
SPOTNIK_API int spotnik_sync_begin(spotnik_sync *sync, spotnik_step *ret_step);

/**
 * Finish the step with this member's gradient: exchange what the strategy exchanges, commit, update the model.
 *
 * @p gradient, count elements, is the mean over the share's samples; overwritten. With an empty share it is not looked at. Errors: as
 * spotnik_step_commit(). After AGAIN and PARKED call it again, with the same gradient; after EXCLUDED, ROOT and 0 begin the next step.
 */
SPOTNIK_API int spotnik_sync_step(spotnik_sync *sync, float *gradient);

/** The strategy that runs now, as in the config. Static storage, or the caller's. */
SPOTNIK_API const char *spotnik_sync_name(const spotnik_sync *sync);

/** Are models kept equal by the strategy that runs now (1), or only their average agreed (0)? */
SPOTNIK_API int spotnik_sync_is_same_bits(const spotnik_sync *sync);

/** The agreed model after the last committed step, count elements: the same bits on every member. Asynchronous strategies: the average
 *  of average_period steps ago at most. Read only; valid until the next step is finished. */
SPOTNIK_API const float *spotnik_sync_agreed(const spotnik_sync *sync);

/** XXH3-64 of the agreed model: equal on all members between spotnik_sync_step() and the next. */
SPOTNIK_API uint64_t spotnik_sync_digest(const spotnik_sync *sync);

/** Numbers for the log, @p index below SPOTNIK_SYNC_TELL_MAX: what a member tells before spotnik_sync_step() is added up over the members that
 *  contribute to the step. In asynchronous strategies it is added up with the next step, so that nobody waits. */
SPOTNIK_API int spotnik_sync_tell(spotnik_sync *sync, uint32_t index, double value);
SPOTNIK_API double spotnik_sync_told(const spotnik_sync *sync, uint32_t index);

/* ---- Policies ----
 *
 * "auto[:POLICY][:SYNCHRONOUS/ASYNCHRONOUS]" changes between two strategies ("ssgd/adpsgd") when the cluster says so, at the same
 * step on every member, with the same processes and connections. POLICY is one of
 *     throughput[=LOW[,HIGH]]  asynchronous below LOW (0.4) of what a member does alone, back above HIGH (0.5); the default
 *     fastest                  throughput=0.9,0.95: whichever of the two gets more done
 *     waiting[=HIGH[,LOW]]     asynchronous while more than HIGH (0.3) of a step would be spent waiting for the slowest, back below LOW (0.15)
 *     schedule=PART            synchronous for the first PART of the work (steps_max steps), asynchronous from then on
 *     turns                    to and fro once a window: for tests
 * each three windows of 8 steps in a row, but for the schedule. While members run apart, throughput is measured in the steps that average
 * all models (average_period). */

/** What a policy decides by: the same numbers on every member. */
typedef struct spotnik_sync_numbers {
    size_t size;                 /**< of this struct */
    uint64_t step;               /**< the one committed last */
    uint32_t members;            /**< that contributed to it */
    uint32_t asynchronous;       /**< 1: members run apart now */
    double throughput;           /**< of a member in a synchronous step, relative to one alone; 0: not known yet in this mode */
    double mean_compute_s, max_compute_s; /**< of a step, over members; medians of a window; 0: not known yet */
    uint64_t samples_done, samples_total; /**< work of the job; steps in a job without a fixed batch. Total 0: unknown */
    double *memory;              /**< 8 numbers for the policy to keep: registered state, 0 at first */
} spotnik_sync_numbers;

/** Use @p policy in place of that of "auto", before the first step: called once a window of 8 steps, returns 1 for asynchronous, 0 for
 *  synchronous. It must depend on @p numbers alone (memory included): members that ever differ stop with SPOTNIK_ERR_MISMATCH one step
 *  later. Errors: ARGUMENT, STATE. */
SPOTNIK_API int spotnik_sync_policy_set(spotnik_sync *sync,
                                        int (*policy)(void *context, const spotnik_sync_numbers *numbers), void *context);

/** What has been decided, for the log. */
typedef struct spotnik_sync_report {
    size_t size;                 /**< set by the caller: sizeof(spotnik_sync_report) */
    uint32_t asynchronous;       /**< 1: members run apart */
    uint32_t switches;           /**< since the job began */
    uint64_t switched_step;      /**< the step in which the last switch was made; 0: none */
    const char *reason;          /**< of the last change, in words. Static storage */
    double value, limit;         /**< what was compared then */
    double throughput, waiting;  /**< as measured last; 0: not yet */
} spotnik_sync_report;

/** Errors: ARGUMENT. */
SPOTNIK_API int spotnik_sync_report_get(const spotnik_sync *sync, spotnik_sync_report *ret);

/* ---- Rules of the program's own ----
 *
 * begin starts what travels, finish updates the model when it has come: each runs once a step, whatever is lost meanwhile. begin leaves the
 * model as it is. In a step that a joiner repeats, and with an empty share, spotnik_sync_apply() of the own gradient does nothing; and
 * where models are not the same bits, a joiner takes the centre for its model. */

/** Use a rule in place of the strategy of the config. Before the first step; the same on every member. @p name is borrowed. */
SPOTNIK_API int spotnik_sync_rule_set(spotnik_sync *sync, const char *name, uint32_t promises,
                                      void (*begin)(void *context, spotnik_sync *sync, const spotnik_sync_view *view),
                                      void (*finish)(void *context, spotnik_sync *sync, const spotnik_sync_view *view),
                                      void *context);

/** In begin: @p data becomes its mean over all members, weighted by samples, until finish. 4 in a step at most, in the same order and the
 *  same steps on every member. Errors turn up in spotnik_sync_step(). */
SPOTNIK_API void spotnik_sync_average(spotnik_sync *sync, float *data);

/** In begin or finish: one step of the optimiser. */
SPOTNIK_API void spotnik_sync_apply(spotnik_sync *sync, float *model, const float *gradient);

#ifdef __cplusplus
}
#endif
#endif
