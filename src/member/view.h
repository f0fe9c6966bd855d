/* SPDX-License-Identifier: Apache-2.0 */
/* Views and proposals: the members of the ring, their order, the step they go on from.
 *
 * A proposal is the value that one epoch decides on (docs/design/0001-core.md): the next view and
 * what was settled with it. An installed view *is* the proposal that was chosen, so one structure
 * serves both. */
#ifndef SPOTNIK_MEMBER_VIEW_H
#define SPOTNIK_MEMBER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "ledger/ledger.h"

#define SPOTNIK_NO_SHARE UINT32_MAX
#define SPOTNIK_NO_RANK UINT32_MAX
#define SPOTNIK_MEMBERS_LIMIT 10000 /* of a view */
#define SPOTNIK_RUNS_MAX 256        /* of a brief proposal; one that needs more is sent whole */

/* A member's identity and address. Never changes. */
struct spotnik_member {
    struct spotnik_id id;
    uint64_t host;       /* equal for members of one host */
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it */
    uint16_t port;
};

enum spotnik_entry_flag {
    SPOTNIK_ENTRY_MEMBER = (1u << 0),  /* stands in the ring of the new view */
    SPOTNIK_ENTRY_VOTER = (1u << 1),   /* promised in the ballot: ACCEPT visits it */
    SPOTNIK_ENTRY_LAGGARD = (1u << 2), /* committed the settled step - 1: needs its result */
    SPOTNIK_ENTRY_JOINER = (1u << 3),  /* was not in the old view */
    /* left out, for a host that does not reach another one: paths.h */
    SPOTNIK_ENTRY_CUT = (1u << 4),
};

struct spotnik_entry {
    struct spotnik_member member;
    /* spotnik_entry_flag; an entry without MEMBER is a leaver that must still be told */
    uint32_t flags;
    uint32_t share; /* of the first step of the view; SPOTNIK_NO_SHARE: none */
};

struct spotnik_ballot {
    uint64_t round; /* 0: none */
    struct spotnik_id initiator;
};

/* What names a lineage; made by its founder, the same as long as that founding lives
 * (founding.h). */
struct spotnik_founding {
    uint64_t id;            /* random; 0: not known. Odd: a witness decides its ties (lineage.h) */
    uint64_t root;          /* the id of the first founding that this one goes back to */
    uint64_t founded_at_ms; /* when that was, by the clock of its founder */
    uint64_t generation;    /* counts the foundings of one root; in a folder, genesis-<n> */
};

/* For the whole life of a lineage, and known with its name: two halves must never decide by
 * different rules. */
static inline bool spotnik_founding_is_witnessed(const struct spotnik_founding *founding)
{
    return founding->id & 1;
}

/* Entries of a proposal that follow each other as they did in the view before. */
struct spotnik_run {
    uint32_t rank; /* of the first in that view; SPOTNIK_NO_RANK: they are new */
    uint32_t count;
    uint32_t flags; /* of all */
    uint32_t share; /* of the first, the next has the next; SPOTNIK_NO_SHARE: of all */
};

/* A proposal in terms of the view that it replaces (brief.h). */
struct spotnik_brief {
    uint32_t run_count; /* 0: there is none */
    struct spotnik_run run[SPOTNIK_RUNS_MAX];
};

struct spotnik_proposal {
    uint64_t epoch; /* of the view it installs */
    /* committed by all of the view once laggards are served; the view reduces settled_step + 1 */
    uint64_t settled_step;
    struct spotnik_ballot ballot;
    uint32_t share_count; /* shares the first step is cut in */
    /* all of the view share memory: its first step is reduced there already */
    bool flat;
    uint32_t entry_count; /* ring order: the old view's order, then joiners */
    uint32_t entry_max;   /* capacity of entry[] */
    /* id 0: the proposer does not know */
    struct spotnik_founding founding;
    struct spotnik_ledger ledger; /* after settled_step */
    /* as decoded from a brief message: entry[] has new members only, until
     * spotnik_brief_unpack() */
    bool packed;
    struct spotnik_brief brief;
    struct spotnik_entry *entry;
};

int spotnik_ballot_compare(struct spotnik_ballot a, struct spotnik_ballot b);

/* Copies the used part; `to` keeps its own storage and capacity. */
void spotnik_proposal_copy(struct spotnik_proposal *to, const struct spotnik_proposal *from);

/* The same of a whole proposal that has a brief form, which is all that `to` gets: spotnik_brief_
 * unpack() makes it whole again. */
void spotnik_proposal_pack(struct spotnik_proposal *to, const struct spotnik_proposal *from);

/* Members standing in the ring: entries with MEMBER. */
uint32_t spotnik_proposal_size(const struct spotnik_proposal *proposal);

/* Index of the entry of `id`, or SPOTNIK_NO_RANK. */
uint32_t spotnik_proposal_find(const struct spotnik_proposal *proposal, struct spotnik_id id);

/* The same, looked for from the index `near` outwards. Lists of one job differ little: a walk
 * through one of them finds each in another at once. */
uint32_t spotnik_proposal_find_near(const struct spotnik_proposal *proposal, struct spotnik_id id,
                                    uint32_t near);

/* The installed view: the MEMBER entries of a proposal, in order. rank i is member[i]. */
struct spotnik_view {
    uint64_t epoch;
    uint64_t settled_step;
    uint32_t size;
    uint32_t share_count;
    struct spotnik_founding founding;
    struct spotnik_entry *entry; /* capacity is the limit given to spotnik_core_init() */
};

void spotnik_view_from_proposal(struct spotnik_view *view, const struct spotnik_proposal *proposal);
uint32_t spotnik_view_rank(const struct spotnik_view *view, struct spotnik_id id);
uint32_t spotnik_view_rank_near(const struct spotnik_view *view, struct spotnik_id id,
                                uint32_t near);

/* Share of rank `rank` in step `step`: as carried by the view for its first step, its rank
 * afterwards. */
uint32_t spotnik_view_share(const struct spotnik_view *view, uint32_t rank, uint64_t step);
uint32_t spotnik_view_shares(const struct spotnik_view *view, uint64_t step);

#endif
