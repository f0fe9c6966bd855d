/* SPDX-License-Identifier: Apache-2.0 */
/* The detector: who is lost? Three machines, each with a struct of its own. `evidence_table` holds
 * the evidence against each member of the view (evidence_table.c); `peer_end` what is known of the
 * end of one peer (peer_end.c); `silence` how long one has said nothing (silence.c). None knows the
 * core. Each takes values and returns effects,
 * which apply.c carries out. evidence.c gives them their events. Rules: docs/protocol.md 4. */
#ifndef SPOTNIK_MEMBERSHIP_DETECTION_H
#define SPOTNIK_MEMBERSHIP_DETECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "member/detector.h"
#include "member/evidence.h"
#include "member/message.h"
#include "member/proposal.h"
#include "member/view.h"

/* Arrays are per rank. */
struct evidence_table {
    struct spotnik_known *known;
    bool *covered;           /* its evidence was in the last PREPARE we passed on */
    bool *suspected_by_peer; /* others told us it is dead; passes go round it */
    /* another's PREPARE called it silent; PREPARE goes round it until then, */
    uint64_t *quiet_until_ns;
    /* or until a PREPARE of the same initiator does not say so any more */
    struct spotnik_id *quiet_by;
    bool quiet_any;        /* one of these was ever set: else no code touches their pages */
    uint64_t suspected_ns; /* since when a member of this view is suspected; 0: none is */
    uint64_t initiate_ns;  /* then we start a ballot ourselves */
};

struct evidence_input {
    uint64_t now_ns;
    const struct spotnik_view *view;
    uint32_t rank;                 /* ours in the view */
    uint32_t warm_count;           /* as in spotnik_limits */
    uint64_t stagger_ns, retry_ns; /* as in spotnik_limits */
    bool by_tree;                  /* PREPARE of this view goes by a tree */
};

/* New evidence against a member, in the order in which apply.c does it. */
struct evidence_effects {
    bool hurry;    /* wait for no joiner */
    bool freeze;   /* it will never be taken back, so a ballot must come */
    bool reroute;  /* a pass that is under way to it goes round it */
    bool schedule; /* look anew when we start a ballot */
};

struct peer_end {
    /* the best evidence of its end so far, in whatever view: see peer_end_worth() */
    uint8_t ended;
    /* its last link ended as by its death, with its last words read: a refused dial proves it */
    bool likely;
    bool certified;      /* its host has certified its end, */
    uint64_t last_epoch; /* and that it had voted for no view after this one */
    /* the latest epoch in which it voted without us, as far as it said; 0: never */
    uint64_t fenced_epoch;
    /* of its first word on the last link it spoke on: what it did since, it said there */
    uint64_t first_epoch;
};

struct silence {
    struct spotnik_detector gaps;
    uint64_t kernel_ns; /* when its kernel last answered while it was quiet itself */
};

struct silence_input {
    uint64_t now_ns;
    bool linked;
    uint64_t peer_floor_ns;                      /* the silence floor for this peer */
    uint64_t floor_ns, ceiling_ns, heartbeat_ns; /* as in spotnik_limits */
};

/* evidence_table.c */
void evidence_table_init(struct evidence_table *table);
struct evidence_effects evidence_table_add(struct evidence_table *table,
                                           const struct evidence_input *in, uint32_t rank,
                                           enum spotnik_evidence evidence);
bool evidence_table_schedule(struct evidence_table *table, const struct evidence_input *in);
bool evidence_table_hear(struct evidence_table *table, const struct evidence_input *in,
                         uint32_t rank);
void evidence_table_cover(struct evidence_table *table, uint32_t size);
void evidence_table_suspect(struct evidence_table *table, uint32_t rank);
void evidence_table_learn(struct evidence_table *table, const struct evidence_input *in,
                          const struct spotnik_prepare *prepare);
void evidence_table_learn_silences(struct evidence_table *table, const struct evidence_input *in,
                                   const struct spotnik_prepare *prepare);
void evidence_table_carry(struct evidence_table *table, const struct spotnik_view *view,
                          const struct spotnik_proposal *proposal, struct spotnik_report *scratch);
void evidence_table_view(struct evidence_table *table, uint32_t members_max);
void evidence_table_clear(struct evidence_table *table, uint32_t members_max);

/* peer_end.c */
bool peer_end_moved_on(const struct peer_end *end, uint64_t epoch);
enum spotnik_evidence peer_end_worth(const struct peer_end *end, uint64_t epoch);

/* silence.c */
void silence_start(struct silence *silence, uint64_t now_ns);
void silence_end(struct silence *silence, uint64_t now_ns, uint64_t floor_ns);
void silence_kernel(struct silence *silence, uint64_t now_ns);
void silence_forgive(struct silence *silence, uint64_t now_ns, uint64_t late_ns);
bool silence_is_loss(const struct silence *silence, const struct silence_input *in);
bool silence_is_near(const struct silence *silence, uint64_t now_ns, uint64_t floor_ns);

#endif
