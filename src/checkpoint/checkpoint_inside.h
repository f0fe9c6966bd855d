/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by checkpoint.c (what happens in the caller's thread), checkpoint_thread.c (the thread,
 * memory, when the next is due) and checkpoint_write.c (files). Not for others. */
#ifndef SPOTNIK_CHECKPOINT_INSIDE_H
#define SPOTNIK_CHECKPOINT_INSIDE_H

#include <limits.h>
#include <pthread.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint_backoff.h"

enum spotnik_checkpoint_phase {
    SPOTNIK_CHECKPOINT_EMPTY,
    SPOTNIK_CHECKPOINT_DUE,     /* slot: what is late (registry.h) is to be copied */
    SPOTNIK_CHECKPOINT_COPYING, /* slot: by one thread, without the lock */
    /* slot: the copy is taken; the step may yet be committed differently */
    SPOTNIK_CHECKPOINT_COPIED,
    SPOTNIK_CHECKPOINT_READY,   /* slot: stable; for the thread to take */
    SPOTNIK_CHECKPOINT_WRITING, /* work: our parts are being written; the buffer is needed */
    SPOTNIK_CHECKPOINT_WAITING, /* work: they are written, those of others are not all there yet */
};

#define SPOTNIK_CHECKPOINT_UNREAD "the program could not read its own state"

/* One checkpoint. */
struct spotnik_checkpoint_slot {
    enum spotnik_checkpoint_phase phase;
    uint64_t step, founding, member;
    uint64_t view_epoch;
    uint32_t rank, size;
    bool has_ledger, last; /* last: the loop is over, all take part in it */
    /* confirmed: the program did not change the state while it may have been copied; spoilt: it
     * did, or a copy failed */
    bool confirmed, spoilt;
    bool minority; /* `digest` of the state is in its name, and nothing is pruned for it */
    uint64_t digest;
    struct spotnik_ledger ledger;
    uint8_t *blobs; /* rank 0: the blobs as a file, */
    size_t blobs_bytes;
    struct spotnik_manifest_file blobs_file; /* and as it was written */
    uint64_t begun_ns, wrote_ns;             /* when writing began, and how long our parts took */
};

/* At most two are under way: `work` waits for the parts of others while the next is copied into
 * `slot`. The buffer is of `slot` unless that is EMPTY, and of `work` while it is WRITING. */
struct spotnik_checkpoint {
    struct spotnik_checkpoint_config config; /* dir, job: below */
    char dir[PATH_MAX / 2 + PATH_MAX / 4], job[256];
    struct spotnik_registry *registry;
    struct spotnik_runtime *runtime;
    uint32_t part_count; /* fixed by _seal */
    struct spotnik_part *part;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    /* under the lock */
    bool stopping;
    struct spotnik_checkpoint_slot slot; /* filled by the caller's thread while EMPTY */
    /* changed by the thread alone, which reads it without the lock */
    struct spotnik_checkpoint_slot work;
    uint8_t *buffer; /* our parts, one after the other */
    uint64_t capacity, wanted;
    bool growing;
    /* the last step that was begun here, and in which view; step 0: none */
    uint64_t begun_step, view_epoch, founding;
    uint32_t rank, size;
    uint64_t committed, taken_step, refused_step;
    bool overdue; /* since a boundary within a batch */
    struct spotnik_checkpoint_backoff backoff;
    uint64_t step_ns, committed_ns; /* mean time of a step; instant of the last commit */
    uint64_t due_step,
        /* by time: the boundary agreed on, 0: none yet; when to agree on another */
        due_next_ns;
    /* [caller] where this member leaves for a notice; step 0: it does not */
    struct spotnik_checkpoint_slot parting;
    /* the thread: when to look for parts of others, and for what is due, again */
    uint64_t look_ns, agree_ns;
    spotnik_checkpoint_info info;
    uint64_t missed; /* left out since the last complete one */
    bool broken;     /* one of them could not be written */
};

/* Bytes of the parts that `rank` of `size` writes. */
uint64_t spotnik_checkpoint_share(const struct spotnik_checkpoint *checkpoint, uint32_t rank,
                                  uint32_t size);

/* The thread. */
void *spotnik_checkpoint_run(void *checkpoint);

/* Without the lock. Write our parts of `work`, and what rank 0 adds. 0, or an error whose detail
 * says why it stays incomplete. */
int spotnik_checkpoint_write(struct spotnik_checkpoint *checkpoint);

/* Without the lock. Is `work` complete? Rank 0 makes it so when all parts are there. 0, or an
 * error: it will not be. */
int spotnik_checkpoint_look(struct spotnik_checkpoint *checkpoint, bool *ret_complete);

/* Without the lock and without the thread. Write all of `work`: our parts, those still missing, and
 * what rank 0 adds. The buffer has room for any one part. 0, or an error. */
int spotnik_checkpoint_write_whole(struct spotnik_checkpoint *checkpoint, bool *ret_complete);

/* Without the lock. Name the members that have not written their parts of `work`. */
void spotnik_checkpoint_missing(struct spotnik_checkpoint *checkpoint, char *text, size_t size);

/* Without the lock: this member ends. */
bool spotnik_checkpoint_is_stopping(struct spotnik_checkpoint *checkpoint);

/* Under the lock: the last one taken here is complete, or there is none. */
bool spotnik_checkpoint_is_settled(const struct spotnik_checkpoint *checkpoint);

/* Under the lock, which is given up meanwhile: copy what is late of a DUE slot. */
void spotnik_checkpoint_copy_late(struct spotnik_checkpoint *checkpoint);

/* Under the lock: the buffer cannot be written to now. */
bool spotnik_checkpoint_is_busy(const struct spotnik_checkpoint *checkpoint);

/* Under the lock: one that was due will not be complete. `broken`: it could not be written. */
void spotnik_checkpoint_left_out(struct spotnik_checkpoint *checkpoint, uint64_t step, bool broken,
                                 const char *why);

#endif
