/* SPDX-License-Identifier: Apache-2.0 */
/* Writing checkpoints while the job trains (docs/design/0005-checkpoint.md). At a due boundary
 * every member copies its parts of the state: what is small there, the rest beside the program,
 * until the step that begins commits. A thread writes them once the step is stable. The
 * member of rank 0 writes the manifest once all parts are there. No member waits for another in
 * training. If a lost or slow member has not written its part, that checkpoint stays incomplete,
 * and is never used.
 *
 * Part p belongs to rank p mod size of the view in which the step began. Members that saw the step
 * in different views may leave a part unwritten, or write it twice with the same bytes.
 *
 * Functions marked [caller] come from the one thread that owns the job. */
#ifndef SPOTNIK_CHECKPOINT_H
#define SPOTNIK_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/signature.h"
#include "runtime/runtime.h"
#include "transfer/registry.h"

struct spotnik_checkpoint;

struct spotnik_checkpoint_config {
    const char *dir, *job;        /* copied */
    struct spotnik_signer signer; /* all zeros: nothing is signed */
    uint64_t steps;               /* steps between two; 0: by time */
    uint64_t interval_ns;
    uint32_t keep;
    /* May be NULL. Asked by the thread of checkpoints before anything is published or pruned: is
     * our lineage still the job? Blocking. */
    bool (*may_publish)(void *context);
    void *context;
};

/* `registry` and `runtime` are borrowed until _free. Makes the directory. Errors: SYSTEM, MEMORY.
 * */
int spotnik_checkpoint_new(const struct spotnik_checkpoint_config *config,
                           struct spotnik_registry *registry, struct spotnik_runtime *runtime,
                           struct spotnik_checkpoint **ret_checkpoint);

/* [caller] The registry is complete: start the thread. Errors: ARGUMENT (a name), SYSTEM,
 * MEMORY. */
int spotnik_checkpoint_seal(struct spotnik_checkpoint *checkpoint);

/* [caller] A step was begun. A replayed one is none of ours: the copy of the state is younger. */
void spotnik_checkpoint_begun(struct spotnik_checkpoint *checkpoint, const spotnik_step *step);

enum spotnik_boundary {
    SPOTNIK_BOUNDARY_BETWEEN, /* of two batches */
    SPOTNIK_BOUNDARY_WITHIN,  /* a batch of several steps: what is due waits for the next one */
    SPOTNIK_BOUNDARY_LAST,    /* no other follows, so a checkpoint is due */
};

/* [caller, inside step_begin, and when the loop ends] At the boundary after `committed`. */
void spotnik_checkpoint_boundary(struct spotnik_checkpoint *checkpoint, uint64_t committed,
                                 enum spotnik_boundary kind);

/* [caller, before it leaves without having been asked to] The program has nothing more to do. What
 * it has is kept: the job may be over without steps_max. Members that end together write one
 * checkpoint; the last of those that end one by one writes its own. */
void spotnik_checkpoint_parting(struct spotnik_checkpoint *checkpoint, uint64_t committed);

/* [caller, the program is inside a call] It has not changed the state since the last boundary. */
void spotnik_checkpoint_confirm(struct spotnik_checkpoint *checkpoint);

/* [caller] It has: what is being copied is void. */
void spotnik_checkpoint_spoil(struct spotnik_checkpoint *checkpoint);

/* [caller] The state may change from now on: wait for the copy under way. */
void spotnik_checkpoint_settle(struct spotnik_checkpoint *checkpoint);

/* [caller, inside step_commit] Settles. */
void spotnik_checkpoint_committed(struct spotnik_checkpoint *checkpoint, uint64_t step);

/* [caller] The others went on without us: what is not stable will not be. */
void spotnik_checkpoint_reset(struct spotnik_checkpoint *checkpoint);

/* [caller] After leaving: finish what is under way, for at most timeout_ns. `agreed`: the last step
 * is stable. */
void spotnik_checkpoint_finish(struct spotnik_checkpoint *checkpoint, bool agreed,
                               uint64_t timeout_ns);

/* [caller] A member is about to leave for a notice, at the boundary after `committed`: remember the
 * place in the data. */
void spotnik_checkpoint_part(struct spotnik_checkpoint *checkpoint, uint64_t committed);

/* [caller] After _finish, when the leave was agreed on and too few members stay to go on. Write the
 * state at that boundary, which is stable now, unless it is there already. Nothing when _part was
 * not called, or is of an earlier boundary. */
void spotnik_checkpoint_final(struct spotnik_checkpoint *checkpoint);

/* [caller] This member is cut off from the majority, and stops: write the state after `committed`
 * under the name spotnik_checkpoint_store_minority_name(committed, *ret_digest), unless it is there
 * already. Nothing else in the folder is touched, and what is under way goes on. Members that are
 * cut off together share the work. Errors: SYSTEM, MEMORY, STATE (place in the data unknown),
 * MISMATCH. */
int spotnik_checkpoint_minority(const struct spotnik_checkpoint *checkpoint, uint64_t committed,
                                uint64_t *ret_digest);

/* [any] */
void spotnik_checkpoint_info_get(struct spotnik_checkpoint *checkpoint,
                                 spotnik_checkpoint_info *ret);

/* For the status of the job. */
struct spotnik_checkpoint_health {
    spotnik_checkpoint_info info;
    uint64_t missed; /* left out in a row, since the last one that is complete */
    /* two or more of them, or one that could not be written: it will not get better by itself */
    bool failing;
};

/* [any] */
void spotnik_checkpoint_health_get(struct spotnik_checkpoint *checkpoint,
                                   struct spotnik_checkpoint_health *ret);

/* [caller] For the founder, before _seal: what was loaded, and what was left out. */
void spotnik_checkpoint_resumed(struct spotnik_checkpoint *checkpoint, uint64_t step,
                                const char *message);

/* Ends the thread, giving up what is under way. Accepts NULL. */
void spotnik_checkpoint_free(struct spotnik_checkpoint *checkpoint);

#endif
