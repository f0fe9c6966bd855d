/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass by a tree, in views of many members (docs/design/0036-many-members.md). ASK goes
 * down from the initiator, and each member promises. PROMISE comes up, and brings the reports of
 * all below its sender. A member answers when each of those has answered or has ended. Those below
 * one that is out are asked in its stead. In PREPARE a promise says that all below that member
 * have been asked, too: none leaves its member before.
 *
 * A tree finds the dead and the living, but not a member that is silent to the one above it alone.
 * Then, and wherever a ballot has failed, the next one goes round the ring as in small views.
 * Rules: docs/protocol.md 5. */
#include <string.h>

#include "base/assert.h"
#include "membership/agreement.h"

bool tree_bit(const uint64_t *bits, uint32_t rank)
{
    return bits[rank / 64] >> rank % 64 & 1;
}

static void clear(struct spotnik_tree_prepare *tree)
{
    memset(tree->sent, 0, tree->words * sizeof(*tree->sent));
    memset(tree->heard, 0, tree->words * sizeof(*tree->heard));
}

/* The ballot that we had promised is over for us. What it still has in the queue is void. */
void tree_prepare_end(struct spotnik_tree_prepare *tree)
{
    if (!tree->on)
        return;
    clear(tree);
    tree->on = tree->answered = tree->accepted = false;
    tree->asker_count = 0;
    tree->teller = (struct spotnik_id){ 0 };
}

/* We have promised the ballot of the member of rank `origin`, and signed. */
void tree_prepare_begin(struct spotnik_tree_prepare *tree, uint32_t origin)
{
    SPOTNIK_ASSERT(!tree->on);
    tree->on = true;
    tree->origin = origin;
}

/* ACCEPT goes the same way next, and is to be counted from the beginning. */
void tree_prepare_turn(struct spotnik_tree_prepare *tree)
{
    SPOTNIK_ASSERT(tree->on);
    clear(tree);
    tree->answered = true;
}

/* Do the passes of our view go by a tree? */
bool tree_prepare_is_used(const struct agreement_input *in)
{
    return in->view->size > in->tree_members;
}

/* May the ballot that we start go by a tree? */
bool tree_prepare_is_due(const struct agreement *agreement, const struct agreement_input *in)
{
    return tree_prepare_is_used(in) && !agreement->tree.missed && !agreement->parked
           && agreement->retries == 0;
}

uint32_t tree_prepare_below(const struct agreement *agreement, const struct agreement_input *in,
                            uint32_t rank, uint32_t below[TREE_CHILDREN_MAX])
{
    struct tree_layout layout = { .count = in->view->size,
                                  .block = in->warm_count,
                                  .forked = true };
    uint32_t size = in->view->size, origin = agreement->tree.origin;

    SPOTNIK_ASSERT(rank < size && origin < size);
    uint32_t count = tree_layout_below(&layout, (rank + size - origin) % size, below);
    for (uint32_t i = 0; i < count; i++)
        below[i] = (below[i] + origin) % size;
    return count;
}

/* By its own word or another's that never fades. */
static bool is_out(const struct agreement_input *in, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < in->view->size);
    return spotnik_evidence_out(in->known[rank].evidence) || in->suspected[rank];
}

/* A ballot whose initiator has ended goes nowhere. */
bool tree_prepare_is_orphan(const struct agreement *agreement, const struct agreement_input *in)
{
    return agreement->tree.origin != in->rank && is_out(in, agreement->tree.origin);
}

/* The first below `rank` that is to be asked, and has not been. */
static uint32_t unasked(const struct agreement *agreement, const struct agreement_input *in,
                        uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], found = SPOTNIK_NO_RANK;
    uint32_t count = tree_prepare_below(agreement, in, rank, below);

    for (uint32_t i = 0; i < count && found == SPOTNIK_NO_RANK; i++) {
        if (agreement->prepare.report[below[i]].promised)
            continue;
        if (is_out(in, below[i]))
            found = unasked(agreement, in, below[i]);
        else if (!tree_bit(agreement->tree.sent, below[i]))
            found = below[i];
    }
    return found;
}

/* The next member to send ASK to. False: all have been asked. */
bool tree_prepare_next(struct agreement *agreement, const struct agreement_input *in,
                       uint32_t *ret_rank)
{
    uint32_t rank = unasked(agreement, in, in->rank);

    SPOTNIK_ASSERT(agreement->tree.on && !agreement->tree.answered);
    if (rank == SPOTNIK_NO_RANK)
        return false;
    agreement->tree.sent[rank / 64] |= UINT64_C(1) << rank % 64;
    *ret_rank = rank;
    return true;
}

static bool is_whole(const struct agreement *agreement, const struct agreement_input *in,
                     uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(agreement, in, rank, below);

    for (uint32_t i = 0; i < count; i++)
        if (!agreement->prepare.report[below[i]].promised
            && !(is_out(in, below[i]) && is_whole(agreement, in, below[i])))
            return false;
    return true;
}

/* Have all below us answered, or ended? */
bool tree_prepare_is_whole(const struct agreement *agreement, const struct agreement_input *in)
{
    SPOTNIK_ASSERT(agreement->tree.on);
    return is_whole(agreement, in, in->rank);
}

/* Those that are known to have ended, for all that we ask. */
void tree_prepare_tell_ended(struct agreement *agreement, const struct agreement_input *in)
{
    struct spotnik_ended *ended = &agreement->tree.ended;

    ended->count = 0;
    for (uint32_t rank = 0; rank < in->view->size && ended->count < SPOTNIK_ENDED_MAX; rank++)
        if (in->suspected[rank] || in->known[rank].evidence >= SPOTNIK_EVIDENCE_TAINTED)
            ended->rank[ended->count++] = rank;
}

/* It waits for our PROMISE. */
void tree_prepare_asked_by(struct spotnik_tree_prepare *tree, struct spotnik_id id)
{
    SPOTNIK_ASSERT(tree->on && tree->asker_count <= ASKERS_MAX);
    for (uint32_t i = 0; i < tree->asker_count; i++)
        if (spotnik_id_equal(tree->asker[i], id))
            return;
    if (tree->asker_count == ASKERS_MAX) /* the first of them is long out */
        memmove(tree->asker, tree->asker + 1, --tree->asker_count * sizeof(*tree->asker));
    tree->asker[tree->asker_count++] = id;
}

/* Our tree has come up whole. Has it left members out that may live? */
bool tree_prepare_has_missed(const struct spotnik_prepare *prepare)
{
    for (uint32_t rank = 0; rank < prepare->report_count; rank++)
        if (!prepare->report[rank].promised
            && prepare->report[rank].evidence < SPOTNIK_EVIDENCE_TAINTED)
            return true;
    return false;
}
