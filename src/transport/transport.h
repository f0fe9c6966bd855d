/* SPDX-License-Identifier: Apache-2.0 */
/* What carries data between members, as the runtime sees it: connections of TCP, and memory shared
 * with members of this host. The core says which way a bucket goes. Nothing above knows which
 * transport takes it. Functions run under the lock of the loop unless marked otherwise. [caller]:
 * on the thread that waits for its step. The file named in a heading defines the functions below
 * it. */
#ifndef SPOTNIK_TRANSPORT_TRANSPORT_H
#define SPOTNIK_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "link/links.h"
#include "spotnik/spotnik.h"

/* those of the caller, and the barrier of 0 elements */
#define SPOTNIK_BUCKET_SLOTS SPOTNIK_BUCKETS_MAX

struct spotnik_transport;
struct spotnik_recorder;

/* Where the caller and the view stand. The runtime writes it; transports set `placeable`. */
struct spotnik_stand {
    bool begun, sealed; /* the running step */
    /* by a promise: what a cut left half sent stays so until the next view is here */
    bool frozen;
    bool placeable; /* something happened: waiting frames may fit now */
    uint64_t begun_step, committed;
};

/* What transports ask of the runtime. */
struct spotnik_transport_hooks {
    void *context;
    void (*act)(void *context); /* do what the core wants done by now */
};

/* A result, as it lies in memory. */
struct spotnik_bucket_result {
    const void *data; /* NULL: bucket not used in the step */
    uint64_t count;
    uint8_t dtype, op;
};

/* The data connections to one member. */
struct spotnik_channel_status {
    struct spotnik_id peer;
    uint32_t connections;
    uint64_t round_trip_ns;
    char congestion[16]; /* the congestion control of the first connection */
    bool encrypted;      /* it has TLS */
};

/* What has been carried, since this process began. */
struct spotnik_transport_counts {
    uint64_t bytes_sent, bytes_received;
    uint64_t bytes_shared; /* of buckets reduced in shared memory */
};

/* ---- life: transport.c ---- */

/* All but `hooks` stay the caller's. `channels`: as the environment gives it (add_connection.c);
 * borrowed for the call. */
int spotnik_transport_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials,
                          const struct spotnik_limits *limits, struct spotnik_stand *stand,
                          const struct spotnik_transport_hooks *hooks, const char *channels,
                          struct spotnik_transport **ret);
/* With the loop open, and our name known. `transport`: "auto" (also NULL), "shm", "tcp". */
int spotnik_transport_open(struct spotnik_transport *transport, struct spotnik_links *links,
                           const char *transport_name);
void spotnik_transport_core_set(struct spotnik_transport *transport, struct spotnik_core *core,
                                struct spotnik_recorder *recorder);
/* All connections and buckets of the member we were. */
void spotnik_transport_forget(struct spotnik_transport *transport);
/* We are a new member: our memory bears its name (share.c). */
void spotnik_transport_renamed(struct spotnik_transport *transport);
/* No thread uses it. Accepts NULL. */
void spotnik_transport_free(struct spotnik_transport *transport);

/* ---- views: transport.c ---- */

void spotnik_transport_expect(struct spotnik_transport *transport,
                              const struct spotnik_member *peer); /* channel.c */
/* Nothing of the running epoch is touched any more. */
void spotnik_transport_cut(struct spotnik_transport *transport);
/* There is a new view; it has been cut. */
void spotnik_transport_view(struct spotnik_transport *transport);

/* ---- connections, for the links: transport.c ---- */

void spotnik_transport_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending,
                             enum spotnik_purpose purpose, bool dialled);
void spotnik_transport_failed(struct spotnik_transport *transport, enum spotnik_purpose purpose,
                              const struct spotnik_member *peer,
                              const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
bool spotnik_transport_is_sharing(const struct spotnik_transport *transport);
/* Any thread, without the lock (share.c). */
int spotnik_transport_connect(const struct spotnik_transport *transport,
                              const struct spotnik_member *peer, int *ret_fd);

/* ---- data: inbound.c, channel.c ---- */

/* About `bytes_max` of each connection. True: there is more. */
bool spotnik_transport_read(struct spotnik_transport *transport, size_t bytes_max);
bool spotnik_transport_pump(struct spotnik_transport *transport, size_t bytes_max);
/* Frames that have come wait for something else to happen. */
bool spotnik_transport_is_waiting(const struct spotnik_transport *transport);
/* Nothing is on its way out. */
bool spotnik_transport_is_empty(const struct spotnik_transport *transport);
/* Receive and send a little (transport.c). */
void spotnik_transport_move(struct spotnik_transport *transport);
/* The progress thread has to look before it would wake by itself (transport.c). */
bool spotnik_transport_wants_a_look(const struct spotnik_transport *transport);

/* ---- for the progress thread: transport.c ---- */

/* Members of this host that dial us (share.c). */
void spotnik_transport_accept(struct spotnik_transport *transport);
void spotnik_transport_look(struct spotnik_transport *transport, uint64_t now_ns);
uint64_t spotnik_transport_deadline(const struct spotnik_transport *transport);

/* ---- work in shared memory: share_work.c ---- */

bool spotnik_transport_is_busy(const struct spotnik_transport *transport);
/* Others need the processor more than we do. */
bool spotnik_transport_is_ahead(const struct spotnik_transport *transport);
/* [caller] True: something was done (transport.c). */
bool spotnik_transport_work(struct spotnik_transport *transport);
/* [caller] Gives up the lock meanwhile. `place`: ours among the members of this host
 * (transport.c). */
void spotnik_transport_wait(struct spotnik_transport *transport, uint64_t until_ns, uint32_t place);
/* Wake the thread that waits so. */
void spotnik_transport_changed(struct spotnik_transport *transport);
/* [caller] All buckets of the step are known. */
void spotnik_transport_seal(struct spotnik_transport *transport);
void spotnik_transport_committed(struct spotnik_transport *transport);
/* [caller] Let go of memory of members that have ended; holds no result (share.c). */
void spotnik_transport_prune(struct spotnik_transport *transport);

/* ---- buckets: transport.c ---- */

/* `in` is the caller's; `kept`: it stays as it is. STATE: the bucket was begun in this step. */
int spotnik_transport_begin(struct spotnik_transport *transport, uint32_t number, void *in,
                            size_t count, enum spotnik_dtype dtype, enum spotnik_op op, bool kept);
/* An action that moves or adds up bytes. */
void spotnik_transport_act(struct spotnik_transport *transport,
                           const struct spotnik_action *action);
/* A frame of a committed result, from a donor. PEERS: it does not fit. */
int spotnik_transport_handover(struct spotnik_transport *transport,
                               const struct spotnik_chunk_header *header,
                               const struct spotnik_placement *placement, const void *payload,
                               size_t bytes);

/* ---- results: deliver.c ---- */

/* The buckets of `step`, the caller's and the library's. Returns the number of the last used one +
 * 1; there is room for SPOTNIK_BUCKETS_MAX. */
uint32_t spotnik_transport_result(const struct spotnik_transport *transport, uint64_t step,
                                  struct spotnik_bucket_result *ret);
/* [caller] One piece before the commit. False: there is none. */
bool spotnik_transport_early(struct spotnik_transport *transport);
/* Inputs are what they were, unless the step is committed. */
void spotnik_transport_undo(struct spotnik_transport *transport);
/* [caller] Without the lock. False: the results were gone. *ret_digest: of what the caller has
 * now. */
bool spotnik_transport_deliver(struct spotnik_transport *transport, uint64_t step,
                               const struct spotnik_bucket_result *result, uint32_t count,
                               uint64_t *ret_digest);

/* ---- memory for buckets of the caller, without the lock: owned.c ---- */

void *spotnik_transport_alloc(struct spotnik_transport *transport, size_t bytes);
void spotnik_transport_unalloc(struct spotnik_transport *transport, void *memory);

/* ---- status ---- */

/* Status of the memory that this member shares with others of its host. */
struct spotnik_memory_status {
    bool possible; /* this process can share memory */
    bool shared;   /* and everybody's is here, so that the view uses it */
    size_t small_bytes, slice_bytes, stream_bytes; /* as in shm/flat.h; 0: not possible */
};
void spotnik_transport_memory(const struct spotnik_transport *transport,
                              struct spotnik_memory_status *ret);
/* The memory of this member is here, or none can be. */
bool spotnik_transport_sees(const struct spotnik_transport *transport, struct spotnik_id peer);

struct spotnik_transport_counts
spotnik_transport_counts_get(const struct spotnik_transport *transport);
/* Data connections, by member (add_connection.c). Returns their number, at most `max`. */
uint32_t spotnik_transport_channels(const struct spotnik_transport *transport,
                                    struct spotnik_channel_status *ret, uint32_t max);

#endif
