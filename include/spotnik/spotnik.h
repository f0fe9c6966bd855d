/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file spotnik.h
 * Data-parallel training on machines that may vanish at any moment.
 *
 * A job is a set of members (processes), each with a full replica of the model. In every step the
 * members all-reduce their gradients. A step commits for every member or for none. When members
 * die, the survivors agree on a new view. They finish the very step they were in, from the inputs
 * they still hold.
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
 * Thread rule: all calls on one job come from one thread at a time, except spotnik_notice()
 * (async-signal-safe) and spotnik_status() and spotnik_members() (any thread). The library runs one
 * progress thread of its own. It never prints, never exits, and installs no signal handler, with
 * one exception. In a process that `spotnik run` started, SIGTERM becomes a notice while there is a
 * job, if it still has its default action. A child made by fork() has no part in its parent's jobs.
 * The library closes their connections in the child, so that it does not keep a dead parent alive
 * to the other members. A call on them returns SPOTNIK_ERR_STATE (or NULL, 0, zeros) and changes
 * nothing. The child may join a job of its own.
 *
 * Results: 0, or a negative SPOTNIK_ERR_*; spotnik_strerror() says what happened and what to do
 * next. Output parameters are written on success only.
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
    SPOTNIK_ERR_ARGUMENT = -1, /**< an argument is out of range or of the wrong kind */
    SPOTNIK_ERR_STATE = -2,    /**< the call does not fit here (commit without begin, ...) */
    SPOTNIK_ERR_MEMORY = -3,   /**< out of memory */
    SPOTNIK_ERR_LIMIT = -4,    /**< more buckets, tensors or members than the limits allow */
    /** not ready within the patience of spotnik_patience_set(): call again */
    SPOTNIK_ERR_AGAIN = -5,
    /* Finding the job: the job itself is undisturbed. */
    SPOTNIK_ERR_PEERS = -100,   /**< no member could be found or reached; see SPOTNIK_PEERS */
    SPOTNIK_ERR_KEY = -101,     /**< the other side has another job key */
    SPOTNIK_ERR_JOB = -102,     /**< the other side belongs to another job */
    SPOTNIK_ERR_VERSION = -103, /**< the other side speaks another wire version */
    SPOTNIK_ERR_SYSTEM = -104,  /**< a system call failed; spotnik_last_error() names it */
    /** no checkpoint of checkpoint_dir can be used; spotnik_last_error() says why */
    SPOTNIK_ERR_CHECKPOINT = -105,
    /* The step. */
    /** members run different programs: buckets differ in size, type or number */
    SPOTNIK_ERR_MISMATCH = -200,
    /** step_commit: the step is committed, but the root of a broadcast was lost in it before its
     * data were with the others, see spotnik_broadcast() */
    SPOTNIK_ERR_ROOT = -201,
    /* Our membership. */
    /** this member's results are not those of its neighbours: end the process, start it again */
    SPOTNIK_ERR_DIVERGED = -202,
    /** a notice arrived (spotnik_notice): call spotnik_leave() and exit with 75 */
    SPOTNIK_ERR_LEAVING = -300,
    /** cut off from the majority, and on_minority says to stop waiting: exit with 75.
     * spotnik_last_error() says where the state of this member was written */
    SPOTNIK_ERR_PARKED = -301,
    /** step_commit: the other members went on without this one (it was stopped or cut off): apply
     * nothing, call spotnik_step_begin(), which joins again */
    SPOTNIK_ERR_EXCLUDED = -302,
    /** another founding has this job's name, or its place: exit with 76, do not go on */
    SPOTNIK_ERR_LINEAGE = -303,
    /* The job. */
    SPOTNIK_ERR_DONE = -400, /**< the job ended: steps_max reached, or all samples consumed */
};

/** Element types of tensors and buckets. F16: IEEE 754 half precision. BF16: upper half of F32. */
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
    /** for all-reduces: an element is a block of 256 bytes that holds 252 numbers. First comes a
     * scale, an F32. Then comes a signed byte q, from -127 to 127, for each number, which is
     * q * scale. With m the greatest magnitude of the block, scale is m / 127 with the last 7 bits
     * of its fraction cleared, and q is x * (127 / m) rounded to nearest even. A scale of NaN makes
     * all 252 NaN. spotnik_allreduce_compressed() packs and unpacks */
    SPOTNIK_Q8
};

/** Reductions. Every type supports each of them. MEAN is weighted by spotnik_weight_set(), by
 * default the number of samples of the member's share (1 where the job has no ledger). SUM and
 * PRODUCT of integers wrap; their MEAN is rounded to nearest. F16 and BF16 are computed in F32,
 * but travel between members as the element type: expect one rounding per member. A result that is
 * not a number is the same NaN on every machine. MIN and MAX propagate NaN. */
enum spotnik_op { SPOTNIK_SUM = 1, SPOTNIK_MEAN, SPOTNIK_MIN, SPOTNIK_MAX, SPOTNIK_PRODUCT };

/** Behaviour of a member that is cut off from the majority (promise P1). */
enum spotnik_minority {
    /** keep the state, keep dialling, continue when the network heals (default) */
    SPOTNIK_MINORITY_WAIT = 0,
    /** after minority_wait_ns step_commit/step_begin write the state to a checkpoint of its own in
     * checkpoint_dir, which no job takes by itself, and return SPOTNIK_ERR_PARKED */
    SPOTNIK_MINORITY_STOP,
};

/** How members share the samples of a step. */
enum spotnik_batching_mode {
    SPOTNIK_BATCHING_EVEN = 0, /**< every member gets the same number */
    /** shares follow speed, so that all take equally long; the global batch stays */
    SPOTNIK_BATCHING_DYNAMIC,
};

/** A job this process is a member of. Opaque. */
typedef struct spotnik_job spotnik_job;

/** Settings, from spotnik_config_init(). Strings are borrowed until spotnik_join() returns. */
typedef struct spotnik_config {
    size_t size; /**< sizeof(spotnik_config), set by spotnik_config_init() */
    /** SPOTNIK_JOB: the job refuses members of other jobs. Default "spotnik" */
    const char *job_name;
    /** SPOTNIK_KEY_FILE: file with the 256-bit job key in hex, mode 0600. NULL: a job of one */
    const char *key_file;
    /** SPOTNIK_PEERS: "host:port,..." (all of them found the job) or
     * "file:DIR", "s3://bucket/name", "gs://bucket/name", "az://container/name",
     * "dns://name-[0-7].domain:port". NULL: a job of one; "" is an error */
    const char *peers;
    /** SPOTNIK_BIND: "address[:port]" to listen on. Default 127.0.0.1, any port */
    const char *bind;
    /** SPOTNIK_MIN: step_begin waits for this number of members in the view. Default 1 */
    uint32_t members_min;
    /** SPOTNIK_MAX: joiners wait while the view has this number of members. Default 256; 10000 at
     * most, and 1024 where samples are given. Collectives other than all-reduce, and exchanges
     * between members, want 1024 at most, too */
    uint32_t members_max;
    /** samples in one epoch of data; 0: no ledger, step.samples is empty */
    uint64_t samples;
    /** global mini-batch: samples per step over all members. After a loss up to twice as many: the
     * lost member's samples come on top */
    uint64_t batch;
    /** step_begin returns SPOTNIK_ERR_DONE after this number of committed steps; 0: never */
    uint64_t steps_max;
    /** SPOTNIK_SILENCE_MS: minimum silence that counts as loss. Default 250 ms; three times that
     * towards members of the same host, whose kernel proves a death faster. The limit adapts to
     * jitter, up to 2 s */
    uint64_t silence_floor_ns;
    enum spotnik_minority on_minority; /**< SPOTNIK_ON_MINORITY: wait|stop */
    /** patience of SPOTNIK_MINORITY_STOP, and of a parked member that has a notice. Default 60 s */
    uint64_t minority_wait_ns;
    /** SPOTNIK_CHECKPOINT: directory that all members share, or a bucket; NULL: none. The
     * founder of a job loads the newest complete checkpoint in it, in its first step_begin, or the
     * one that SPOTNIK_FROM names */
    const char *checkpoint_dir;
    /** SPOTNIK_CHECKPOINT_STEPS: steps between two checkpoints. 0: by time. Default 0 */
    uint64_t checkpoint_steps;
    /** SPOTNIK_CHECKPOINT_S (seconds): time between two checkpoints, if checkpoint_steps is 0.
     * Default 10 min */
    uint64_t checkpoint_interval_ns;
    /** complete checkpoints to keep (>= 1). Default 3 */
    uint32_t checkpoint_keep;
    /** samples per member and step; a step consumes batch_per_member * size. Where samples > 0,
     * give either this or `batch` */
    uint64_t batch_per_member;
    /** SPOTNIK_BATCHING: even|dynamic, see spotnik_batch_status(). The same on every member; with
     * dynamic also members_max. Default even */
    enum spotnik_batching_mode batching;
    /** SPOTNIK_BATCH_MOST: maximum samples per member and step (its memory). Default 0: no bound */
    uint64_t batch_most;
    /** SPOTNIK_NOISE: off|scale. 1: measure the gradient noise, see spotnik_batch_status(). The
     * same on every member. Default 0 */
    uint32_t noise;
} spotnik_config;

/** A half-open range of sample indices within an epoch of data. */
typedef struct spotnik_range {
    uint64_t begin, end;
} spotnik_range;

#define SPOTNIK_RANGES_MAX 64

/** One step as this member sees it. Valid until the next spotnik_step_begin(). */
typedef struct spotnik_step {
    uint64_t number;     /**< from 1, committed at most once in the life of the job */
    uint64_t view_epoch; /**< epoch of the view in which the step was begun */
    /** position in that view, and its length. rank == size: none yet, as a rule in a
     * replay. So one member alone has rank 0 in a step */
    uint32_t rank, size;
    uint64_t data_epoch; /**< which pass over the data, from 0: seed your shuffle with it */
    /** samples in this member's share: the sum of the ranges. From 0 to twice the batch: samples of
     * lost members come on top */
    uint64_t sample_count;
    uint32_t range_count;
    /** the share: indices into the (shuffled) epoch of data */
    spotnik_range samples[SPOTNIK_RANGES_MAX];
    /** 1: a joiner repeating a committed step; the share is empty, the result is the committed one.
     * No special handling is needed */
    uint32_t replay;
    /** index of this member's share, and their number. One member contributes each share, whatever
     * view reduces the step. share == shares: no share; the step leaves out our contribution. Both
     * 0 in a replay */
    uint32_t share, shares;
} spotnik_step;

/** One recovery as this member saw it. Instants: CLOCK_MONOTONIC, ns; 0 where not reached. */
typedef struct spotnik_recovery {
    uint64_t epoch;              /**< of the view it led to */
    uint32_t lost, joined, left; /**< numbers of members */
    uint64_t detected_ns;        /**< first evidence or first PREPARE seen */
    uint64_t reconciled_ns;      /**< ACCEPT seen (initiator: PREPARE came back) */
    uint64_t accepted_ns;        /**< RESTART seen (initiator: ACCEPT came back) */
    uint64_t restarted_ns;       /**< view installed */
    uint64_t committed_ns;       /**< first commit in the new view */
} spotnik_recovery;

#define SPOTNIK_RECOVERIES_KEPT 16

/** A member of the view. */
typedef struct spotnik_job_member {
    char member[33];  /**< member_id in hex */
    char address[64]; /**< where it listens: "address:port" */
} spotnik_job_member;

/** A snapshot of the job for dashboards and tests. */
typedef struct spotnik_job_status {
    char member[33]; /**< our member_id in hex */
    uint64_t view_epoch;
    uint32_t rank, size; /**< rank UINT32_MAX: a member of no view yet */
    uint64_t step_committed, step_stable;
    uint32_t parked;                     /**< 1: cut off from the majority, waiting */
    uint32_t joining;                    /**< 1: copying state or replaying */
    uint64_t bytes_sent, bytes_received; /**< data path */
    uint64_t control_messages;           /**< sent, without heartbeats */
    uint64_t losses, joins, leaves;      /**< seen since we are a member */
    uint32_t recovery_count;             /**< entries in `recovery`, newest last */
    /** other members of the view that this one hears itself, so that their end proves itself to it.
     * In a view that has just formed, fewer than size - 1 for a moment; in a large one always */
    uint32_t linked;
    spotnik_recovery recovery[SPOTNIK_RECOVERIES_KEPT];
} spotnik_job_status;

/** Checkpoints as this member sees them. */
typedef struct spotnik_checkpoint_info {
    size_t size; /**< set by the caller: sizeof(spotnik_checkpoint_info) */
    /** this member founded the job from the checkpoint after this step; 0: it did not */
    uint64_t resumed_step;
    /** of the last checkpoint that this member knows to be complete; 0: none yet */
    uint64_t complete_step;
    uint64_t complete_count; /**< complete checkpoints in this member's life */
    /** due but not completed: the write before still ran, a member died, the disk was full */
    uint64_t left_out_count;
    /** the last copy of this member's part: what the caller waited for it, and its size */
    uint64_t copy_ns, copy_bytes;
    uint64_t write_ns; /**< duration of its write, in the background */
    /** the last problem, or the damaged checkpoint that the start passed over; "": none */
    char message[512];
} spotnik_checkpoint_info;

/** Shares and gradient noise. All members of a view compute the same numbers. */
typedef struct spotnik_batch_info {
    size_t size;      /**< set by the caller: sizeof(spotnik_batch_info) */
    uint32_t dynamic; /**< 1: shares follow the members' speed */
    /** members that the shares below are for; 0: shares are even, or not known yet */
    uint32_t members;
    uint64_t adjustments; /**< changes of shares, without view changes */
    /** samples in the next step: our share, the smallest, the largest */
    uint64_t share, share_least, share_most;
    /** the shortest and the longest compute time of a member in the last step */
    uint32_t compute_least_us, compute_most_us;
    uint64_t noise_steps; /**< steps in the estimates below; 0: not known */
    /** McCandlish's B_simple = tr(S)/|G|^2, in samples: up to about that batch, twice the batch is
     * worth twice the progress. Not above 0: too few steps yet */
    double noise_scale;
    /** relative standard error of |G|^2, and nearly of noise_scale: trust it only where this is
     * well below 1. 0: not known */
    double noise_error;
} spotnik_batch_info;

/** Fill @p cfg with defaults, then from SPOTNIK_* in the environment. spotnik_join() reports
 * unusable values there. The call fills a struct of an older header as far as its size goes. A
 * foreign function interface calls spotnik_config_init_sized() with the size of its own struct. */
SPOTNIK_API void spotnik_config_init(spotnik_config *cfg);
SPOTNIK_API void spotnik_config_init_sized(spotnik_config *cfg, size_t size);
#define spotnik_config_init(cfg) spotnik_config_init_sized((cfg), sizeof(spotnik_config))

/**
 * Become a member: find the job at cfg->peers and get ready to join it, or found it.
 *
 * Returns quickly; the state is copied in the first spotnik_step_begin(), after the caller has
 * registered it. On success *ret_job is owned by the caller until spotnik_leave() or
 * spotnik_abandon(). Errors: ARGUMENT, MEMORY, SYSTEM, PEERS, KEY, JOB, VERSION, LEAVING (the agent
 * has already asked to leave).
 */
SPOTNIK_API int spotnik_join(const spotnik_config *cfg, spotnik_job **ret_job);

/**
 * Register memory of the replica: joiners receive it, checkpoints hold it.
 *
 * Call before the first spotnik_step_begin(), with the same names, counts and types on every
 * member. @p data (count elements) belongs to the caller and must stay valid. It may change only
 * between spotnik_step_commit() and the next spotnik_step_begin(); state.h says why, and what else
 * there is. Errors: ARGUMENT (duplicate name), STATE (after the first step), LIMIT.
 */
SPOTNIK_API int spotnik_state_add(spotnik_job *job, const char *name, void *data, size_t count,
                                  enum spotnik_dtype dtype);

/**
 * Keep @p length bytes under @p name as part of the replica, and replace the earlier ones: for
 * objects (scheduler, random generator) whose length changes. The library copies the bytes. Joiners
 * and checkpoints receive all blobs as of the boundary of their step, like registered memory.
 * Unlike that, blobs may differ between members. At most 64 blobs, of 32 MiB together.
 *
 * Call outside of a step: not between spotnik_step_begin() and spotnik_step_commit(). Errors:
 * ARGUMENT, STATE (inside a step), LIMIT, MEMORY; they leave the blob unchanged.
 */
SPOTNIK_API int spotnik_state_blob_set(spotnik_job *job, const char *name, const void *bytes,
                                       size_t length);

/**
 * Copy the blob @p name to @p ret_bytes, at most @p capacity bytes, and write its length to @p
 * ret_length; 0 where there is none. NULL with capacity 0 asks for the length alone. Any time, on
 * the thread of the job. Errors: ARGUMENT, LIMIT (longer than @p capacity; the detail names the
 * length).
 */
SPOTNIK_API int spotnik_state_blob_get(spotnik_job *job, const char *name, void *ret_bytes,
                                       size_t capacity, size_t *ret_length);

/**
 * Call @p refresh right before the library copies the state for a joiner or a checkpoint. That is
 * inside spotnik_step_begin() or spotnik_leave(), on the caller's thread; inside
 * spotnik_step_commit() before it returns PARKED; and inside spotnik_state_digest() between two
 * steps. It updates registered memory and blobs, so that a
 * program need not pack its objects after every step. It may call spotnik_state_blob_set() and
 * spotnik_state_blob_get(), nothing else of this library. NULL ends this. Errors: ARGUMENT.
 */
SPOTNIK_API int spotnik_state_refresh_set(spotnik_job *job, void (*refresh)(void *context),
                                          void *context);

/** Replacements of this member's state from outside: copies from members (join, rejoin) and loads
 * of a checkpoint. If a spotnik_step_begin() changed this number, it has overwritten registered
 * memory and blobs: rebuild what you derived from them. */
SPOTNIK_API uint64_t spotnik_state_loads(spotnik_job *job);

/**
 * Begin the next step: wait until the view has members_min members, admit joiners, take this
 * member's share.
 *
 * In a joiner the first call copies the state of the members into the registered memory. The
 * caller's own loop then replays the steps that were committed meanwhile (step.replay). In the
 * founder of a job with a checkpoint_dir it loads the newest complete checkpoint, if there is one.
 * That is registered memory, blobs, the number of the last step and the position in the data.
 * Errors: DONE (regular end of the loop), LEAVING (a notice came: leave), PARKED, MISMATCH, PEERS,
 * MEMORY, CHECKPOINT, SYSTEM, AGAIN.
 */
SPOTNIK_API int spotnik_step_begin(spotnik_job *job, spotnik_step *ret_step);

/** Limit the wait of spotnik_step_begin() and spotnik_step_commit(). They then return
 * SPOTNIK_ERR_AGAIN with nothing changed, and the same call continues the wait. For programs that
 * must check for signals. 0, the default: for ever. A copy of the state is not cut short. */
SPOTNIK_API int spotnik_patience_set(spotnik_job *job, uint64_t patience_ns);

/** Consume no samples in the current step: its shares stay in the pool, and MEAN weighs every
 * member 1. For collectives beside the training. Call before the first spotnik_allreduce() of the
 * step, on every member or on none. */
SPOTNIK_API int spotnik_samples_decline(spotnik_job *job);

/** Weight of this member in MEAN of the current step, not its sample count. 0: no contribution. */
SPOTNIK_API int spotnik_weight_set(spotnik_job *job, uint64_t weight);

/**
 * Start to all-reduce @p data in place. Does not block; several buckets may be in flight, in any
 * order.
 *
 * @param bucket  0 <= bucket < 256; the same set with the same sizes on every member in every step.
 * @param data    count elements. The caller leaves them untouched until spotnik_step_commit()
 * returns 0; they then hold the
 *                result. The library keeps the inputs until then, to reduce the step again after a
 *                loss. It does not write @p data before spotnik_step_commit(), and restores @p data
 *                if that call fails.
 * Errors: ARGUMENT, STATE (no step begun, or the bucket was already started in this step), LIMIT,
 * MEMORY.
 */
SPOTNIK_API int spotnik_allreduce(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                                  enum spotnik_dtype dtype, enum spotnik_op op);

/**
 * The same, but @p data does not change; read the result with spotnik_result(). Where members share
 * a host and the data comes from spotnik_alloc(), this copies nothing. The caller leaves the data
 * untouched until spotnik_step_commit() returns. Each member may choose either form for a bucket.
 * Errors as spotnik_allreduce().
 */
SPOTNIK_API int spotnik_allreduce_from(spotnik_job *job, uint32_t bucket, const void *data,
                                       size_t count, enum spotnik_dtype dtype, enum spotnik_op op);

/** The result of a bucket of the last committed step, or NULL if that step did not use the bucket.
 * Read only; valid until the next all-reduce starts. */
SPOTNIK_API const void *spotnik_result(spotnik_job *job, uint32_t bucket);

/** Allocate memory for buckets, zeroed and aligned to pages. Members of the same host reduce it in
 * place. Valid until spotnik_free() or the job's end. NULL: no memory, spotnik_last_error(). */
SPOTNIK_API void *spotnik_alloc(spotnik_job *job, size_t bytes);

/** Free memory from spotnik_alloc(), or NULL. Not between its all-reduce and the commit. */
SPOTNIK_API void spotnik_free(spotnik_job *job, void *memory);

/**
 * Finish the step: wait for every bucket started in it. On 0 all of them hold the result, with the
 * same bits on every member.
 *
 * Losses, recoveries and joins happen inside. Errors: STATE, MISMATCH, PARKED, AGAIN, EXCLUDED
 * (skip the update and go on with spotnik_step_begin()), ROOT (broadcasts only: the step is
 * committed), LEAVING (a notice came to a member that is cut off from the majority, and
 * minority_wait_ns have passed since: the step is not committed). A begun step is finished
 * otherwise, notice or not. After an error other than ROOT the buckets hold the caller's inputs.
 *
 * A commit is final once the next one has also succeeded (step_stable). A member that is cut off in
 * this very step may commit it alone, with data that it had received before. The others repeat the
 * step without it; its next commit returns EXCLUDED, before it takes over their state. So publish
 * results (a file, a message to a user) of stable steps only. A member that was stopped (SIGSTOP, a
 * suspended host) asks the others before it commits. It gets EXCLUDED at once, unless a hypervisor
 * stopped its clocks, too.
 */
SPOTNIK_API int spotnik_step_commit(spotnik_job *job);

/** Ask to leave: the next spotnik_step_begin() returns SPOTNIK_ERR_LEAVING. Async-signal-safe: call
 * it from your SIGTERM handler. Under `spotnik run` a program without such a handler has one. */
SPOTNIK_API void spotnik_notice(spotnik_job *job);

/**
 * For a process that a member has made to help it, such as one that loads data: call it there. From
 * then on SIGTERM does what it did before only if the parent sends it, and SIGUSR1 no longer ends
 * the process. Slurm and systemd signal every process: the member leaves after its step, and ends
 * its helpers itself. Programs that the process executes have the default actions.
 */
SPOTNIK_API void spotnik_helper_shield(void);

/**
 * Leave the job: wait until all members that need the last committed step have it, say goodbye,
 * free the job. When every member leaves, the job is over. Always frees @p job. Returns 0;
 * SPOTNIK_ERR_PARKED if it had to go without agreement, SPOTNIK_ERR_LEAVING if so after a notice;
 * SPOTNIK_ERR_MISMATCH if another member's program differs and could not finish the last step.
 */
SPOTNIK_API int spotnik_leave(spotnik_job *job);

/** Free the job without goodbye: the others count this member as lost. For tests and errors. */
SPOTNIK_API void spotnik_abandon(spotnik_job *job);

/** Fill @p ret with a consistent snapshot. Any thread. */
SPOTNIK_API void spotnik_status(spotnik_job *job, spotnik_job_status *ret);

/** Fill @p ret, as far as ret->size goes, with the state of checkpoints. All zeros without
 * checkpoint_dir. Any thread. */
SPOTNIK_API void spotnik_checkpoint_status(spotnik_job *job, spotnik_checkpoint_info *ret);

/**
 * Fill @p ret, as far as ret->size goes, with shares and gradient noise. Any thread.
 *
 * With SPOTNIK_BATCHING_DYNAMIC a member's share (step.sample_count) follows its speed. Every step
 * carries the compute times, from the return of spotnik_step_begin() to the call of
 * spotnik_step_commit(). All members compute the same shares from them. MEAN is weighted by
 * samples, so the result stays the mean over the union of all shares. Noise is measured on MEAN of
 * floating buckets 0 to 229, as the mean gradient over the member's share.
 */
SPOTNIK_API void spotnik_batch_status(spotnik_job *job, spotnik_batch_info *ret);

/** Write the members of the view by rank, at most @p max. Returns their number. Any thread. */
SPOTNIK_API uint32_t spotnik_members(spotnik_job *job, spotnik_job_member *ret, uint32_t max);

/** XXH3-64 of all registered state, in order of registration: equal on all members between
 * commit+apply and the next commit, where it refreshes first. Call where updates are applied. */
SPOTNIK_API uint64_t spotnik_state_digest(spotnik_job *job);

/** The version of the library; compare it with the header's SPOTNIK_VERSION. Static storage. */
SPOTNIK_API const char *spotnik_version(void);

/** One line: what the code means and what to do next. Static storage. */
SPOTNIK_API const char *spotnik_strerror(int error);

/** Details of the last error on the calling thread (addresses, names, errno). Never NULL; valid
 * until the next call. */
SPOTNIK_API const char *spotnik_last_error(void);

/* ---- Collectives ----
 *
 * Collectives are buckets of a step, like those of spotnik_allreduce(). Start them between begin
 * and commit: the same ones, with the same arguments, on every member. spotnik_step_commit()
 * finishes them for all members or for none, whatever member dies.
 *
 * A member is named by its share in the step (step.share of step.shares): its rank, unless the view
 * changed while the step ran. The contributors are the same for all buckets of a step, and every
 * member knows them afterwards (spotnik_contributors()). A member that dies before its data reach
 * the others is missing from all buckets. A member without a share, or in a replay, contributes
 * nothing and receives every result.
 *
 * Bytes travel unchanged, NaN and -0 included. A collective costs what an all-reduce of its bytes
 * costs. That is up to twice the bytes of a transport that may lose data with a member
 * (docs/reference/collectives.md). Common errors: ARGUMENT, STATE (no step begun, bucket used
 * already), LIMIT, MEMORY; they start nothing. */

/**
 * Start to broadcast @p data, @p count elements, from member @p root: after the commit every
 * member's @p data holds the root's. No member touches @p data until then. The call never writes
 * the root's own.
 *
 * If the root dies before its data reach the others, spotnik_step_commit() returns SPOTNIK_ERR_ROOT
 * on every member. The step is committed, every other bucket holds its result, and @p data is
 * unchanged. Broadcast again in the next step, where root 0 is another member. Errors: as above;
 * ARGUMENT also when @p root is not below step.shares.
 */
SPOTNIK_API int spotnik_broadcast(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                                  enum spotnik_dtype dtype, uint32_t root);

/**
 * Start to all-gather @p data, @p count elements: after the commit @p out holds the contributors'
 * data in order of share. The rest of @p out is unchanged.
 *
 * @param slots  members that @p out (slots * count elements) has room for: at least step.shares,
 * and the same number on every
 *               member in every step, so that joiners can repeat it; members_max is enough. The
 *               cost is that of an all-reduce of slots * count elements.
 * The call copies @p data at once; @p out must stay valid until the commit. Errors: as above;
 * LIMIT: more members than slots.
 */
SPOTNIK_API int spotnik_allgather(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                                  enum spotnik_dtype dtype, void *out, uint32_t slots);

/**
 * Start to reduce @p data, @p count elements, and keep one part of the result. After the commit,
 * elements [begin, end) of @p data hold it. *@p ret_part says which (NULL: not wanted). The rest of
 * @p data is unchanged.
 *
 * The contributors' parts, in order of share, make up the whole, as evenly as possible. A member
 * that contributed nothing has an empty part. No part may die with its member, so every member
 * holds the whole in spotnik_result(). spotnik_step_commit() writes @p ret_part, which must stay
 * valid until then. Errors: as above.
 */
SPOTNIK_API int spotnik_reduce_scatter(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                                       enum spotnik_dtype dtype, enum spotnik_op op,
                                       spotnik_range *ret_part);

/**
 * Start to all-reduce F32 @p data in place, as spotnik_allreduce() does, but send it as @p wire:
 * F16 or BF16, half the bytes on every link, or Q8, a quarter, for gradients that tolerate it. The
 * result is that of an all-reduce of the rounded numbers, with the same bits on every member;
 * spotnik_result() shows it. Members that share memory round once, a ring rounds at every hop. The
 * call reads @p data at once, and the commit writes it. F16 turns numbers beyond 65504 into
 * infinity. A rounding to Q8 moves a number by up to 1/249 of the greatest magnitude among 252
 * neighbours. An infinity or NaN makes all of them NaN. Rounding errors are lost: to make them
 * count, add them to the next step's gradient. Errors: as above. Every member must give the same @p
 * wire.
 */
SPOTNIK_API int spotnik_allreduce_compressed(spotnik_job *job, uint32_t bucket, float *data,
                                             size_t count, enum spotnik_dtype wire,
                                             enum spotnik_op op);

/**
 * Write the contributing shares of the last committed step's collectives, ascending, at most @p max
 * (@p ret_shares NULL: none). Returns their number; 0 after a step without collectives. On the
 * thread of the job.
 */
SPOTNIK_API uint32_t spotnik_contributors(spotnik_job *job, uint32_t *ret_shares, uint32_t max);

/**
 * Wait for every member: a step of its own that consumes no samples. Every commit is already a
 * barrier. Errors: those of spotnik_step_begin() and spotnik_step_commit(); STATE inside a step.
 * After AGAIN and PARKED call it again.
 */
SPOTNIK_API int spotnik_barrier(spotnik_job *job);

#ifdef __cplusplus
}
#endif
#endif
