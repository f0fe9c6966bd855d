/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's state and the vocabulary its files share. Private to src/net.
 *
 * One fair lock guards everything here. The progress thread holds it except while it sleeps in epoll or
 * calls hooks. The caller's thread runs its events in place under the same lock (drive.c), so that a step
 * begins without a wake-up.
 *
 *     engine.c   life cycle             caller.c   the caller's side and its waiting
 *     progress.c the loop               drive.c    event -> core -> actions
 *     arrivals.c what the links ask of us (link/links.h)
 *     lane.c     data that goes         stream.c   data that comes
 *     widen.c    more connections for it: width.h decides their number, congestion.h their congestion control
 *     share.c    memory shared with members of this host (share.h)
 *     spare.c    lanes in reserve       bucket.c   memory and kernels
 *     attend.c   which thread reads the data   early.c    results that reach the caller before the commit
 *     owns.c     whether our descriptors are still ours
 *     lane_watch.c  whether what goes out on a lane arrives */
#ifndef SPOTNIK_NET_STATE_H
#define SPOTNIK_NET_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "link/auth.h"
#include "link/death.h"
#include "link/links.h"
#include "link/loop.h"
#include "link/shake.h"
#include "link/socket.h"
#include "net/congestion.h"
#include "net/congestion_choice.h"
#include "net/early.h"
#include "net/engine.h"
#include "record/recorder.h"
#include "net/spin.h"
#include "record/tracer.h"
#include "net/width.h"
#include "wire/control.h"
#include "wire/data.h"
#include "wire/frame.h"

#define SPOTNIK_LANE_FRAMES 8
#define SPOTNIK_LANES 24 /* data connections of a view that we send on: to all others where those are few, else at most to both neighbours in rings
                            and those in the trees of members and of hosts */
#define SPOTNIK_BUCKET_SLOTS SPOTNIK_BUCKETS_MAX /* those of the caller, and the barrier of 0 elements */

/* One data frame on its way out. */
struct spotnik_outgoing {
    uint8_t prefix[SPOTNIK_DATA_PREFIX_BYTES];
    const uint8_t *payload; /* NULL: zeros; the frame is of an older epoch, and its receiver drops it */
    size_t bytes, sent;     /* of prefix and payload together */
};

/* One connection of a lane. */
struct spotnik_track {
    struct spotnik_socket socket;
    bool up;
    uint32_t count;
    struct spotnik_outgoing frame[SPOTNIK_LANE_FRAMES]; /* frame[0] first */
};

/* The way of data to one member: one connection, or several side by side that share what there is to send, frame by frame. */
struct spotnik_lane {
    struct spotnik_track first;
    struct spotnik_track *more; /* SPOTNIK_WIDTH_MAX - 1 of them; NULL: never needed yet */
    uint32_t more_up;           /* of those, number that are up */
    uint32_t used;              /* of all, number that get frames, from the first */
    bool wanted, opening;
    bool expected; /* by the present view */
    uint32_t widening; /* further ones being opened */
    struct spotnik_member peer;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]; /* of the first connection */
    uint64_t turn_epoch, turn; /* of the next frame */
    uint8_t speech;            /* wire version of the peer */
    uint64_t redial_ns; /* NEVER: not due */
    uint64_t look_ns, opening_ns, asked_ns; /* watch.c: next look; since when it is not up; since when the link is asked, 0: it is not */
    uint64_t down_ns; /* when to tell the core that the lane broke, unless its link tells of a death first */
    struct spotnik_width width;
    struct spotnik_congestion congestion;
    uint64_t sent;          /* bytes, since it is up */
    uint64_t pressed_ns;    /* since when it is pressed (width.h), or when that was last reported; 0: it is not */
    uint64_t pressed_sent;  /* bytes until then */
};

#define SPOTNIK_SPARES 3

/* A data connection in reserve (spare.c). */
struct spotnik_spare {
    struct spotnik_socket socket;
    bool up, opening;
    struct spotnik_member peer;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
};

_Static_assert(SPOTNIK_LANES >= SPOTNIK_SMALL_MEMBERS_MAX && SPOTNIK_LANES >= 2 + 2 * (1 + SPOTNIK_TREE_FAN_MAX), "room for every lane");

enum spotnik_stream_state {
    SPOTNIK_STREAM_PREFIX,
    SPOTNIK_STREAM_AHEAD, /* a frame before its turn: its payload comes into the scratch meanwhile */
    SPOTNIK_STREAM_WAIT,
    SPOTNIK_STREAM_BODY,
};

/* Data from one member: one connection of its lane. */
struct spotnik_stream {
    struct spotnik_socket socket;
    struct spotnik_stream *next;
    enum spotnik_stream_state state;
    struct spotnik_member peer;
    struct spotnik_stream *head; /* the first connection of the lane, which may be this one, and closes with all others */
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]; /* head: of the connection; */
    uint32_t width;                         /* how many there are, */
    uint64_t epoch, turn;                   /* and which frame is next on whichever of them */
    uint8_t prefix[SPOTNIK_DATA_PREFIX_BYTES];
    size_t prefix_have;
    uint64_t frame_turn; /* of the header below */
    struct spotnik_chunk_header header;
    struct spotnik_placement placement;
    uint8_t *target;  /* where the payload goes; NULL: to the sink */
    uint8_t *scratch; /* one chunk: payload that is combined when it is whole */
    size_t bytes, have;
};

/* Memory of one bucket. Results are ours, kept for two steps; `in` is the caller's. */
struct spotnik_bucket_memory {
    void *in;
    uint8_t *out[2];    /* never by itself: spotnik_bucket_out() */
    uint8_t *spread[2]; /* what takes the place of out[] in the step it was last used in: memory that our host reads; NULL: nothing */
    size_t capacity[2];
    /* Of a small bucket, that may not go round the ring: copies of `in` to send, and the others' inputs by rank, or their sums by slot. */
    uint8_t *offer[2], *tray;
    uint64_t tray_weight[SPOTNIK_SMALL_MEMBERS_MAX];
    size_t offer_bytes[2], tray_bytes;
    uint64_t step[2]; /* the step out[] was last used in */
    uint64_t count[2];
    uint8_t dtype[2], op[2];
    struct spotnik_early *early; /* NULL: never needed so far */
    bool kept; /* `in` stays as it is: the caller reads the result where it lies */
    bool flat_begun; /* the flat all-reduce of this very input has been started before */
};

/* The thread that reads the data connections (attend.c). */
struct spotnik_attend {
    struct spotnik_socket timer, wake; /* the end of a caller's grace; an eventfd in the set of data connections */
    bool caller;   /* a caller that waits for its commit, and not the progress thread */
    bool apart;    /* the set is not in the progress thread's */
    bool sleeping; /* the caller, on the set */
    bool armed;    /* the timer */
    uint64_t left_ns; /* when the caller went away last */
    struct spotnik_spin spin;
    bool yields;    /* spinning, it yields its processor to others */
    uint32_t place; /* ours among the members of this host */
    bool far; /* what we add to comes from another host: there is time to copy meanwhile */
};

struct spotnik_engine {
    struct spotnik_engine_config config;
    struct spotnik_loop loop;
    uint64_t looked_ns;          /* when our descriptors were looked at last */
    pthread_cond_t tie_asked;
    struct spotnik_tie tie;      /* the last that the core has put to the witness, */
    bool tied, tie_closed;       /* and whether it waits for an answer; nobody gives any more */
    pthread_cond_t changed;      /* something the caller waits for */
    pthread_t thread;
    bool thread_started;
    uint64_t listener_inode;
    struct spotnik_death *death;
    uint64_t origin; /* the step after which this process founded or resumed the job; 0 in one that joined */
    uint32_t noticed; /* atomic: spotnik_engine_notice() */
    uint64_t noticed_ns; /* [caller] when it was first seen; 0: not yet */
    bool entering;       /* this joiner has asked to be let in, and may be at any moment */

    /* --- under the lock --- */
    void *core_memory;
    struct spotnik_core *core;
    struct spotnik_recorder *recorder; /* NULL: none is kept */
    struct spotnik_tracer *trace;       /* NULL: none is written */
    bool driving;
    bool frozen; /* by a promise: what a cut left half sent stays so until the next view is here */
    bool stopping, abrupt;
    bool revoked;   /* other code has closed our descriptors: the engine does nothing any more */
    bool deal_due;  /* asked by the core: answered as soon as its queue is empty */
    bool placeable; /* something happened: waiting frames may fit now */
    bool watch_due;   /* a new view: watch other neighbours */
    uint64_t asleep_ns; /* how long the host has been suspended, ever */
    struct spotnik_links *links;
    char path[200];   /* what was found last on a lane, and */
    uint64_t path_ns; /* when; 0: nothing ever */
    struct spotnik_troubles troubles;
    uint64_t counted_epoch; /* its losses are in there */
    struct spotnik_stream *streams;
    struct spotnik_attend attend;
    struct spotnik_lane lane[SPOTNIK_LANES];
    uint32_t lane_count; /* one past the last that was ever used */
    uint32_t width; /* connections of each; 0: as measured */
    uint32_t width_found; /* how many that was where it was measured last; 0: nowhere yet */
    bool other_found;     /* whether the other congestion control was better there */
    struct spotnik_congestion_choice control;
    struct spotnik_spare spare[SPOTNIK_SPARES];
    uint64_t spares_epoch; /* of the view they are for */
    struct spotnik_bucket_memory bucket[SPOTNIK_BUCKET_SLOTS];
    uint32_t bucket_count; /* one past the last that was ever used */
    struct spotnik_share *share; /* NULL: none */
    struct spotnik_owned {
        struct spotnik_owned *next;
        void *memory;
        size_t bytes;
    } *owned; /* what the caller has from spotnik_engine_alloc() */
    struct spotnik_event share_failed; /* error 0: none; to be told when no actions run */
    uint8_t *sink;      /* one chunk, for data to drop */
    uint64_t held_ns;   /* NEVER, or when a shaped link lets the lanes send again */
    uint32_t lane_turn; /* which of them is first then */
    uint64_t bytes_sent, bytes_received;
    struct spotnik_member vote;
    struct spotnik_caller {
        struct spotnik_member peer;
        uint64_t heard_ns; /* 0: nobody */
    } called[SPOTNIK_CALLERS_KEPT]; /* processes that asked us for the job lately */
    uint64_t lease_ns; /* CLOCK_BOOTTIME: commits are covered until then; 0: they need no lease */
    int ended;         /* for good, 0: not; and why */
    char end[400];
    struct spotnik_founding past; /* of the last view that we were in */
    struct spotnik_encounter encounter; /* not taken yet */
    uint64_t encounters, lineages_told;
    uint64_t yielded; /* the founding whose checkpoints go aside; 0: none */
    char lineage_text[400];

    /* the caller's side */
    bool begun, handed_out, sealed, replay;
    uint64_t begun_step, committed;
    bool excluded, left, boundary_due;
    int failed;
    uint64_t result_step, result_digest; /* the caller's thread: of the last result; step 0: told already */
    struct spotnik_divergence diverged; /* `failed` is DIVERGED: the member we differ from */
    char mismatch[256]; /* failed for MISMATCH: of which bucket, as far as it is known */
    uint64_t parked_ns; /* since when; 0: not */
    uint64_t patience_ns; /* of the caller's waits; 0: for ever */
    uint64_t step_epoch;
    uint32_t recovery_count;
    spotnik_recovery recovery[SPOTNIK_RECOVERIES_KEPT];
};

/* loop.h, for the engine */
static inline void spotnik_engine_lock(struct spotnik_engine *engine)
{
    spotnik_loop_lock(&engine->loop);
}
static inline void spotnik_engine_unlock(struct spotnik_engine *engine)
{
    spotnik_loop_unlock(&engine->loop);
}
static inline void spotnik_engine_kick(struct spotnik_engine *engine)
{
    spotnik_loop_kick(&engine->loop);
}
static inline void spotnik_engine_bury(struct spotnik_engine *engine, struct spotnik_socket *socket)
{
    spotnik_loop_bury(&engine->loop, socket);
}

/* tenure.c */
void spotnik_caller_note(struct spotnik_engine *engine, const struct spotnik_member *peer);
void spotnik_lease_check(struct spotnik_engine *engine);

/* meet.c */
void spotnik_presence_get(const struct spotnik_engine *engine, struct spotnik_presence *ret);
void spotnik_past_note(struct spotnik_engine *engine);
bool spotnik_meet_is_foreign(struct spotnik_engine *engine, const struct spotnik_shake *shake);
void spotnik_word_take(struct spotnik_engine *engine, const struct spotnik_shake *shake, char *ret_line, size_t size); /* the answer */

/* arrivals.c: the links, with what they ask of us. */
int spotnik_arrivals_new(struct spotnik_engine *engine);

/* engine.c: a core that has seen nothing yet. */
void spotnik_engine_core_reset(struct spotnik_engine *engine);

/* drive.c */
void spotnik_engine_drive(struct spotnik_engine *engine, struct spotnik_event *event);
void spotnik_engine_act(struct spotnik_engine *engine);
void spotnik_engine_move(struct spotnik_engine *engine); /* caller's thread: receive and send a little */
void spotnik_engine_tell(struct spotnik_engine *engine, enum spotnik_event_kind kind,
                         const struct spotnik_member *peer, enum spotnik_proof proof);
void spotnik_engine_watch_neighbours(struct spotnik_engine *engine);

/* Wake all threads of this process that wait for a change. */
void spotnik_engine_changed(struct spotnik_engine *engine);

/* The results of `step`, of the caller's buckets and the library's; up to the last used one. room: SPOTNIK_BUCKET_BARRIER. */
uint32_t spotnik_engine_results(const struct spotnik_engine *engine, uint64_t step,
                                struct spotnik_bucket_result *result);

/* tie.c */
void spotnik_tie_ask(struct spotnik_engine *engine, uint64_t epoch);

/* lane.c */
void spotnik_lane_expect(struct spotnik_engine *engine, const struct spotnik_member *peer);
void spotnik_lane_adopt(struct spotnik_engine *engine, struct spotnik_opening *opening);
void spotnik_lane_failed(struct spotnik_engine *engine, const struct spotnik_member *peer);
bool spotnik_lane_leads_to(struct spotnik_engine *engine, struct spotnik_id peer);
void spotnik_lanes_init(struct spotnik_engine *engine);
void spotnik_lanes_doubt(struct spotnik_engine *engine);
void spotnik_lanes_cut(struct spotnik_engine *engine);
void spotnik_lanes_close(struct spotnik_engine *engine);
void spotnik_lanes_free(struct spotnik_engine *engine);
bool spotnik_lanes_are_up(const struct spotnik_engine *engine);
bool spotnik_lanes_pump(struct spotnik_engine *engine, size_t bytes_max);
void spotnik_lanes_look(struct spotnik_engine *engine, uint64_t now_ns);
bool spotnik_lanes_are_empty(const struct spotnik_engine *engine);
struct spotnik_lane *spotnik_lane_find(struct spotnik_engine *engine, struct spotnik_id peer);
static inline struct spotnik_track *spotnik_lane_track(struct spotnik_lane *lane, uint32_t i)
{
    return i == 0 ? &lane->first : &lane->more[i - 1];
}
bool spotnik_lanes_want_a_look(const struct spotnik_engine *engine);
uint64_t spotnik_lanes_deadline(const struct spotnik_engine *engine);

/* widen.c */
int spotnik_widen_parse(const char *text, uint32_t *ret_width);
void spotnik_widen_begin(struct spotnik_engine *engine, struct spotnik_lane *lane); /* its first connection is up */
void spotnik_widen_end(struct spotnik_engine *engine, struct spotnik_lane *lane);   /* and is not any more */
void spotnik_widen_look(struct spotnik_engine *engine, struct spotnik_lane *lane);
void spotnik_widen_adopt(struct spotnik_engine *engine, struct spotnik_opening *opening);
void spotnik_widen_failed(struct spotnik_engine *engine, const struct spotnik_member *peer,
                          const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_widen_measure(struct spotnik_engine *engine, struct spotnik_lane *lane);

/* spare.c: take returns -1 when there is none; adopt is false when the connection is not wanted and still
 * the caller's */
int spotnik_spare_take(struct spotnik_engine *engine, struct spotnik_id peer, uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES]);
bool spotnik_spare_cede(struct spotnik_engine *engine, struct spotnik_id peer);
bool spotnik_spare_adopt(struct spotnik_engine *engine, int fd, struct spotnik_id peer,
                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_spare_failed(struct spotnik_engine *engine, struct spotnik_id peer);
void spotnik_spares_look(struct spotnik_engine *engine);
void spotnik_spares_close(struct spotnik_engine *engine);

/* stream.c */
void spotnik_stream_adopt(struct spotnik_engine *engine, struct spotnik_opening *opening);
void spotnik_stream_widen(struct spotnik_engine *engine, struct spotnik_opening *opening);
void spotnik_streams_cut(struct spotnik_engine *engine);
bool spotnik_streams_read(struct spotnik_engine *engine, size_t bytes_max);
bool spotnik_streams_are_waiting(const struct spotnik_engine *engine);
void spotnik_streams_close(struct spotnik_engine *engine);

/* bucket.c */
int spotnik_bucket_prepare(struct spotnik_bucket_memory *bucket, const struct spotnik_limits *limits, uint64_t step, void *in,
                           uint64_t count, enum spotnik_dtype dtype, enum spotnik_op op);
static inline uint8_t *spotnik_bucket_out(const struct spotnik_bucket_memory *bucket, unsigned half)
{
    return bucket->spread[half] != NULL ? bucket->spread[half] : bucket->out[half];
}
uint8_t *spotnik_bucket_place(struct spotnik_bucket_memory *bucket, const struct spotnik_chunk_header *header);
void spotnik_bucket_offer(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action);
void spotnik_bucket_sum(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action);
void spotnik_bucket_gather(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action);
void spotnik_bucket_scale(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action);
void spotnik_bucket_copy_own(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action);
void spotnik_bucket_combine(struct spotnik_bucket_memory *bucket, uint64_t step, const void *received,
                            const struct spotnik_placement *placement, uint64_t received_weight);
void spotnik_bucket_free(struct spotnik_bucket_memory *bucket);

/* deliver.c: results to the caller, what can be before the commit. moves, deliver: caller's thread, inside step_commit; deliver: without
 * the lock, false: they were gone */
void spotnik_deliver_lend(struct spotnik_engine *engine, uint32_t number, uint64_t step, const void *input);
void spotnik_deliver_shown(struct spotnik_engine *engine, uint32_t number, uint64_t step);
void spotnik_deliver_final(struct spotnik_engine *engine, const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement);
bool spotnik_deliver_early(struct spotnik_engine *engine);
void spotnik_deliver_undo(struct spotnik_engine *engine);
bool spotnik_deliver(struct spotnik_engine *engine, uint64_t step);

/* attend.c */
int spotnik_attend_init(struct spotnik_engine *engine);
void spotnik_attend_free(struct spotnik_engine *engine);
void spotnik_attend_view(struct spotnik_engine *engine);
void spotnik_attend_collect(struct spotnik_engine *engine);
void spotnik_attend_expired(struct spotnik_engine *engine);
void spotnik_attend(struct spotnik_engine *engine, uint64_t until_ns); /* caller's thread; gives up the lock meanwhile */
void spotnik_attend_resume(struct spotnik_engine *engine);
void spotnik_attend_leave(struct spotnik_engine *engine);
void spotnik_attend_changed(struct spotnik_engine *engine);

/* watch.c; lane: true, its connections have to be made anew */
bool spotnik_watch_lane(struct spotnik_engine *engine, struct spotnik_lane *lane, uint64_t now_ns);

/* owns.c */
void spotnik_owns_note(struct spotnik_engine *engine);
void spotnik_owns_lost(struct spotnik_engine *engine);
bool spotnik_owns(struct spotnik_engine *engine); /* false: we are over */
bool spotnik_owns_lately(struct spotnik_engine *engine, uint64_t now_ns); /* the same, by a look that is a tenth of a millisecond old at most */

/* owned.c */
void spotnik_owned_release(struct spotnik_engine *engine);

/* progress.c */
void *spotnik_progress_main(void *context);
struct epoll_event;
void spotnik_progress_mark(struct spotnik_engine *engine, const struct epoll_event *event);

#endif
