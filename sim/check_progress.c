/* SPDX-License-Identifier: Apache-2.0 */
/* P9, progress. After everything has healed, all processes that live must come to stand in one
 * view, all of them in it. They must do so, and commit further steps there, within a limit of
 * virtual time. The checker excuses a run only when the lineage rule itself forbids it, which it
 * verifies from the facts: in some view still to be passed, the living members are not more than
 * half, nor half with the tie-breaker; and of some dead one no living member has witnessed the end
 * on a good link. */
#include "base/id.h"
#include "base/time.h"
#include "sim/check.h"

#define PATIENCE_NS (3 * SPOTNIK_S) /* before the excuse is looked into */
#define PROBE_NS (5 * SPOTNIK_MS)

/* Does `member` know that the dead one did not vote without it in this view? By its certificate,
 * wherever it had got to; or by its last words, if it had spoken before it was in any later view: a
 * link that came up after that says nothing of this one. */
static bool knows(struct sim_world *world, const struct fact_view *view, uint32_t member,
                  uint32_t dead)
{
    const struct fact_process *book = &world->facts->process[member],
                              *end = &world->facts->process[dead];
    bool in_time = book->first_epoch[dead] <= view->epoch && book->fenced_epoch[dead] < view->epoch;

    return ((end->certified >> member & 1) && world->process[dead]->voted_epoch <= view->epoch)
           || ((end->witnesses >> member & 1) && in_time);
}

static bool witnessed(struct sim_world *world, const struct fact_view *view, uint32_t dead)
{
    for (uint32_t i = 0; i < view->size; i++)
        if (sim_live(world->process[view->member[i]]) && knows(world, view, view->member[i], dead))
            return true;
    return false;
}

/* All its living members came in lagging and were not served: the settled step may have left the
 * job, so they must not make it anew; they are as good as outside. */
static bool only_unserved(struct sim_world *world, const struct fact_view *view)
{
    for (uint32_t i = 0; i < view->size; i++) {
        const struct sim_process *process = world->process[view->member[i]];
        if (sim_live(process) && world->facts->process[view->member[i]].served)
            return false;
    }
    return true;
}

/* It lives, and has or can have the witness for this view. A member that took the witness, and
 * lost the answer before somebody removed the file, will never know. */
static bool can_be_named(struct sim_world *world, const struct fact_view *view, uint32_t member)
{
    uint32_t owner = spotnik_sim_witness_owner(world, view->epoch);
    bool told = world->process[member]->named_epoch == view->epoch;
    bool knows =
        owner == member && (told || spotnik_sim_witness_reaches(world, world->process[member]));
    bool free = owner == SIM_NOBODY && world->witness.epoch < view->epoch
                && spotnik_sim_witness_reaches(world, world->process[member]);

    return sim_live(world->process[member]) && (knows || free);
}

/* Half of a view lives: can it go on? A witness that nobody can reach, or that names a dead member
 * for this epoch, decides nothing. */
static bool tie_possible(struct sim_world *world, const struct fact_view *view, uint32_t smallest)
{
    if (!world->options.witnessed)
        return sim_live(world->process[smallest]);
    for (uint32_t i = 0; i < view->size; i++)
        if (can_be_named(world, view, view->member[i]))
            return true;
    return false;
}

static bool quorum_possible(struct sim_world *world, const struct fact_view *view)
{
    uint32_t voters = 0, gone = 0, smallest = view->member[0];

    for (uint32_t i = 0; i < view->size; i++) {
        uint32_t member = view->member[i];
        bool lives = sim_live(world->process[member]);
        voters += lives;
        gone += !lives && witnessed(world, view, member);
        if (spotnik_id_compare(world->process[member]->member.id,
                               world->process[smallest]->member.id)
            < 0)
            smallest = member;
    }
    if (only_unserved(world, view))
        return false;
    return voters
           && (2 * voters > view->size || voters + gone == view->size
               || (2 * voters == view->size && tie_possible(world, view, smallest)));
}

static bool is_near(const struct sim_world *world, const struct fact_view *view, uint32_t a,
                    uint32_t b)
{
    uint32_t ahead = (b + view->size - a) % view->size, warm = world->options.limits.warm_count;
    return ahead <= warm || view->size - ahead <= warm;
}

static uint64_t entered(const struct sim_world *world, const struct fact_view *view, uint32_t rank)
{
    return world->facts->process[view->member[rank]].entered_epoch;
}

/* Why the survivor cannot tell how the dead one voted. */
static enum spotnik_sim_excuse excuse_of(struct sim_world *world, const struct fact_view *view,
                                         uint32_t survivor, uint32_t dead)
{
    const struct fact_process *book = &world->facts->process[view->member[survivor]];
    bool met = book->met >> view->member[dead] & 1;

    if (met
        && book->first_epoch[view->member[dead]] > world->process[view->member[survivor]]->epoch)
        return SPOTNIK_SIM_EXCUSE_AHEAD;
    if (met)
        return SPOTNIK_SIM_EXCUSE_FENCED;
    if (!is_near(world, view, survivor, dead))
        return SPOTNIK_SIM_EXCUSE_FAR;
    return entered(world, view, survivor) == entered(world, view, dead)
               ? SPOTNIK_SIM_EXCUSE_TOGETHER
               : SPOTNIK_SIM_EXCUSE_UNMET;
}

static bool lives_in(const struct sim_world *world, const struct fact_view *view)
{
    for (uint32_t i = 0; i < view->size; i++)
        if (sim_live(world->process[view->member[i]]))
            return true;
    return false;
}

/* Of a view that no quorum can follow. The excuse that is worth the least counts. */
static enum spotnik_sim_excuse why_not(struct sim_world *world, const struct fact_view *view)
{
    enum spotnik_sim_excuse excuse = SPOTNIK_SIM_EXCUSE_LOST;

    if (only_unserved(world, view) && lives_in(world, view))
        return SPOTNIK_SIM_EXCUSE_UNSERVED;
    for (uint32_t i = 0; i < view->size; i++)
        for (uint32_t k = 0; k < view->size; k++)
            if (sim_live(world->process[view->member[i]])
                && !sim_live(world->process[view->member[k]])
                && !witnessed(world, view, view->member[k])) {
                enum spotnik_sim_excuse found = excuse_of(world, view, i, k);
                excuse = found > excuse ? found : excuse;
            }
    return excuse;
}

/* The views that the living must still pass: from the newest one of a living member to the newest
 * of all. */
static enum spotnik_sim_excuse excuse_find(struct sim_world *world)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < world->process_count; i++)
        if (sim_live(world->process[i]) && world->process[i]->epoch > newest)
            newest = world->process[i]->epoch;
    if (!newest)
        return SPOTNIK_SIM_EXCUSE_LOST; /* every member is dead: the job is lost, as it must be */
    for (uint64_t epoch = newest; epoch < world->facts->view_count; epoch++) {
        const struct fact_view *view = spotnik_fact_view_of(world, epoch);
        if (view && !quorum_possible(world, view))
            return why_not(world, view);
    }
    return SPOTNIK_SIM_EXCUSE_NONE;
}

/* One view with all the living in it, or as many as a view may have while the others ask in vain;
 * returns its epoch, 0 when there is none. */
static uint64_t uniform_epoch(struct sim_world *world, uint64_t *ret_committed_min)
{
    uint64_t epoch = 0, least = UINT64_MAX;
    uint32_t members = 0, joiners = 0;

    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *process = world->process[i];
        if (!sim_live(process))
            continue;
        if (process->join != SIM_JOIN_NONE) {
            joiners++;
            continue;
        }
        if (!process->epoch || (epoch && process->epoch != epoch))
            return 0;
        members++;
        epoch = process->epoch;
        if (process->app.committed < least)
            least = process->app.committed;
    }
    const struct fact_view *view = spotnik_fact_view_of(world, epoch);
    *ret_committed_min = least;
    bool full = view && view->size == world->options.limits.members_max;
    return view && view->size == members && (!joiners || full) ? epoch : 0;
}

/* For readers of the trace: the state of the newest view. */
static void tell(struct sim_world *world)
{
    const struct fact_view *view = spotnik_fact_view_of(world, world->facts->view_count - 1);

    for (uint32_t i = 0; view && i < view->size; i++)
        spotnik_sim_story(world, "view %llu: member %u %s", (unsigned long long)view->epoch,
                          view->member[i],
                          sim_live(world->process[view->member[i]]) ? "lives"
                          : witnessed(world, view, view->member[i])
                              ? "is dead, and a living one witnessed it"
                              : "is dead without a living witness");
}

static void not_yet(struct sim_world *world)
{
    uint64_t since = spotnik_time_since(world->now_ns, world->heal_ns);

    if (since > PATIENCE_NS
        && (world->result->excuse = excuse_find(world)) != SPOTNIK_SIM_EXCUSE_NONE) {
        tell(world);
        if (world->result->calm && world->result->excuse == SPOTNIK_SIM_EXCUSE_FENCED)
            spotnik_sim_fail(world, "P9",
                             "the last survivor is parked, though it was linked to all the others "
                             "when they died");
        world->result->excused = true;
        world->over = true;
    } else if (since > world->options.liveness_ns) {
        tell(world);
        spotnik_sim_fail(world, "P9", "no common view with progress %.1f s after everything healed",
                         (double)since / 1e9);
    } else {
        spotnik_sim_push(world, SIM_PROBE, PROBE_NS, 0, 0, NULL);
    }
}

void spotnik_check_progress_probe(struct sim_world *world)
{
    struct sim_facts *facts = world->facts;
    uint64_t least, epoch = uniform_epoch(world, &least);

    if (epoch && epoch != facts->uniform_epoch)
        facts->uniform_from = least;
    facts->uniform_epoch = epoch;
    if (epoch && least >= facts->uniform_from + world->options.liveness_steps)
        world->over = true;
    else
        not_yet(world);
}
