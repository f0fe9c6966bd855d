/* SPDX-License-Identifier: Apache-2.0 */
/* How a joiner comes by the state. It copies one boundary from up to three donors at once. Then it
 * takes the committed results since from one of them, until the members have let it in.
 *
 *     copy    ask a member -> choose donors -> SNAPSHOT to all -> fetch pieces, each checked by its
 *             tag
 *     follow  a thread: STREAM from one donor -> runtime; within one step -> ask to be let in
 *
 * The pieces of a donor that dies are asked of the others, and so is the stream. When none is left
 * the joiner starts over with others. Until it is in, the members owe it nothing. */
#ifndef SPOTNIK_TRANSFER_JOINER_H
#define SPOTNIK_TRANSFER_JOINER_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "transfer/registry.h"

#define SPOTNIK_DONORS_MAX 3

struct spotnik_joiner;

struct spotnik_joiner_config {
    struct spotnik_registry *registry; /* borrowed; _copy writes the memory it names */
    struct spotnik_runtime *runtime;   /* borrowed */
    uint64_t patience_ns;              /* how long one without donors waits to be let in */
    bool (*stop)(void *context);       /* asked now and then by _copy; true ends it. May be NULL */
    /* follow's thread: no donor is left and we are not in; the caller must join anew. */
    void (*lost)(void *context);
    void *context;
};

/* Errors: MEMORY. */
int spotnik_joiner_new(const struct spotnik_joiner_config *config,
                       struct spotnik_joiner **ret_joiner);

/* [caller, inside step_begin] Fill the registered memory with the state after *ret_step. Blocking.
 * Errors: PEERS (no donor could serve: find another sponsor and call again), MISMATCH (names the
 * tensor), MEMORY, LEAVING (`stop` said so). */
int spotnik_joiner_copy(struct spotnik_joiner *joiner, const struct spotnik_member *sponsor,
                        uint64_t *ret_step);

/* [caller] Has _copy begun to fill the registered memory? Before that it is as the program left
 * it. */
bool spotnik_joiner_has_written(const struct spotnik_joiner *joiner);

/* [caller] After spotnik_runtime_join(): feed the runtime. Errors: SYSTEM. */
int spotnik_joiner_follow(struct spotnik_joiner *joiner);

/* [any] In the view, or lost: nothing is going on any more. */
bool spotnik_joiner_is_done(const struct spotnik_joiner *joiner);

/* End the thread, close all connections. The runtime must be answering. Accepts NULL. */
void spotnik_joiner_free(struct spotnik_joiner *joiner);

#endif
