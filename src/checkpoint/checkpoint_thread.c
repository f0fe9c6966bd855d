/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind checkpoints: it writes what was copied, and keeps memory for the next copy.
 * Where checkpoints go by time, it agrees with the others on the boundary of the next.
 *
 * That agreement needs no message: the member of rank 0 announces a step well ahead in the shared
 * directory. A member that does not see it in time skips its part; at the next one they meet
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/checkpoint_inside.h"
#include "transfer/memory.h"
#include "checkpoint/checkpoint_store.h"

#define LEAD_MIN_NS (500 * SPOTNIK_MS)
#define LEAD_MAX_NS (60 * SPOTNIK_S)

#define LOOK_MIN_NS (10 * SPOTNIK_MS)
#define LOOK_MAX_NS SPOTNIK_S
/* Each look at a bucket costs money. */
#define LOOK_BUCKET_MIN_NS SPOTNIK_S
#define LOOK_BUCKET_MAX_NS (30 * SPOTNIK_S)

static void wait_until(struct spotnik_checkpoint *checkpoint, uint64_t until_ns)
{
    spotnik_cond_wait(&checkpoint->changed, &checkpoint->lock, until_ns);
}

bool spotnik_checkpoint_is_stopping(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    bool stopping = checkpoint->stopping;
    pthread_mutex_unlock(&checkpoint->lock);
    return stopping;
}

/* ---- memory for the next copy ---- */

static bool must_grow(const struct spotnik_checkpoint *checkpoint)
{
    return !spotnik_checkpoint_is_busy(checkpoint) && checkpoint->wanted > checkpoint->capacity;
}

/* Touched here, so that the copy finds it warm. */
static void grow(struct spotnik_checkpoint *checkpoint)
{
    uint64_t wanted = checkpoint->wanted;
    uint8_t *before = checkpoint->buffer;
    uint64_t before_bytes = checkpoint->capacity;

    checkpoint->growing = true;
    checkpoint->buffer = NULL;
    checkpoint->capacity = 0;
    pthread_mutex_unlock(&checkpoint->lock);
    if (before)
        munmap(before, before_bytes);
    void *memory = spotnik_memory_warm(wanted, NULL, NULL);
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->growing = false;
    if (memory) {
        checkpoint->buffer = memory;
        checkpoint->capacity = wanted;
    } else {
        checkpoint->wanted = 0; /* not again before the view changes; the copy tries for itself */
    }
    pthread_cond_broadcast(&checkpoint->changed);
}

/* ---- by time ---- */

static uint64_t lead_ns(const struct spotnik_checkpoint *checkpoint)
{
    uint64_t lead = checkpoint->config.interval_ns / 8;

    return lead < LEAD_MIN_NS ? LEAD_MIN_NS : lead > LEAD_MAX_NS ? LEAD_MAX_NS : lead;
}

/* The step that will be running when the others have surely seen it. */
static uint64_t step_ahead(const struct spotnik_checkpoint *checkpoint)
{
    uint64_t steps = checkpoint->step_ns ? lead_ns(checkpoint) / checkpoint->step_ns : 0;

    return checkpoint->committed + (steps < 2 ? 2 : steps);
}

/* The interval begins when the one just announced is due. */
static void count_from_here(struct spotnik_checkpoint *checkpoint)
{
    uint64_t due_ns = spotnik_time_add(spotnik_clock_ns(), lead_ns(checkpoint));

    checkpoint->due_next_ns = spotnik_time_add(due_ns, checkpoint->config.interval_ns);
}

static void announce(struct spotnik_checkpoint *checkpoint)
{
    uint64_t step = step_ahead(checkpoint), founding = checkpoint->founding;

    count_from_here(checkpoint);
    pthread_mutex_unlock(&checkpoint->lock);
    int rc = spotnik_checkpoint_store_due_set(checkpoint->dir, founding, step);
    pthread_mutex_lock(&checkpoint->lock);
    if (rc)
        spotnik_checkpoint_left_out(checkpoint, step, true, spotnik_last_error());
    else
        checkpoint->due_step = step;
}

static void listen(struct spotnik_checkpoint *checkpoint)
{
    uint64_t founding = checkpoint->founding;

    pthread_mutex_unlock(&checkpoint->lock);
    uint64_t step = spotnik_checkpoint_store_due(checkpoint->dir, founding);
    pthread_mutex_lock(&checkpoint->lock);
    if (step <= checkpoint->committed || step == checkpoint->due_step)
        return;
    checkpoint->due_step = step;
    /* If rank 0 dies, its successor begins to count here. */
    count_from_here(checkpoint);
}

/* Before that no member announces a step, as far as this one knows: a bucket is not asked. */
static bool may_be_announced(const struct spotnik_checkpoint *checkpoint, uint64_t now_ns)
{
    return !spotnik_objects_is_bucket(checkpoint->dir) || checkpoint->due_step == 0
           || spotnik_time_add(now_ns, 2 * lead_ns(checkpoint)) >= checkpoint->due_next_ns;
}

/* One that is not complete is given longer the more often that happened, as with steps. */
static uint64_t due_ns(const struct spotnik_checkpoint *checkpoint)
{
    bool settled = spotnik_checkpoint_is_settled(checkpoint);
    uint64_t intervals = UINT64_C(1)
                         << spotnik_checkpoint_backoff_coarse(&checkpoint->backoff, settled);

    return spotnik_time_add(checkpoint->due_next_ns,
                            (intervals - 1) * checkpoint->config.interval_ns);
}

static void agree(struct spotnik_checkpoint *checkpoint)
{
    uint64_t now_ns = spotnik_clock_ns();

    checkpoint->agree_ns = spotnik_time_add(now_ns, lead_ns(checkpoint) / 4);
    if (!checkpoint->begun_step)
        return;
    if (checkpoint->rank) {
        if (may_be_announced(checkpoint, now_ns))
            listen(checkpoint);
    } else if (spotnik_time_add(now_ns, lead_ns(checkpoint)) >= due_ns(checkpoint)
               && checkpoint->due_step <= checkpoint->committed /* or it would never be taken */
               && !spotnik_checkpoint_is_busy(checkpoint))
        announce(checkpoint);
}

/* --- one checkpoint: our parts, then a look now and then for the rest, until it is complete or the
 * next comes ------------ */

static void done(struct spotnik_checkpoint *checkpoint, bool complete, bool broken, const char *why)
{
    struct spotnik_checkpoint_slot *work = &checkpoint->work;

    if (complete) {
        checkpoint->info.complete_step = work->step;
        checkpoint->info.complete_count++;
        spotnik_runtime_tell_checkpoint(checkpoint->runtime, false, work->step);
        checkpoint->missed = 0;
        checkpoint->broken = false;
        checkpoint->info.write_ns = spotnik_clock_ns() - work->begun_ns;
    } else {
        spotnik_checkpoint_left_out(checkpoint, work->step, broken, why);
    }
    free(work->blobs);
    memset(work, 0, sizeof *work);
    pthread_cond_broadcast(&checkpoint->changed);
}

static uint64_t look_pause_ns(const struct spotnik_checkpoint *checkpoint, uint64_t waited_ns)
{
    bool bucket = spotnik_objects_is_bucket(checkpoint->dir);
    uint64_t least = bucket ? LOOK_BUCKET_MIN_NS : LOOK_MIN_NS,
             most = bucket ? LOOK_BUCKET_MAX_NS : LOOK_MAX_NS,
             wait_ns = waited_ns / (bucket ? 2 : 10);

    return wait_ns < least ? least : spotnik_time_min(wait_ns, most);
}

/* `given_up`: a later one is there to be written. */
static void look(struct spotnik_checkpoint *checkpoint, bool given_up)
{
    char why[256] = "";
    bool complete = false;

    pthread_mutex_unlock(&checkpoint->lock);
    int rc = spotnik_checkpoint_look(checkpoint, &complete);
    if (rc)
        snprintf(why, sizeof why, "%s", spotnik_last_error());
    else if (given_up && !complete)
        spotnik_checkpoint_missing(checkpoint, why, sizeof why);
    pthread_mutex_lock(&checkpoint->lock);
    uint64_t now_ns = spotnik_clock_ns();

    checkpoint->look_ns = now_ns + look_pause_ns(checkpoint, now_ns - checkpoint->work.begun_ns);
    if (rc || complete || given_up)
        done(checkpoint, complete, rc != 0, why);
}

static void write_slot(struct spotnik_checkpoint *checkpoint)
{
    if (checkpoint->work.phase == SPOTNIK_CHECKPOINT_WAITING)
        look(checkpoint, true);
    checkpoint->work = checkpoint->slot;
    checkpoint->work.phase = SPOTNIK_CHECKPOINT_WRITING;
    checkpoint->work.begun_ns = spotnik_clock_ns();
    memset(&checkpoint->slot, 0, sizeof checkpoint->slot);
    pthread_mutex_unlock(&checkpoint->lock);
    int rc = spotnik_checkpoint_write(checkpoint);
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->work.phase = SPOTNIK_CHECKPOINT_WAITING;
    checkpoint->work.wrote_ns = spotnik_clock_ns() - checkpoint->work.begun_ns;
    checkpoint->look_ns = 0;
    if (rc)
        done(checkpoint, false, true, spotnik_last_error());
    else if (checkpoint->work.rank)
        /* ours is done: rank 0 knows whether all is */
        spotnik_runtime_tell_checkpoint(checkpoint->runtime, false, 0);
    pthread_cond_broadcast(&checkpoint->changed);
}

/* ---- the thread ---- */

static void rest(struct spotnik_checkpoint *checkpoint, uint64_t until_ns)
{
    if (until_ns == SPOTNIK_NEVER)
        pthread_cond_wait(&checkpoint->changed, &checkpoint->lock);
    else
        wait_until(checkpoint, until_ns);
}

void *spotnik_checkpoint_run(void *argument)
{
    struct spotnik_checkpoint *checkpoint = argument;

    pthread_mutex_lock(&checkpoint->lock);
    while (!checkpoint->stopping) {
        bool waiting = checkpoint->work.phase == SPOTNIK_CHECKPOINT_WAITING;
        uint64_t now_ns = spotnik_clock_ns(),
                 look_ns = waiting ? checkpoint->look_ns : SPOTNIK_NEVER;
        uint64_t agree_ns = checkpoint->config.steps ? SPOTNIK_NEVER : checkpoint->agree_ns;

        if (checkpoint->slot.phase == SPOTNIK_CHECKPOINT_DUE)
            spotnik_checkpoint_copy_late(checkpoint);
        else if (checkpoint->slot.phase == SPOTNIK_CHECKPOINT_READY)
            write_slot(checkpoint);
        else if (must_grow(checkpoint))
            grow(checkpoint);
        else if (now_ns >= look_ns)
            look(checkpoint, false);
        else if (now_ns >= agree_ns)
            agree(checkpoint);
        else
            rest(checkpoint, spotnik_time_min(look_ns, agree_ns));
    }
    pthread_mutex_unlock(&checkpoint->lock);
    return NULL;
}
