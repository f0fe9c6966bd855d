/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the job on record, for those that come later (src/discovery/done.c). Decides when this
 * agent knows enough to write it, and when one that another agent wrote sends our workers home. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "discovery/discovery.h"
#include "question.h"
#include "run_state.h"

static bool read_record(const struct run *run, uint64_t *ret_step, uint64_t *ret_print)
{
    struct spotnik_credentials self;
    struct job_at at;
    const char *folder = run->options->done_folder;

    return folder && job_at_fill(NULL, NULL, NULL, &at) && question_credentials(&at, &self)
           && spotnik_discovery_done_read(folder, &self, ret_step, ret_print);
}

void run_done_begin(struct run *run)
{
    uint64_t step;

    if (!read_record(run, &step, &run->done_print))
        run->done_print = 0;
}

/* The record of an end has appeared since the start, while no worker here has made a step. A record
 * that lay there before does not count: the program may want more steps, and only the library knows
 * how many. */
bool run_done_appears(struct run *run, uint64_t now_ns)
{
    uint64_t step, print;

    if (run->most_step || run->state == RUN_DONE || now_ns < run->looked_done_ns + SPOTNIK_S)
        return false;
    run->looked_done_ns = now_ns;
    if (!read_record(run, &step, &print) || print == run->done_print)
        return false;
    run_say(run, "the job is done, after step %llu; the workers here came too late for a step",
            (unsigned long long)step);
    return true;
}

/* One that has left alone has left: the others may have work to do. */
void run_done_write(const struct run *run, const struct agent_worker *worker)
{
    const struct spotnik_slot *slot = &run->agent.slots->slot[worker - run->agent.worker];
    const char *folder = run->options->done_folder;
    struct spotnik_credentials self;
    struct job_at at;
    uint32_t done = __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE),
             left = __atomic_load_n(&slot->left, __ATOMIC_ACQUIRE);

    if (!folder || (done != 1 && left != SPOTNIK_SLOT_LAST))
        return;
    int rc = -1;
    if (job_at_fill(NULL, NULL, NULL, &at) && question_credentials(&at, &self))
        rc = spotnik_discovery_done_write(folder, &self, run_committed(run, worker));
    if (rc)
        run_say(run,
                "cannot put the end of the job on record in %s: workers that come later will "
                "wait for it",
                folder);
}
