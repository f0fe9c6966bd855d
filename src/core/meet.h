/* SPDX-License-Identifier: Apache-2.0 */
/* Where core, membership and all-reduce meet. Membership decides who is in (src/membership),
 * all-reduce what moves where (src/allreduce), and core gives each event to one of them. Membership
 * knows all-reduce as a report and five commands. All-reduce knows membership as the view, the
 * table of peers and one message; what it wants of it stands in struct step_news. Private to the
 * three folders. */
#ifndef SPOTNIK_CORE_MEET_H
#define SPOTNIK_CORE_MEET_H

#include "core/state.h"

/* ---- membership asks all-reduce ---- */

/* The running step of a member. */
struct step_report {
    uint32_t share, shares; /* our share of it, as it was begun, and how many there are */
    uint32_t stream_to;     /* rank that gets the stream of our host from us; NO_RANK: none does */
    uint64_t apart;         /* bits of ranks that share no memory with us (flat.c) */
    uint64_t step_ns;       /* what a step takes, on the average; 0: not known */
    bool waiting;           /* the caller has asked for it, and it is not committed */
};

struct step_report step_report(const struct spotnik_core *core);
void step_view(struct spotnik_core *core);
void step_go_on(struct spotnik_core *core);
void step_try_commit(struct spotnik_core *core);
void step_ask_no_more(struct spotnik_core *core);
void flat_check(const struct spotnik_core *core);

/* ---- all-reduce asks membership ---- */

uint32_t peers_rank(const struct spotnik_core *core, struct spotnik_id id);
struct peer *peer_want(struct spotnik_core *core, const struct spotnik_member *member);
void peer_dial(struct spotnik_core *core, struct peer *peer);
void mismatch_end(struct spotnik_core *core, const struct spotnik_mismatch *found);

/* ---- core asks both ---- */

/* Arrays in the memory of the core. The result is NULL while only sizes are wanted. */
struct membership *membership_lay_out(struct carver *carver, uint32_t members, uint32_t entries);
struct allreduce *allreduce_lay_out(struct carver *carver, uint32_t members, uint32_t entries);
void membership_init(struct spotnik_core *core);
/* The event is of that machine. False: it is not, and nothing is done. */
bool membership_take(struct spotnik_core *core, const struct spotnik_event *event);
bool allreduce_take(struct spotnik_core *core, const struct spotnik_event *event);
/* Around every event, of whatever kind. */
void membership_before(struct spotnik_core *core);
void membership_after(struct spotnik_core *core, enum spotnik_event_kind kind);
/* All-reduce may have news. */
void membership_hear(struct spotnik_core *core);
uint64_t membership_deadline(const struct spotnik_core *core);
bool membership_is_parked(const struct spotnik_core *core);
uint64_t step_stable(const struct spotnik_core *core);
void step_bar(struct spotnik_core *core, bool barred);
/* The body of a SEND, when it is polled. False: no member waits for it any more. */
bool membership_speak(struct spotnik_core *core, const struct queued_action *slot,
                      struct spotnik_action *ret);

#endif
