/* SPDX-License-Identifier: Apache-2.0 */
/* Views, by an oracle that goes by the rules of docs/protocol.md: a majority of those that are not
 * proven dead decides; an exact tie is decided by the witness, or by the smallest id where there is
 * none. And the promise that is watched here: a job is one lineage (P1). */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "discovery/watcher.h"
#include "discovery/record.h"
#include "task.h"
#include "world.h"

#define NOTICED_NS (300 * SPOTNIK_MS) /* until a loss is a new view */
#define PARKS_NS (500 * SPOTNIK_MS)
#define TIE_NS SPOTNIK_S
#define UNSEEN_NS (3 * SPOTNIK_S) /* a founder has watched for so long */
#define BESIDE_NS (10 * SPOTNIK_S)
#define WRITES_NS (3 * SPOTNIK_S / 2) /* a record is refreshed once a second */
/* the writer of a record refreshed this lately sees the folder */
#define IN_SIGHT_NS (4 * SPOTNIK_S)

struct side {
    struct spotnik_runtime *member[VIEW_MAX];
    uint32_t size;
};

/* Somebody has removed its record, and it could not write another one since; in a bucket, where it
 * looks seldom, it need not have tried. */
static bool is_unseen(const struct spotnik_runtime *member)
{
    uint64_t unseen_ns = world.bucket ? 0 : UNSEEN_NS;
    char name[64], path[PATH_MAX];

    spotnik_record_name(member->credentials.self.id, name);
    snprintf(path, sizeof path, "%s/%s", world.folder, name);
    return member->refreshed_ns + unseen_ns <= task_now_ns() && access(path, F_OK) != 0;
}

/* Have all its members but the founder, a parked one that goes on from its memory, been cut off
 * from the folder for T or longer? Or for less, and without a record there? What section 16
 * allows. */
static bool is_cut_off(const struct lineage *lineage, const struct spotnik_runtime *founder)
{
    for (uint32_t i = 0; i < lineage->size; i++)
        if (lineage->member[i] != founder && lineage->member[i]->alive
            && !is_unseen(lineage->member[i])
            && lineage->member[i]->refreshed_ns + lineage->member[i]->stale_ns > task_now_ns())
            return false;
    return true;
}

static uint64_t excuses(const struct spotnik_runtime *founder)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; i < world.lineage_count; i++)
        bits |= (uint64_t)is_cut_off(&world.lineage[i], founder) << i;
    return bits;
}

struct lineage *lineage_found(struct spotnik_runtime *founder,
                              const struct spotnik_founding *founding, uint64_t step)
{
    if (world.lineage_count == LINEAGES_MAX) {
        world_break("more foundings than one world can have");
        return NULL;
    }
    uint64_t excused = excuses(founder);
    struct lineage *lineage = &world.lineage[world.lineage_count++];
    *lineage = (struct lineage){ .excuses = excused,
                                 .founding = *founding,
                                 .member = { founder },
                                 .size = 1,
                                 .epoch = 1,
                                 .step = step,
                                 .begun_step = step,
                                 .founded_ns = task_now_ns() };
    founder->lineage = lineage;
    founder->past = *founding;
    founder->epoch = 1;
    founder->step = step;
    founder->parked = founder->joining = founder->out = false;
    founder->parted_ns = 0;
    world.foundings++;
    world_tell("%u founds %016llx, generation %llu, after step %llu", founder->number,
               (unsigned long long)founding->id, (unsigned long long)founding->generation,
               (unsigned long long)step);
    return lineage;
}

void lineage_leave(struct spotnik_runtime *process)
{
    process->lineage = NULL;
    process->parked = false;
    process->parted_ns = 0;
    process->tie_named = 0;
}

static bool is_in(const struct lineage *lineage, const struct spotnik_runtime *process)
{
    for (uint32_t i = 0; i < lineage->size; i++)
        if (lineage->member[i] == process)
            return true;
    return false;
}

bool lineage_enter(struct lineage *lineage, struct spotnik_runtime *joiner,
                   const struct spotnik_runtime *sponsor)
{
    if (lineage->size == VIEW_MAX || !lineage->goes || !is_in(lineage, sponsor))
        return false;
    for (uint32_t i = 0; i < lineage->size; i++)
        if (!world_reach(joiner, lineage->member[i]))
            return false;
    lineage->member[lineage->size++] = joiner;
    lineage->epoch++;
    for (uint32_t i = 0; i < lineage->size; i++)
        lineage->member[i]->epoch = lineage->epoch;
    joiner->lineage = lineage;
    joiner->past = lineage->founding;
    joiner->step = lineage->step;
    joiner->parked = joiner->joining = joiner->out = false;
    joiner->parted_ns = 0;
    world_tell("%u joins %016llx, epoch %llu of %u", joiner->number,
               (unsigned long long)lineage->founding.id, (unsigned long long)lineage->epoch,
               lineage->size);
    return true;
}

/* ---- sides ---- */

static bool steps_along(const struct lineage *lineage, const struct spotnik_runtime *member)
{
    return member->lineage == lineage && !member->out && member->ended == 0 && world_runs(member);
}

/* Those that reach `first`, and each other. */
static void side_of(const struct lineage *lineage, struct spotnik_runtime *first, struct side *ret)
{
    ret->size = 0;
    ret->member[ret->size++] = first;
    for (uint32_t i = 0; i < lineage->size; i++) {
        struct spotnik_runtime *member = lineage->member[i];
        bool reaches = member != first && steps_along(lineage, member);
        for (uint32_t j = 0; j < ret->size && reaches; j++)
            reaches = world_reach(member, ret->member[j]);
        if (reaches)
            ret->member[ret->size++] = member;
    }
}

static bool is_of(const struct side *side, const struct spotnik_runtime *process)
{
    for (uint32_t i = 0; i < side->size; i++)
        if (side->member[i] == process)
            return true;
    return false;
}

/* Its kernel says so to one of this side. */
static bool is_proven_dead(const struct side *side, const struct spotnik_runtime *member)
{
    if (member->alive || world.host[member->host].boot != member->kernel.boot)
        return false;
    for (uint32_t i = 0; i < side->size; i++)
        if (!world.host[side->member[i]->host].cut[member->host]
            && !world.host[member->host].cut[side->member[i]->host])
            return true;
    return false;
}

static bool witness_names(struct lineage *lineage, struct side *side)
{
    for (uint32_t i = 0; i < side->size; i++)
        if (side->member[i]->tie_named == lineage->epoch + 1)
            return true;
    struct spotnik_runtime *asker = side->member[0];
    if (spotnik_time_since(task_now_ns(), asker->tie_asked_ns) >= TIE_NS && !asker->tie_asked) {
        asker->tie_asked_ns = task_now_ns();
        asker->tie = (struct spotnik_tie){ .self = asker->credentials.self.id,
                                           .founding = lineage->founding.id,
                                           .epoch = lineage->epoch + 1 };
        asker->tie_asked = true;
        task_wake(&asker->tie);
    }
    return false;
}

static bool has_smallest(const struct lineage *lineage, const struct side *side)
{
    const struct spotnik_runtime *smallest = NULL;

    for (uint32_t i = 0; i < lineage->size; i++)
        if (!is_proven_dead(side, lineage->member[i])
            && (smallest == NULL
                || spotnik_id_compare(lineage->member[i]->credentials.self.id,
                                      smallest->credentials.self.id)
                       < 0))
            smallest = lineage->member[i];
    return is_of(side, smallest);
}

static bool decides(struct lineage *lineage, struct side *side)
{
    uint32_t left = lineage->size;

    for (uint32_t i = 0; i < lineage->size; i++)
        left -= is_proven_dead(side, lineage->member[i]);
    if (2 * side->size != left)
        return 2 * side->size > left;
    return spotnik_founding_is_witnessed(&lineage->founding) ? witness_names(lineage, side)
                                                             : has_smallest(lineage, side);
}

/* ---- what a side does ---- */

/* One that was stopped for about T looks before it commits (runtime/lease.c). */
static void wake(struct spotnik_runtime *process)
{
    uint64_t now_ns = task_now_ns();

    if (!world_runs(process))
        return;
    if (process->looked_ns != 0
        && now_ns - process->looked_ns > world.stale_ns - world.stale_ns / 16
        && now_ns - process->event_ns > world.stale_ns / 2)
        process->barred_ns = now_ns;
    process->event_ns = now_ns;
}

static void commit(struct lineage *lineage)
{
    for (uint32_t i = 0; i < lineage->size; i++)
        if (lineage->member[i]->barred_ns != 0)
            return;
    lineage->step++;
    lineage->goes = true;
    for (uint32_t i = 0; i < lineage->size; i++) {
        lineage->member[i]->step = lineage->step;
        lineage->member[i]->parked = false;
        lineage->member[i]->parted_ns = 0;
    }
}

static void install(struct lineage *lineage, const struct side *side)
{
    lineage->epoch++;
    lineage->size = side->size;
    memcpy(lineage->member, side->member, sizeof side->member);
    for (uint32_t i = 0; i < side->size; i++) {
        side->member[i]->epoch = lineage->epoch;
        side->member[i]->tie_named = 0;
    }
    lineage->changing_ns = 0;
    world_tell("%016llx: epoch %llu of %u", (unsigned long long)lineage->founding.id,
               (unsigned long long)lineage->epoch, lineage->size);
}

static void part(struct side *side)
{
    for (uint32_t i = 0; i < side->size; i++) {
        struct spotnik_runtime *member = side->member[i];
        member->parted_ns = member->parted_ns != 0 ? member->parted_ns : task_now_ns();
        if (!member->parked && spotnik_time_since(task_now_ns(), member->parted_ns) >= PARKS_NS) {
            member->parked = true;
            world.parkings++;
            world_tell("%u is parked after step %llu", member->number,
                       (unsigned long long)member->step);
        }
    }
}

static bool goes_away(const struct lineage *lineage, const struct spotnik_runtime *member)
{
    return lineage->done || member->noticed_ns != 0;
}

/* All of the view have left. */
static void end(struct lineage *lineage, const struct side *left)
{
    lineage->stopped = !lineage->done;
    lineage->goes = false;
    world.stops += lineage->stopped;
    for (uint32_t i = 0; i < left->size; i++)
        left->member[i]->left = lineage;
    for (uint32_t i = 0; i < world.process_count; i++)
        world.survivors += lineage->stopped && world.process[i].lineage == lineage;
    world_tell("%016llx: all have left, %s", (unsigned long long)lineage->founding.id,
               lineage->done ? "the work is done" : "told to go");
}

/* Those that were told to go leave by another view, and so do all when the work is done. True:
 * there is another view. */
static bool let_go(struct lineage *lineage)
{
    struct side stay = { .size = 0 }, left = { .size = 0 };

    for (uint32_t i = 0; i < lineage->size; i++) {
        struct side *side = goes_away(lineage, lineage->member[i]) ? &left : &stay;
        side->member[side->size++] = lineage->member[i];
    }
    if (left.size == 0)
        return false;
    install(lineage, &stay);
    for (uint32_t i = 0; i < left.size; i++) {
        left.member[i]->ended = lineage->done ? SPOTNIK_ERR_DONE : SPOTNIK_ERR_LEAVING;
        lineage_leave(left.member[i]);
    }
    if (stay.size == 0)
        end(lineage, &left);
    return true;
}

/* True: there is another view. */
static bool side_act(struct lineage *lineage, struct side *side)
{
    if (!decides(lineage, side)) {
        part(side);
        return false;
    }
    if (side->size == lineage->size) {
        lineage->changing_ns = 0;
        commit(lineage);
        return let_go(lineage);
    }
    lineage->changing_ns = lineage->changing_ns != 0 ? lineage->changing_ns : task_now_ns();
    if (spotnik_time_since(task_now_ns(), lineage->changing_ns) < NOTICED_NS)
        return false;
    install(lineage, side);
    return true;
}

static void lineage_tick(struct lineage *lineage)
{
    struct side side, seen = { .size = 0 };

    lineage->goes = false;
    for (uint32_t i = 0; i < lineage->size; i++) {
        struct spotnik_runtime *member = lineage->member[i];
        if (!steps_along(lineage, member) || is_of(&seen, member))
            continue;
        side_of(lineage, member, &side);
        for (uint32_t j = 0; j < side.size; j++)
            if (!is_of(&seen, side.member[j]))
                seen.member[seen.size++] = side.member[j];
        if (side_act(lineage, &side))
            return;
    }
}

/* Those that the view goes on without hear of it where they reach one of it; else they are cut
 * off. */
static void outsider_tick(struct spotnik_runtime *process)
{
    const struct lineage *lineage = process->lineage;

    if (lineage == NULL || process->out || !world_runs(process) || is_in(lineage, process))
        return;
    process->parked = true;
    for (uint32_t i = 0; i < lineage->size && lineage->goes; i++)
        process->out |= world_reach(process, lineage->member[i]);
}

/* ---- the promise ---- */

static bool is_in_sight(const struct lineage *lineage)
{
    for (uint32_t i = 0; i < lineage->size; i++)
        if (spotnik_time_since(task_now_ns(), lineage->member[i]->refreshed_ns)
            > IN_SIGHT_NS + (world.bucket ? lineage->member[i]->stale_ns : 0))
            return false;
    return true;
}

/* Its founding record stands whole. Members of an older lineage learn of the founding by that file
 * alone: where somebody has removed or torn it, both go on (docs/design/0002-finding-the-job.md).
 */
static bool is_on_record(const struct lineage *lineage)
{
    char name[64], path[PATH_MAX];
    struct stat status;

    spotnik_founding_record_name(lineage->founding.generation, name);
    snprintf(path, sizeof path, "%s/%s", world.folder, name);
    return stat(path, &status) == 0 && status.st_size > TORN_BYTES;
}

/* Two go on, and members of the older cannot learn of the younger. */
bool lineages_are_hidden(void)
{
    bool elder = false;

    for (uint32_t i = 0; i < world.lineage_count; i++) {
        if (!world.lineage[i].goes)
            continue;
        if (elder && !is_on_record(&world.lineage[i]))
            return true;
        elder = true;
    }
    return false;
}

/* The longest time until a member looks for a younger founding. */
static uint64_t looks_within_ns(const struct lineage *lineage)
{
    uint64_t most_ns = 0;

    for (uint32_t i = 0; i < lineage->size; i++)
        if (lineage->member[i]->every_ns > most_ns)
            most_ns = lineage->member[i]->every_ns;
    return most_ns;
}

static void beside(struct lineage *elder, struct lineage *younger)
{
    if (!(younger->excuses >> (elder - world.lineage) & 1)) {
        world_break("%016llx goes on, at step %llu, beside %016llx, founded at %.1f s",
                    (unsigned long long)elder->founding.id, (unsigned long long)elder->step,
                    (unsigned long long)younger->founding.id, (double)younger->founded_ns / 1e9);
        return;
    }
    world.excused++;
    if (!is_in_sight(elder) || !is_in_sight(younger) || !is_on_record(younger)) {
        elder->beside_ns = 0;
        return;
    }
    elder->beside_ns = elder->beside_ns != 0 ? elder->beside_ns : task_now_ns();
    uint64_t most_ns = BESIDE_NS + looks_within_ns(elder);
    if (spotnik_time_since(task_now_ns(), elder->beside_ns) > most_ns)
        world_break(
            "two lineages go on side by side for %.0f s, though all their members see the folder",
            (double)most_ns / 1e9);
}

/* A newcomer founds. A member of the lineage before, cut off when all others were told to go, has
 * the newest memory: it is waited for as long as it writes. */
void lineage_survivors_check(const struct lineage *newer)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct spotnik_runtime *one = &world.process[i];
        if (one->alive && one->parked && one->ended == 0 && world_runs(one) && one->lineage != NULL
            && one->lineage->stopped
            && one->lineage->founding.generation + 1 == newer->founding.generation
            && spotnik_time_since(task_now_ns(), one->refreshed_ns) < WRITES_NS)
            world_break("%016llx is founded beside %u, which was cut off when all others were told "
                        "to go, and writes its record",
                        (unsigned long long)newer->founding.id, one->number);
    }
}

/* A younger one has made steps: no older one may. */
static void promise_check(void)
{
    for (uint32_t elder = 0; elder < world.lineage_count; elder++)
        for (uint32_t younger = elder + 1;
             younger < world.lineage_count && world.lineage[elder].goes; younger++)
            if (world.lineage[younger].step > world.lineage[younger].begun_step
                && world.lineage[younger].goes)
                beside(&world.lineage[elder], &world.lineage[younger]);
}

void lineages_tick(void)
{
    for (uint32_t i = 0; i < world.process_count; i++)
        wake(&world.process[i]);
    for (uint32_t i = 0; i < world.lineage_count; i++)
        if (world.lineage[i].size > 0)
            lineage_tick(&world.lineage[i]);
    for (uint32_t i = 0; i < world.process_count; i++)
        outsider_tick(&world.process[i]);
    promise_check();
}
