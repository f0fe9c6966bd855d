/* SPDX-License-Identifier: Apache-2.0 */
/* The last checkpoint of a job whose members all leave for a notice, or too many of them. Each
 * leaver writes what is missing when its leave was agreed on: no member decides which is the last,
 * and no message is needed. Decides nothing about when to leave. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/checkpoint_inside.h"

void spotnik_checkpoint_part(struct spotnik_checkpoint *checkpoint, uint64_t committed)
{
    struct spotnik_checkpoint_slot *parting = &checkpoint->parting;

    parting->step = 0;
    if (!checkpoint->started || !committed || committed != checkpoint->begun_step)
        return; /* a joiner: the state is older elsewhere */
    parting->has_ledger = spotnik_engine_ledger(checkpoint->engine, committed, &parting->ledger);
    if (!parting->has_ledger)
        return;
    parting->step = committed;
    parting->founding = checkpoint->founding;
    parting->view_epoch = checkpoint->view_epoch;
    parting->rank = checkpoint->rank;
    parting->size = checkpoint->size;
    parting->member = spotnik_engine_credentials(checkpoint->engine)->self.id.high;
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
    int rc = spotnik_blobs_file(&checkpoint->registry->blobs, &work->blobs, &work->blobs_bytes);

    return rc ? rc : spotnik_checkpoint_write_whole(checkpoint, ret_complete);
}

void spotnik_checkpoint_farewell(struct spotnik_checkpoint *checkpoint)
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
    } else {
        spotnik_checkpoint_left_out(checkpoint, step, rc != 0,
                                    rc ? spotnik_last_error() : "parts are missing");
    }
    pthread_mutex_unlock(&checkpoint->lock);
}
