/* SPDX-License-Identifier: Apache-2.0 */
#include "voters.h"

#include <string.h>

#include "base/time.h"

struct spotnik_id voters_id(uint32_t rank)
{
    return (struct spotnik_id){ .low = rank + 1 };
}

static void give_memory(struct voters *voters)
{
    struct agreement *agreement = &voters->agreement;

    agreement->prepare.report = voters->report;
    agreement->prepare.accepted.entry = voters->gathered;
    agreement->accepted.entry = voters->proposed;
    agreement->prepare.accepted.entry_max = agreement->accepted.entry_max = VOTERS_MAX;
    agreement->fenced = voters->fenced;
    agreement->tree.words = 1;
    agreement->tree.sent = &voters->sent;
    agreement->tree.heard = &voters->heard;
}

void voters_open(struct voters *voters, uint32_t size, uint32_t rank)
{
    memset(voters, 0, sizeof(*voters));
    for (uint32_t i = 0; i < size; i++)
        voters->entry[i] =
            (struct spotnik_entry){ .member.id = voters_id(i), .flags = SPOTNIK_ENTRY_MEMBER };
    voters->view =
        (struct spotnik_view){ .epoch = VOTERS_EPOCH, .size = size, .entry = voters->entry };
    voters->in = (struct agreement_input){ .now_ns = SPOTNIK_S,
                                           .view = &voters->view,
                                           .rank = rank,
                                           .known = voters->known,
                                           .suspected = voters->suspected,
                                           .quiet_until_ns = voters->quiet_until_ns,
                                           .retry_ns = VOTERS_RETRY_NS,
                                           .stagger_ns = 2 * SPOTNIK_MS,
                                           .warm_count = 4,
                                           .tree_members = 8,
                                           .brief_members = VOTERS_MAX };
    give_memory(voters);
    ballot_init(&voters->agreement);
}

void voters_promise(struct voters *voters, uint64_t round, uint32_t rank)
{
    struct prepare_words words = { .ledger = &voters->ledger, .ledger_step = SPOTNIK_NO_LEDGER };

    ballot_promise(&voters->agreement, voters->in.now_ns,
                   (struct spotnik_ballot){ .round = round, .initiator = voters_id(rank) });
    prepare_clear(&voters->agreement, &voters->in, &words);
}

void voters_accept(struct voters *voters, struct spotnik_ballot ballot)
{
    struct spotnik_proposal *accepted = &voters->agreement.accepted;

    accepted->epoch = VOTERS_EPOCH + 1;
    accepted->ballot = ballot;
    accepted->entry_count = voters->view.size;
    for (uint32_t i = 0; i < voters->view.size; i++) {
        voters->proposed[i] = voters->entry[i];
        voters->proposed[i].flags |= SPOTNIK_ENTRY_VOTER;
    }
}
