/* SPDX-License-Identifier: Apache-2.0 */
/* What carries data between members, as the engine sees it: connections of TCP, and memory shared with members of this host. The core
 * says which way a bucket goes; nobody above needs to know which carrier takes it. Everything runs under the lock of the loop
 * unless marked otherwise. [caller]: the thread that waits for its step. */
#ifndef SPOTNIK_CARRY_CARRIER_H
#define SPOTNIK_CARRY_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "link/links.h"
#include "spotnik/spotnik.h"

#define SPOTNIK_BUCKET_SLOTS SPOTNIK_BUCKETS_MAX /* those of the caller, and the barrier of 0 elements */

struct spotnik_carriage;
struct spotnik_recorder;

/* Where the caller and the view stand. The engine writes it; carriers set `placeable`. */
struct spotnik_stand {
    bool begun, sealed; /* the running step */
    bool frozen;        /* by a promise: what a cut left half sent stays so until the next view is here */
    bool placeable;     /* something happened: waiting frames may fit now */
    uint64_t begun_step, committed;
};

/* What carriers ask of the engine. */
struct spotnik_carriage_hooks {
    void *context;
    void (*act)(void *context);  /* do what the core wants done by now */
    bool (*owns)(void *context); /* our descriptors are still ours */
};

/* As the environment gives them; borrowed for the call. */
struct spotnik_carriage_config {
    const char *shape, *lanes, *congestion;
};

/* A result, as it lies in memory. */
struct spotnik_bucket_result {
    const void *data; /* NULL: bucket not used in the step */
    uint64_t count;
    uint8_t dtype, op;
};

/* The data connections to one member. */
struct spotnik_lane_status {
    struct spotnik_id peer;
    uint32_t connections; /* open ones */
    uint32_t carrying;    /* those that get frames */
    uint64_t bytes_per_s; /* the last measurement under pressure (width.h); 0: never long enough */
    uint64_t round_trip_ns;
    char congestion[16];  /* the congestion control of the first connection */
};

/* What has been carried, since this process began. */
struct spotnik_carriage_counts {
    uint64_t bytes_sent, bytes_received;
    uint64_t bytes_shared;  /* of buckets reduced in shared memory */
    uint64_t paths_stalled; /* nothing arrived on a lane for longer than a silence */
};

/* ---- life; all but `config` stay the caller's. open: with the loop open and our name known; transport: "auto" (also NULL), "shm", "tcp" */
int spotnik_carriage_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials, const struct spotnik_limits *limits,
                         struct spotnik_stand *stand, const struct spotnik_carriage_hooks *hooks,
                         const struct spotnik_carriage_config *config, struct spotnik_carriage **ret);
int spotnik_carriage_open(struct spotnik_carriage *carriage, struct spotnik_links *links, const char *transport);
void spotnik_carriage_core_set(struct spotnik_carriage *carriage, struct spotnik_core *core, struct spotnik_recorder *recorder);
void spotnik_carriage_forget(struct spotnik_carriage *carriage);  /* all connections and buckets of the member we were */
void spotnik_carriage_renamed(struct spotnik_carriage *carriage); /* we are a new member: its memory has its name */
void spotnik_carriage_lost(struct spotnik_carriage *carriage);    /* our descriptors are not ours any more */
void spotnik_carriage_free(struct spotnik_carriage *carriage);    /* no thread uses it; accepts NULL */

/* ---- views */
void spotnik_carriage_expect(struct spotnik_carriage *carriage, const struct spotnik_member *peer);
void spotnik_carriage_cut(struct spotnik_carriage *carriage);  /* nothing of the running epoch is touched any more */
void spotnik_carriage_view(struct spotnik_carriage *carriage); /* a new one, after its cut */

/* ---- connections, for the links */
void spotnik_carriage_adopt(struct spotnik_carriage *carriage, struct spotnik_opening *opening, enum spotnik_purpose purpose, bool dialled);
void spotnik_carriage_failed(struct spotnik_carriage *carriage, enum spotnik_purpose purpose, const struct spotnik_member *peer,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
bool spotnik_carriage_is_sharing(const struct spotnik_carriage *carriage);
int spotnik_carriage_connect(const struct spotnik_carriage *carriage, const struct spotnik_member *peer, int *ret_fd); /* any thread */

/* ---- data. read, pump: about `bytes_max` of each connection; true: there is more */
bool spotnik_carriage_read(struct spotnik_carriage *carriage, size_t bytes_max);
bool spotnik_carriage_pump(struct spotnik_carriage *carriage, size_t bytes_max);
void spotnik_carriage_move(struct spotnik_carriage *carriage); /* receive and send a little */
bool spotnik_carriage_is_waiting(const struct spotnik_carriage *carriage); /* frames wait for something else to happen */
bool spotnik_carriage_is_empty(const struct spotnik_carriage *carriage);   /* nothing is on its way out */
bool spotnik_carriage_wants_a_look(const struct spotnik_carriage *carriage); /* by the progress thread, before it would wake */

/* ---- the progress thread. accept: members of this host that knock */
void spotnik_carriage_accept(struct spotnik_carriage *carriage);
void spotnik_carriage_look(struct spotnik_carriage *carriage, uint64_t now_ns);
uint64_t spotnik_carriage_deadline(const struct spotnik_carriage *carriage);

/* ---- work in shared memory. work: true: something was done. wait: gives up the lock meanwhile; `place`: ours on this host */
bool spotnik_carriage_is_busy(const struct spotnik_carriage *carriage);
bool spotnik_carriage_is_ahead(const struct spotnik_carriage *carriage); /* others need the processor more than we */
bool spotnik_carriage_work(struct spotnik_carriage *carriage);                                      /* [caller] */
void spotnik_carriage_wait(struct spotnik_carriage *carriage, uint64_t until_ns, uint32_t place);   /* [caller] */
void spotnik_carriage_changed(struct spotnik_carriage *carriage); /* wake who waits so */
void spotnik_carriage_seal(struct spotnik_carriage *carriage);    /* [caller] all buckets of the step are known */
void spotnik_carriage_prune(struct spotnik_carriage *carriage);   /* [caller], holding no result */

/* ---- buckets. begin: `in` is the caller's; `kept`: stays as it is. STATE: was begun in this step. act: an action that moves or adds
 * up bytes. handover: a frame of a committed result, from a donor; PEERS: it does not fit */
int spotnik_carriage_begin(struct spotnik_carriage *carriage, uint32_t number, void *in, size_t count, enum spotnik_dtype dtype,
                           enum spotnik_op op, bool kept);
void spotnik_carriage_act(struct spotnik_carriage *carriage, const struct spotnik_action *action);
int spotnik_carriage_handover(struct spotnik_carriage *carriage, const struct spotnik_chunk_header *header,
                              const struct spotnik_placement *placement, const void *payload, size_t bytes);
void spotnik_carriage_committed(struct spotnik_carriage *carriage);

/* ---- results. result: of `step`, of the caller's buckets and the library's, up to the last used one; room: SPOTNIK_BUCKET_BARRIER.
 * early: one piece before the commit, where there is one. deliver: without the lock; false: they were gone; *ret_digest: of what the
 * caller has now */
uint32_t spotnik_carriage_result(const struct spotnik_carriage *carriage, uint64_t step, struct spotnik_bucket_result *ret);
bool spotnik_carriage_early(struct spotnik_carriage *carriage); /* [caller] */
void spotnik_carriage_undo(struct spotnik_carriage *carriage);  /* inputs are what they were, unless the step is committed */
bool spotnik_carriage_deliver(struct spotnik_carriage *carriage, uint64_t step, const struct spotnik_bucket_result *result,
                              uint32_t count, uint64_t *ret_digest); /* [caller] */

/* ---- memory for buckets of the caller; without the lock */
void *spotnik_carriage_alloc(struct spotnik_carriage *carriage, size_t bytes);
void spotnik_carriage_unalloc(struct spotnik_carriage *carriage, void *memory);

/* ---- status. path: the last fault of one; returns when, 0: never */
struct spotnik_carriage_counts spotnik_carriage_counts_get(const struct spotnik_carriage *carriage);
uint32_t spotnik_carriage_lanes(const struct spotnik_carriage *carriage, struct spotnik_lane_status *ret, uint32_t max);
uint64_t spotnik_carriage_path(const struct spotnik_carriage *carriage, char *text, size_t size);

#endif
