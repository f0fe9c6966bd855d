/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that hang: a process that makes no call of the library keeps its group waiting, and so the
 * job. Its siblings may hang with it, in a collective of theirs. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "run_state.h"

#define TOLD_NS (60 * SPOTNIK_S) /* without a limit */

/* Stopped by a signal, or by a debugger. */
static bool is_stopped(pid_t pid)
{
    char path[40], state = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return got && (state == 'T' || state == 't');
}

static void say(const struct run *run, const struct agent_worker *worker, uint64_t absent,
                uint64_t waited_ns, bool ends)
{
    char ranks[512] = "", host[65] = "this host";
    size_t used = 0;

    gethostname(host, sizeof(host) - 1);
    for (uint32_t rank = 0; rank < worker->group.size && used < sizeof(ranks) - 48; rank++)
        if (absent >> rank & 1)
            used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%u (process %d%s)",
                                     used ? ", " : "", (unsigned)rank, (int)worker->group.pid[rank],
                                     is_stopped(worker->group.pid[rank]) ? ", stopped" : "");
    run_say(run,
            "w%u on %s: after step %llu these ranks of its group have made no call for %llu s: %s. "
            "The job waits for them%s",
            worker->number, host, (unsigned long long)worker->group.step,
            (unsigned long long)(waited_ns / SPOTNIK_S), ranks,
            ends ? ": ending the group" : "; --stall-timeout ends such a group");
}

/* A group that waits for other members owes no call, and one that has taken no step may be loading
 * its model. After the last step it may be saving it. */
static void look(struct run *run, struct agent_worker *worker, uint64_t now_ns)
{
    const struct spotnik_slot *slot = &run->agent.slots->slot[worker - run->agent.worker];
    uint64_t absent = __atomic_load_n(&slot->absent, __ATOMIC_SEQ_CST),
             step = run_committed(run, worker), limit_ns = run->options->stall_ns;

    bool over = __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) != 0;

    if (!absent || !step || over || step != worker->group.step) {
        worker->group.step = step;
        worker->group.owes_ns = now_ns;
        worker->group.told = false;
        return;
    }
    uint64_t waited_ns = now_ns - worker->group.owes_ns;
    if (limit_ns && waited_ns >= limit_ns) {
        say(run, worker, absent, waited_ns, true);
        agent_signal(worker, SIGKILL);
        worker->group.owes_ns = now_ns;
    } else if (!worker->group.told && waited_ns >= (limit_ns ? limit_ns / 2 : TOLD_NS)) {
        say(run, worker, absent, waited_ns, false);
        worker->group.told = true;
    }
}

void run_stall_look(struct run *run, uint64_t now_ns)
{
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid && run->agent.worker[i].group.size > 1)
            look(run, &run->agent.worker[i], now_ns);
}
