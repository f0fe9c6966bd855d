/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in the caller's thread: is one due, and the copy, which is all that training may
 * wait for. */
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/checkpoint_inside.h"
#include "checkpoint/checkpoint_store.h"
#include "transfer/thread.h"

#define LAST_PATIENCE_NS (60 * SPOTNIK_S)
#define OTHERS_PATIENCE_NS (5 * SPOTNIK_S)

static void locks_init(struct spotnik_checkpoint *checkpoint)
{
    spotnik_cond_init(&checkpoint->changed);
    pthread_mutex_init(&checkpoint->lock, NULL);
}

int spotnik_checkpoint_new(const struct spotnik_checkpoint_config *config,
                           struct spotnik_registry *registry, struct spotnik_runtime *runtime,
                           struct spotnik_checkpoint **ret_checkpoint)
{
    int rc = spotnik_checkpoint_store_open(config->dir);
    struct spotnik_checkpoint *checkpoint = rc ? NULL : calloc(1, sizeof *checkpoint);

    if (rc)
        return rc;
    if (!checkpoint)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for checkpoints");
    checkpoint->config = *config;
    snprintf(checkpoint->dir, sizeof checkpoint->dir, "%s", config->dir);
    snprintf(checkpoint->job, sizeof checkpoint->job, "%s", config->job);
    checkpoint->config.dir = checkpoint->dir;
    checkpoint->config.job = checkpoint->job;
    checkpoint->registry = registry;
    checkpoint->runtime = runtime;
    locks_init(checkpoint);
    *ret_checkpoint = checkpoint;
    return 0;
}

static int parts_make(struct spotnik_checkpoint *checkpoint)
{
    int rc = spotnik_layout_check(checkpoint->registry);
    uint32_t count = spotnik_layout_parts(checkpoint->registry);

    if (rc || checkpoint->part)
        return rc;
    checkpoint->part = calloc(count, sizeof *checkpoint->part);
    if (!checkpoint->part)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for checkpoints");
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = spotnik_part_init(&checkpoint->part[i], checkpoint->registry, count, i);
        checkpoint->part_count += !rc;
    }
    return rc;
}

int spotnik_checkpoint_seal(struct spotnik_checkpoint *checkpoint)
{
    int rc = parts_make(checkpoint);

    checkpoint->due_next_ns = spotnik_time_add(spotnik_clock_ns(), checkpoint->config.interval_ns);
    if (!rc)
        rc = spotnik_thread_start(spotnik_checkpoint_run, checkpoint, &checkpoint->thread);
    checkpoint->started = rc == 0;
    if (!rc)
        spotnik_runtime_tell_checkpoint(checkpoint->runtime, false, 0);
    return rc;
}

uint64_t spotnik_checkpoint_share(const struct spotnik_checkpoint *checkpoint, uint32_t rank,
                                  uint32_t size)
{
    uint64_t bytes = 0;

    for (uint32_t i = rank; i < checkpoint->part_count; i += size)
        bytes += checkpoint->part[i].data_bytes;
    return bytes;
}

void spotnik_checkpoint_left_out(struct spotnik_checkpoint *checkpoint, uint64_t step, bool broken,
                                 const char *why)
{
    checkpoint->info.left_out_count++;
    checkpoint->missed++;
    spotnik_runtime_tell_checkpoint(checkpoint->runtime, true, 0);
    if (checkpoint->broken && !broken)
        return; /* what is to be mended is what was said before */
    checkpoint->broken = broken;
    snprintf(checkpoint->info.message, sizeof checkpoint->info.message,
             "the checkpoint after step %llu was not completed: %s", (unsigned long long)step, why);
}

/* ---- hooks ---- */

void spotnik_checkpoint_begun(struct spotnik_checkpoint *checkpoint, const spotnik_step *step)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->begun_step = step->replay ? 0 : step->number;
    checkpoint->view_epoch = step->view_epoch;
    checkpoint->rank = step->rank;
    checkpoint->size = step->size;
    checkpoint->founding = checkpoint->registry->founding;
    checkpoint->wanted =
        step->replay ? 0 : spotnik_checkpoint_share(checkpoint, step->rank, step->size);
    if (checkpoint->wanted > checkpoint->capacity)
        pthread_cond_broadcast(&checkpoint->changed);
    pthread_mutex_unlock(&checkpoint->lock);
}

/* `stable`: no later view can commit the step of the slot differently. */
static void release(struct spotnik_checkpoint *checkpoint, bool stable)
{
    struct spotnik_checkpoint_slot *slot = &checkpoint->slot;

    if (!stable || slot->phase != SPOTNIK_CHECKPOINT_COPIED || !slot->confirmed || slot->spoilt)
        return;
    slot->phase = SPOTNIK_CHECKPOINT_READY;
    pthread_cond_broadcast(&checkpoint->changed);
}

/* The slot is empty again. */
static void drop(struct spotnik_checkpoint *checkpoint, bool broken, const char *why)
{
    spotnik_checkpoint_left_out(checkpoint, checkpoint->slot.step, broken, why);
    free(checkpoint->slot.blobs);
    memset(&checkpoint->slot, 0, sizeof checkpoint->slot);
}

void spotnik_checkpoint_confirm(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->slot.confirmed = true;
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_spoil(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->slot.spoilt |= !checkpoint->slot.confirmed;
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_copy_late(struct spotnik_checkpoint *checkpoint)
{
    struct spotnik_checkpoint_slot *slot = &checkpoint->slot;
    uint32_t rank = slot->rank, size = slot->size;

    slot->phase = SPOTNIK_CHECKPOINT_COPYING;
    uint8_t *at = checkpoint->buffer;

    for (uint32_t i = rank; i < checkpoint->part_count && !slot->spoilt; i += size) {
        pthread_mutex_unlock(&checkpoint->lock);
        spotnik_part_copy_out(&checkpoint->part[i], checkpoint->registry, SPOTNIK_REGISTRY_LATE,
                              at);
        at += checkpoint->part[i].data_bytes;
        pthread_mutex_lock(&checkpoint->lock);
        slot->spoilt |= checkpoint->stopping || spotnik_registry_is_failed(checkpoint->registry);
    }
    slot->phase = SPOTNIK_CHECKPOINT_COPIED;
    pthread_cond_broadcast(&checkpoint->changed);
}

/* Under the lock. The thread may be busy with a look at the folder: this one copies then. */
static void settle(struct spotnik_checkpoint *checkpoint)
{
    struct spotnik_checkpoint_slot *slot = &checkpoint->slot;

    if (slot->phase == SPOTNIK_CHECKPOINT_DUE || slot->phase == SPOTNIK_CHECKPOINT_COPYING) {
        uint64_t begun_ns = spotnik_clock_ns();

        if (slot->phase == SPOTNIK_CHECKPOINT_DUE)
            spotnik_checkpoint_copy_late(checkpoint);
        while (slot->phase == SPOTNIK_CHECKPOINT_COPYING)
            pthread_cond_wait(&checkpoint->changed, &checkpoint->lock);
        checkpoint->info.copy_ns += spotnik_time_since(spotnik_clock_ns(), begun_ns);
    }
    if (slot->phase == SPOTNIK_CHECKPOINT_COPIED && slot->spoilt)
        drop(checkpoint, true,
             spotnik_registry_is_failed(checkpoint->registry)
                 ? SPOTNIK_CHECKPOINT_UNREAD
                 : "the program has changed its state while it was copied");
}

void spotnik_checkpoint_settle(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    settle(checkpoint);
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_committed(struct spotnik_checkpoint *checkpoint, uint64_t step)
{
    uint64_t now_ns = spotnik_clock_ns();

    pthread_mutex_lock(&checkpoint->lock);
    settle(checkpoint);
    uint64_t took_ns =
        checkpoint->committed_ns ? spotnik_time_since(now_ns, checkpoint->committed_ns) : 0;
    checkpoint->step_ns =
        checkpoint->step_ns ? checkpoint->step_ns - checkpoint->step_ns / 8 + took_ns / 8 : took_ns;
    checkpoint->committed_ns = now_ns;
    /* Everybody has contributed to this step, and so has committed the one before. */
    checkpoint->slot.confirmed = true;
    release(checkpoint, step > checkpoint->slot.step);
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_reset(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->begun_step = 0;
    settle(checkpoint);
    if (checkpoint->slot.phase == SPOTNIK_CHECKPOINT_COPIED)
        drop(checkpoint, false, "the others went on without this member");
    pthread_mutex_unlock(&checkpoint->lock);
}

/* Whether the core says what the hooks cannot see: a step that nothing followed is stable after
 * all. */
static void look(struct spotnik_checkpoint *checkpoint)
{
    spotnik_job_status status;

    if (checkpoint->slot.phase != SPOTNIK_CHECKPOINT_COPIED)
        return;
    spotnik_runtime_status(checkpoint->runtime, &status);
    release(checkpoint, !status.joining && status.step_stable >= checkpoint->slot.step);
}

static bool is_due(const struct spotnik_checkpoint *checkpoint, bool last)
{
    uint64_t step = checkpoint->committed;

    if (!step || step != checkpoint->begun_step || step == checkpoint->taken_step)
        return false; /* also a moment ago, where step_begin waits */
    if (last || checkpoint->overdue)
        return true;
    return checkpoint->config.steps ? step % checkpoint->config.steps == 0
                                    : step == checkpoint->due_step;
}

bool spotnik_checkpoint_is_settled(const struct spotnik_checkpoint *checkpoint)
{
    return checkpoint->info.complete_step >= checkpoint->taken_step;
}

bool spotnik_checkpoint_is_busy(const struct spotnik_checkpoint *checkpoint)
{
    return checkpoint->growing || checkpoint->slot.phase != SPOTNIK_CHECKPOINT_EMPTY
           || checkpoint->work.phase == SPOTNIK_CHECKPOINT_WRITING;
}

/* Under the lock: the thread keeps away from a buffer that is not busy. */
static bool room(struct spotnik_checkpoint *checkpoint, uint64_t bytes)
{
    if (bytes <= checkpoint->capacity)
        return true;
    /* The view has only just changed; rather a slow copy than none. */
    if (checkpoint->buffer)
        munmap(checkpoint->buffer, checkpoint->capacity);
    checkpoint->capacity = 0;
    checkpoint->buffer =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (checkpoint->buffer == MAP_FAILED) {
        checkpoint->buffer = NULL;
        return false;
    }
    checkpoint->capacity = bytes;
    return true;
}

static void copy_parts(struct spotnik_checkpoint *checkpoint, bool late)
{
    uint8_t *at = checkpoint->buffer;

    for (uint32_t i = checkpoint->rank; i < checkpoint->part_count; i += checkpoint->size) {
        spotnik_part_copy_out(&checkpoint->part[i], checkpoint->registry,
                              late ? SPOTNIK_REGISTRY_EARLY : SPOTNIK_REGISTRY_ALL, at);
        at += checkpoint->part[i].data_bytes;
    }
}

/* The slot is ours; the lock is not held: reading the state, and asking the runtime, may take their
 * time. */
static int fill(struct spotnik_checkpoint *checkpoint, bool late, uint64_t *ret_copy_ns)
{
    struct spotnik_checkpoint_slot *slot = &checkpoint->slot;
    uint64_t begun_ns = spotnik_clock_ns();
    int rc = 0;

    spotnik_registry_refresh(checkpoint->registry);
    copy_parts(checkpoint, late);
    *ret_copy_ns = spotnik_clock_ns() - begun_ns;
    slot->has_ledger = spotnik_runtime_ledger(checkpoint->runtime, slot->step, &slot->ledger);
    slot->member = spotnik_runtime_credentials(checkpoint->runtime)->self.id.high;
    if (slot->rank == 0)
        rc = spotnik_blobs_file(&checkpoint->registry->blobs, &slot->blobs, &slot->blobs_bytes);
    return rc;
}

static void copy(struct spotnik_checkpoint *checkpoint)
{
    struct spotnik_checkpoint_slot *slot = &checkpoint->slot;
    uint64_t copy_ns = 0;
    /* after the last step the program computes nothing beside which to copy */
    bool late = !slot->last && spotnik_registry_has_late(checkpoint->registry);

    slot->step = checkpoint->committed;
    slot->founding = checkpoint->founding;
    slot->view_epoch = checkpoint->view_epoch;
    slot->rank = checkpoint->rank;
    slot->size = checkpoint->size;
    checkpoint->growing = true; /* keeps the thread off the buffer */
    pthread_mutex_unlock(&checkpoint->lock);
    int rc = fill(checkpoint, late, &copy_ns);
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->growing = false;
    checkpoint->info.copy_ns = copy_ns;
    checkpoint->info.copy_bytes = spotnik_checkpoint_share(checkpoint, slot->rank, slot->size);
    if (!rc && spotnik_registry_is_failed(checkpoint->registry))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, SPOTNIK_CHECKPOINT_UNREAD);
    slot->phase = late ? SPOTNIK_CHECKPOINT_DUE : SPOTNIK_CHECKPOINT_COPIED;
    slot->confirmed = !late;
    slot->spoilt = false;
    if (rc)
        drop(checkpoint, true, spotnik_last_error());
    pthread_cond_broadcast(&checkpoint->changed);
}

static void wait_while(struct spotnik_checkpoint *checkpoint,
                       bool (*is_true)(const struct spotnik_checkpoint *), uint64_t timeout_ns)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    bool late = false;

    while (is_true(checkpoint) && !late)
        late = !spotnik_cond_wait(&checkpoint->changed, &checkpoint->lock, until_ns);
}

/* Why not here and now; NULL: nothing is in the way. After the last step there is time to wait for
 * the disk. */
static const char *obstacle(struct spotnik_checkpoint *checkpoint, bool settled, bool last)
{
    uint64_t bytes = spotnik_checkpoint_share(checkpoint, checkpoint->rank, checkpoint->size);

    if (last)
        wait_while(checkpoint, spotnik_checkpoint_is_busy, LAST_PATIENCE_NS);
    else if (checkpoint->config.steps
             && !spotnik_checkpoint_backoff_is_turn(&checkpoint->backoff,
                                                    checkpoint->committed
                                                        / checkpoint->config.steps,
                                                    settled))
        return "the one before is not complete yet, and is given more time";
    if (checkpoint->growing)
        return "the memory for a copy of the state is not ready yet: the view has just changed";
    if (spotnik_checkpoint_is_busy(checkpoint))
        return "this member is still writing its part of the one before";
    return room(checkpoint, bytes) ? NULL : "there is no memory for a copy of the state";
}

static void consider(struct spotnik_checkpoint *checkpoint, bool last)
{
    checkpoint->overdue = false;
    bool settled = spotnik_checkpoint_is_settled(checkpoint);
    const char *why = obstacle(checkpoint, settled, last);

    if (!why) {
        spotnik_checkpoint_backoff_take(&checkpoint->backoff, settled);
        checkpoint->taken_step = checkpoint->committed;
        checkpoint->slot.last = last;
        copy(checkpoint);
        look(checkpoint);
    } else if (checkpoint->refused_step != checkpoint->committed) {
        checkpoint->refused_step = checkpoint->committed;
        spotnik_checkpoint_left_out(checkpoint, checkpoint->committed, false, why);
    }
}

void spotnik_checkpoint_boundary(struct spotnik_checkpoint *checkpoint, uint64_t committed,
                                 enum spotnik_boundary kind)
{
    bool last = kind == SPOTNIK_BOUNDARY_LAST;

    if (!checkpoint->started)
        return;
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->committed = committed;
    look(checkpoint);
    if (is_due(checkpoint, last)) {
        if (kind == SPOTNIK_BOUNDARY_WITHIN)
            checkpoint->overdue = true;
        else
            consider(checkpoint, last);
    }
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_parting(struct spotnik_checkpoint *checkpoint, uint64_t committed)
{
    if (!checkpoint->started)
        return;
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->committed = committed;
    look(checkpoint);
    if (is_due(checkpoint, true))
        consider(checkpoint, true);
    if (checkpoint->slot.phase == SPOTNIK_CHECKPOINT_COPIED)
        /* other members may go on: do not wait long for their parts */
        checkpoint->slot.last = false;
    pthread_mutex_unlock(&checkpoint->lock);
}

/* ---- the end ---- */

static bool is_writing(const struct spotnik_checkpoint *checkpoint)
{
    return checkpoint->growing || checkpoint->slot.phase == SPOTNIK_CHECKPOINT_READY
           || checkpoint->work.phase == SPOTNIK_CHECKPOINT_WRITING;
}

static bool is_completing(const struct spotnik_checkpoint *checkpoint)
{
    return checkpoint->work.phase == SPOTNIK_CHECKPOINT_WAITING && checkpoint->work.rank == 0;
}

/* How long rank 0 waits for the parts of others before it leaves. After the last step all take
 * part. In any other checkpoint some member may have left its part out, and those that did not
 * leave theirs out write no longer than we did. */
static uint64_t patience_ns(const struct spotnik_checkpoint *checkpoint)
{
    const struct spotnik_checkpoint_slot *work = &checkpoint->work;

    if (checkpoint->view_epoch != work->view_epoch)
        return OTHERS_PATIENCE_NS; /* a lost member will not write its part */
    return work->last ? SPOTNIK_NEVER : OTHERS_PATIENCE_NS + 2 * work->wrote_ns;
}

void spotnik_checkpoint_finish(struct spotnik_checkpoint *checkpoint, bool agreed,
                               uint64_t timeout_ns)
{
    if (!checkpoint->started)
        return;
    uint64_t begun_ns = spotnik_clock_ns();

    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->slot.confirmed = true; /* the program is inside the call that ends the job */
    settle(checkpoint);
    release(checkpoint, agreed);
    wait_while(checkpoint, is_writing, timeout_ns);
    uint64_t spent_ns = spotnik_time_since(spotnik_clock_ns(), begun_ns);

    timeout_ns =
        spotnik_time_min(spotnik_time_since(timeout_ns, spent_ns), patience_ns(checkpoint));
    wait_while(checkpoint, is_completing, timeout_ns);
    if (is_completing(checkpoint)) /* the thread may still succeed and then reports it */
        spotnik_runtime_tell_checkpoint(checkpoint->runtime, true, 0);
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_info_get(struct spotnik_checkpoint *checkpoint,
                                 spotnik_checkpoint_info *ret)
{
    size_t size = ret->size;

    pthread_mutex_lock(&checkpoint->lock);
    spotnik_checkpoint_info info = checkpoint->info;
    pthread_mutex_unlock(&checkpoint->lock);
    info.size = size;
    memcpy(ret, &info, size < sizeof info ? size : sizeof info);
}

void spotnik_checkpoint_health_get(struct spotnik_checkpoint *checkpoint,
                                   struct spotnik_checkpoint_health *ret)
{
    pthread_mutex_lock(&checkpoint->lock);
    ret->info = checkpoint->info;
    ret->missed = checkpoint->missed;
    ret->failing = checkpoint->broken || checkpoint->missed >= 2;
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_resumed(struct spotnik_checkpoint *checkpoint, uint64_t step,
                                const char *message)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->info.resumed_step = step;
    snprintf(checkpoint->info.message, sizeof checkpoint->info.message, "%s", message);
    pthread_mutex_unlock(&checkpoint->lock);
}

void spotnik_checkpoint_free(struct spotnik_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->stopping = true;
    pthread_cond_broadcast(&checkpoint->changed);
    pthread_mutex_unlock(&checkpoint->lock);
    if (checkpoint->started)
        pthread_join(checkpoint->thread, NULL);
    for (uint32_t i = 0; i < checkpoint->part_count; i++)
        spotnik_part_done(&checkpoint->part[i]);
    free(checkpoint->part);
    free(checkpoint->slot.blobs);
    free(checkpoint->work.blobs);
    if (checkpoint->buffer)
        munmap(checkpoint->buffer, checkpoint->capacity);
    pthread_cond_destroy(&checkpoint->changed);
    pthread_mutex_destroy(&checkpoint->lock);
    spotnik_signer_done(&checkpoint->config.signer);
    free(checkpoint);
}
