/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file spotnik.h
 * Data-parallel training on machines that may vanish at any moment.
 *
 * A job is a set of members (processes), each with a full replica of the model. In every step the members
 * all-reduce their gradients; a step commits for every member or for none. When members vanish, the survivors agree
 * on a new view among themselves and finish the very step they were in, from the inputs they still hold.
 *
 *     spotnik_config cfg;  spotnik_config_init(&cfg);
 *     spotnik_job *job;    int rc = spotnik_join(&cfg, &job);
 *     spotnik_state_add(job, "w", w, n, SPOTNIK_F32);
 *     spotnik_step step;
 *     while ((rc = spotnik_step_begin(job, &step)) == 0) {
 *         compute(w, g, &step);
 *         spotnik_allreduce(job, 0, g, n, SPOTNIK_F32, SPOTNIK_MEAN);
 *         if (spotnik_step_commit(job) == 0) apply(w, g);
 *     }
 *     spotnik_leave(job);
 *
 * Thread rule: all calls on one job come from one thread at a time, except spotnik_notice() (async-signal-safe) and
 * spotnik_status() and spotnik_members() (any thread). The library runs one progress thread of its own; it never prints,
 * never exits, and installs no signal handler. A child made by fork() has no part in its parent's jobs: their
 * connections are closed in it, so that it does not keep a dead parent alive in the eyes of others, and a call on them
 * returns SPOTNIK_ERR_STATE (or NULL, 0, zeros) and changes nothing. The child may join a job of its own.
 *
 * Results: 0, or a negative SPOTNIK_ERR_*; spotnik_strerror() says what happened and what to do next. Output
 * parameters are written on success only.
 */
#ifndef SPOTNIK_H
#define SPOTNIK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPOTNIK_VERSION "0.1.0"

#if defined(__GNUC__)
#define SPOTNIK_API __attribute__((visibility("default")))
#else
#define SPOTNIK_API
#endif

/** Error codes, grouped by the largest thing they end: call > step > membership > job. */
enum spotnik_error {
    SPOTNIK_OK = 0,
    /* The call: nothing happened; correct it and call again. */
    SPOTNIK_ERR_ARGUMENT = -1,   /**< an argument is out of range or of the wrong kind */
    SPOTNIK_ERR_STATE = -2,      /**< the call does not fit here (commit without begin, ...) */
    SPOTNIK_ERR_MEMORY = -3,     /**< memory could not be had */
    SPOTNIK_ERR_LIMIT = -4,      /**< more buckets, tensors or members than the limits allow */
    SPOTNIK_ERR_AGAIN = -5,      /**< not ready within the patience of spotnik_patience_set(): call again */
    /* Finding the job: the job itself is undisturbed. */
    SPOTNIK_ERR_PEERS = -100,    /**< no member could be found or reached; see SPOTNIK_PEERS */
    SPOTNIK_ERR_KEY = -101,      /**< the other side has another job key */
    SPOTNIK_ERR_JOB = -102,      /**< the other side belongs to another job */
    SPOTNIK_ERR_VERSION = -103,  /**< the other side speaks another wire version */
    SPOTNIK_ERR_SYSTEM = -104,   /**< a system call failed; spotnik_last_error() names it */
    SPOTNIK_ERR_CHECKPOINT = -105, /**< checkpoint_dir holds checkpoints that cannot be used: another job's, another model's,
                                      or all damaged; spotnik_last_error() says which */
    /* The step. */
    SPOTNIK_ERR_MISMATCH = -200, /**< members run different programs: buckets differ in size, type or number */
    SPOTNIK_ERR_ROOT = -201,     /**< step_commit: the step is committed, but the root of a broadcast was lost in it before its
                                      data were with the others, see spotnik_broadcast() */
    /* Our membership. */
    SPOTNIK_ERR_DIVERGED = -202, /**< this member's results are not those of its neighbours: end the process, start it again */
    SPOTNIK_ERR_LEAVING = -300,  /**< a notice arrived (spotnik_notice): call spotnik_leave() and exit with 75 */
    SPOTNIK_ERR_PARKED = -301,   /**< cut off from the majority and on_minority asked to give up waiting */
    SPOTNIK_ERR_EXCLUDED = -302, /**< step_commit: the others went on without this member (it was stopped or cut off):
                                      apply nothing, call spotnik_step_begin(), which joins again */
    SPOTNIK_ERR_LINEAGE = -303,  /**< another lineage of this job stands, and this member's has yielded to it: this member must not go on; exit with 76 */
    /* The job. */
    SPOTNIK_ERR_DONE = -400,     /**< the job ended: steps_max reached, or all samples consumed */
};

/** Element types of tensors and buckets. F16 is IEEE 754 half precision, BF16 the upper half of an F32. */
enum spotnik_dtype {
    SPOTNIK_F32 = 1,
    SPOTNIK_F64,
    SPOTNIK_I32,
    SPOTNIK_I64,
    SPOTNIK_U8,
    SPOTNIK_F16,
    SPOTNIK_BF16,
    SPOTNIK_I8,
    SPOTNIK_I16,
    SPOTNIK_U16,
    SPOTNIK_U32,
    SPOTNIK_U64,
    SPOTNIK_Q8   /**< 8 bits and a scale for every 252 numbers: how F32 may travel, see spotnik_allreduce_compressed(); nothing else
                      takes it. */
};

/** Reductions; every type takes every one. MEAN is weighted by spotnik_weight_set(), by default the number of samples of
 *  the member's share (1 where the job has no ledger). SUM and PRODUCT of integers wrap; their MEAN is rounded to nearest.
 *  F16 and BF16 are computed in F32, but what travels between members has the element type: expect one rounding per member.
 *  A result that is not a number is one and the same NaN on every machine; MIN and MAX pass NaN on. */
enum spotnik_op { SPOTNIK_SUM = 1, SPOTNIK_MEAN, SPOTNIK_MIN, SPOTNIK_MAX, SPOTNIK_PRODUCT };

/** What a member does that is cut off from the majority (promise P1). */
enum spotnik_minority {
    SPOTNIK_MINORITY_WAIT = 0,     /**< keep the state, keep dialling, go on when healed (default) */
    SPOTNIK_MINORITY_CONTINUE,     /**< go on alone: waives P1, two lineages may arise */
    SPOTNIK_MINORITY_STOP,         /**< step_commit/step_begin return SPOTNIK_ERR_PARKED after minority_wait_ns */
};

/** How the samples of a step are shared. */
enum spotnik_batching_mode {
    SPOTNIK_BATCHING_EVEN = 0,     /**< every member gets as many as the next */
    SPOTNIK_BATCHING_DYNAMIC,      /**< so many that all take equally long, whatever their speed; the global batch stays as it is */
};

/** A job this process is a member of. Opaque. */
typedef struct spotnik_job spotnik_job;

/** Settings. Fill with spotnik_config_init(), then change fields. Strings are borrowed until spotnik_join() returns. */
typedef struct spotnik_config {
    size_t size;                 /**< sizeof(spotnik_config), set by spotnik_config_init() */
    const char *job_name;        /**< SPOTNIK_JOB: members of other jobs are refused. Default "spotnik" */
    const char *key_file;        /**< SPOTNIK_KEY_FILE: file with the 256-bit job key in hex, mode 0600. NULL only for a
                                      job of one */
    const char *peers;           /**< SPOTNIK_PEERS: "host:port,..." (all of them found the job; "majority:..." more than half) or
                                      "file:DIR", "dns://name-[0-7].domain:port". NULL: a job of one; "" is an error */
    const char *bind;            /**< SPOTNIK_BIND: "address[:port]" to listen on. Default 127.0.0.1, any port */
    uint32_t members_min;        /**< SPOTNIK_MIN: step_begin waits until the view has so many. Default 1 */
    uint32_t members_max;        /**< SPOTNIK_MAX: joiners wait while the view has so many. Default 256 */
    uint64_t samples;            /**< samples in one epoch of data; 0: no ledger, step.samples is empty */
    uint64_t batch;              /**< global mini-batch: samples a step consumes over all members together; up to twice as
                                      many after a loss, when those of the lost come on top */
    uint64_t steps_max;          /**< step_begin returns SPOTNIK_ERR_DONE after so many committed steps; 0: never */
    uint64_t silence_floor_ns;   /**< SPOTNIK_SILENCE_MS: least silence that counts as loss. Default 250 ms, three times that
                                      towards members of the same host, whose death is proven faster otherwise */
    uint64_t silence_ceiling_ns; /**< limit of its adaptation to jitter. Default 2 s */
    enum spotnik_minority on_minority; /**< SPOTNIK_ON_MINORITY: wait|continue|stop */
    uint64_t minority_wait_ns;   /**< patience of SPOTNIK_MINORITY_STOP. Default 60 s */
    const char *checkpoint_dir;  /**< SPOTNIK_CHECKPOINT: directory that all members share; NULL: none. The founder of a
                                      job loads the newest complete checkpoint in it, in its first step_begin */
    uint64_t checkpoint_steps;   /**< SPOTNIK_CHECKPOINT_STEPS: one after every so many steps. 0: by time. Default 0 */
    uint64_t checkpoint_interval_ns; /**< SPOTNIK_CHECKPOINT_S (seconds): time between two, where checkpoint_steps is
                                      0. Default 10 min */
    uint32_t checkpoint_keep;    /**< SPOTNIK_CHECKPOINT_KEEP: how many complete ones to keep, 1 or more. Default 3 */
    uint64_t batch_per_member;   /**< instead of `batch`: samples each member consumes in a step, so that a step consumes
                                      batch_per_member * size. Give one of both where samples > 0 */
    enum spotnik_batching_mode batching; /**< SPOTNIK_BATCHING: even|dynamic, see spotnik_batch_status(). The same on every
                                      member, as is members_max then. Default even */
    uint32_t batch_window;       /**< SPOTNIK_BATCH_WINDOW: steps between two changes of shares, at least. Default 5 */
    uint32_t batch_dead_band;    /**< SPOTNIK_BATCH_DEAD_BAND, percent: shares move only when one would by more. Default 5 */
    uint64_t batch_least;        /**< SPOTNIK_BATCH_LEAST: samples a member takes at least, 1 or more. Default 1 */
    uint64_t batch_most;         /**< SPOTNIK_BATCH_MOST: and at most, what its memory holds. 0, the default: no bound */
    uint32_t noise;              /**< SPOTNIK_NOISE: off|scale|variance: 1: measure how noisy gradients are, see
                                      spotnik_batch_status(); 2: KungFu's gradient variance as well, which takes bucket 254. The
                                      same on every member. Default 0 */
    uint64_t noise_every;        /**< SPOTNIK_NOISE_EVERY: one in so many steps the variance is measured: that step all-reduces
                                      twice as much. The same on every member. Default 100 */
} spotnik_config;

/** A half-open range of sample indices within an epoch of data. */
typedef struct spotnik_range {
    uint64_t begin, end;
} spotnik_range;

#define SPOTNIK_RANGES_MAX 64

/** One step as this member sees it. Valid until the next spotnik_step_begin(). */
typedef struct spotnik_step {
    uint64_t number;             /**< from 1, committed at most once in the life of the job */
    uint64_t view_epoch;         /**< epoch of the view in which the step was begun */
    uint32_t rank, size;         /**< position in that view and its length */
    uint64_t data_epoch;         /**< which pass over the data, from 0: seed your shuffle with it */
    uint64_t sample_count;       /**< samples in this member's share: the sum of the ranges. May be 0, and twice the batch:
                                      samples of lost members come on top of a step's own */
    uint32_t range_count;
    spotnik_range samples[SPOTNIK_RANGES_MAX]; /**< the share: indices into the (shuffled) epoch of data */
    uint32_t replay;             /**< 1: a joiner repeating a committed step; the share is empty, the result is the
                                      committed one. No special handling is needed */
    uint32_t share, shares;      /**< the step was dealt out in `shares`, and this is ours: the contribution of one share is
                                      of one member whatever view reduces the step. share == shares: none; what we contribute
                                      is left out. Both 0 in a replay */
} spotnik_step;

/** One recovery as seen by this member. Instants are CLOCK_MONOTONIC, nanoseconds; 0 where not reached. */
typedef struct spotnik_recovery {
    uint64_t epoch;              /**< of the view it led to */
    uint32_t lost, joined, left; /**< members that went and came */
    uint64_t detected_ns;        /**< first evidence or first RECONCILE seen */
    uint64_t reconciled_ns;      /**< ACCEPT seen (initiator: RECONCILE came back) */
    uint64_t accepted_ns;        /**< RESTART seen (initiator: ACCEPT came back) */
    uint64_t restarted_ns;       /**< view installed */
    uint64_t committed_ns;       /**< first commit in the new view */
} spotnik_recovery;

#define SPOTNIK_RECOVERIES_KEPT 16

/** A member of the view. */
typedef struct spotnik_job_member {
    char member[33];             /**< member_id in hex */
    char address[64];            /**< where it listens: "address:port" */
} spotnik_job_member;

/** A snapshot of the job for dashboards and tests. */
typedef struct spotnik_job_status {
    char member[33];             /**< our member_id in hex */
    uint64_t view_epoch;
    uint32_t rank, size;
    uint64_t step_committed, step_stable;
    uint32_t parked;             /**< 1: cut off from the majority, waiting */
    uint32_t joining;            /**< 1: copying state or replaying */
    uint64_t bytes_sent, bytes_received; /**< data path */
    uint64_t control_messages;   /**< sent, without heartbeats */
    uint64_t losses, joins, leaves;      /**< seen since we are a member */
    uint32_t recovery_count;     /**< entries in `recovery`, newest last */
    spotnik_recovery recovery[SPOTNIK_RECOVERIES_KEPT];
} spotnik_job_status;

/** Checkpoints as this member sees them. */
typedef struct spotnik_checkpoint_info {
    size_t size;                 /**< set by the caller: sizeof(spotnik_checkpoint_info) */
    uint64_t resumed_step;       /**< the job was founded here from the checkpoint after this step; 0: it was not */
    uint64_t complete_step;      /**< of the last checkpoint that is known here to be complete; 0: none yet */
    uint64_t complete_count;     /**< of this member's life */
    uint64_t left_out_count;     /**< due, but not completed: the one before was still being written, a member was lost, the
                                      disk was full, ... */
    uint64_t copy_ns, copy_bytes; /**< the last copy of this member's part: how long the caller was held up, and its size */
    uint64_t write_ns;           /**< how long writing it took, in the background */
    char message[512];           /**< what went wrong last, or which damaged checkpoint was left out at the start; "" when
                                      all is well */
} spotnik_checkpoint_info;

/** Shares and gradient noise as this member sees them; all members of a view come to the same numbers. */
typedef struct spotnik_batch_info {
    size_t size;                 /**< set by the caller: sizeof(spotnik_batch_info) */
    uint32_t dynamic;            /**< 1: shares follow the members' speed */
    uint32_t members;            /**< that the shares below are for; 0: they are even, or nothing is known yet */
    uint64_t adjustments;        /**< how often shares were changed, view changes apart */
    uint64_t share, share_least, share_most; /**< samples: ours, the smallest and the largest one in the next step */
    uint64_t noise_steps;        /**< steps that went into the estimates below; 0: they are not known */
    uint32_t noise_every;        /**< one in so many steps is measured, so that it costs 1 % at most */
    double noise_scale;          /**< McCandlish's B_simple = tr(S)/|G|^2, in samples: up to about that batch, twice the batch is
                                      worth twice the progress. Not above 0: too few steps yet */
    double gradient_norm2;       /**< |G|^2: squared norm of the true gradient, estimated */
    double sample_variance;      /**< tr(S): variance of the gradient of one sample, estimated */
    double relative_noise;       /**< Scavenger's: mean |g_k|^2 / |g|^2 / members */
    uint32_t compute_least_us, compute_most_us; /**< the shortest and the longest compute time of a member in the last step */
    double noise_error;          /**< relative standard error of gradient_norm2, and so nearly of noise_scale: trust them where it is
                                      well below 1. 0: not known */
    uint64_t variance_steps;     /**< steps in which gradient_variance was measured; 0: it is not known */
    double gradient_variance;    /**< KungFu's, in the last of these: sum over buckets of |mean_k(g_k^2) - (mean_k g_k)^2| */
} spotnik_batch_info;

/** Fill @p cfg with defaults, then with what SPOTNIK_* in the environment says. Unusable values in the environment are
 *  reported by spotnik_join(). A struct of an older header is filled as far as it goes: who calls this through a foreign
 *  function interface calls spotnik_config_init_sized() with the size of its own struct. */
SPOTNIK_API void spotnik_config_init(spotnik_config *cfg);
SPOTNIK_API void spotnik_config_init_sized(spotnik_config *cfg, size_t size);
#define spotnik_config_init(cfg) spotnik_config_init_sized((cfg), sizeof(spotnik_config))

/**
 * Become a member: find the job at cfg->peers and get ready to join it, or found it.
 *
 * Returns quickly; the state is copied in the first spotnik_step_begin(), after the caller has registered it.
 * On success *ret_job is owned by the caller until spotnik_leave() or spotnik_abandon().
 * Errors: ARGUMENT, MEMORY, SYSTEM, PEERS, KEY, JOB, VERSION, LEAVING (the agent asked to leave already).
 */
SPOTNIK_API int spotnik_join(const spotnik_config *cfg, spotnik_job **ret_job);

/**
 * Register memory that makes up the replica: what a joiner receives, what a checkpoint holds.
 *
 * Call before the first spotnik_step_begin(), with the same names, counts and types on every member. @p data
 * (count elements) stays owned by the caller, must stay valid and must only change between spotnik_step_commit()
 * and the next spotnik_step_begin(). Errors: ARGUMENT (duplicate name), STATE (after the first step), LIMIT.
 */
SPOTNIK_API int spotnik_state_add(spotnik_job *job, const char *name, void *data, size_t count,
                                  enum spotnik_dtype dtype);

/**
 * Keep @p length bytes under @p name as part of the replica, in place of what was there: for what lives in objects
 * (scheduler, random generator) and changes its length. The library copies them. Joiners and checkpoints receive all
 * blobs as they stand at the boundary of their step, as they do registered memory; unlike that, blobs may differ between
 * members. At most 64 of 32 MiB together.
 *
 * Call outside of a step, that is not between spotnik_step_begin() and spotnik_step_commit(). Errors: ARGUMENT, STATE
 * (inside a step), LIMIT, MEMORY; the blob is unchanged then.
 */
SPOTNIK_API int spotnik_state_blob_set(spotnik_job *job, const char *name, const void *bytes, size_t length);

/**
 * Copy the blob @p name to @p ret_bytes (room for @p capacity bytes; NULL with capacity 0: only its length is wanted) and
 * write its length, 0 when there is none of that name. Any time, on the thread of the job. Errors: ARGUMENT, LIMIT (it is
 * longer than @p capacity: the detail says how long).
 */
SPOTNIK_API int spotnik_state_blob_get(spotnik_job *job, const char *name, void *ret_bytes, size_t capacity,
                                       size_t *ret_length);

/**
 * Have @p refresh called inside spotnik_step_begin() or spotnik_leave(), on the caller's thread, right before the state is copied
 * for a joiner or a checkpoint: it brings registered memory and blobs up to date, so that a program need not pack its objects after
 * every step. It may call spotnik_state_blob_set() and spotnik_state_blob_get(), nothing else of this library. NULL: no
 * more. Errors: ARGUMENT.
 */
SPOTNIK_API int spotnik_state_refresh_set(spotnik_job *job, void (*refresh)(void *context), void *context);

/** How often the state here was replaced from outside: copied from members (join, join again) or loaded from a checkpoint.
 *  When it changed over a spotnik_step_begin(), that call has overwritten registered memory and blobs: take them over into
 *  what was made of them. */
SPOTNIK_API uint64_t spotnik_state_loads(spotnik_job *job);

/**
 * Begin the next step: wait until the view has members_min members, admit joiners, take this member's share.
 *
 * In a joiner the first call copies the state from the members; the registered memory then holds what theirs holds, and
 * the steps that were committed meanwhile are replayed by the caller's own loop (step.replay).
 * In the founder of a job with a checkpoint_dir it loads the newest complete checkpoint, if there is one: the registered
 * memory, the blobs, the number of the last step and the position in the data are then those after its step.
 * Errors: DONE (regular end of the loop), LEAVING (a notice came: leave), PARKED, MISMATCH, PEERS, MEMORY, CHECKPOINT, SYSTEM,
 * AGAIN.
 */
SPOTNIK_API int spotnik_step_begin(spotnik_job *job, spotnik_step *ret_step);

/** How long spotnik_step_begin() and spotnik_step_commit() wait before they return SPOTNIK_ERR_AGAIN, with nothing changed:
 *  the same call then goes on waiting. For programs that have to look at signals meanwhile. 0, the default: for ever.
 *  Copying the state of others is not cut short. */
SPOTNIK_API int spotnik_patience_set(spotnik_job *job, uint64_t patience_ns);

/** The current step shall consume no samples: its shares stay in the pool, and MEAN weighs every member 1. For collectives
 *  beside the training. Before the first spotnik_allreduce() of the step, on every member or on none. */
SPOTNIK_API int spotnik_samples_decline(spotnik_job *job);

/** Weight of this member's contribution to MEAN in the current step, instead of its sample count. 0 contributes nothing. */
SPOTNIK_API int spotnik_weight_set(spotnik_job *job, uint64_t weight);

/**
 * Start to all-reduce @p data in place. Does not block; several buckets may be in flight, in any order.
 *
 * @param bucket  0 <= bucket < 256; the same set with the same sizes on every member in every step.
 * @param data    count elements; the caller leaves them untouched until spotnik_step_commit() returns 0, when they hold
 *                the result. Inputs are kept until then, so a step can be reduced again after a loss: @p data does not
 *                change before spotnik_step_commit() is called; while it runs it may, and is put back when the call fails.
 * Errors: ARGUMENT, STATE (no step begun, or the bucket was already started in this step), LIMIT, MEMORY.
 */
SPOTNIK_API int spotnik_allreduce(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                                  enum spotnik_dtype dtype, enum spotnik_op op);

/**
 * The same, but @p data stays as it is, and the result is read with spotnik_result(): where members share a host and the
 * data comes from spotnik_alloc(), nothing is copied at all. The caller leaves the data untouched until
 * spotnik_step_commit() returns. Errors as spotnik_allreduce(). One form or the other for a bucket, member by member as
 * each likes.
 */
SPOTNIK_API int spotnik_allreduce_from(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                                       enum spotnik_dtype dtype, enum spotnik_op op);

/** The result of a bucket of the step that was committed last, or NULL where it was not used in it. Read only; valid until the next
 *  all-reduce is started. */
SPOTNIK_API const void *spotnik_result(spotnik_job *job, uint32_t bucket);

/** Memory for buckets, zeroed and aligned to pages. Members of the same host reduce it where it lies. Valid until
 *  spotnik_free() or the end of the job. NULL: there is none, see spotnik_last_error(). */
SPOTNIK_API void *spotnik_alloc(spotnik_job *job, size_t bytes);

/** Give memory from spotnik_alloc() back; not between the start of its all-reduce and the commit. NULL is allowed. */
SPOTNIK_API void spotnik_free(spotnik_job *job, void *memory);

/**
 * Finish the step: wait for every bucket started in it; on 0 all of them hold the result, on every member the same bits.
 *
 * Losses, recoveries and joins happen inside. Errors: STATE, MISMATCH, PARKED, AGAIN, EXCLUDED (skip the update and go on
 * with spotnik_step_begin()), ROOT (of broadcasts only: committed all the same). LEAVING is never returned here: a begun step is
 * always finished. After an error but ROOT the buckets hold what the caller put in.
 *
 * A commit is final when the next one has succeeded, too (step_stable). A member that is cut off in just this step may commit it alone,
 * with data that had come before; the others make it again without it, and it is told EXCLUDED at its next commit, before it takes over
 * their state. So what leaves the job (a result file, a word to a user) is for stable steps. A member that was stopped (SIGSTOP, a
 * suspended host) asks the others before it commits anything, and is told EXCLUDED at once; unless a hypervisor stopped its clocks, too.
 */
SPOTNIK_API int spotnik_step_commit(spotnik_job *job);

/** Ask to leave at the next spotnik_step_begin() (it returns SPOTNIK_ERR_LEAVING). Async-signal-safe: call it from your
 *  SIGTERM handler. */
SPOTNIK_API void spotnik_notice(spotnik_job *job);

/**
 * Leave the job: wait until the last committed step is known to all who need it, say goodbye, free the job.
 * When every member leaves, the job is over. Always frees @p job. Returns 0; SPOTNIK_ERR_PARKED when it had to go without
 * agreement; SPOTNIK_ERR_MISMATCH when another member runs another program, and could not finish the last step with it.
 */
SPOTNIK_API int spotnik_leave(spotnik_job *job);

/** Free the job at once, without goodbye: to the others this member is lost. For tests and for error paths. */
SPOTNIK_API void spotnik_abandon(spotnik_job *job);

/** Fill @p ret with a consistent snapshot. Any thread. */
SPOTNIK_API void spotnik_status(spotnik_job *job, spotnik_job_status *ret);

/** Fill @p ret, as far as ret->size goes, with what is known of checkpoints. All zeros without checkpoint_dir. Any thread. */
SPOTNIK_API void spotnik_checkpoint_status(spotnik_job *job, spotnik_checkpoint_info *ret);

/**
 * Fill @p ret, as far as ret->size goes, with what is known of shares and gradient noise. Any thread.
 *
 * With SPOTNIK_BATCHING_DYNAMIC a member's share (step.sample_count) follows its speed: compute times, from the return of
 * spotnik_step_begin() to the call of spotnik_step_commit(), go into every step, and all members compute the same shares from
 * them. MEAN is weighted by samples, so the result stays the mean over the union of all shares. Noise is that of what goes into
 * MEAN of floating buckets 0 to 229, taken as the mean gradient over the member's share.
 */
SPOTNIK_API void spotnik_batch_status(spotnik_job *job, spotnik_batch_info *ret);

/** Write the members of the view in order of rank, @p max at most. Returns how many were written. Any thread. */
SPOTNIK_API uint32_t spotnik_members(spotnik_job *job, spotnik_job_member *ret, uint32_t max);

/** XXH3-64 of all registered state, in order of registration: equal on all members between commit+apply and the next
 *  commit. Call from the thread that applies updates. */
SPOTNIK_API uint64_t spotnik_state_digest(spotnik_job *job);

/** One line: what the code means and what to do next. Static storage. */
SPOTNIK_API const char *spotnik_strerror(int error);

/** Detail of the last error on the calling thread (addresses, names, errno). Never NULL; valid until the next call. */
SPOTNIK_API const char *spotnik_last_error(void);

/* ---- Collectives ----
 *
 * Buckets of a step like those of spotnik_allreduce(): started between begin and commit, the same ones with the same
 * arguments on every member, finished by spotnik_step_commit() for everybody or for nobody, whoever is lost meanwhile.
 *
 * Members are named by their share in the step (step.share of step.shares), which is their rank unless the view changed while
 * the step ran. Who contributed is the same for all buckets of a step and known to every member afterwards
 * (spotnik_contributors()): a member lost before its data were with the others is missing from all of them; one without a
 * share, or in a replay, contributes nothing and receives what everybody does.
 *
 * Bytes travel as they are, NaN and -0 included. Each costs what an all-reduce of its bytes costs, which is up to twice what
 * a transport without losses needs (docs/reference/collectives.md). In a step that uses one, bucket 255 belongs to the library.
 * Common errors: ARGUMENT, STATE (no step begun, bucket used already), LIMIT, MEMORY; nothing was started then. */

/**
 * Start to give @p data of member @p root to all: @p count elements, which hold the root's when the step is committed.
 * The root's own are not written. Left alone until then by everybody.
 *
 * When the root is lost before its data are with the others, spotnik_step_commit() returns SPOTNIK_ERR_ROOT on every member:
 * the step is committed, every other bucket holds its result, and @p data is as it was. Broadcast again in the next step;
 * root 0 is somebody else then. Errors: as above; ARGUMENT also when @p root is not below step.shares.
 */
SPOTNIK_API int spotnik_broadcast(spotnik_job *job, uint32_t bucket, void *data, size_t count, enum spotnik_dtype dtype,
                                  uint32_t root);

/**
 * Start to collect @p data, @p count elements, of all members: after the commit @p out holds those of the contributors, one
 * after the other in order of share; the rest of it is as it was.
 *
 * @param slots  how many members @p out (slots * count elements) has room for: at least step.shares, and the same number on
 *               every member in every step, so that joiners can repeat it; what the job has as members_max will do. The cost
 *               is that of an all-reduce of slots * count elements.
 * @p data is copied at once; @p out must stay valid until the commit. Errors: as above; LIMIT: more members than slots.
 */
SPOTNIK_API int spotnik_allgather(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                                  enum spotnik_dtype dtype, void *out, uint32_t slots);

/**
 * Start to reduce @p data, @p count elements, and keep one part of the result: after the commit elements [begin, end) of
 * @p data hold it, and *@p ret_part says which (NULL: not wanted). The rest of @p data is as it was.
 *
 * The parts of all contributors, in order of share, make up the whole, as evenly as can be; who contributed nothing has an
 * empty one. Since a lost member's part must not be lost with it, everybody holds the whole in spotnik_result().
 * @p ret_part is written by spotnik_step_commit() and must stay valid until then. Errors: as above.
 */
SPOTNIK_API int spotnik_reduce_scatter(spotnik_job *job, uint32_t bucket, void *data, size_t count, enum spotnik_dtype dtype,
                                       enum spotnik_op op, spotnik_range *ret_part);

/**
 * Start to all-reduce F32 @p data in place, as spotnik_allreduce() does, but have it travel as @p wire: F16 or BF16, half the
 * bytes on every link, or Q8, a quarter, for gradients that can bear it. The result is that of an all-reduce of what travels
 * (rounded once where members share memory, at every hop of a ring), the same bits on every member; spotnik_result() shows that.
 * @p data is read at once and written by the commit; @p bucket is 0 to 254. Beyond 65504 a number is infinite as F16. In Q8 every
 * rounding moves a number by up to 1/249 of the greatest magnitude among 252 neighbours, and one that is infinite or not a number
 * makes them all not numbers. What rounding loses is lost: to have it count later, add it to the next step's gradient.
 * Errors: as above. Every member must give the same @p wire.
 */
SPOTNIK_API int spotnik_allreduce_compressed(spotnik_job *job, uint32_t bucket, float *data, size_t count,
                                             enum spotnik_dtype wire, enum spotnik_op op);

/**
 * The shares whose data are in the collectives of the step that was committed last, ascending, @p max of them at most
 * (@p ret_shares NULL: none). Returns how many there are; 0 after a step without collectives. On the thread of the job.
 */
SPOTNIK_API uint32_t spotnik_contributors(spotnik_job *job, uint32_t *ret_shares, uint32_t max);

/**
 * Wait until every member has come here: a step of its own that consumes no samples (every commit is a barrier already).
 * Errors: those of spotnik_step_begin() and spotnik_step_commit(); STATE inside a step. After AGAIN and PARKED call it again.
 */
SPOTNIK_API int spotnik_barrier(spotnik_job *job);

#ifdef __cplusplus
}
#endif
#endif
