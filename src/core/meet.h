/* SPDX-License-Identifier: Apache-2.0 */
/* Where core, membership and allreduce meet. Membership decides who is in (src/membership),
 * all-reduce what moves where (src/allreduce), and core gives each event to one of them. Each calls
 * of the others what stands here and in state.h, and nothing else. Private to the three folders. */
#ifndef SPOTNIK_CORE_MEET_H
#define SPOTNIK_CORE_MEET_H

#include "core/state.h"

/* ---- all-reduce asks membership ---- */

uint32_t peers_rank(const struct spotnik_core *core, struct spotnik_id id);
struct peer *peer_want(struct spotnik_core *core, const struct spotnik_member *member);
void peer_dial(struct spotnik_core *core, struct peer *peer);
void ballot_start(struct spotnik_core *core);
void mismatch_end(struct spotnik_core *core, const struct spotnik_mismatch *found);
void enter_send(struct spotnik_core *core);
void enter_start(struct spotnik_core *core);
bool ballot_is_outrun(const struct spotnik_core *core);
bool pause_check_is_on(const struct spotnik_core *core);
void evidence_settled(struct spotnik_core *core);

/* ---- membership asks all-reduce ---- */

uint64_t step_stable(const struct spotnik_core *core);
bool step_needs_settling(const struct spotnik_core *core);
void step_try_begin(struct spotnik_core *core);
void step_try_commit(struct spotnik_core *core);
void step_restart(struct spotnik_core *core);
void fail(struct spotnik_core *core, int error);
uint64_t flat_apart(const struct spotnik_core *core);
void flat_install(struct spotnik_core *core);
void flat_take_late(struct spotnik_core *core);
uint32_t step_share(const struct spotnik_core *core, uint32_t *ret_shares);
uint64_t step_takes_ns(const struct spotnik_core *core);
bool step_is_asked_for(const struct spotnik_core *core);
void step_ask_no_more(struct spotnik_core *core);
void step_forget_handed(struct spotnik_core *core);
bool flat_streams_to(const struct spotnik_core *core, uint32_t rank);
void flat_check(const struct spotnik_core *core);
void flat_channels_again(struct spotnik_core *core);

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
uint64_t membership_deadline(const struct spotnik_core *core);
bool membership_is_parked(const struct spotnik_core *core);
/* The body of a SEND, when it is polled. False: nobody waits for it any more. */
bool membership_speak(struct spotnik_core *core, const struct queued_action *slot,
                      struct spotnik_action *ret);

#endif
