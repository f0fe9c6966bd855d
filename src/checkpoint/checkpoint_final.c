/* SPDX-License-Identifier: Apache-2.0 */
/* The last checkpoint of a job whose members all leave for a notice, or too many of them. Each
 * leaver writes what is missing when its leave was agreed on: no member decides which is the last,
 * and no message is needed. Members that are cut off from the majority, and stop, write theirs in
 * the same way, under another name. Decides nothing about when to leave or to stop. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/checkpoint_inside.h"

/* Where this member stands in the data and in the job. False: it does not know. */
static bool place_fill(const struct spotnik_checkpoint *checkpoint, uint64_t committed,
                       struct spotnik_checkpoint_slot *ret)
{
    ret->has_ledger = spotnik_runtime_ledger(checkpoint->runtime, committed, &ret->ledger);
    if (!ret->has_ledger)
        return false;
    ret->step = committed;
    ret->founding = checkpoint->registry->founding;
    ret->view_epoch = checkpoint->view_epoch;
    ret->rank = checkpoint->rank;
    ret->size = checkpoint->size ? checkpoint->size : 1;
    ret->member = spotnik_runtime_credentials(checkpoint->runtime)->self.id.high;
    return true;
}

void spotnik_checkpoint_part(struct spotnik_checkpoint *checkpoint, uint64_t committed)
{
    checkpoint->parting.step = 0;
    if (!checkpoint->started || !committed || committed != checkpoint->begun_step)
        return; /* a joiner: the state is older elsewhere */
    (void)place_fill(checkpoint, committed, &checkpoint->parting);
}

/* From here on everything belongs to the caller's thread. */
static void thread_end(struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->stopping = true;
    pthread_cond_broadcast(&checkpoint->changed);
    pthread_mutex_unlock(&checkpoint->lock);
    pthread_join(checkpoint->thread, NULL);
    checkpoint->started = checkpoint->stopping = false;
}

/* One part at a time: a copy of the whole state might not fit. */
static bool room_for_a_part(struct spotnik_checkpoint *checkpoint)
{
    uint64_t most = 1;

    for (uint32_t i = 0; i < checkpoint->part_count; i++)
        most = checkpoint->part[i].data_bytes > most ? checkpoint->part[i].data_bytes : most;
    if (checkpoint->capacity >= most)
        return true;
    if (checkpoint->buffer)
        munmap(checkpoint->buffer, checkpoint->capacity);
    void *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    checkpoint->buffer = memory == MAP_FAILED ? NULL : memory;
    checkpoint->capacity = checkpoint->buffer ? most : 0;
    return checkpoint->buffer != NULL;
}

static int write_state(struct spotnik_checkpoint *checkpoint, bool *ret_complete)
{
    struct spotnik_checkpoint_slot *work = &checkpoint->work;

    free(work->blobs);
    *work = checkpoint->parting;
    work->begun_ns = spotnik_clock_ns();
    if (!room_for_a_part(checkpoint))
        return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                    "there is no memory for a copy of the state");
    spotnik_registry_refresh(checkpoint->registry);
    if (work->minority)
        work->digest = spotnik_registry_digest(checkpoint->registry);
    int rc = spotnik_blobs_file(&checkpoint->registry->blobs, &work->blobs, &work->blobs_bytes);

    return rc ? rc : spotnik_checkpoint_write_whole(checkpoint, ret_complete);
}

void spotnik_checkpoint_final(struct spotnik_checkpoint *checkpoint)
{
    uint64_t step = checkpoint->parting.step;
    bool complete = false;

    pthread_mutex_lock(&checkpoint->lock);
    bool wanted = step && checkpoint->started && step == checkpoint->begun_step
                  && checkpoint->info.complete_step < step;
    pthread_mutex_unlock(&checkpoint->lock);
    if (!wanted)
        return;
    thread_end(checkpoint);
    int rc = write_state(checkpoint, &complete);

    pthread_mutex_lock(&checkpoint->lock);
    if (complete) {
        checkpoint->info.complete_step = step;
        checkpoint->info.complete_count++;
        spotnik_runtime_tell_checkpoint(checkpoint->runtime, false, step);
    } else {
        spotnik_checkpoint_left_out(checkpoint, step, rc != 0,
                                    rc ? spotnik_last_error() : "parts are missing");
    }
    pthread_mutex_unlock(&checkpoint->lock);
}

/* With a struct of its own, beside the thread and what that has under way: the network may heal,
 * and the program go on. */
int spotnik_checkpoint_minority(const struct spotnik_checkpoint *checkpoint, uint64_t committed,
                                uint64_t *ret_digest)
{
    struct spotnik_checkpoint *writer;
    bool complete = false;
    int rc = spotnik_checkpoint_new(&checkpoint->config, checkpoint->registry, checkpoint->runtime,
                                    &writer);

    if (rc)
        return rc;
    writer->part = checkpoint->part;
    writer->part_count = checkpoint->part_count;
    writer->parting.minority = true;
    if (!place_fill(checkpoint, committed, &writer->parting))
        rc = spotnik_error_return(SPOTNIK_ERR_STATE, "this member had come in behind the others");
    if (!rc)
        rc = write_state(writer, &complete);
    if (!rc && !complete)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "parts of it have vanished from %s",
                                  writer->dir);
    *ret_digest = writer->work.digest;
    writer->part = NULL;
    writer->part_count = 0;
    spotnik_checkpoint_free(writer);
    return rc;
}
