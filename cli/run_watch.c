/* SPDX-License-Identifier: Apache-2.0 */
/* What the members tell the agent through the table of slots, and what follows for the run. When is
 * the job done, when do its members wait for others, when can nobody come? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "checkpoint/checkpoint_store.h"
#include "run_state.h"
#include "adapt/policy.h"

/* Members that wait are news after this time: a newcomer may be on its way. Before the first step,
 * all are. */
#define NEWS_NS SPOTNIK_S
#define NEWS_START_NS (10 * SPOTNIK_S)

static const struct spotnik_slot *slot_of(const struct run *run, const struct agent_worker *worker)
{
    return &run->agent.slots->slot[worker - run->agent.worker];
}

uint64_t run_committed(const struct run *run, const struct agent_worker *worker)
{
    return __atomic_load_n(&slot_of(run, worker)->committed, __ATOMIC_ACQUIRE);
}

uint32_t run_members(const struct run *run)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < run->agent.places; i++)
        members += run->agent.worker[i].pid && run_committed(run, &run->agent.worker[i]);
    return members;
}

static double real(const uint64_t *bits)
{
    uint64_t read = __atomic_load_n(bits, __ATOMIC_RELAXED);
    double value;

    memcpy(&value, &read, sizeof(value));
    return value;
}

/* Members change strategy together: the first one seen speaks for all. */
static void look_at_sync(struct run *run)
{
    for (uint32_t i = 0; i < run->agent.places && run->options->watch_sync; i++) {
        const struct spotnik_slot *slot = &run->agent.slots->slot[i];
        uint64_t step = __atomic_load_n(&slot->told_step, __ATOMIC_ACQUIRE);
        if (step <= run->told.step)
            continue;
        uint64_t what = __atomic_load_n(&slot->told_what, __ATOMIC_RELAXED);
        run->told.step = step;
        run_say(run, "step %llu: %s from here on: %s (%.3f, limit %.3f)", (unsigned long long)step,
                (what & 0xff) == SPOTNIK_SYNC_ASYNCHRONOUS ? "asynchronous" : "synchronous",
                spotnik_sync_reason_text((enum spotnik_sync_reason)(what >> 8 & 0xff)),
                real(&slot->told_value), real(&slot->told_limit));
    }
}

/* Free places, too: what the last one there has told stands until the next one comes. */
static void look_at_steps(struct run *run, uint64_t now_ns)
{
    for (uint32_t i = 0; i < run->agent.places; i++) {
        uint64_t step = run_committed(run, &run->agent.worker[i]);
        if (step > run->most_step)
            run->most_step = step;
    }
    if (run->most_step && run->kill_ns == SPOTNIK_NEVER && run->options->kill_every_ns)
        run->kill_ns = now_ns + run->options->kill_every_ns;
}

/* A member that ends with the job is at most one step behind the others. */
static void look_at_ends(struct run *run)
{
    if (!run->ended.any || run->ended.told || run->state == RUN_DONE
        || run->most_step <= run->ended.step + 1)
        return;
    run->ended.told = true;
    run_say(run,
            "w%u ended with status 0 after step %llu, and the others train on: taken for a leave, "
            "not for the end of the job. A program that stops early must decide by a number that "
            "all members have (in PyTorch: spotnik.told()). One that joins late must skip what is "
            "over, and count by the job (in PyTorch: for epoch in spotnik.epochs(count), while "
            "spotnik.step() < count; epochs of a file of its own: prepare(start=...))",
            run->ended.number, (unsigned long long)run->ended.step);
}

/* The member that waits for most speaks for all. */
static void look_at_waits(struct run *run, uint64_t now_ns)
{
    uint32_t waits = 0, needed = 0;

    for (uint32_t i = 0; i < run->agent.places; i++) {
        const struct agent_worker *worker = &run->agent.worker[i];
        uint32_t wanted =
            worker->pid ? __atomic_load_n(&slot_of(run, worker)->needed, __ATOMIC_ACQUIRE) : 0;
        if (wanted > needed) {
            needed = wanted;
            waits = __atomic_load_n(&slot_of(run, worker)->size, __ATOMIC_RELAXED);
        }
    }
    if (waits != run->waits.members || needed != run->waits.needed) {
        if (run->waits.told && !needed && !run->stage)
            run_tell(run, SPOTNIK_SAID_ENOUGH, "enough members are here: steps go on");
        run->waits.members = waits;
        run->waits.needed = needed;
        run->waits.since_ns = now_ns;
        run->waits.told = run->waits.told && needed && !run->most_step;
    }
    if (needed && !run->waits.told
        && now_ns - run->waits.since_ns >= (run->most_step ? NEWS_NS : NEWS_START_NS)) {
        run->waits.told = true;
        run_tell(run, SPOTNIK_SAID_WAITING, "%u of %u needed are here: steps wait", waits, needed);
    }
}

/* Do not start it again: only a person can tell which of the two is meant. */
static void look_at_refusals(struct run *run)
{
    for (uint32_t i = 0; i < run->agent.places && run->state < RUN_REFUSING; i++) {
        if (!__atomic_load_n(&run->agent.slots->slot[i].refused, __ATOMIC_ACQUIRE))
            continue;
        run_state_reach(run, RUN_REFUSING);
        run_say(run,
                "another founding has this job's name or its place, as the worker's error says: "
                "ending with status %d, replacing no worker",
                RUN_REFUSED);
    }
}

void run_look(struct run *run, uint64_t now_ns)
{
    look_at_refusals(run);
    run_told_look(run, now_ns);
    look_at_sync(run);
    look_at_steps(run, now_ns);
    look_at_ends(run);
    look_at_waits(run, now_ns);
    run_stall_look(run, now_ns);
}

/* Workers that were cut off together have written one checkpoint. */
void run_look_at_minority(struct run *run, const struct agent_worker *worker)
{
    const struct spotnik_slot *slot = slot_of(run, worker);
    uint64_t step = __atomic_load_n(&slot->minority_step, __ATOMIC_ACQUIRE),
             digest = __atomic_load_n(&slot->minority_digest, __ATOMIC_RELAXED);
    const char *dir = getenv("SPOTNIK_CHECKPOINT");
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    if (!step || digest == run->told.minority_digest)
        return;
    run->told.minority_digest = digest;
    spotnik_checkpoint_store_minority_name(step, digest, name);
    run_say(
        run,
        "w%u was cut off from the majority: its state after step %llu is %s%s%s. Run this again "
        "to join the others; only if they are gone for good, add --from with that checkpoint",
        worker->number, (unsigned long long)step, dir ? dir : "", dir ? "/" : "", name);
}

/* Where others train on, they have checkpoints of their own. */
void run_look_at_checkpoints(struct run *run, const struct agent_worker *worker)
{
    const struct spotnik_slot *slot = slot_of(run, worker);
    bool was_last = run->options->local || __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) == 1
                    || __atomic_load_n(&slot->left, __ATOMIC_ACQUIRE) == SPOTNIK_SLOT_LAST;

    run->unsaved |=
        was_last && __atomic_load_n(&slot->checkpoint, __ATOMIC_ACQUIRE) == SPOTNIK_SLOT_FAILED;
}

bool run_is_done(const struct run *run)
{
    if (!run->ended.any || run->ended.step < run->most_step)
        return false;
    return run->most_step ? !run_members(run) : !agent_running(&run->agent);
}

void run_ended(struct run *run, const struct agent_worker *worker)
{
    uint64_t step = run_committed(run, worker);

    if (!run->ended.any || step >= run->ended.step) {
        run->ended.step = step;
        run->ended.number = worker->number;
        run->ended.told = false;
    }
    run->ended.any = true;
    if (__atomic_load_n(&slot_of(run, worker)->done, __ATOMIC_ACQUIRE))
        run_state_reach(run, RUN_DONE);
}

/* A replacement starts in the turn in which its predecessor ends. So one that is not there by now
 * was not due: its predecessor ended with the job, or left. */
bool run_is_stuck(const struct run *run)
{
    bool traced = run->churn_at < run->options->churn.event_count;
    bool comes_back = run->watcher.away || run->coming_back;

    return run->waits.needed && run->options->local && !traced && !comes_back && !run->stage
           && run->state != RUN_DONE && agent_running(&run->agent) < run->waits.needed;
}

bool run_is_left_over(const struct run *run)
{
    return run_is_stuck(run) && run->ended.any && run->ended.step >= run->most_step;
}
