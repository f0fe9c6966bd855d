/* SPDX-License-Identifier: Apache-2.0 */
/* What membership and all-reduce both see. Private to src/core, src/membership and
 * src/allreduce. */
#ifndef SPOTNIK_CORE_STATE_H
#define SPOTNIK_CORE_STATE_H

#include "core/core.h"
#include "core/planted.h"
#include "member/proposal.h"
#include "step/transaction.h"

struct membership; /* who is in: src/membership */
struct allreduce;  /* what moves where: src/allreduce */
struct peer;

struct queued_action {
    struct spotnik_action action;
    enum spotnik_message_kind message; /* of SEND */
    uint64_t epoch;                    /* in which it was queued */
    uint64_t serial;                   /* of PAUSE_CHECK, PAUSE_ACK */
    struct spotnik_ballot ballot;      /* of a word by a tree; round 0: it is none */
};

/* What all-reduce has come to in an event, and membership must hear of. */
struct step_news {
    bool committed; /* it has committed a step */
    bool failed;    /* the step must be reduced again, in another view */
};

/* Actions that wait to be polled: a ring buffer. */
struct action_queue {
    struct queued_action *slot;
    uint32_t head, count, max;
};

/* The last moves from phase to phase, for traces (phases.h): a ring buffer. */
#define MOVES_KEPT 8
struct phase_moves {
    struct phase_move {
        uint8_t table, from, to;
    } kept[MOVES_KEPT];
    uint32_t count, told;
};

struct spotnik_core {
    struct spotnik_limits limits;
    struct spotnik_member self;
    uint32_t members_min;
#ifdef SPOTNIK_PLANTED
    uint32_t bugs;
#endif
    enum spotnik_role role;
    int error;
    uint64_t now_ns;

    struct spotnik_view view;       /* for a joiner: the job's, as last heard */
    struct spotnik_proposal chosen; /* what installed it */
    /* of the view, where some of the chosen are not in it; else its list is theirs */
    struct spotnik_entry *view_entry;
    uint32_t rank; /* ours in the view */
    /* after transaction.committed, if known: not while joining, nor lagging after that */
    struct spotnik_ledger ledger;
    bool ledger_known;

    bool frozen; /* promised: nothing more is committed in this epoch */
    bool paused; /* in a pause check: nothing is committed until it ends */
    struct spotnik_transaction step;
    struct step_news news;

    struct action_queue queue;
    struct spotnik_message outgoing; /* the body of the message that was polled last */
    struct phase_moves moves;
    struct spotnik_core_status status; /* counters and instants; the rest is filled on demand */

    struct membership *membership;
    struct allreduce *allreduce;
};

/* Carves arrays out of the caller's memory; with base NULL it only adds up. */
struct carver {
    unsigned char *base;
    size_t used, saved; /* without the queue */
};

/* arrays.c */
void view_settle(struct spotnik_core *core);
void *carve(struct carver *carver, size_t bytes);

/* phases.c */
void role_set(struct spotnik_core *core, enum spotnik_role role);
void become(struct spotnik_core *core, enum spotnik_role role);
void fail(struct spotnik_core *core, int error);

/* queue.c */
struct queued_action *queue_last(const struct spotnik_core *core);
struct spotnik_action *queue_action(struct spotnik_core *core, enum spotnik_action_kind kind);
struct spotnik_work *queue_work(struct spotnik_core *core, enum spotnik_action_kind kind,
                                uint32_t bucket, uint64_t step);
void queue_peer(struct spotnik_core *core, enum spotnik_action_kind kind,
                const struct spotnik_member *peer);

static inline uint32_t successor_rank(const struct spotnik_core *core)
{
    return (core->rank + 1) % core->view.size;
}

static inline uint32_t predecessor_rank(const struct spotnik_core *core)
{
    return (core->rank + core->view.size - 1) % core->view.size;
}

static inline bool is_self(const struct spotnik_core *core, struct spotnik_id id)
{
    return spotnik_id_equal(core->self.id, id);
}

#endif
