/* SPDX-License-Identifier: Apache-2.0 */
/* The promise (docs/protocol.md 5): which ballot a member is bound to, and when it tries again. A
 * promise binds it to no lower ballot. It freezes the member, too: what PREPARE says of it is then
 * final. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "membership/agreement.h"

void ballot_init(struct agreement *agreement)
{
    agreement->retry_ns = agreement->enter_until_ns = SPOTNIK_NEVER;
}

static void promise(struct agreement *agreement, uint64_t now_ns, struct spotnik_ballot ballot)
{
    SPOTNIK_ASSERT(spotnik_ballot_compare(ballot, agreement->promised) > 0);
    agreement->promised = ballot;
    agreement->promised_ns = now_ns;
    agreement->enter_until_ns = SPOTNIK_NEVER;
    agreement->prepare_at = (struct spotnik_id){ 0 };
    if (ballot.round > agreement->round_seen)
        agreement->round_seen = ballot.round;
}

/* A ballot of our own, above all that this epoch has shown us. */
void ballot_bid(struct agreement *agreement, uint64_t now_ns, struct spotnik_id self)
{
    SPOTNIK_ASSERT(agreement->promised.round <= agreement->round_seen);
    promise(agreement, now_ns,
            (struct spotnik_ballot){ .round = agreement->round_seen + 1, .initiator = self });
}

/* A ballot of another, higher than any that we have promised. */
void ballot_promise(struct agreement *agreement, uint64_t now_ns, struct spotnik_ballot ballot)
{
    promise(agreement, now_ns, ballot);
}

/* Every member that has promised starts over if nothing happens for long: the last resort when no
 * witness is left to notice that a PREPARE died. Retries back off and are spread by rank, so that
 * two members that wake together do not outbid each other for ever. */
void ballot_retry(struct agreement *agreement, const struct agreement_input *in, uint64_t wait_ns)
{
    uint64_t spread_ns = in->rank * in->stagger_ns;
    uint32_t shift = agreement->retries < 4 ? agreement->retries : 4;

    SPOTNIK_ASSERT(wait_ns > 0);
    wait_ns += in->view->size * SPOTNIK_MS; /* a pass is as long as the ring */
    agreement->retry_ns = spotnik_time_add(in->now_ns, (wait_ns << shift) + spread_ns);
}

/* Is PREPARE that we passed on held up at a member that, as others say, is silent? */
static bool is_stuck(const struct agreement *agreement, const struct agreement_input *in)
{
    uint32_t rank = spotnik_view_rank(in->view, agreement->prepare_at);
    bool voted = spotnik_ballot_compare(agreement->accepted.ballot, agreement->promised) == 0;

    return rank != SPOTNIK_NO_RANK && !voted && in->now_ns < in->quiet_until_ns[rank];
}

/* A lower ballot has come: is the one that we promised lost? It is if it has been under way for
 * long, or is where that PREPARE's witnesses heard nothing. So are ballots of the parked when one
 * bids that is not parked: they went round it. True: bid higher than both. */
bool ballot_is_lost(const struct agreement *agreement, const struct agreement_input *in,
                    bool parked)
{
    bool stale = in->now_ns - agreement->promised_ns > in->retry_ns;

    SPOTNIK_ASSERT(agreement->promised.round > 0);
    SPOTNIK_ASSERT(agreement->promised_ns <= in->now_ns);
    return agreement->phase == PHASE_PARKED || (agreement->parked && !parked) || stale
           || is_stuck(agreement, in);
}

/* A voter has promised having committed more than we: all members contributed to that, and so had
 * committed what we have. A donor could not know it otherwise while all are frozen, waiting for the
 * very joiner that wants this step. */
bool ballot_is_outrun(const struct agreement *agreement, uint32_t size, uint64_t committed)
{
    const struct spotnik_prepare *prepare = &agreement->prepare;

    if (!agreement->promised.round
        || spotnik_ballot_compare(prepare->ballot, agreement->promised) != 0)
        return false;
    SPOTNIK_ASSERT(prepare->report_count == size);
    for (uint32_t rank = 0; rank < size; rank++)
        if (prepare->report[rank].promised && prepare->report[rank].committed > committed)
            return true;
    return false;
}

/* A view is installed: ballots, promises and votes of the old epoch are void. */
void ballot_view(struct agreement *agreement, uint32_t members_max)
{
    SPOTNIK_ASSERT(agreement->phase == PHASE_NONE);
    agreement->parked = false;
    agreement->promised = agreement->accepted.ballot = (struct spotnik_ballot){ 0 };
    agreement->round_seen = 0;
    agreement->retries = 0;
    agreement->tree.missed = false;
    agreement->prepare_at = (struct spotnik_id){ 0 };
    memset(agreement->hop, 0, sizeof(agreement->hop));
    memset(agreement->fenced, 0, members_max * sizeof(*agreement->fenced));
    ballot_init(agreement);
}

/* What is true between any two events: one decision at a time, and never one outside of what we
 * promised. */
void ballot_check(const struct agreement *agreement, uint64_t epoch, bool frozen,
                  struct spotnik_id self)
{
    const struct spotnik_proposal *accepted = &agreement->accepted;

    SPOTNIK_ASSERT(agreement->promised.round == 0 || frozen);
    SPOTNIK_ASSERT(!agreement->parked || frozen);
    SPOTNIK_ASSERT(agreement->promised.round <= agreement->round_seen);
    if (accepted->ballot.round != 0) {
        SPOTNIK_ASSERT(spotnik_ballot_compare(accepted->ballot, agreement->promised) <= 0);
        SPOTNIK_ASSERT(accepted->epoch == epoch + 1);
    }
    SPOTNIK_ASSERT(agreement->phase == PHASE_NONE
                   || spotnik_id_equal(agreement->promised.initiator, self));
}
