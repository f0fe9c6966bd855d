/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file p2p.h
 * Point to point between members of a job, outside of steps.
 *
 * Nothing here is part of a step. Members agree on none of it, repeat none after a loss, and
 * joiners replay none; arrivals differ from member to member. It serves asynchronous strategies
 * (docs/guide/strategies.md). Call it between steps, inside them, or before the first one.
 *
 *     spotnik_publish(job, "model", w, n, SPOTNIK_F32, ++version);
 *     spotnik_pull(job, "model", rank, 0, other, n, SPOTNIK_F32, 0, &request);
 *     ... compute ...
 *     spotnik_arrival arrival = { .size = sizeof arrival };
 *     if (spotnik_request_wait(request, UINT64_MAX, &arrival) == 0 && arrival.version)
 *         average(w, other);
 *     spotnik_request_free(request);
 *
 * Threads: spotnik_request_wait() and spotnik_request_free() on any thread, all others on the
 * thread of the job. Threads of the library serve other members, without the caller's help. A
 * request turns to the next member of the view at once when the asked one dies, leaves, or is
 * silent for longer than 2 s. It asks each member once. Members of one host read
 * each other's snapshots in place, in shared memory, at no cost to the owner. Other traffic between
 * them uses a Unix socket. Between hosts it is TCP, at lower priority than the data of steps.
 */
#ifndef SPOTNIK_P2P_H
#define SPOTNIK_P2P_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pull, exchange, push or fetch under way. Opaque. */
typedef struct spotnik_request spotnik_request;

/** The outcome of a request. */
typedef struct spotnik_arrival {
    uint32_t size; /**< set by the caller: sizeof(spotnik_arrival) */
    uint32_t rank; /**< of the answering member, in the view of the request */
    /** the upper half of its member id: the first 16 digits of spotnik_job_member.member */
    uint64_t source;
    /** of its snapshot, from 1; 0: nothing came. No member had it, or time was up: continue
     * without */
    uint64_t version;
    uint64_t tried; /**< number of members asked */
} spotnik_arrival;

/**
 * Publish a copy of @p data, @p count elements, for others to pull. It is the snapshot @p name (1
 * to 63 printable bytes) with number @p version, from 1, growing. Costs one copy and no wait. The
 * library keeps three copies, and one more for each reader on another host that is slower than two
 * publications.
 *
 * Errors: ARGUMENT (also: @p name was published with another count or type before), LIMIT (more
 * than 256 names), MEMORY; the earlier snapshot stays then.
 */
SPOTNIK_API int spotnik_publish(spotnik_job *job, const char *name, const void *data, size_t count,
                                enum spotnik_dtype dtype, uint64_t version);

/**
 * Start to copy the newest snapshot @p name of the member of rank @p rank to @p data. If that is
 * us, copy the next member's.
 *
 * @param version_min  0: the current snapshot; the request skips a member that has published none.
 * Else wait until the member has
 *                     published this version or a later one.
 * @param data         @p count elements of @p dtype, as published. The caller does not touch it
 * until the request has ended. If no
 *                     version arrives, its content is undefined afterwards.
 * @param timeout_ns   time limit; 0: none. A request that reaches it brings nothing. On success *@p
 * ret_request belongs to the caller until spotnik_request_free(), which must come before the job
 * ends. Errors: ARGUMENT, LIMIT (more than 64 requests), MEMORY, SYSTEM.
 */
SPOTNIK_API int spotnik_pull(spotnik_job *job, const char *name, uint32_t rank,
                             uint64_t version_min, void *data, size_t count,
                             enum spotnik_dtype dtype, uint64_t timeout_ns,
                             spotnik_request **ret_request);

/**
 * Open the store @p name, @p count elements of F32, which all members hold together. The library
 * divides it by bytes over the members of the view and keeps each part on @p copies of them, 1 to
 * 8. 2 copies survive the loss of any member, 3 of any two at a time. It starts as @p initial, the
 * same on every member, copied at once. A member that opens it later takes over the others'
 * content.
 *
 * Call it any time: before the first step, between steps, or in a program that joins late. A member
 * that has not opened the store holds its part all the same once another member has opened it. So
 * no member waits for another's call. Every member that opens it gives the same count and copies.
 * Where they differ, pushes and fetches end with MISMATCH, or this call with ARGUMENT. When the
 * view changes, the library divides the store anew and moves the parts, while pushes wait. A
 * leaving member takes its copy along: no more members than copies - 1 may leave or die at one
 * instant. If all holders of a part die at once, the newest content left anywhere takes its place.
 * The store costs every member memory for one more copy of the whole. Errors: ARGUMENT (also: it is
 * already open, or open elsewhere with other numbers), MEMORY, SYSTEM.
 */
SPOTNIK_API int spotnik_store_open(spotnik_job *job, const char *name, const float *initial,
                                   size_t count, uint32_t copies);

/**
 * Start to add @p update, as many elements as the store has, to the store: exactly once, whatever
 * member dies. If the request ends with a version, all copies have all of it. If it ends with
 * version 0, by @p timeout_ns or because it was freed, the store may have a part. One push at a
 * time. The caller does not touch @p update until the request has ended. Errors: as spotnik_pull();
 * STATE (the store is not open here, or the last push has not ended).
 */
SPOTNIK_API int spotnik_push(spotnik_job *job, const char *name, const float *update, size_t count,
                             uint64_t timeout_ns, spotnik_request **ret_request);

/**
 * Start to copy the store to @p data. It holds all of our pushes that ended with a version, and the
 * others' pushes that have arrived. Its parts may be of different instants. Errors: as
 * spotnik_push().
 */
SPOTNIK_API int spotnik_fetch(spotnik_job *job, const char *name, float *data, size_t count,
                              uint64_t timeout_ns, spotnik_request **ret_request);

/**
 * Share memory of @p count floats among the members of this host, under @p name: *@p ret_memory is
 * the same memory in every member that has called this. The first member of the host creates it
 * with its @p initial; the others wait for it, at most 10 s. Each host has memory of its own. A
 * member's death changes nothing in it; it vanishes with the last member and leaves nothing behind.
 * Read and write it with relaxed atomic operations, one number at a time. Valid until the job ends.
 *
 * From the first step on. Errors: ARGUMENT (also: another count before), MISMATCH (other members
 * gave another count), SYSTEM (members cannot share memory: SPOTNIK_TRANSPORT=tcp, or a system
 * without memfd), MEMORY.
 */
SPOTNIK_API int spotnik_common(spotnik_job *job, const char *name, const float *initial,
                               size_t count, float **ret_memory);

/**
 * Wait at most @p timeout_ns (0: only look, UINT64_MAX: for ever) until the request has ended. 0:
 * it has ended, its memory is the caller's again, and @p ret (NULL: not wanted) is filled as far as
 * ret->size goes. Errors: AGAIN (not yet: call again), MISMATCH (the other member's snapshot has
 * another size or type: members run different programs), MEMORY.
 */
SPOTNIK_API int spotnik_request_wait(spotnik_request *request, uint64_t timeout_ns,
                                     spotnik_arrival *ret);

/** Free a request; one that has not ended is cancelled first. Its memory is then the caller's. NULL
 * is allowed. */
SPOTNIK_API void spotnik_request_free(spotnik_request *request);

#ifdef __cplusplus
}
#endif
#endif
