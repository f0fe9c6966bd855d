/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point after each step: publish, pull, add to the shared store. For e2e-worker, with
 * WORKER_APART in its environment: how many copies the store has.
 *
 * Checks that what comes is whole (all elements of each model are the same, whoever dies in the
 * midst of it), and that every update that was answered, to members that have died since too, is in
 * the store, and none twice: each process adds to an element that is its own, and writes down what
 * was answered in a file beside the key. */
#ifndef SPOTNIK_TESTS_P2P_TURN_H
#define SPOTNIK_TESTS_P2P_TURN_H

#include "spotnik/p2p.h"

struct p2p_turn;

/* Right after spotnik_join(); the store is opened after the first step, when others have pushed
 * long before. NULL: no memory. */
struct p2p_turn *p2p_turn_new(spotnik_job *job, uint32_t copies);

/* One turn in the view of `size` members. NULL, or what is wrong. */
const char *p2p_turn_take(struct p2p_turn *turn, uint32_t size);

/* Before the job ends. Accepts NULL. */
void p2p_turn_free(struct p2p_turn *turn);

#endif
