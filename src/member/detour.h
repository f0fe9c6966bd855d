/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that do not reach each other, though both are well: a fact of a path, not of a member. The
 * next view stands so that they are no neighbours in the ring (docs/design/0025-paths.md). Pure. */
#ifndef SPOTNIK_MEMBER_DETOUR_H
#define SPOTNIK_MEMBER_DETOUR_H

#include "member/message.h"

/* Does some voter of `token` say so of two hosts that stand in `proposal`? */
bool spotnik_detour_is_needed(const struct spotnik_proposal *proposal,
                              const struct spotnik_view *view, const struct spotnik_token *token);

/* Order the entries anew where two such hosts are neighbours, as far as that helps. */
void spotnik_detour_arrange(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                            const struct spotnik_token *token);

/* A rank of `view` that has to go, since it stands beside one that it does not reach and no other
 * order is found. Of such two it is the one with the larger id, but never `self`. SPOTNIK_NO_RANK:
 * nobody has to. */
uint32_t spotnik_detour_crossing(const struct spotnik_proposal *proposal,
                                 const struct spotnik_view *view, const struct spotnik_token *token,
                                 struct spotnik_id self);

/* ACCEPT goes round the voters in the order of the entries, and the order of a value that was
 * accepted before stands. A rank of `view` whose host need not vote, so that fewer voters come
 * after one that they do not reach. Its host is never that of `self`. SPOTNIK_NO_RANK: each reaches
 * the next. */
uint32_t spotnik_detour_mute(const struct spotnik_proposal *proposal,
                             const struct spotnik_view *view, const struct spotnik_token *token,
                             struct spotnik_id self);

#endif
