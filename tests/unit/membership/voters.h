/* SPDX-License-Identifier: Apache-2.0 */
/* A view of members with ids 1, 2, ..., and the agreement of one of them in it. */
#ifndef SPOTNIK_TESTS_VOTERS_H
#define SPOTNIK_TESTS_VOTERS_H

#include "membership/agreement.h"

#define VOTERS_MAX 20
#define VOTERS_EPOCH 3
#define VOTERS_RETRY_NS UINT64_C(100000000)

struct voters {
    struct agreement agreement;
    struct agreement_input in;
    struct spotnik_view view;
    struct spotnik_ledger ledger;
    struct spotnik_entry entry[VOTERS_MAX], proposed[VOTERS_MAX], gathered[VOTERS_MAX];
    struct spotnik_known known[VOTERS_MAX];
    struct spotnik_report report[VOTERS_MAX];
    bool suspected[VOTERS_MAX], fenced[VOTERS_MAX];
    uint64_t quiet_until_ns[VOTERS_MAX], sent, heard;
};

/* All live, and none has promised. The time is one second. */
void voters_open(struct voters *voters, uint32_t size, uint32_t rank);

struct spotnik_id voters_id(uint32_t rank);

/* Promise a ballot of that rank, and clear its PREPARE. */
void voters_promise(struct voters *voters, uint64_t round, uint32_t rank);

/* The accepted proposal is of that ballot, and holds all members. */
void voters_accept(struct voters *voters, struct spotnik_ballot ballot);

#endif
