/* SPDX-License-Identifier: Apache-2.0 */
/* The route of RESTART, the third pass: a tree over the entries of the chosen proposal, in place
 * of a circle. A member that has installed the view is busy with data at once, and a circle would
 * wait at every hop. Nothing has to come back: if a member is missed, the first peer that hears it
 * speak in an old epoch tells it.
 *
 * Places count from the initiator: see tree_layout.c. Blocks are of `warm_count`, so that a tree
 * link is a warm one; each member tells three at most. Where passes go by a tree heads of blocks
 * tell two others, by new links: a chain of them would be as long as a small ring. Rules:
 * docs/protocol.md 8. */
#include "base/assert.h"
#include "membership/membership.h"

struct tree {
    const struct spotnik_proposal *proposal;
    uint32_t origin; /* index of the initiator's entry */
    struct tree_layout tree_layout;
};

static struct tree tree_of(const struct spotnik_core *core)
{
    const struct spotnik_proposal *proposal = &core->chosen;
    uint32_t origin = spotnik_proposal_find(proposal, proposal->ballot.initiator);

    SPOTNIK_ASSERT(core->limits.warm_count >= 1);
    SPOTNIK_ASSERT(proposal->entry_count > 0);
    return (struct tree){ .proposal = proposal,
                          .origin = origin == SPOTNIK_NO_RANK ? 0 : origin,
                          .tree_layout = { .count = proposal->entry_count,
                                           .block = core->limits.warm_count,
                                           .forked = proposal->entry_count
                                                     > core->limits.tree_members } };
}

/* NO_RANK when it has no entry. */
static uint32_t place_of(const struct tree *tree, struct spotnik_id id)
{
    uint32_t count = tree->proposal->entry_count, at = spotnik_proposal_find(tree->proposal, id);
    return at == SPOTNIK_NO_RANK ? SPOTNIK_NO_RANK : (at + count - tree->origin) % count;
}

static const struct spotnik_member *member_at(const struct tree *tree, uint32_t place)
{
    SPOTNIK_ASSERT(place < tree->proposal->entry_count);
    return &tree->proposal->entry[(tree->origin + place) % tree->proposal->entry_count].member;
}

static bool known_out(const struct spotnik_core *core, const struct tree *tree, uint32_t place)
{
    SPOTNIK_ASSERT(place < tree->proposal->entry_count);
    uint32_t at = (tree->origin + place) % tree->proposal->entry_count;
    uint32_t rank = spotnik_view_rank_near(&core->view, tree->proposal->entry[at].member.id, at);
    return rank != SPOTNIK_NO_RANK
           && (spotnik_evidence_out(core->membership->evidence_table.known[rank].evidence)
               || core->membership->evidence_table.suspected_by_peer[rank]);
}

static void tell_subtree(struct spotnik_core *core, const struct tree *tree, uint32_t place);

static void tell_below(struct spotnik_core *core, const struct tree *tree, uint32_t place)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_layout_below(&tree->tree_layout, place, below);

    for (uint32_t i = 0; i < count; i++)
        tell_subtree(core, tree, below[i]);
}

/* A member that is out cannot pass RESTART on: those below it are told in its stead. A member on a
 * link that has yet to come up is told then, after its first message. */
static void tell_subtree(struct spotnik_core *core, const struct tree *tree, uint32_t place)
{
    const struct spotnik_member *member = member_at(tree, place);
    if (known_out(core, tree, place)) {
        tell_below(core, tree, place);
        return;
    }
    struct peer *peer = peer_want(core, member);
    if (peer->linked) {
        tell_view(core, peer);
    } else if (peer->told_epoch < tree->proposal->epoch) {
        peer_seek(core, peer);
    }
}

void restart_broadcast(struct spotnik_core *core)
{
    struct tree tree = tree_of(core);
    uint32_t place = place_of(&tree, core->self.id);

    SPOTNIK_ASSERT(core->chosen.epoch == core->view.epoch);
    if (place != SPOTNIK_NO_RANK)
        tell_below(core, &tree, place);
}

/* One that we told, or were about to tell, is out: perhaps it told no member. Once a step has
 * been committed in the view, all members have installed it. */
void restart_reroute(struct spotnik_core *core, struct spotnik_id failed)
{
    struct tree tree = tree_of(core);
    uint32_t ours = place_of(&tree, core->self.id), place = place_of(&tree, failed), up = place;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->chosen.epoch != core->view.epoch || core->step.committed > core->view.settled_step
        || ours == SPOTNIK_NO_RANK || place == SPOTNIK_NO_RANK)
        return;
    while (up != 0 && up != ours && known_out(core, &tree, up))
        up = tree_layout_above(&tree.tree_layout, up);
    if (up == ours)
        tell_below(core, &tree, place);
}
