/* SPDX-License-Identifier: Apache-2.0 */
/* Death certificates by robust futex, the member's side (table and agent: slots.h).
 *
 * A dying process keeps its sockets until its memory has been torn down, which takes 0.3 s at 4
 * GiB. The kernel releases the futexes of its threads first, in 0.2 ms at any size. The progress
 * thread therefore owns the word of our slot, and one watcher thread waits on the words of a few
 * other members. Without futex_waitv (Linux before 5.16, or a sandbox) it looks at them every 5 ms.
 * Off, silently, where there is no table (SPOTNIK_SLOTS_FD, SPOTNIK_SLOT): then EOF and silence
 * must do.
 *
 * The same table is the short way between a member and its agent. It has a request to leave, how
 * far the member is, and whether it waits for others. It also has how many shall be there before
 * the first step. */
#ifndef SPOTNIK_LINK_DEATH_H
#define SPOTNIK_LINK_DEATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define SPOTNIK_DEATH_WATCHED_MAX 64

struct spotnik_death;

/* Map the table named by the environment. *ret_death is NULL, with 0 returned, where the feature is
 * off. `wake_fd`: an eventfd written when there is something to take; borrowed until _free. Errors:
 * SYSTEM, MEMORY, ARGUMENT (no such slot, or the agent is of another version). */
int spotnik_death_new(int wake_fd, struct spotnik_death **ret_death);

/* Progress thread, first and last thing it does: own our slot's word; give it back, so that a clean
 * end is no death. All functions from here on accept NULL and then do nothing. */
void spotnik_death_sign(struct spotnik_death *death, struct spotnik_id self);
void spotnik_death_unsign(struct spotnik_death *death);

/* Our slot belongs to a new member_id from now on. */
void spotnik_death_renew(struct spotnik_death *death, struct spotnik_id self);

/* We are about to vote for the view of this epoch, or have installed it. A member that finds our
 * certificate judges by it whether we may have moved on without that member. */
void spotnik_death_move_on(struct spotnik_death *death, uint64_t epoch);

/* Watch these members, and no others; those without a slot are passed over. */
void spotnik_death_watch(struct spotnik_death *death, const struct spotnik_id *peer,
                         uint32_t count);

/* The next member proven dead, and the latest view it had voted for or installed; false: none. */
bool spotnik_death_take(struct spotnik_death *death, struct spotnik_id *ret_peer,
                        uint64_t *ret_epoch);

/* Has the agent asked us to leave? Async-signal-safe. */
bool spotnik_death_leave_requested(const struct spotnik_death *death);

/* Stop the watcher and free. After _unsign. */
void spotnik_death_free(struct spotnik_death *death);

/* For the agent, if there is one: the last step that we have committed; that our next one waits
 * with `size` members for `needed` (0: it does not wait); that the job is over. One thread at a
 * time. */
void spotnik_death_progress(struct spotnik_death *death, uint64_t committed);
void spotnik_death_waits(struct spotnik_death *death, uint32_t size, uint32_t needed);
void spotnik_death_over(struct spotnik_death *death, bool late); /* late: before we came */
/* For the agent: our rank in the step that the program begins, or SPOTNIK_NO_RANK. */
void spotnik_death_rank(struct spotnik_death *death, uint32_t rank);
/* For the agent: we have left, with the last of all or not. When our process dies from here on, no
 * view loses a member. */
void spotnik_death_left(struct spotnik_death *death, bool last);
/* For the agent: another founding has our job's name, or its place. */
void spotnik_death_refused(struct spotnik_death *death);

/* For the agent: our state after `step` was written as that of a minority. */
void spotnik_death_minority(struct spotnik_death *death, uint64_t step, uint64_t digest);

/* For the agent: we write checkpoints; the last one due is not complete (`failed`); the one after
 * `completed` is (0: none). */
void spotnik_death_checkpoint(struct spotnik_death *death, bool failed, uint64_t completed);

/* Does the agent want our messages in its log? */
bool spotnik_death_is_heard(const struct spotnik_death *death);
/* One of them, of enum spotnik_said, about the view of this epoch. One thread at a time. */
void spotnik_death_say(struct spotnik_death *death, uint32_t kind, uint64_t epoch,
                       const char *text);

/* How many members the agent wants to be there before the first step; 0: none, or that many have
 * been there. */
uint32_t spotnik_death_start(const struct spotnik_death *death);

/* For those that join: the job's first step is the one after `step`, from a checkpoint. */
void spotnik_death_origin_set(struct spotnik_death *death, uint64_t step);
/* 0: it is step 1, or it was taken by members that another agent started. */
uint64_t spotnik_death_origin(const struct spotnik_death *death);

/* A view of `size` members is installed. */
void spotnik_death_gathered(struct spotnik_death *death, uint32_t size);
/* For the log of the agent that started us, if there is one: we wait, for so long of so long; 0, 0:
 * no more. */
void spotnik_death_tell_waiting(struct spotnik_death *death, uint64_t ms, uint64_t of_ms);

/* For the log of the agent, if there is one: a change of strategy. Any thread. */
void spotnik_death_tell(struct spotnik_death *death, uint64_t step, uint64_t what, double value,
                        double limit);

#endif
