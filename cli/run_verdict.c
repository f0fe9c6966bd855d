/* SPDX-License-Identifier: Apache-2.0 */
/* What spotnik run says last, and its exit status. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "run_state.h"

/* Others may finish the job, and their status is that of the job: the last line still names this
 * worker. */
void run_verdict_note_failed(struct run *run, uint32_t number, int status)
{
    size_t used = strlen(run->failed);

    if (used + 40 < sizeof(run->failed))
        snprintf(run->failed + used, sizeof(run->failed) - used, "%sw%u (exit status %d)",
                 used ? ", " : "", number, WEXITSTATUS(status));
    else if (run->failed[used - 1] != '.')
        strcat(run->failed, ", ...");
}

static bool is_unsaved(const struct run *run)
{
    return run->unsaved && !__atomic_load_n(&run->agent.slots->completed, __ATOMIC_ACQUIRE);
}

/* With every member killed there is work left, as after a leave: the job can be started again. */
int run_verdict(const struct run *run)
{
    const struct agent *agent = &run->agent;

    if (is_unsaved(run))
        return RUN_UNSAVED;
    if (run->state == RUN_DONE)
        return 0;
    if (run->state == RUN_REFUSING)
        return RUN_REFUSED;
    if (agent->first_error && run->state != RUN_TRAINS)
        return agent->first_error;
    if (agent->ended[AGENT_INTERRUPTED] || run->stage)
        return 75;
    if (agent->first_error)
        return agent->first_error;
    return run->most_step ? 75 : 1;
}

void run_verdict_say(const struct run *run, uint64_t now_ns)
{
    const struct agent *agent = &run->agent;
    run_say(run,
            "%s after %.1f s: %u workers started, %u killed by us, %u lost, %u left, %u failed, %u "
            "done%s%s",
            run->state == RUN_DONE       ? run->failed[0] ? "done, though workers failed," : "done"
            : run_verdict(run) == 75     ? "interrupted"
            : run->state == RUN_REFUSING ? "refused: another founding has the job's name or place"
                                         : "ended",
            (double)(now_ns - run->begun_ns) / 1e9, agent->started, agent->killed,
            agent->ended[AGENT_LOST], agent->ended[AGENT_INTERRUPTED], agent->ended[AGENT_FAILED],
            agent->ended[AGENT_DONE], run->failed[0] ? "; failed: " : "", run->failed);
    if (is_unsaved(run))
        run_tell(run, SPOTNIK_SAID_UNSAVED,
                 "the job was asked for checkpoints and completed none: the state that it has "
                 "reached is in none. Ending with status %d; S151 above says why",
                 RUN_UNSAVED);
}
