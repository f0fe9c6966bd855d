/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol as one state machine: event in, actions out. The network driver and the simulator
 * use it alike.
 *
 * Pure: no I/O, clock, lock or allocation. Equal state and event give equal state and actions on
 * every machine. A driver uses it in this order, from one thread at a time:
 *
 *   1. memory of spotnik_core_size(&limits) bytes, spotnik_core_init().
 *   2. For every event: spotnik_core_step(core, &event), then spotnik_core_poll() until it returns
 *      false. Do each action at once: a message belongs to the core and is valid until the next
 *      call of any spotnik_core_ function. The action FLAT asks for a bucket by the flat algorithm,
 *      in memory that all members of the view share, or all of our host. The driver reports
 *      FLAT_DONE when it holds the whole result, and SHARED for the peers that share memory with
 *      us.
 *   3. When a data connection can take bytes: spotnik_core_send_next() for its peer, and send the
 *      chunk that it names.
 *   4. When a data frame's header has arrived: spotnik_core_place(). Read the payload to that
 *      place, then report CHUNK_DONE.
 *   5. Call with TICK no later than spotnik_core_deadline().
 *
 * The driver owns the memory of buckets. Each bucket has a caller-owned `in`, never written, and
 * two driver-owned results `out[0]`, `out[1]`. Step s writes out[s & 1]; the other one still holds
 * the result of s - 1 for laggards. A bucket also has spotnik_choice_places() places for the inputs
 * of others and, if there are any, `offer[0]`, `offer[1]` for its own.
 *
 * event->now_ns must not run backwards. */
#ifndef SPOTNIK_CORE_CORE_H
#define SPOTNIK_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/action.h"
#include "core/event.h"
#include "member/founding.h"
#include "member/view.h"
#include "ring/choice.h"
#include "ring/ring.h"
#include "ring/tree.h"

#define SPOTNIK_BUCKETS_MAX 258 /* 0..255 are the caller's */
/* the library's own: numbers that all members decide by (src/api/step_stats.h) */
#define SPOTNIK_BUCKET_AGREED 256
#define SPOTNIK_BUCKET_BARRIER 257
/* of collectives, where the caller has taken 255; a step with one is none without buckets */
#define SPOTNIK_BUCKET_CENSUS SPOTNIK_BUCKET_BARRIER

struct spotnik_limits {
    uint32_t members_max; /* in a view, joiners included */
    uint32_t warm_count;  /* successors to keep links to, >= 1 */
    uint32_t chunk_bytes; /* of a data frame's payload, a multiple of 8 */
    /* limit of small buckets in shared memory: every member adds them up by itself */
    uint32_t flat_small_bytes;
    uint64_t heartbeat_ns;     /* between heartbeats on a link to a ring neighbour */
    uint64_t silence_floor_ns; /* the adaptive limit stays between these two */
    uint64_t silence_ceiling_ns;
    uint64_t stagger_ns;    /* delay of each further witness before it starts a ballot itself */
    uint64_t retry_ns;      /* restart a ballot that has not come round; parked members retry */
    uint64_t enter_wait_ns; /* wait of a view change for a joiner that is a step behind */
    /* in larger views PREPARE, ACCEPT and RESTART say only what differs */
    uint32_t brief_members;
    /* in larger views PREPARE and ACCEPT go up and down a tree */
    uint32_t tree_members;
    /* buckets that do not go round the ring; the same for all members. NULL: none */
    const struct spotnik_choice *choice;
    /* children of a member in the tree of small buckets; the same for all members */
    uint32_t fan;
    /* members of one host add in memory and send one stream to the next host, if possible */
    bool hierarchy;
    /* shares are uneven: ask for DEAL before every commit; the same on every member */
    bool deals;
};

/* Sensible values for `members_max` members on real networks. */
void spotnik_limits_init(struct spotnik_limits *limits, uint32_t members_max);

enum spotnik_role {
    SPOTNIK_ROLE_IDLE,   /* before FOUND or JOIN */
    SPOTNIK_ROLE_JOINER, /* outside the ring, copying state or replaying steps */
    SPOTNIK_ROLE_MEMBER, /* in the view */
    /* the others went on without this member: free the core, join again as a new member */
    SPOTNIK_ROLE_EXCLUDED,
    SPOTNIK_ROLE_LEFT,   /* planned leave is complete */
    SPOTNIK_ROLE_FAILED, /* MISMATCH, DIVERGED: final */
};

/* What to put on a data connection. */
enum spotnik_source { SPOTNIK_SOURCE_IN, SPOTNIK_SOURCE_OUT, SPOTNIK_SOURCE_OFFER };
struct spotnik_transfer {
    struct spotnik_chunk_header header;
    enum spotnik_source source; /* OUT: out[header.step & 1], OFFER: offer[header.step & 1] */
    uint64_t offset, count;     /* elements */
};

/* What to do with a data frame. */
enum spotnik_verdict {
    /* put `count` elements to out[step & 1] + offset as `kind` says, then CHUNK_DONE */
    SPOTNIK_VERDICT_TAKE,
    SPOTNIK_VERDICT_DROP, /* read the payload and forget it */
    /* leave it in the socket; ask again after any later event that polled an action, any event of
     * the caller's side, and FLAT_DONE */
    SPOTNIK_VERDICT_WAIT,
    SPOTNIK_VERDICT_BAD, /* the peer breaks the protocol: hang up */
};
struct spotnik_placement {
    enum spotnik_verdict verdict;
    /* REDUCE and REDUCE_LAST combine with `in`; KEEP: not to `out` but to place header.sequence of
     * the inputs of others, with header.weight */
    enum spotnik_ring_kind kind;
    uint64_t offset, count; /* elements */
    /* of our own contribution, for combine; 0: `received` goes through unchanged. When
     * header.weight is 0, `received` carries nothing: out = weight * in instead (both 0: copy) */
    uint64_t weight;
    uint64_t weight_total; /* REDUCE_LAST: divide MEAN by this */
    /* our own contribution is the sum of our host, in out: it is weighted already */
    bool summed;
};

/* DIVERGED: the member that differs from us, and the steps between which that began. */
struct spotnik_divergence {
    struct spotnik_member peer;
    uint64_t after_step; /* the last step whose results agreed; 0: not known */
    uint64_t step;       /* the first step whose results differed */
};

/* `from` does not reach `to`, though both live. */
struct spotnik_path {
    struct spotnik_member from, to;
    uint64_t seen_ns; /* when that was last so; 0: never */
};

struct spotnik_core_status {
    enum spotnik_role role;
    uint64_t epoch, committed, begun;
    /* the last step that may leave the job: donors stream and snapshot nothing later (P4) */
    uint64_t stable;
    bool frozen, parked;
    uint32_t rank, size;
    uint64_t messages_sent; /* control, without heartbeats */
    uint64_t ballots_started;
    uint64_t losses, joins, leaves;
    uint64_t pauses; /* times late, or woken */
    /* both ring neighbours have the same results of this view up to this step; 0: not compared
     * yet */
    uint64_t compared_step;
    /* instants of the running or last recovery, 0 where not reached */
    uint64_t detected_ns, reconciled_ns, accepted_ns, restarted_ns, committed_ns;
    uint32_t last_lost, last_joined, last_left;
    uint64_t paths_broken; /* that this member knows of */
    struct spotnik_path path;
    /* of the lost: those whose process or host is known to have ended; those that fell silent. The
     * rest: others have said so, without a reason */
    uint32_t last_ended, last_silent;
};

struct spotnik_core;

/* Bytes of memory a core needs. */
size_t spotnik_core_size(const struct spotnik_limits *limits);

/* `memory`: spotnik_core_size() bytes, aligned to 16, zeroed or not. The caller owns it and may
 * free it at any time between calls. `ledger_samples`, `ledger_batch`: as in the config.
 * `members_min`: for STEP_BEGIN; spotnik_core_members_min_set() changes it for the next
 * STEP_BEGIN. */
struct spotnik_core *spotnik_core_init(void *memory, const struct spotnik_limits *limits,
                                       const struct spotnik_member *self, uint32_t members_min,
                                       uint64_t ledger_samples, uint64_t ledger_batch);

/* The same in memory that is all zero already: of a core for many members most pages are never
 * touched. */
struct spotnik_core *spotnik_core_init_blank(void *memory, const struct spotnik_limits *limits,
                                             const struct spotnik_member *self,
                                             uint32_t members_min, uint64_t ledger_samples,
                                             uint64_t ledger_batch);

/* For the flight recorder (record/recorder.h): a core as bytes. The bytes hold only for a build
 * with the same structures.
 *
 * spotnik_core_save() writes spotnik_core_saved_size() bytes. False, and nothing is written, while
 * an action waits to be polled. spotnik_core_load() makes a core of them in `memory`, as for
 * spotnik_core_init(), with limits equal to those it was made with. It behaves as the saved one
 * did. */
size_t spotnik_core_saved_size(const struct spotnik_limits *limits);
bool spotnik_core_save(const struct spotnik_core *core, void *bytes);
struct spotnik_core *spotnik_core_load(void *memory, const struct spotnik_limits *limits,
                                       const void *bytes);

void spotnik_core_members_min_set(struct spotnik_core *core, uint32_t members_min);

void spotnik_core_step(struct spotnik_core *core, const struct spotnik_event *event);
bool spotnik_core_poll(struct spotnik_core *core, struct spotnik_action *ret);

/* The next move of a phase that was not told yet, for traces; few are kept. False: none. */
struct spotnik_move {
    const char *of, *from, *to; /* "ballot", "none", "reconcile" */
};
bool spotnik_core_move(struct spotnik_core *core, struct spotnik_move *ret);

/* The instant at which TICK is due; SPOTNIK_NEVER when nothing is pending. */
uint64_t spotnik_core_deadline(const struct spotnik_core *core);

/* Next frame for the data connection to `to`. The core relies on it that the driver sends each
 * given transfer, in order, or the connection breaks. False: nothing to send there now. */
bool spotnik_core_send_next(struct spotnik_core *core, struct spotnik_id to,
                            struct spotnik_transfer *ret);

/* The place of a data frame from `from`. Handover frames of a donor's stream to a joiner carry
 * epoch 0. Changes nothing, except that a detected MISMATCH queues FAILED. */
struct spotnik_placement spotnik_core_place(struct spotnik_core *core, struct spotnik_id from,
                                            const struct spotnik_chunk_header *header);

/* The installed view; size 0 for a joiner that has not learnt one yet (a joiner that has sees the
 * job's view here). */
const struct spotnik_view *spotnik_core_view(const struct spotnik_core *core);

/* A bucket of the running step, or of the one before (step/transaction.h). */
const struct spotnik_bucket *spotnik_core_bucket(struct spotnik_core *core, uint64_t step,
                                                 uint32_t number);

/* Our share of the begun step. Returns the number of samples. */
uint64_t spotnik_core_share(const struct spotnik_core *core, struct spotnik_range *ret_ranges,
                            uint32_t *ret_count);

/* The number of our share of the begun step (== shares: none), and the number of its shares (0:
 * replay). */
uint32_t spotnik_core_share_number(const struct spotnik_core *core, uint32_t *ret_shares);

const struct spotnik_ledger *spotnik_core_ledger(const struct spotnik_core *core);

/* Heartbeats of that member are late, and will soon count as silence: ask its kernel. */
bool spotnik_core_is_quiet(struct spotnik_core *core, struct spotnik_id id, uint64_t now_ns);

/* How many other members of the view would be proven GONE by what we hear ourselves, if they ended
 * now in the usual way? */
uint32_t spotnik_core_linked(const struct spotnik_core *core);

/* Is that the ledger after step `committed`? Not in a joiner, nor in one that came in lagging. */
bool spotnik_core_ledger_known(const struct spotnik_core *core, uint64_t committed);

/* Why a member has FAILED with SPOTNIK_ERR_DIVERGED. */
const struct spotnik_divergence *spotnik_core_divergence(const struct spotnik_core *core);

void spotnik_core_status(const struct spotnik_core *core, struct spotnik_core_status *ret);

/* After FAILED with MISMATCH: two members, and what each has of one bucket. */
const struct spotnik_mismatch *spotnik_core_mismatch(const struct spotnik_core *core);

/* Between events: bar commits, or allow them again. For code outside the core that decides that
 * this member must not go on. */
void spotnik_core_bar(struct spotnik_core *core, bool barred);

#endif
