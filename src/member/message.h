/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages, decoded. src/wire turns them into bytes and back; the core never sees bytes.
 *
 * A message handed to the core, and one the core hands out, is valid during the call only. Decoders
 * fill messages whose arrays have the capacity of the limits; a message that would exceed them is
 * refused by the decoder. */
#ifndef SPOTNIK_MEMBER_MESSAGE_H
#define SPOTNIK_MEMBER_MESSAGE_H

#include "member/evidence.h"
#include "member/view.h"

#define SPOTNIK_JOINERS_MAX 64
#define SPOTNIK_NO_LEDGER UINT64_MAX
/* a heartbeat speaks of the results of its view, and of the view before */
#define SPOTNIK_MESSAGE_DIGESTS 2

enum spotnik_message_kind {
    SPOTNIK_MESSAGE_HEARTBEAT = 1, /* the sender lives; digests of its results */
    SPOTNIK_MESSAGE_PREPARE,       /* PREPARE: base epoch = `epoch` */
    SPOTNIK_MESSAGE_ACCEPT,        /* proposal, base epoch = `epoch` */
    /* proposal = the view its sender has installed (or learnt was chosen) */
    SPOTNIK_MESSAGE_RESTART,
    SPOTNIK_MESSAGE_FENCED,      /* "I voted for a view of epoch + 1 without you" */
    SPOTNIK_MESSAGE_VIEW_ASK,    /* a joiner asks for the view; answered by RESTART */
    SPOTNIK_MESSAGE_ENTER,       /* a joiner asks to be let in */
    SPOTNIK_MESSAGE_MISMATCH,    /* "the buckets of these two differ": all members fail */
    SPOTNIK_MESSAGE_PAUSE_CHECK, /* "I was away; have you promised anything in this epoch?" */
    /* "no": the answer to PAUSE_CHECK of the same serial; a member that has promised gives none */
    SPOTNIK_MESSAGE_PAUSE_ACK,
    /* the passes by a tree (membership/tree_prepare.c), base epoch = `epoch` */
    SPOTNIK_MESSAGE_ASK,      /* ballot, ended: promise, and have those below you promise */
    SPOTNIK_MESSAGE_PROMISE,  /* PREPARE: the answer, with all reports from below */
    SPOTNIK_MESSAGE_ACCEPTED, /* ballot: its sender has accepted, and so have all voters below it */
    SPOTNIK_MESSAGE_KIND_COUNT,
};

/* A joiner that wants to be in the next view. */
struct spotnik_enter {
    struct spotnik_member member;
    uint64_t committed; /* the last step its replica holds */
};

/* In place of a bucket: how many there are. */
#define SPOTNIK_MISMATCH_OF_NUMBER 258 /* SPOTNIK_BUCKETS_MAX, which is beyond them */

/* What a member has of a bucket. */
struct spotnik_held {
    struct spotnik_id member;
    uint64_t count;         /* elements; OF_NUMBER: buckets */
    uint8_t has, dtype, op; /* has 0: its step has no such bucket, and all else is 0 */
};

/* Two members run different programs. Equal buckets: they send them by different algorithms. */
struct spotnik_mismatch {
    uint64_t step; /* 0: none was found */
    uint32_t bucket;
    struct spotnik_held held[2]; /* by who found it, and by the other */
};

struct spotnik_prepare {
    struct spotnik_ballot ballot;
    uint8_t parked;        /* the initiator's last round had no quorum */
    uint32_t report_count; /* = size of the base view; report[rank] */
    uint32_t joiner_count;
    struct spotnik_report *report;
    struct spotnik_enter joiner[SPOTNIK_JOINERS_MAX];
    struct spotnik_ledger ledger; /* of a reporter with the highest committed step */
    /* that step; SPOTNIK_NO_LEDGER: no reporter so far knows the ledger */
    uint64_t ledger_step;
    /* round 0: no member on the way has accepted a proposal in this epoch */
    struct spotnik_ballot accepted_ballot;
    struct spotnik_proposal accepted; /* the one with the highest ballot */
};

/* What is known to have ended, by rank: to go round it. No more are named than fit. */
#define SPOTNIK_ENDED_MAX 64
struct spotnik_ended {
    uint32_t count;
    uint32_t rank[SPOTNIK_ENDED_MAX];
};

/* "All results since view `epoch` began, up to `step`, have this digest with me." */
struct spotnik_digest_claim {
    uint64_t epoch, step; /* step 0: no claim */
    uint64_t value;
    bool tied; /* one ring neighbour of mine differs there, the other agrees with me */
};

struct spotnik_message {
    enum spotnik_message_kind kind;
    uint64_t epoch;                    /* the sender's epoch; 0 for a joiner */
    uint64_t committed;                /* the sender's last committed step */
    struct spotnik_prepare *prepare;   /* PREPARE, PROMISE */
    struct spotnik_proposal *proposal; /* ACCEPT, RESTART */
    bool brief;                        /* say only what differs (brief.h) */
    struct spotnik_enter enter;        /* ENTER */
    struct spotnik_id unmet;           /* ENTER: its sender does not reach it; none: let it in */
    uint64_t serial;                   /* PAUSE_CHECK, PAUSE_ACK; not 0 */
    struct spotnik_digest_claim digest[SPOTNIK_MESSAGE_DIGESTS]; /* HEARTBEAT */
    struct spotnik_mismatch mismatch;                            /* MISMATCH */
    struct spotnik_ballot ballot;                                /* ASK, ACCEPTED */
    struct spotnik_ended ended;                                  /* ASK */
};

void spotnik_prepare_copy(struct spotnik_prepare *to, const struct spotnik_prepare *from);

/* What two members have gathered in one ballot, in `to`. Idempotent, commutative and associative:
 * in which order, and how often, parts are joined changes nothing. */
void spotnik_prepare_join(struct spotnik_prepare *to, const struct spotnik_prepare *from);

#endif
