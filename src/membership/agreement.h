/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement: which view comes next? A machine with one struct, private to these files. ballot.c
 * has the promise, prepare.c and accept.c the two passes round the ring, tree_prepare.c and
 * tree_accept.c the same by a tree (tree_layout.c). decision.c says what a ballot may decide, and
 * tie_break.c what the witness has said of a tie. None knows the core. Each takes values and
 * returns what is to be done; apply_ballot.c and apply_tree.c do it. Rules: docs/protocol.md 5 and
 * 6. */
#ifndef SPOTNIK_MEMBERSHIP_AGREEMENT_H
#define SPOTNIK_MEMBERSHIP_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "member/brief.h"
#include "member/lineage.h"
#include "member/message.h"
#include "member/proposal.h"

/* The shape of a tree of members: see tree_layout.c. */
#define TREE_CHILDREN_MAX 4
struct tree_layout {
    uint32_t count, block;
    bool forked; /* heads of blocks are a tree, too; else a chain */
};

/* What the initiator may do with a PREPARE that holds every promise there is. */
enum decision {
    DECISION_PARK,     /* these are too few, or lack what only others can serve */
    DECISION_TIED,     /* they are half of the view: ask the witness */
    DECISION_EXCLUDED, /* no member is left that could serve us: join again */
    DECISION_AGAIN,    /* the only one that signed the ledger has ended: gather again */
    DECISION_PROPOSE,
};

struct decision_input {
    const struct spotnik_view *view;
    const struct spotnik_prepare *prepare;
    bool named;      /* the witness names one of these for this epoch */
    bool any_quorum; /* a planted bug: see core/planted.h */
};

struct tie_break {
    uint64_t asked_epoch; /* a tie of this epoch was put to the witness; 0: none was */
    uint64_t named_epoch; /* it names us for this one; 0: for none */
};

/* What the initiator of the promised ballot is waiting for. */
enum phase {
    PHASE_NONE,    /* not the initiator */
    PHASE_PREPARE, /* PREPARE is on its way round */
    PHASE_JOINER,  /* it came round; a joiner is a step behind and given a moment */
    PHASE_ACCEPT,  /* the proposal is on its way round */
    PHASE_WITNESS, /* it came round with half of the view, and the witness is asked for */
    PHASE_PARKED,  /* no quorum: retry later */
};

/* What follows at once in a ballot: apply_ballot() does it. */
enum ballot_next {
    BALLOT_WAITS,     /* nothing: a message or a timer comes first */
    BALLOT_START,     /* start a ballot of our own */
    BALLOT_FORWARD,   /* pass PREPARE on, round the ring */
    BALLOT_ASK,       /* pass PREPARE on, by a tree */
    BALLOT_DECIDE,    /* our PREPARE holds every promise there is */
    BALLOT_ACCEPT,    /* vote for the accepted proposal, and pass ACCEPT on */
    BALLOT_CHOSEN,    /* install the accepted proposal */
    BALLOT_INSTALLED, /* a view is installed: does it need another one? */
};

enum pass { PASS_PREPARE, PASS_ACCEPT, PASS_COUNT };

#define ASKERS_MAX 4

/* The promised ballot, if it goes by a tree: tree_prepare.c, and then tree_accept.c. */
struct spotnik_tree_prepare {
    bool on;         /* it does */
    bool answered;   /* all below us have promised, or have ended, and each that asked was told */
    bool accepted;   /* so have all voters below us accepted */
    bool missed;     /* a tree of this epoch left out members that may live: the ring is next */
    uint32_t origin; /* rank of its initiator */
    uint32_t asker_count;
    struct spotnik_id asker[ASKERS_MAX]; /* they wait for our PROMISE */
    struct spotnik_id teller;            /* ACCEPT came from there */
    struct spotnik_ended ended;          /* as ASK says */
    uint32_t words;                      /* of each of these two: */
    uint64_t *sent;                      /* a bit per rank: ASK, or later ACCEPT, is for it */
    uint64_t *heard;                     /* a bit per rank: ACCEPTED came from it */
};

struct agreement {
    struct spotnik_ballot promised; /* round 0: none in this epoch */
    uint64_t promised_ns;
    uint64_t frozen_ns;  /* since when we are */
    uint64_t round_seen; /* the highest of this epoch */
    enum phase phase;    /* of the promised ballot, which is ours; else NONE */
    bool parked;
    struct spotnik_prepare prepare;   /* the last one passed on, or being gathered */
    struct spotnik_proposal accepted; /* ballot.round 0: none in this epoch */
    /* the member that got PREPARE of the promised ballot from us; none: not sent yet */
    struct spotnik_id prepare_at;
    struct spotnik_id hop[PASS_COUNT]; /* next hop that is still being dialled; none when sent */
    struct spotnik_tree_prepare tree;
    bool *fenced; /* per rank: we voted in a ballot in which it did not */
    struct tie_break tie_break;
    uint64_t retry_ns; /* then we start over */
    uint32_t retries;
    uint64_t enter_until_ns; /* then the wait for a joiner ends */
};

/* What a ballot reads of its member. */
struct agreement_input {
    uint64_t now_ns;
    const struct spotnik_view *view;
    uint32_t rank;                     /* ours in the view */
    const struct spotnik_known *known; /* per rank: our evidence */
    const bool *suspected;             /* per rank: others told us that it is dead */
    const uint64_t *quiet_until_ns;    /* per rank: others told us that it is silent */
    uint64_t retry_ns, stagger_ns;     /* as in spotnik_limits */
    uint32_t warm_count, tree_members, brief_members; /* the same */
};

/* What this member signs in PREPARE. */
struct prepare_words {
    struct spotnik_report report;
    const struct spotnik_ledger *ledger;
    uint64_t ledger_step; /* the ledger is of after that step; NO_LEDGER: it is not known */
    bool hides_accepted;  /* a planted bug: see core/planted.h */
};

/* Where PREPARE goes. */
struct prepare_hop {
    enum ballot_next next; /* WAITS: it goes to this rank; START, DECIDE: to no other member */
    uint32_t rank;
};

/* ballot.c */
void ballot_init(struct agreement *agreement);
void ballot_bid(struct agreement *agreement, uint64_t now_ns, struct spotnik_id self);
void ballot_promise(struct agreement *agreement, uint64_t now_ns, struct spotnik_ballot ballot);
void ballot_retry(struct agreement *agreement, const struct agreement_input *in, uint64_t wait_ns);
bool ballot_is_lost(const struct agreement *agreement, const struct agreement_input *in,
                    bool parked);
bool ballot_is_outrun(const struct agreement *agreement, uint32_t size, uint64_t committed);
void ballot_view(struct agreement *agreement, uint32_t members_max);
void ballot_check(const struct agreement *agreement, uint64_t epoch, bool frozen,
                  struct spotnik_id self);

/* prepare.c */
void prepare_clear(struct agreement *agreement, const struct agreement_input *in,
                   const struct prepare_words *words);
void prepare_sign(struct agreement *agreement, const struct agreement_input *in,
                  const struct prepare_words *words);
bool prepare_sign_joiner(struct agreement *agreement, const struct spotnik_enter *enter);
void prepare_drop_joiner(struct agreement *agreement, struct spotnik_id id);
struct prepare_hop prepare_next(const struct agreement *agreement,
                                const struct agreement_input *in);

/* accept.c */
uint32_t accept_flags(const struct agreement *agreement, const struct spotnik_view *view,
                      uint32_t rank, uint32_t *near);
uint32_t accept_fence(struct agreement *agreement, const struct spotnik_view *view, uint32_t from,
                      uint32_t *near);
const struct spotnik_member *accept_next(const struct agreement *agreement, struct spotnik_id self);

/* tree_prepare.c */
bool tree_bit(const uint64_t *bits, uint32_t rank);
void tree_prepare_begin(struct spotnik_tree_prepare *tree, uint32_t origin);
void tree_prepare_turn(struct spotnik_tree_prepare *tree);
void tree_prepare_end(struct spotnik_tree_prepare *tree);
void tree_prepare_asked_by(struct spotnik_tree_prepare *tree, struct spotnik_id id);
bool tree_prepare_is_used(const struct agreement_input *in);
bool tree_prepare_is_due(const struct agreement *agreement, const struct agreement_input *in);
bool tree_prepare_is_orphan(const struct agreement *agreement, const struct agreement_input *in);
uint32_t tree_prepare_below(const struct agreement *agreement, const struct agreement_input *in,
                            uint32_t rank, uint32_t below[TREE_CHILDREN_MAX]);
bool tree_prepare_next(struct agreement *agreement, const struct agreement_input *in,
                       uint32_t *ret_rank);
bool tree_prepare_is_whole(const struct agreement *agreement, const struct agreement_input *in);
void tree_prepare_tell_ended(struct agreement *agreement, const struct agreement_input *in);
bool tree_prepare_has_missed(const struct spotnik_prepare *prepare);

/* tree_accept.c */
void tree_accept_keep(struct agreement *agreement, const struct agreement_input *in,
                      struct spotnik_proposal *proposal);
bool tree_accept_next(struct agreement *agreement, const struct agreement_input *in,
                      uint32_t *ret_rank);
bool tree_accept_concludes(struct agreement *agreement, const struct agreement_input *in);
bool tree_accept_is_on(const struct agreement *agreement);
bool tree_accept_awaits(const struct agreement *agreement, const struct agreement_input *in,
                        uint32_t rank);
void tree_accept_hear(struct agreement *agreement, uint32_t rank);

/* What a new view has changed. */
struct view_changes {
    uint32_t lost, left, joined;
    uint32_t ended, silent; /* of the lost: by what we know of them */
};

/* view_changes.c */
struct view_changes view_changes_of(const struct spotnik_view *view,
                                    const struct spotnik_known *known,
                                    const struct spotnik_prepare *prepare,
                                    const struct spotnik_proposal *proposal);

/* decision.c */
enum decision decision_of(const struct decision_input *in);
bool decision_is_near(const struct spotnik_enter *joiner, uint64_t settled);
bool decision_awaits_joiner(const struct spotnik_prepare *prepare);

/* tie_break.c */
bool tie_break_ask(struct tie_break *tie, uint64_t epoch);
void tie_break_name(struct tie_break *tie, uint64_t epoch);
bool tie_break_is_ours(const struct tie_break *tie, uint64_t epoch);
bool tie_break_is_open(const struct tie_break *tie, uint64_t epoch);

/* tree_layout.c */
uint32_t tree_layout_below(const struct tree_layout *tree_layout, uint32_t place,
                           uint32_t below[TREE_CHILDREN_MAX]);
uint32_t tree_layout_above(const struct tree_layout *tree_layout, uint32_t place);

#endif
