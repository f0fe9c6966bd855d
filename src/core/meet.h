/* SPDX-License-Identifier: Apache-2.0 */
/* Where the vote and the route meet. The vote decides who is in (vote.h), the route what moves
 * where (route.h); each calls of the other what stands here, and nothing else. Private to
 * src/core. */
#ifndef SPOTNIK_CORE_MEET_H
#define SPOTNIK_CORE_MEET_H

#include "core/state.h"

/* ---- the route asks the vote ---- */

uint32_t peers_rank(const struct spotnik_core *core, struct spotnik_id id);
struct peer *peer_want(struct spotnik_core *core, const struct spotnik_member *member);
void peer_dial(struct spotnik_core *core, struct peer *peer);
void ballot_start(struct spotnik_core *core);
void mismatch(struct spotnik_core *core, struct spotnik_id other);
void dispute_open(struct spotnik_core *core, uint64_t step, uint32_t bucket,
                  struct spotnik_id other);
void role_set(struct spotnik_core *core, enum spotnik_role role);
void enter_send(struct spotnik_core *core);
void enter_start(struct spotnik_core *core);
bool ballot_is_outrun(const struct spotnik_core *core);
bool doubt_is_on(const struct spotnik_core *core);
void evidence_settled(struct spotnik_core *core);

/* ---- the vote asks the route ---- */

uint64_t step_stable(const struct spotnik_core *core);
bool step_needs_settling(const struct spotnik_core *core);
void step_try_begin(struct spotnik_core *core);
void step_try_commit(struct spotnik_core *core);
void step_restart(struct spotnik_core *core);
void fail(struct spotnik_core *core, int error);
uint64_t flat_apart(const struct spotnik_core *core);
bool flat_is_sharing(const struct spotnik_core *core);
bool flat_has_mates(const struct spotnik_core *core);
bool flat_is_refused(const struct spotnik_core *core);
void flat_install(struct spotnik_core *core);
void flat_take_late(struct spotnik_core *core);
uint32_t step_share(const struct spotnik_core *core, uint32_t *ret_shares);
uint64_t step_takes_ns(const struct spotnik_core *core);
bool step_is_asked_for(const struct spotnik_core *core);
void step_ask_no_more(struct spotnik_core *core);
void step_forget_handed(struct spotnik_core *core);
bool flat_streams_to(const struct spotnik_core *core, uint32_t rank);
uint32_t flat_hosts(const struct spotnik_core *core);
void flat_check(const struct spotnik_core *core);
void flat_lanes_again(struct spotnik_core *core);

#endif
