/* SPDX-License-Identifier: Apache-2.0 */
/* struct spotnik_answer as bytes: what a process says of itself to one that looks for the job. */
#ifndef SPOTNIK_LINK_ANSWER_H
#define SPOTNIK_LINK_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

/* The answer of a process to one that looks for the job. */
struct spotnik_answer {
    uint64_t epoch; /* of the view it is a member of; 0: in none */
    uint32_t size;
    bool parked; /* it is cut off from the majority: the job exists, but not there */
    struct spotnik_member self;
    struct spotnik_member vote; /* the member that it would have found the job; id none: none yet */
    struct spotnik_presence presence; /* as its handshake says; not in the bytes of the answer */
};

#define SPOTNIK_ANSWER_BYTES 96

void spotnik_answer_encode(const struct spotnik_answer *answer,
                           uint8_t ret_bytes[SPOTNIK_ANSWER_BYTES]);

/* False: not an answer. */
bool spotnik_answer_decode(const uint8_t bytes[SPOTNIK_ANSWER_BYTES],
                           struct spotnik_answer *ret_answer);

#endif
