/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by checkpoint.c (what happens in the caller's thread), checkpoint_thread.c (the thread, memory,
 * when the next is due) and checkpoint_write.c (files). Not for others. */
#ifndef SPOTNIK_STATE_CHECKPOINT_INSIDE_H
#define SPOTNIK_STATE_CHECKPOINT_INSIDE_H

#include <limits.h>
#include <pthread.h>

#include "state/checkpoint.h"
#include "state/layout.h"
#include "state/manifest.h"

enum spotnik_checkpoint_phase {
    SPOTNIK_CHECKPOINT_EMPTY,
    SPOTNIK_CHECKPOINT_COPIED,  /* the copy is taken; the step may yet be committed differently */
    SPOTNIK_CHECKPOINT_WRITING, /* stable: the thread's, until it is EMPTY again */
};

/* The one checkpoint that is under way here. Filled by the caller's thread while EMPTY; read by the thread
 * in WRITING. */
struct spotnik_checkpoint_slot {
    enum spotnik_checkpoint_phase phase;
    uint64_t step, founding, member;
    uint64_t view_epoch;
    uint32_t rank, size;
    bool has_ledger;
    struct spotnik_ledger ledger;
    uint8_t *blobs; /* rank 0: the blobs as a file */
    size_t blobs_bytes;
};

struct spotnik_checkpoint {
    struct spotnik_checkpoint_config config; /* dir, job: below */
    char dir[PATH_MAX / 2 + PATH_MAX / 4], job[256];
    const struct spotnik_registry *registry;
    struct spotnik_engine *engine;
    uint32_t part_count; /* fixed by _seal */
    struct spotnik_part *part;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    /* under the lock */
    bool stopping;
    struct spotnik_checkpoint_slot slot;
    uint8_t *buffer; /* our parts, one after the other */
    uint64_t capacity, wanted;
    bool growing;
    /* the last step that was begun here, and in which view; step 0: none */
    uint64_t begun_step, view_epoch, founding;
    uint32_t rank, size;
    uint64_t committed, taken_step;
    uint64_t step_ns, committed_ns; /* mean time of a step; instant of the last commit */
    uint64_t due_step,
        due_next_ns; /* by time: the boundary agreed on, 0: none yet; when to agree on another */
    spotnik_checkpoint_info info;
};

/* Bytes of the parts that `rank` of `size` writes. */
uint64_t spotnik_checkpoint_share(const struct spotnik_checkpoint *checkpoint, uint32_t rank, uint32_t size);

/* The thread. */
void *spotnik_checkpoint_run(void *checkpoint);

/* Write what is in the slot. 0, or an error whose detail says why it stays incomplete. */
int spotnik_checkpoint_write(struct spotnik_checkpoint *checkpoint);

/* Without the lock: wait at most wait_ns, or until something changed. True: it is time to give up. */
bool spotnik_checkpoint_pause(struct spotnik_checkpoint *checkpoint, uint64_t wait_ns);

/* Under the lock: one that was due will not be complete. */
void spotnik_checkpoint_left_out(struct spotnik_checkpoint *checkpoint, uint64_t step, const char *why);

#endif
