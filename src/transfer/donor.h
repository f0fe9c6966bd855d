/* SPDX-License-Identifier: Apache-2.0 */
/* What a member gives to joiners: a snapshot of the registered state at one boundary, in pieces.
 * From then on it gives every committed result, until the joiner is in. Training goes on meanwhile.
 *
 *     session (thread per joiner) --wants--> boundary hook --> copy --> snapshot --pieces--> joiner
 *                                            committed hook: copy --> log -----results---> joiner
 *
 * Only what is stable leaves the process. A snapshot is announced, and a result streamed, once no
 * later view can commit that step differently (P3 allows one step that is not). Otherwise a joiner
 * could enter with bits that no member has.
 *
 * The boundary hook copies what is small. What is large does not change before the step that begins
 * there commits, so the session copies it beside the program, and the commit waits for the rest.
 *
 * All sessions share the log; a joiner so slow that the log outgrows its bound is dropped and
 * starts over. When the last session ends, snapshot and log are freed. A joiner's death costs
 * nothing but that. */
#ifndef SPOTNIK_TRANSFER_DONOR_H
#define SPOTNIK_TRANSFER_DONOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "transfer/registry.h"

struct spotnik_donor;

struct spotnik_donor_status {
    uint32_t sessions; /* joiners connected */
    uint64_t log_bytes, snapshot_bytes;
    uint64_t dropped; /* joiners that were too slow, so far */
};

/* `registry` is borrowed. Errors: MEMORY. */
int spotnik_donor_new(struct spotnik_registry *registry, uint32_t chunk_bytes,
                      struct spotnik_donor **ret_donor);

/* [caller] The runtime exists: sessions may ask it. */
void spotnik_donor_attach(struct spotnik_donor *donor, struct spotnik_runtime *runtime);

/* [caller] The registry is complete: joiners may be answered. */
void spotnik_donor_seal(struct spotnik_donor *donor);

/* [progress thread] A STATE connection; owns what is in `duplex` from now on. Does not block. */
void spotnik_donor_accept(struct spotnik_donor *donor, struct spotnik_duplex *duplex);

/* [any, under the runtime's lock] No later view can commit the steps up to this one differently:
 * they may be streamed. */
void spotnik_donor_stable(struct spotnik_donor *donor, uint64_t step);

/* [caller, inside step_begin] */
void spotnik_donor_boundary(struct spotnik_donor *donor, uint64_t committed, bool waiting);

/* [caller, the program is inside a call] It has not changed the state since the last boundary. */
void spotnik_donor_confirm(struct spotnik_donor *donor);

/* [caller] It has: snapshots of this boundary are void, and their joiners start over. */
void spotnik_donor_spoil(struct spotnik_donor *donor);

/* [caller] The state may change from now on: wait for copies under way. */
void spotnik_donor_settle(struct spotnik_donor *donor);

/* [caller, inside step_commit] Settles. */
void spotnik_donor_committed(struct spotnik_donor *donor, uint64_t step, uint32_t bucket_count,
                             const struct spotnik_bucket_result *result);

/* [caller] The state is about to be replaced (we were excluded and join again): no joiner may use
 * it any more. */
void spotnik_donor_reset(struct spotnik_donor *donor);

/* [any] */
void spotnik_donor_status(struct spotnik_donor *donor, struct spotnik_donor_status *ret);

/* [caller] End all sessions, wait for their threads, refuse new ones: before the runtime is
 * freed. */
void spotnik_donor_stop(struct spotnik_donor *donor);

/* After _stop, and after the runtime was freed: it may still call _accept until then. Accepts
 * NULL. */
void spotnik_donor_free(struct spotnik_donor *donor);

#endif
