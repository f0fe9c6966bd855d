/* SPDX-License-Identifier: Apache-2.0 */
/* struct spotnik_answer as bytes: what a process says of itself to one that looks for the job. */
#ifndef SPOTNIK_NET_ANSWER_H
#define SPOTNIK_NET_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/engine.h"

#define SPOTNIK_ANSWER_BYTES 96

void spotnik_answer_encode(const struct spotnik_answer *answer, uint8_t ret_bytes[SPOTNIK_ANSWER_BYTES]);

/* False: not an answer. */
bool spotnik_answer_decode(const uint8_t bytes[SPOTNIK_ANSWER_BYTES], struct spotnik_answer *ret_answer);

#endif
