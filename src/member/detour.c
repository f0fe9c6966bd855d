/* SPDX-License-Identifier: Apache-2.0 */
/* Order round broken paths: swap a member at a wrong place with one that improves the ring, until
 * nothing helps. See detour.h. */
#include "member/detour.h"

#include "member/lineage.h"

#define PAIRS_MAX 16 /* of hosts; more than that is no broken path but a broken network */

struct pairs {
    uint32_t count;
    struct {
        uint64_t a, b;
    } host[PAIRS_MAX];
};

static void pair_add(struct pairs *pairs, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < pairs->count; i++)
        if ((pairs->host[i].a == a && pairs->host[i].b == b)
            || (pairs->host[i].a == b && pairs->host[i].b == a))
            return;
    if (pairs->count < PAIRS_MAX) {
        pairs->host[pairs->count].a = a;
        pairs->host[pairs->count++].b = b;
    }
}

static struct pairs pairs_of(const struct spotnik_view *view, const struct spotnik_token *token)
{
    struct pairs pairs = { .count = 0 };

    for (uint32_t r = 0; r < view->size; r++) {
        if (!spotnik_lineage_voter(&token->report[r]) || token->report[r].cut == 0)
            continue;
        for (uint32_t s = 0; s < view->size; s++)
            if ((token->report[r].cut >> s % 64 & 1) && spotnik_lineage_voter(&token->report[s])
                && view->entry[r].member.host != view->entry[s].member.host)
                pair_add(&pairs, view->entry[r].member.host, view->entry[s].member.host);
    }
    return pairs;
}

static bool is_pair(const struct pairs *pairs, const struct spotnik_entry *x,
                    const struct spotnik_entry *y)
{
    for (uint32_t i = 0; i < pairs->count; i++)
        if ((x->member.host == pairs->host[i].a && y->member.host == pairs->host[i].b)
            || (x->member.host == pairs->host[i].b && y->member.host == pairs->host[i].a))
            return true;
    return false;
}

static bool stands(const struct spotnik_entry *entry)
{
    return entry->flags & SPOTNIK_ENTRY_MEMBER;
}

/* The entry that follows in the ring; with `holders` the next that is the first of its host, since
 * hosts stand in a ring of their own. */
static uint32_t next_of(const struct spotnik_proposal *proposal, uint32_t at, bool holders)
{
    uint32_t count = proposal->entry_count;

    for (uint32_t ahead = 1; ahead <= count; ahead++) {
        uint32_t i = (at + ahead) % count;
        bool first = true;
        for (uint32_t before = 0; holders && before < i; before++)
            first &= !stands(&proposal->entry[before])
                     || proposal->entry[before].member.host != proposal->entry[i].member.host;
        if (stands(&proposal->entry[i]) && first)
            return i;
    }
    return at;
}

static bool is_holder(const struct spotnik_proposal *proposal, uint32_t at)
{
    for (uint32_t before = 0; before < at; before++)
        if (stands(&proposal->entry[before])
            && proposal->entry[before].member.host == proposal->entry[at].member.host)
            return false;
    return stands(&proposal->entry[at]);
}

/* Neighbours, in either ring, that do not reach each other. *ret_at: the last such that follows
 * another. */
static uint32_t crossings(const struct spotnik_proposal *proposal, const struct pairs *pairs,
                          uint32_t *ret_at, uint32_t *ret_before)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < proposal->entry_count; i++)
        for (int holders = 0; holders < 2; holders++) {
            if (!stands(&proposal->entry[i]) || (holders && !is_holder(proposal, i)))
                continue;
            uint32_t next = next_of(proposal, i, holders);
            if (!is_pair(pairs, &proposal->entry[i], &proposal->entry[next]))
                continue;
            *ret_before = i;
            *ret_at = next;
            count++;
        }
    return count;
}

static void swap(struct spotnik_proposal *proposal, uint32_t i, uint32_t k)
{
    struct spotnik_entry entry = proposal->entry[i];
    proposal->entry[i] = proposal->entry[k];
    proposal->entry[k] = entry;
}

/* The member before a laggard serves it. Any order will do where all others hold the result, or are
 * served themselves. Where some only copied the state after it, proposal.c has put each in its
 * place. */
static bool is_free(const struct spotnik_proposal *proposal, const struct spotnik_view *view,
                    const struct spotnik_token *token)
{
    bool laggard = false, bare = false;

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        uint32_t rank = spotnik_view_rank_near(view, entry->member.id, i);
        bool lags = entry->flags & SPOTNIK_ENTRY_LAGGARD;
        laggard |= stands(entry) && lags;
        bare |= stands(entry) && !lags && (rank == SPOTNIK_NO_RANK || token->report[rank].bare);
    }
    return !laggard || !bare;
}

static bool improve(struct spotnik_proposal *proposal, const struct pairs *pairs)
{
    uint32_t at = 0, before = 0, ignored, have = crossings(proposal, pairs, &at, &before);
    uint32_t wrong[2] = { at, before };

    for (int which = 0; have > 0 && which < 2; which++)
        for (uint32_t k = 0; k < proposal->entry_count; k++) {
            if (k == wrong[which] || !stands(&proposal->entry[k]))
                continue;
            swap(proposal, wrong[which], k);
            if (crossings(proposal, pairs, &ignored, &ignored) < have)
                return true;
            swap(proposal, wrong[which], k);
        }
    return false;
}

bool spotnik_detour_is_needed(const struct spotnik_proposal *proposal,
                              const struct spotnik_view *view, const struct spotnik_token *token)
{
    struct pairs pairs = pairs_of(view, token);

    for (uint32_t i = 0; i < proposal->entry_count; i++)
        for (uint32_t k = 0; pairs.count > 0 && k < i; k++)
            if (stands(&proposal->entry[i]) && stands(&proposal->entry[k])
                && is_pair(&pairs, &proposal->entry[i], &proposal->entry[k]))
                return true;
    return false;
}

void spotnik_detour_arrange(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                            const struct spotnik_token *token)
{
    struct pairs pairs = pairs_of(view, token);

    if (pairs.count == 0 || !is_free(proposal, view, token))
        return;
    while (improve(proposal, &pairs))
        ;
}

uint32_t spotnik_detour_crossing(const struct spotnik_proposal *proposal,
                                 const struct spotnik_view *view, const struct spotnik_token *token,
                                 struct spotnik_id self)
{
    struct pairs pairs = pairs_of(view, token);
    uint32_t at = 0, before = 0;

    if (pairs.count == 0 || crossings(proposal, &pairs, &at, &before) == 0)
        return SPOTNIK_NO_RANK;
    struct spotnik_id x = proposal->entry[at].member.id, y = proposal->entry[before].member.id;
    bool first =
        spotnik_id_equal(y, self) || (!spotnik_id_equal(x, self) && spotnik_id_compare(x, y) > 0);
    return spotnik_view_rank(view, first ? x : y);
}

/* ---- the way of ACCEPT ---- */

static bool votes(const struct spotnik_entry *entry, uint64_t without)
{
    return (entry->flags & SPOTNIK_ENTRY_VOTER) && (!without || entry->member.host != without);
}

/* Voters that do not reach the next one, when those of one host do not vote (0: all do). *ret_pair:
 * the hosts of the last such two. */
static uint32_t gaps(const struct spotnik_proposal *proposal, const struct pairs *pairs,
                     uint64_t without, uint64_t ret_pair[2])
{
    const struct spotnik_entry *before = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < proposal->entry_count; i++)
        before = votes(&proposal->entry[i], without) ? &proposal->entry[i] : before;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        if (!votes(entry, without))
            continue;
        if (is_pair(pairs, before, entry)) {
            ret_pair[0] = before->member.host;
            ret_pair[1] = entry->member.host;
            count++;
        }
        before = entry;
    }
    return count;
}

static uint32_t rank_on(const struct spotnik_view *view, uint64_t host)
{
    for (uint32_t rank = 0; rank < view->size; rank++)
        if (view->entry[rank].member.host == host)
            return rank;
    return SPOTNIK_NO_RANK;
}

uint32_t spotnik_detour_mute(const struct spotnik_proposal *proposal,
                             const struct spotnik_view *view, const struct spotnik_token *token,
                             struct spotnik_id self)
{
    struct pairs pairs = pairs_of(view, token);
    uint32_t rank = spotnik_view_rank(view, self);
    uint64_t pair[2] = { 0, 0 }, ignored[2];
    uint64_t own = rank == SPOTNIK_NO_RANK ? 0 : view->entry[rank].member.host;

    if (pairs.count == 0 || gaps(proposal, &pairs, 0, pair) == 0)
        return SPOTNIK_NO_RANK;
    uint32_t left[2] = { gaps(proposal, &pairs, pair[0], ignored),
                         gaps(proposal, &pairs, pair[1], ignored) };
    bool second = pair[0] == own || (pair[1] != own && left[1] < left[0]);
    return rank_on(view, pair[second]);
}
