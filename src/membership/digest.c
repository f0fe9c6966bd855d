/* SPDX-License-Identifier: Apache-2.0 */
/* Do all members hold the same results (docs/design/0014-ties.md)? The driver tells the digest of
 * every result that its caller got. A member chains them from the first step of the view on, and
 * its heartbeats carry the chain. Ring neighbours compare: one step that differs makes all later
 * links of the chain differ. Decides which of two neighbours that differ is the odd one, and ends
 * it: wrong weights are worse than a crash. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "membership/audit.h"

static uint64_t link_of(uint64_t before, uint64_t digest)
{
    uint64_t value =
        (before + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9) ^ digest;
    value = (value ^ value >> 31) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 29;
}

/* A view restarts the chain at the step that it goes on from, which all its members hold. The chain
 * of the view before is kept: what differed there may not have been compared yet. */
void digest_view(struct digests *digests, uint64_t epoch, uint64_t settled_step)
{
    SPOTNIK_ASSERT(epoch > digests->chain[0].epoch);
    digests->chain[1] = digests->chain[0];
    digests->chain[0] =
        (struct chain){ .epoch = epoch, .base = settled_step, .last = settled_step };
}

/* The same, of what we know of one peer. */
void digest_view_peer(struct compared compared[DIGEST_CHAINS])
{
    compared[1] = compared[0];
    compared[0] = (struct compared){ 0 };
}

/* Results come in order, one for each step. A gap means that a result never reached the caller, and
 * the rest of the view goes unchecked. */
static bool is_next(const struct chain *chain, uint64_t step)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    return step == chain->last + 1 && !chain->torn;
}

/* True: the chain is longer, and claims of this step can be compared. */
bool digest_add(struct digests *digests, uint64_t step, uint64_t digest)
{
    struct chain *chain = &digests->chain[0];

    if (step <= chain->last)
        return false;
    chain->torn = !is_next(chain, step);
    if (chain->torn)
        return false;
    uint64_t before = chain->last == chain->base ? 0 : chain->value[chain->last % DIGESTS_KEPT];
    chain->last = step;
    chain->value[step % DIGESTS_KEPT] = link_of(before, digest);
    return true;
}

static struct spotnik_digest_claim claim_of(const struct chain *chain)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    if (chain->last == chain->base)
        return (struct spotnik_digest_claim){ 0 };
    return (struct spotnik_digest_claim){ .epoch = chain->epoch,
                                          .step = chain->last,
                                          .value = chain->value[chain->last % DIGESTS_KEPT],
                                          .tied = chain->tied };
}

/* What a heartbeat says of our results. */
void digest_claim(const struct digests *digests, struct spotnik_digest_claim claim[DIGEST_CHAINS])
{
    for (int i = 0; i < DIGEST_CHAINS; i++)
        claim[i] = claim_of(&digests->chain[i]);
}

/* ---- comparing ---- */

static bool is_kept(const struct chain *chain, uint64_t step)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    return step > chain->base && step <= chain->last && chain->last - step < DIGESTS_KEPT;
}

/* A claim ahead of us is compared when we get there. */
static void compare_one(const struct chain *chain, struct compared *with)
{
    const struct spotnik_digest_claim *claim = &with->claim;

    if (claim->epoch != chain->epoch || claim->step == 0 || !is_kept(chain, claim->step))
        return;
    if (chain->value[claim->step % DIGESTS_KEPT] == claim->value)
        with->same_step = with->same_step > claim->step ? with->same_step : claim->step;
    else if (with->differs_step == 0)
        with->differs_step = claim->step;
}

static void diverge(struct digest_effects *effects, uint32_t neighbour, const struct compared *with)
{
    SPOTNIK_ASSERT(!effects->diverged);
    SPOTNIK_ASSERT(with->differs_step != 0);
    effects->diverged = true;
    effects->neighbour = neighbour;
    effects->after_step = with->same_step;
    effects->step = with->differs_step;
}

/* We differ from one neighbour and agree with the other, at that step or a later one. */
static bool is_tied(const struct compared *differs, const struct compared *agrees)
{
    SPOTNIK_ASSERT(differs->differs_step != 0);
    return agrees->same_step >= differs->differs_step && agrees->differs_step == 0;
}

/* The odd one of three differs from both its neighbours, and ends. A member that differs from one
 * and agrees with the other leaves that to the odd one. But if the odd one says that it is in the
 * same position, each side ends at the border. */
static void judge(struct chain *chain, const struct compared *first, const struct compared *second,
                  uint32_t count, struct digest_effects *effects)
{
    SPOTNIK_ASSERT(count == 1 || count == 2);
    SPOTNIK_ASSERT((first == second) == (count == 1));
    if (first->differs_step == 0 && second->differs_step == 0)
        return;
    if (first->differs_step != 0 && second->differs_step != 0) {
        diverge(effects, 0, first);
        return;
    }
    uint32_t odd = first->differs_step != 0 ? 0 : 1;
    const struct compared *differs = odd == 0 ? first : second;
    chain->tied = is_tied(differs, odd == 0 ? second : first);
    if (chain->tied && differs->claim.tied)
        diverge(effects, odd, differs);
}

/* `neighbour`: what we know of our ring neighbours; in a view of two they are one. */
struct digest_effects digest_compare(struct digests *digests, struct compared *const neighbour[],
                                     uint32_t count)
{
    struct digest_effects effects = { 0 };

    SPOTNIK_ASSERT(count == 1 || count == 2);
    for (int i = 0; i < DIGEST_CHAINS && !effects.diverged; i++) {
        for (uint32_t k = 0; k < count; k++)
            compare_one(&digests->chain[i], &neighbour[k][i]);
        judge(&digests->chain[i], &neighbour[0][i], &neighbour[count - 1][i], count, &effects);
    }
    uint64_t one = neighbour[0][0].same_step, other = neighbour[count - 1][0].same_step;
    effects.compared_step = one < other ? one : other;
    return effects;
}

/* A claim belongs to one of our chains by its epoch; what was found out under another epoch is
 * void. */
static void claim_take(struct compared *compared, const struct spotnik_digest_claim *claim)
{
    SPOTNIK_ASSERT(claim->step != 0);
    if (compared->claim.epoch != claim->epoch)
        *compared = (struct compared){ 0 };
    compared->claim = *claim;
}

/* A peer claims this of its results. */
void digest_hear(const struct digests *digests, struct compared compared[DIGEST_CHAINS],
                 const struct spotnik_digest_claim claim[DIGEST_CHAINS])
{
    for (int i = 0; i < DIGEST_CHAINS; i++)
        for (int k = 0; k < DIGEST_CHAINS; k++)
            if (claim[k].step != 0 && claim[k].epoch == digests->chain[i].epoch)
                claim_take(&compared[i], &claim[k]);
}
