/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file group.h
 * Replica groups: several processes of one host that are one member of a job together.
 *
 * The processes of a group hold one replica among them: shards of a model, or one device each. The
 * process of rank 0, the leader, holds the member. All processes map the memory of the group. They
 * write their parts of each bucket there, and read the result from it.
 *
 *     spotnik_group *group;  int rc = spotnik_group_open(NULL, 0, 0, &group);
 *     float *w = spotnik_group_memory(group, n * sizeof *w), *g = ...;
 *     rc = spotnik_group_join(group, &cfg);
 *     rc = spotnik_group_state_add(group, "w", w, n, SPOTNIK_F32);
 *     while ((rc = spotnik_group_step_begin(group, &step)) == 0) {
 *         compute(w, g, &step, rank);                         // this process's part of g
 *         spotnik_group_allreduce(group, 0, g, n, SPOTNIK_F32, SPOTNIK_MEAN);
 *         if (spotnik_group_step_commit(group) == 0) apply(w, g, rank);
 *     }
 *     spotnik_group_leave(group);
 *
 * Calls marked *collective* are made by every process of the group, in the same order and with the
 * same arguments. Each returns when all have made it, with the same result in all; processes that
 * call something else get SPOTNIK_ERR_MISMATCH. spotnik.h explains the results.
 *
 * When any process of a group ends before it has left, the kernel tells the others within
 * milliseconds, and they end by SIGKILL. So the other members of the job see one member die, and
 * finish the step. A process with an error of its own just ends.
 *
 * Thread rule: one thread at a time calls, in each process, except spotnik_group_notice()
 * (async-signal-safe). The library makes the calls on the job, on a thread of the leader. Where
 * `spotnik run` started the group, SIGTERM to any of its processes becomes a notice, if it has its
 * default action. A child made by fork() has no part in the group: calls return SPOTNIK_ERR_STATE.
 */
#ifndef SPOTNIK_GROUP_H
#define SPOTNIK_GROUP_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOTNIK_GROUP_PROCESSES_MAX 64

/** A group that this process is part of. Opaque. */
typedef struct spotnik_group spotnik_group;

/**
 * Meet the other processes of the group, and map its memory. Collective.
 *
 * @param name  the same in all processes of the group, and another for every start of a group on
 *              this host. NULL: as SPOTNIK_GROUP says, NAME:RANK:SIZE; without that variable a
 *              group of one. @p rank and @p size are ignored then.
 * @param rank  of this process, below @p size; 0 is the leader.
 * @param size  processes in the group, at most SPOTNIK_GROUP_PROCESSES_MAX.
 * Waits 5 minutes at most. On success *@p ret_group is owned by the caller until
 * spotnik_group_leave() or spotnik_group_abandon(). Errors: ARGUMENT, MEMORY, SYSTEM (also: no
 * futex_waitv, Linux 5.16), PEERS (the detail names the ranks that have not come: end the process).
 */
SPOTNIK_API int spotnik_group_open(const char *name, uint32_t rank, uint32_t size,
                                   spotnik_group **ret_group);

/** Rank of this process in its group, and number of its processes. */
SPOTNIK_API uint32_t spotnik_group_rank(const spotnik_group *group);
SPOTNIK_API uint32_t spotnik_group_size(const spotnik_group *group);

/**
 * Take @p bytes of the group's memory: the same pages in every process, at an address of its own,
 * zeroed and aligned to pages. Every process takes the same pieces in the same order; none waits.
 * Valid to the end of the group. NULL: no memory, or other processes took another size;
 * spotnik_last_error() says which.
 */
SPOTNIK_API void *spotnik_group_memory(spotnik_group *group, size_t bytes);

/**
 * Become a member of the job: spotnik_join() by the leader. Collective; @p config counts in the
 * leader alone and may be NULL elsewhere. Errors: those of spotnik_join(); STATE (joined already).
 */
SPOTNIK_API int spotnik_group_join(spotnik_group *group, const spotnik_config *config);

/** spotnik_state_add() of @p data, in memory of the group: what a joining group receives, and
 * checkpoints hold. Collective. Errors: those of spotnik_state_add(); ARGUMENT (other memory). */
SPOTNIK_API int spotnik_group_state_add(spotnik_group *group, const char *name, void *data,
                                        size_t count, enum spotnik_dtype dtype);

/**
 * The same for data of this process's own, of which every process of the group has a copy: with
 * the first spotnik_group_step_begin(), and whenever the state came from outside, all copies become
 * the leader's. Joiners and checkpoints receive the leader's. Collective. Errors: those of
 * spotnik_group_state_add(), MEMORY.
 */
SPOTNIK_API int spotnik_group_state_copy_add(spotnik_group *group, const char *name, void *data,
                                             size_t count, enum spotnik_dtype dtype);

/**
 * Call @p refresh in this process right before the library copies the state for a joiner or a
 * checkpoint. It runs inside a collective call, on the caller's thread, in all processes at once,
 * and brings this process's part of the registered memory up to date. It calls nothing of this
 * library. NULL ends this. Errors: STATE.
 */
SPOTNIK_API int spotnik_group_refresh_set(spotnik_group *group, void (*refresh)(void *context),
                                          void *context);

/** Limit the wait of collective calls in this process. They then return SPOTNIK_ERR_AGAIN, and the
 * same call continues the wait. For programs that must check for signals. 0, the default: for
 * ever. Errors: STATE. */
SPOTNIK_API int spotnik_group_patience_set(spotnik_group *group, uint64_t patience_ns);

/** Replacements of the registered memory from outside, as of the last spotnik_group_step_begin().
 * If that call changed the number, rebuild what was derived from that memory. */
SPOTNIK_API uint64_t spotnik_group_loads(const spotnik_group *group);

/** spotnik_step_begin(): the same step in each process, with the share of the whole group, which
 * the program divides among its processes. Collective. Errors: those of spotnik_step_begin(). */
SPOTNIK_API int spotnik_group_step_begin(spotnik_group *group, spotnik_step *ret_step);

/**
 * Hand over this process's part of a bucket: from now on its part lies in @p data, in memory of the
 * group, and stays untouched until the commit. Every process calls it for every bucket of the step,
 * with the same arguments, also one that has no part. None waits. When the last part lies there, a
 * thread of the leader starts the all-reduce. After the commit @p data holds the result for all.
 * Errors: ARGUMENT, STATE (no step begun, bucket used already). Errors of spotnik_allreduce() are
 * returned by spotnik_group_step_commit().
 */
SPOTNIK_API int spotnik_group_allreduce(spotnik_group *group, uint32_t bucket, void *data,
                                        size_t count, enum spotnik_dtype dtype, enum spotnik_op op);

/**
 * Contribute @p data of this process's own to a bucket: the group's contribution is the reduction
 * over its processes, in order of rank, and the commit writes the result to @p data of each. Every
 * process calls it, with the same arguments but for @p data. The call copies @p data at once. MEAN
 * weighs each process as spotnik_group_weight_set() says, by default 1. Errors: those of
 * spotnik_group_allreduce(), MEMORY.
 */
SPOTNIK_API int spotnik_group_combine(spotnik_group *group, uint32_t bucket, void *data,
                                      size_t count, enum spotnik_dtype dtype, enum spotnik_op op);

/** Weight of this process's own data in MEAN of the running step, before its first bucket; 0: no
 * contribution. Where any process sets one, the group weighs as much as all its processes
 * together. Errors: STATE. */
SPOTNIK_API int spotnik_group_weight_set(spotnik_group *group, uint64_t weight);

/** spotnik_samples_decline(), by every process before its first bucket of the step, or by none.
 * Errors: STATE; others are returned by spotnik_group_step_commit(). */
SPOTNIK_API int spotnik_group_samples_decline(spotnik_group *group);

/** spotnik_step_commit(). Collective. Errors: those of spotnik_step_commit(); those of the step's
 * all-reduces, and MISMATCH where processes handed over different buckets: end the process. */
SPOTNIK_API int spotnik_group_step_commit(spotnik_group *group);

/** Ask the whole group to leave: the next spotnik_group_step_begin() returns LEAVING in all
 * processes. Any process, any thread, async-signal-safe. NULL is ignored. */
SPOTNIK_API void spotnik_group_notice(spotnik_group *group);

/** spotnik_state_digest(), as of all processes. Collective. Errors: MISMATCH, AGAIN. */
SPOTNIK_API int spotnik_group_digest(spotnik_group *group, uint64_t *ret_digest);

/** spotnik_status() as of the last collective call, in any process. On the caller's thread. */
SPOTNIK_API void spotnik_group_status(const spotnik_group *group, spotnik_job_status *ret);

/** spotnik_observe() (watch.h) of the leader; calls of other processes have no effect. Between
 * spotnik_group_join() and the end. Errors: those of spotnik_observe(). */
SPOTNIK_API int spotnik_group_observe(spotnik_group *group, const char *name, double value);

/** The leader's job, between spotnik_group_join() and the group's end, for calls that any thread
 * may make: spotnik_status(), spotnik_members(), spotnik_batch_status(),
 * spotnik_checkpoint_status(). NULL in other processes. */
SPOTNIK_API spotnik_job *spotnik_group_job(spotnik_group *group);

/** spotnik_leave(), then free the group: processes may end after it, in any order. Collective.
 * Returns what spotnik_leave() returns, or 0 without a job. @p group is freed unless it returns
 * AGAIN or MISMATCH. */
SPOTNIK_API int spotnik_group_leave(spotnik_group *group);

/** spotnik_abandon(), then free the group. Collective: for programs that end after an error which
 * all processes received. Returns 0, AGAIN or MISMATCH, as above. */
SPOTNIK_API int spotnik_group_abandon(spotnik_group *group);

#ifdef __cplusplus
}
#endif
#endif
