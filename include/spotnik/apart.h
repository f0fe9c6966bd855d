/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file apart.h
 * Point to point between members of a job, outside of steps.
 *
 * Nothing here is part of a step: nothing is agreed upon, repeated after a loss or replayed by a joiner, and what arrives
 * differs from member to member. It is for strategies in which members run apart (docs/guide/strategies.md); between steps,
 * in the midst of them, and before the first one, all the same.
 *
 *     spotnik_publish(job, "model", w, n, SPOTNIK_F32, ++version);
 *     spotnik_pull(job, "model", rank, 0, other, n, SPOTNIK_F32, 0, &request);
 *     ... compute ...
 *     spotnik_arrival arrival = { .size = sizeof arrival };
 *     if (spotnik_request_wait(request, UINT64_MAX, &arrival) == 0 && arrival.version) average(w, other);
 *     spotnik_request_free(request);
 *
 * Threads: all but the last two on the thread of the job; spotnik_request_wait() and
 * spotnik_request_free() on any one. Others are served by threads of the library, without the caller's help.
 * A request turns to the next member of the view at once when the one it asks dies, leaves, or says nothing for longer than
 * silence_ceiling_ns; each member is asked once. Members of one host read each other's snapshots where they lie, in shared memory: it costs
 * the owner nothing. What else passes between them goes through a Unix socket; between hosts it is TCP, below the data of steps
 * in priority. */
#ifndef SPOTNIK_APART_H
#define SPOTNIK_APART_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pull, exchange, push or fetch under way. Opaque. */
typedef struct spotnik_request spotnik_request;

/** What a request has brought. */
typedef struct spotnik_arrival {
    uint32_t size;               /**< set by the caller: sizeof(spotnik_arrival) */
    uint32_t rank;               /**< of the member that answered, in the view it was chosen from */
    uint64_t source;             /**< the upper half of its member id: the first 16 digits of spotnik_job_member.member */
    uint64_t version;            /**< of its snapshot, 1 and up; 0: nothing came. Nobody had it, or time was up: go on
                                      without */
    uint64_t tried;              /**< how many members were asked */
} spotnik_arrival;

/**
 * Let others pull a copy of @p data, @p count elements, from now on: as the snapshot @p name (1 to 63 printable bytes),
 * number @p version, 1 and up, growing. Costs one copy; waits for nobody. Three copies are kept in the steady state, and one
 * more for each reader on another host that is slower than two publications.
 *
 * Errors: ARGUMENT (also: @p name was published with another count or type before), LIMIT (more than 256 names), MEMORY;
 * what was published before stays then.
 */
SPOTNIK_API int spotnik_publish(spotnik_job *job, const char *name, const void *data, size_t count,
                                enum spotnik_dtype dtype, uint64_t version);

/**
 * Start to copy the newest snapshot @p name of the member of rank @p rank (of the next one, if that is us) to @p data.
 *
 * @param version_min  0: what there is now; who has published nothing is passed over. Else wait until it has published this
 *                     version or a later one.
 * @param data         @p count elements of @p dtype, as published; left alone by the caller until the request has ended. Unless
 *                     a version arrives, its content is undefined afterwards.
 * @param timeout_ns   when to give up; 0: never. Nothing has come then.
 * On success *@p ret_request is the caller's until spotnik_request_free(), which must come before the job ends.
 * Errors: ARGUMENT, LIMIT (more than 64 requests), MEMORY, SYSTEM.
 */
SPOTNIK_API int spotnik_pull(spotnik_job *job, const char *name, uint32_t rank, uint64_t version_min, void *data,
                             size_t count, enum spotnik_dtype dtype, uint64_t timeout_ns,
                             spotnik_request **ret_request);

/**
 * Start to average our model pairwise with what the member of rank @p rank has published as @p name, F32, of @p count
 * elements: @p data holds ours, and becomes what is to be added to it. That member finds the opposite in its
 * spotnik_settle(), so that the sum of both is kept.
 *
 * When nothing came, nothing has changed: neither @p data nor the other one. Once something came it is in the other one's
 * account for good; only a loss undoes a half, together with the member that had it. One at a time. Freeing the request
 * before it has ended gives it up, and may leave the other one's half standing. Otherwise as spotnik_pull();
 * Errors: as there; STATE (another one has not ended).
 */
SPOTNIK_API int spotnik_exchange(spotnik_job *job, const char *name, uint32_t rank, float *data, size_t count,
                                 uint64_t timeout_ns, spotnik_request **ret_request);

/**
 * Add to @p data, @p count elements, what exchanges by others have left for the model published as @p name; at once. For the
 * model's owner, between two of its steps. *@p ret_settled (NULL: not wanted): how many there were. Who never settles is
 * passed over by others after a while. Errors: ARGUMENT.
 */
SPOTNIK_API int spotnik_settle(spotnik_job *job, const char *name, float *data, size_t count, uint32_t *ret_settled);

/**
 * Open the store @p name, @p count elements of F32, which all members hold together: it is cut by bytes over the members of the
 * view, each part on @p copies of them (1 to 8; 2 survives the loss of any member, 3 of any two at a time). What it begins with is
 * @p initial, the same on every member, copied at once; one that opens it later takes over what the others have.
 *
 * Any time: before the first step, between steps, in a program that joins when others have pushed for long. Members that have not
 * opened it hold their part all the same, from when somebody else has; so nobody waits for anybody's call. Every member that does open it
 * gives the same count and copies; where they differ, pushes and fetches end with MISMATCH, or this call with ARGUMENT.
 * When the view changes, its parts are cut anew and move by themselves, while pushes wait. Members that leave take what they
 * hold with them: as many as there are copies may not leave at the same instant, as they may not die. When all holders of a part are lost at once, the newest
 * content that is left anywhere takes its place. Costs every member memory for one more copy of the whole. Errors: ARGUMENT (also: it is open
 * already, or open elsewhere with other numbers), MEMORY, SYSTEM.
 */
SPOTNIK_API int spotnik_store_open(spotnik_job *job, const char *name, const float *initial, size_t count,
                                   uint32_t copies);

/**
 * Start to add @p update, as many elements as the store has, to the store: exactly once, whoever is lost meanwhile. When the
 * request ends with a version, all copies have all of it; with version 0, by @p timeout_ns or by being freed before, it may count in part.
 * One push at a time. @p update is left alone until the request has ended. Errors: as spotnik_pull(); STATE (the store is not open here, or
 * the last push has not ended).
 */
SPOTNIK_API int spotnik_push(spotnik_job *job, const char *name, const float *update, size_t count,
                             uint64_t timeout_ns, spotnik_request **ret_request);

/**
 * Start to copy the store to @p data: all pushes of ours that have ended with a version are in it, and of others' what has arrived;
 * parts of it may be of different instants. Errors: as spotnik_push().
 */
SPOTNIK_API int spotnik_fetch(spotnik_job *job, const char *name, float *data, size_t count, uint64_t timeout_ns,
                              spotnik_request **ret_request);

/**
 * Memory of @p count floats that the members of this host have in common, under @p name: *@p ret_memory is the same memory in all of them
 * that have called this, and what one writes the others read. What it holds at first is the @p initial of the member that has it made, the first
 * of the host; the others wait for that, 10 s at most. Members of other hosts have another one. The loss of a member changes nothing
 * in it, and with the last one it is gone; nothing is left behind. Read and write it with relaxed atomic operations, one number at a
 * time. It is there until the job ends.
 *
 * From the first step on. Errors: ARGUMENT (also: another count before), MISMATCH (other members gave another count), SYSTEM (no memory can be
 * shared: SPOTNIK_TRANSPORT=tcp, or a system without memfd), MEMORY.
 */
SPOTNIK_API int spotnik_common(spotnik_job *job, const char *name, const float *initial, size_t count, float **ret_memory);

/**
 * Wait at most @p timeout_ns (0: only look, UINT64_MAX: for ever) until the request has ended. 0: it has, and its memory is
 * the caller's again; @p ret (NULL: not wanted) is filled as far as ret->size goes. Errors: AGAIN (not yet: call again),
 * MISMATCH (the other one's snapshot has another size or type: members run different programs), MEMORY.
 */
SPOTNIK_API int spotnik_request_wait(spotnik_request *request, uint64_t timeout_ns, spotnik_arrival *ret);

/** Free a request; one that has not ended is given up first. When this returns its memory is the caller's. NULL is
 *  allowed. */
SPOTNIK_API void spotnik_request_free(spotnik_request *request);

#ifdef __cplusplus
}
#endif
#endif
