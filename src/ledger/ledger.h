/* SPDX-License-Identifier: Apache-2.0 */
/* Which member consumes which samples of which epoch of data, and what returns when a member is
 * lost (P8).
 *
 * A replicated state machine: equal ledgers fed equal calls stay equal. Step s consumes a pool:
 * returned ranges first, in order, then the range from the cursor on (a step never mixes two
 * epochs). With one batch for all members, `batch` samples are fresh in every step, fewer in the
 * last one of the epoch. Returned ones come on top: an eighth of a batch in a step. Where few steps
 * are left for them there are more, a whole batch at most. So an epoch has ceil(samples / batch)
 * steps, whatever member dies before the last of them. Samples that return in that one take steps
 * of their own. With a batch per member the pool holds `batch` for each share. The pool is cut in
 * `shares` nearly equal pieces. Share i gets the positions [T*i/shares, T*(i+1)/shares) of the
 * concatenated pool of T samples. With a deal of weights w, uneven shares, share i begins at
 * T*(w[0] + ... + w[i-1])/(sum of w). When the step commits, shares whose member is in the view are
 * consumed, the others return. No allocation, no floats. */
#ifndef SPOTNIK_LEDGER_LEDGER_H
#define SPOTNIK_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "spotnik/spotnik.h" /* spotnik_range, SPOTNIK_RANGES_MAX */

#define SPOTNIK_LEDGER_RETURNED_MAX 1024
/* that many shares at most have samples */
#define SPOTNIK_LEDGER_DEAL_MAX SPOTNIK_LEDGER_RETURNED_MAX
#define SPOTNIK_LEDGER_PER_MEMBER_MAX (UINT64_MAX / SPOTNIK_LEDGER_DEAL_MAX)

struct spotnik_ledger {
    uint64_t samples; /* in an epoch of data; 0: no ledger, every share is empty */
    uint64_t batch;   /* samples a step consumes; >= 1 when samples > 0 */
    /* `batch` is what each share of a step consumes, at most; with a deal, on the average */
    bool per_member;
    uint64_t data_epoch; /* from 0 */
    uint64_t cursor;     /* first index never handed out in this data epoch */
    /* shares of the coming step, weighted by deal[]; 0, or another number: they are even */
    uint32_t deal_count;
    uint32_t returned_count;
    uint32_t deal[SPOTNIK_LEDGER_DEAL_MAX]; /* together 1..UINT32_MAX; 0: an empty share */
    /* disjoint, ascending, below cursor */
    struct spotnik_range returned[SPOTNIK_LEDGER_RETURNED_MAX];
};

void spotnik_ledger_init(struct spotnik_ledger *ledger, uint64_t samples, uint64_t batch);

/* 1 <= batch <= SPOTNIK_LEDGER_PER_MEMBER_MAX when samples > 0. */
void spotnik_ledger_init_per_member(struct spotnik_ledger *ledger, uint64_t samples,
                                    uint64_t batch);

/* Deal the coming steps by `weight`, one for each of their `shares`; 0 shares: evenly. Weights that
 * cannot be meant (too many shares, a sum of 0 or above UINT32_MAX, a ledger without samples) deal
 * evenly too. */
void spotnik_ledger_deal_set(struct spotnik_ledger *ledger, uint32_t shares,
                             const uint32_t *weight);

/* The same weights for other shares: the new share i is the old share from[i], UINT32_MAX: a new
 * one, which gets the mean of those that stay. `old`: how many shares the deal must be for; another
 * one is dropped. */
void spotnik_ledger_deal_map(struct spotnik_ledger *ledger, uint32_t old, uint32_t shares,
                             const uint32_t *from);

/* Does it keep its invariants? For one that comes from outside (a peer, a file); all other
 * functions take it for granted. */
bool spotnik_ledger_is_valid(const struct spotnik_ledger *ledger);

/* Copies only the used part (the ledger travels in proposals). */
void spotnik_ledger_copy(struct spotnik_ledger *to, const struct spotnik_ledger *from);

/* The ranges of one share of the coming step: at most SPOTNIK_RANGES_MAX. What would need more
 * ranges stays in the pool (and is returned by commit: both use this one function). Returns the
 * number of samples. */
uint64_t spotnik_ledger_share(const struct spotnik_ledger *ledger, uint32_t share, uint32_t shares,
                              struct spotnik_range *ret_ranges, uint32_t *ret_count);

/* The step was committed: `consumed[i]` tells whether share i had its member in the view. Advances
 * the cursor, returns the other shares to the pool, and opens the next epoch of data when nothing
 * is left. */
void spotnik_ledger_commit(struct spotnik_ledger *ledger, uint32_t shares, const bool *consumed);

bool spotnik_ledger_equal(const struct spotnik_ledger *a, const struct spotnik_ledger *b);

#endif
