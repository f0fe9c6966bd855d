/* SPDX-License-Identifier: Apache-2.0 */
/* Messages drawn by lot for the tests of the wire and for the seeds of its fuzzers: valid, and of
 * every shape. */
#ifndef SPOTNIK_TESTS_SAMPLE_H
#define SPOTNIK_TESTS_SAMPLE_H

#include <stdbool.h>

#include "base/prng.h"
#include "wire/control.h"

/* The limits of all wire tests: small, so that limits are met. */
struct spotnik_limits spotnik_sample_limits(void);

/* A message of this kind that lives in `storage`. */
struct spotnik_message spotnik_sample_message(struct spotnik_prng *prng,
                                              enum spotnik_message_kind kind,
                                              struct spotnik_wire_storage *storage);

struct spotnik_member spotnik_sample_member(struct spotnik_prng *prng);
struct spotnik_chunk_header spotnik_sample_chunk(struct spotnik_prng *prng);

/* Field by field, in what is used. */
bool spotnik_sample_equal(const struct spotnik_message *a, const struct spotnik_message *b);
bool spotnik_sample_member_equal(const struct spotnik_member *a, const struct spotnik_member *b);

#endif
