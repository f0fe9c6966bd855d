/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory (docs/design/0007-data-path.md). Private to the transports; everything runs under
 * the loop's lock unless marked otherwise.
 *
 *     share.c       our segment, and the segments of others: Unix sockets, one per member of this
 *                   host
 *     share_area.c  the areas of buckets in our segment
 *     share_work.c  flat all-reduces over them, and the caller's waiting for them
 *     share_result.c  where results lie, and their way to the caller
 *
 * transport->share is NULL where the transport is TCP or the system offers no such memory. All
 * functions then do nothing and answer "no". */
#ifndef SPOTNIK_TRANSPORT_SHARE_H
#define SPOTNIK_TRANSPORT_SHARE_H

#include "transport/inside.h"
#include "transport/spin.h"
#include "shm/futex.h"
#include "shm/flat.h"
#include "shm/segment.h"
#include "shm/map.h"

#define SPOTNIK_SHARE_SETTLED 4 /* steps of a view, after which no member waits for it any more */

/* A member of this host. */
struct spotnik_sharer {
    struct spotnik_socket socket;
    struct spotnik_sharer *next;
    struct spotnik_member peer;
    struct spotnik_shm_header *header; /* of its segment, to read; NULL: not here yet */
    size_t bytes;
    bool told; /* the core knows */
};

struct spotnik_share_areas {
    /* Large inputs have an area of their own: a small one may still be read when the next step
     * begins, and that may be large. */
    uint8_t *small[2], *large, *result[2], *whole[2];
    size_t small_bytes[2], large_bytes, result_bytes[2], whole_bytes[2];
};

struct spotnik_share {
    struct spotnik_segment segment;
    struct spotnik_shm_header *header;
    struct spotnik_socket listener;
    struct spotnik_sharer *sharers;
    uint64_t kernels;
    uint64_t dial_ns, dial_wait_ns; /* when to look for missing members */
    struct spotnik_flat flat;
    struct spotnik_flat_peer *peer;
    struct spotnik_reduce_source *source;
    uint32_t members_max;
    uint64_t epoch;   /* that flat is set up for; 0: none, a member's memory is missing */
    uint32_t commits; /* of it, SPOTNIK_SHARE_SETTLED at most */
    /* buckets of the last commit, near which the caller's thread touches the others' memory; of a
     * view of that epoch and size */
    bool near_due[SPOTNIK_BUCKET_SLOTS];
    uint64_t near_epoch;
    uint32_t near_size, near_last; /* none is due from near_last on: most steps have nothing */
    uint64_t differs_epoch;        /* in which the core was told that programs differ */
    bool crowded;                  /* more members than processors */
    struct spotnik_spin spin;
    uint32_t word; /* futex of this process: something changed */
    bool sleeping; /* a thread waits with it */
    bool given_up;
    struct spotnik_share_areas areas[SPOTNIK_BUCKET_SLOTS];
    /* Started, but for memory that the caller's thread must get first; share_area.c. */
    struct spotnik_flat_order wanted[SPOTNIK_BUCKET_SLOTS];
    bool is_wanted[SPOTNIK_BUCKET_SLOTS];
    uint32_t wanted_count;
    struct spotnik_map map[SPOTNIK_BUCKET_SLOTS][2];
    uint32_t late_count; /* of late[] */
    /* the step whose result of this bucket is to be looked for, in the view before; 0: none */
    uint64_t late[SPOTNIK_BUCKET_SLOTS];
    bool shown[SPOTNIK_BUCKET_SLOTS][2]; /* the result of bucket.step[] is what the map shows */
};

/* Wake those that the last change of our shm header concerns. */
static inline void spotnik_share_ring(struct spotnik_share *share)
{
    if (!share->flat.rung)
        return;
    share->flat.rung = false;
    spotnik_futexes_wake(&share->flat);
}

/* share.c */
int spotnik_share_new(struct spotnik_transport *transport, const char *transport_name);
void spotnik_share_free(struct spotnik_transport *transport);
void spotnik_share_cut(struct spotnik_transport *transport);
void spotnik_share_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending);
void spotnik_share_read(struct spotnik_transport *transport);
void spotnik_share_look(struct spotnik_transport *transport, uint64_t now_ns);
uint64_t spotnik_share_deadline(const struct spotnik_transport *transport);
void spotnik_share_give_up(struct spotnik_transport *transport);
struct spotnik_sharer *spotnik_share_find(const struct spotnik_share *share,
                                          struct spotnik_id peer);

/* share_area.c */
size_t spotnik_area_result_room(const struct spotnik_share *share,
                                const struct spotnik_flat_order *order, size_t bytes);
/* Put the bucket's areas into *order. False: something is missing that takes time to get,
 * spotnik_area_get() does that. A small bucket always has what it needs, or NULL where there is no
 * memory at all. */
bool spotnik_area_find(struct spotnik_transport *transport, uint32_t bucket,
                       struct spotnik_flat_order *order);
/* Caller's thread. Gives up the lock meanwhile: what was ordered may be another thing afterwards,
 * or nothing. 0 or SPOTNIK_ERR_MEMORY. */
int spotnik_area_get(struct spotnik_transport *transport, uint32_t bucket);

/* share_work.c */
void spotnik_share_view(struct spotnik_transport *transport);
void spotnik_share_start(struct spotnik_transport *transport, const struct spotnik_work *work);
void spotnik_share_spread(struct spotnik_transport *transport, const struct spotnik_work *work);
/* [caller, without the lock] After a commit: have at hand what a recovery would need. */
void spotnik_share_neighbours(struct spotnik_transport *transport);
void spotnik_share_late(struct spotnik_transport *transport, const struct spotnik_work *work);
bool spotnik_share_work(struct spotnik_transport *transport); /* true: something was done */
/* gives up the lock meanwhile */
void spotnik_share_wait(struct spotnik_transport *transport, uint64_t until_ns, uint32_t place);

/* share_result.c */
void spotnik_share_show(struct spotnik_transport *transport, uint32_t bucket, uint64_t step,
                        uint64_t received);
void spotnik_share_void(struct spotnik_transport *transport, uint32_t bucket, uint64_t step);

/* The result of a bucket of `step`, or NULL when it is not in shared memory. */
const uint8_t *spotnik_share_result(const struct spotnik_transport *transport, uint32_t bucket,
                                    uint64_t step);

/* Where the holder of our host shows the result of a bucket of the running step; NULL: we have no
 * holder. */
const void *spotnik_share_shown(const struct spotnik_transport *transport, uint32_t bucket,
                                uint64_t step);

/* Without the lock, caller's thread, after the commit of `step`: copy the result of a bucket to
 * `data`, the input it came from (NULL: only look). False: the others have gone on without us, and
 * `data` is as it was. */
bool spotnik_share_deliver(struct spotnik_transport *transport, uint32_t bucket, uint64_t step,
                           void *data);

#endif
