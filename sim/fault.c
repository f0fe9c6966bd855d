/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: a plan drawn at the start, and kills aimed at the passes of a recovery. A fault
 * that would end the job for certain (the last member) is left out when its time comes. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

enum { PATH_BREAKS, PATH_LOOK, PATH_MENDS };

/* Members of the newest view that live and stay; killing the last one would prove nothing. */
static uint32_t holders(struct sim_world *world)
{
    uint64_t newest = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->process_count; i++)
        if (sim_live(world->process[i]) && world->process[i]->epoch > newest)
            newest = world->process[i]->epoch;
    for (uint32_t i = 0; i < world->process_count; i++)
        count += newest && sim_live(world->process[i]) && world->process[i]->epoch == newest
                 && !world->process[i]->app.leave;
    return count;
}

static struct sim_process *random_live(struct sim_world *world)
{
    struct sim_process *found = NULL;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < world->process_count; i++)
        if (sim_live(world->process[i]) && spotnik_prng_below(&world->fault, ++seen) == 0)
            found = world->process[i];
    return found;
}

static void replace(struct sim_world *world, const struct sim_process *dead)
{
    if (spotnik_prng_below(&world->fault, 100) < world->options.respawn_percent
        && !world->host_dead[dead->host])
        spotnik_sim_push(world, SIM_SPAWN, spotnik_prng_between(&world->fault, 1, 100) * SPOTNIK_MS,
                         dead->host, 0, NULL);
}

static void kill_one(struct sim_world *world, struct sim_process *process)
{
    if (!process || !sim_live(process) || (process->epoch && holders(world) < 2))
        return;
    spotnik_sim_kill(world, process, false);
    replace(world, process);
}

/* See spotnik_fact_is_forged(). */
static bool is_forged(const struct sim_world *world, uint32_t host)
{
    for (uint32_t i = 0; i < world->process_count; i++)
        if (world->process[i]->host == host && spotnik_fact_is_forged(world, world->process[i]))
            return true;
    return false;
}

static void kill_host(struct sim_world *world, uint32_t host)
{
    uint32_t here = 0;

    for (uint32_t i = 0; i < world->process_count; i++)
        here += sim_live(world->process[i]) && world->process[i]->host == host
                && world->process[i]->epoch != 0;
    if (here >= holders(world) || is_forged(world, host))
        return;
    world->host_dead[host] = true;
    world->clean = false;
    for (uint32_t i = 0; i < world->process_count; i++)
        if (world->process[i]->host == host)
            spotnik_sim_kill(world, world->process[i], true);
}

bool spotnik_sim_is_blocked(const struct sim_world *world, uint32_t from_host, uint32_t to_host)
{
    if (from_host == to_host)
        return world->host_dead[from_host];
    return world->host_dead[from_host] || world->host_dead[to_host]
           || world->blocked[(size_t)from_host * world->options.hosts + to_host] > 0;
}

/* Does the fault cut packets from host a to host b? */
static bool cuts(const struct sim_fault *fault, uint32_t a, uint32_t b)
{
    bool a_in = fault->group >> a & 1, b_in = fault->group >> b & 1;
    if (fault->kind == SPOTNIK_SIM_ONE_WAY)
        return a_in && !b_in;
    return a_in != b_in;
}

/* A data connection across a cut may stay for a while, or break when TCP gives up. */
static void break_channels(struct sim_world *world, const struct sim_fault *fault)
{
    for (struct sim_channel *channel = world->channels; channel; channel = channel->all) {
        uint32_t a = world->process[channel->from]->host, b = world->process[channel->to]->host;
        if (channel->open && (cuts(fault, a, b) || cuts(fault, b, a))
            && spotnik_prng_chance(&world->fault, 1, 2))
            spotnik_sim_channel_break(world, channel);
    }
}

static void cut(struct sim_world *world, struct sim_fault *fault, int change)
{
    uint32_t hosts = world->options.hosts;
    for (uint32_t a = 0; a < hosts; a++)
        for (uint32_t b = 0; b < hosts; b++)
            if (a != b && cuts(fault, a, b))
                world->blocked[(size_t)a * hosts + b] += (uint32_t)change;
}

static void slow(struct sim_world *world, const struct sim_fault *fault, bool on)
{
    uint32_t hosts = world->options.hosts;
    size_t pair = (size_t)(fault->target % hosts) * hosts + fault->other % hosts;
    world->slow_ns[pair] = on ? world->options.limits.silence_floor_ns / 3 : 0;
}

static struct sim_conn *random_conn(struct sim_world *world)
{
    struct sim_conn *found = NULL;
    uint32_t seen = 0;
    for (struct sim_conn *conn = world->conns; conn; conn = conn->all)
        if (conn->open[0] && conn->open[1] && spotnik_prng_below(&world->fault, ++seen) == 0)
            found = conn;
    return found;
}

static struct sim_channel *random_channel(struct sim_world *world)
{
    struct sim_channel *found = NULL;
    uint32_t seen = 0;
    for (struct sim_channel *channel = world->channels; channel; channel = channel->all)
        if (channel->open && spotnik_prng_below(&world->fault, ++seen) == 0)
            found = channel;
    return found;
}

static void leave(struct sim_world *world)
{
    struct sim_process *process = random_live(world);
    uint32_t staying = 0;

    for (uint32_t i = 0; i < world->process_count; i++)
        staying += sim_live(world->process[i]) && world->process[i]->epoch
                   && !world->process[i]->app.leave;
    if (!process || !process->epoch || staying < 2 || process->app.leave)
        return;
    process->app.leave = true;
    spotnik_sim_story(world, "%u is asked to leave", process->index);
    spotnik_sim_app_notice(world, process);
}

static void kill_group(struct sim_world *world, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kill_one(world, random_live(world));
}

static void start_cut(struct sim_world *world, struct sim_fault *fault)
{
    world->clean = false;
    fault->active = true;
    cut(world, fault, 1);
    break_channels(world, fault);
}

static void begin(struct sim_world *world, struct sim_fault *fault)
{
    struct sim_process *process;

    switch (fault->kind) {
    case SPOTNIK_SIM_KILL:
        kill_one(world, random_live(world));
        break;
    case SPOTNIK_SIM_KILL_GROUP:
        kill_group(world, fault->count);
        break;
    case SPOTNIK_SIM_KILL_HOST:
        kill_host(world, fault->target % world->options.hosts);
        break;
    case SPOTNIK_SIM_CUT:
    case SPOTNIK_SIM_PARTITION:
    case SPOTNIK_SIM_ONE_WAY:
        start_cut(world, fault);
        break;
    case SPOTNIK_SIM_STOP:
        world->clean = false;
        if ((process = random_live(world)))
            spotnik_sim_stop(world, process, fault->until_ns - fault->at_ns);
        break;
    case SPOTNIK_SIM_BREAK:
        world->clean = false;
        if (random_conn(world))
            spotnik_sim_link_break(world, random_conn(world));
        break;
    case SPOTNIK_SIM_LANE:
        world->clean = false;
        if (random_channel(world))
            spotnik_sim_channel_break(world, random_channel(world));
        break;
    case SPOTNIK_SIM_SLOW:
        world->clean = false;
        fault->active = true;
        slow(world, fault, true);
        break;
    case SPOTNIK_SIM_LEAVE:
        leave(world);
        break;
    case SPOTNIK_SIM_JOIN:
        spotnik_sim_push(world, SIM_SPAWN, 0, fault->target % world->options.hosts, 0, NULL);
        break;
    case SPOTNIK_SIM_FAULT_COUNT:
        break;
    }
}

void spotnik_sim_fault_happens(struct sim_world *world, uint32_t index)
{
    struct sim_fault *fault = &world->plan[index];

    if (world->healing)
        return;
    spotnik_sim_story(world, "fault: %s", spotnik_sim_fault_name(fault->kind));
    spotnik_sim_mix(world, fault->kind);
    world->result->faults++;
    begin(world, fault);
    if (fault->active)
        spotnik_sim_push(world, SIM_HEAL, fault->until_ns - fault->at_ns, 0, index, NULL);
}

void spotnik_sim_fault_heals(struct sim_world *world, uint32_t index)
{
    struct sim_fault *fault = &world->plan[index];

    if (!fault->active)
        return;
    fault->active = false;
    spotnik_sim_story(world, "healed: %s", spotnik_sim_fault_name(fault->kind));
    if (fault->kind == SPOTNIK_SIM_SLOW)
        slow(world, fault, false);
    else
        cut(world, fault, -1);
    spotnik_sim_links_release(world);
}

void spotnik_sim_faults_heal_all(struct sim_world *world)
{
    spotnik_sim_story(world, "everything heals");
    world->healing = true;
    world->heal_ns = world->now_ns;
    for (uint32_t i = 0; i < world->plan_count; i++)
        spotnik_sim_fault_heals(world, i);
    for (int i = 0; i < 2; i++)
        if (world->path[i])
            spotnik_sim_path(world, world->path[i], PATH_MENDS);
    for (uint32_t i = 0; i < world->process_count; i++)
        spotnik_sim_continue(world, world->process[i]);
}

static enum spotnik_sim_fault draw_kind(struct sim_world *world)
{
    const uint32_t *weight = world->options.weight;
    uint32_t total = 0, at = 0;

    for (int i = 0; i < SPOTNIK_SIM_FAULT_COUNT; i++)
        total += weight[i];
    uint32_t drawn = (uint32_t)spotnik_prng_below(&world->fault, total);
    while (drawn >= weight[at])
        drawn -= weight[at++];
    return (enum spotnik_sim_fault)at;
}

static void plan_one(struct sim_world *world, struct sim_fault *fault)
{
    uint32_t hosts = world->options.hosts;

    fault->kind = draw_kind(world);
    fault->at_ns = spotnik_prng_below(&world->fault, world->options.safety_ns);
    uint64_t longest = spotnik_prng_chance(&world->fault, 1, 2) ? 100 : 1500;
    fault->until_ns = fault->at_ns + spotnik_prng_between(&world->fault, 1, longest) * SPOTNIK_MS;
    fault->target = (uint32_t)spotnik_prng_below(&world->fault, hosts);
    fault->other = (uint32_t)spotnik_prng_below(&world->fault, hosts);
    fault->count = (uint32_t)spotnik_prng_between(&world->fault, 2, 4);
    fault->group = fault->kind == SPOTNIK_SIM_PARTITION || fault->kind == SPOTNIK_SIM_ONE_WAY
                       ? spotnik_prng_next(&world->fault)
                       : UINT64_C(1) << fault->target;
}

/* Drawn apart, so that a seed gives the other faults it always gave. Half of them hit an initiator
 * whose view is chosen and known to nobody else: the others have voted for it, and must find it
 * again. */
static void plan_strikes(struct sim_world *world)
{
    static const enum spotnik_action_kind kinds[] = { SPOTNIK_ACTION_VIEW, SPOTNIK_ACTION_VIEW,
                                                      SPOTNIK_ACTION_FROZEN,
                                                      SPOTNIK_ACTION_COMMITTED };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, world->options.seed ^ UINT64_C(0x737472756b65));
    world->strike_count = world->options.struck;
    SPOTNIK_ASSERT(world->strike_count <= sizeof(world->strike) / sizeof(world->strike[0]));
    for (uint32_t i = 0; i < world->strike_count; i++) {
        enum spotnik_action_kind kind = kinds[spotnik_prng_below(&prng, 4)];
        uint64_t latest = kind == SPOTNIK_ACTION_VIEW ? 10 : 60;
        world->strike[i] =
            (struct sim_strike){ .kind = kind,
                                 .countdown = (uint32_t)spotnik_prng_between(&prng, 1, latest) };
    }
}

static void path_hosts(const struct sim_world *world, uint64_t drawn, uint32_t *ret_a,
                       uint32_t *ret_b)
{
    *ret_a = (uint32_t)(drawn >> 8) % world->options.hosts;
    *ret_b =
        (*ret_a + 1 + (uint32_t)(drawn >> 24) % (world->options.hosts - 1)) % world->options.hosts;
}

static void path_set(struct sim_world *world, uint64_t drawn, int change)
{
    uint32_t a, b, hosts = world->options.hosts;
    path_hosts(world, drawn, &a, &b);
    world->blocked[(size_t)a * hosts + b] += (uint32_t)change;
    world->blocked[(size_t)b * hosts + a] += (uint32_t)change;
}

/* What the driver sees of it: data on their way to a member, and no acknowledgement for as long as
 * a silence. */
static void path_look(struct sim_world *world, uint64_t drawn)
{
    uint32_t a, b;
    path_hosts(world, drawn, &a, &b);
    for (struct sim_channel *channel = world->channels, *next; channel && !world->over;
         channel = next) {
        struct sim_process *from = world->process[channel->from], *to = world->process[channel->to];
        bool across = (from->host == a && to->host == b) || (from->host == b && to->host == a);
        next = channel->all;
        if (!across || !channel->open || channel->donor || channel->in_flight == 0
            || !sim_live(from) || from->stopped)
            continue;
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_PATH_DOWN, .peer = to->member };
        spotnik_sim_core_step(world, from, &event);
    }
}

static bool path_slot(struct sim_world *world, uint64_t drawn, uint64_t **ret)
{
    for (int i = 0; i < 2; i++)
        if (world->path[i] == drawn) {
            *ret = &world->path[i];
            return true;
        }
    return false;
}

void spotnik_sim_path(struct sim_world *world, uint64_t drawn, uint32_t what)
{
    uint64_t *slot, look_ns = world->options.limits.silence_floor_ns;

    if (what == PATH_BREAKS) {
        if (world->healing || !path_slot(world, 0, &slot))
            return;
        *slot = drawn;
        spotnik_sim_story(world, "a path between two hosts breaks");
        world->result->faults++;
        path_set(world, drawn, 1);
        spotnik_sim_push(world, SIM_PATH, look_ns, PATH_LOOK, drawn, NULL);
        spotnik_sim_push(world, SIM_PATH, (500 + (drawn >> 40) % 1500) * SPOTNIK_MS, PATH_MENDS,
                         drawn, NULL);
    } else if (path_slot(world, drawn, &slot) && what == PATH_LOOK) {
        path_look(world, drawn);
        spotnik_sim_push(world, SIM_PATH, look_ns, PATH_LOOK, drawn, NULL);
    } else if (path_slot(world, drawn, &slot)) {
        *slot = 0;
        spotnik_sim_story(world, "a path mends");
        path_set(world, drawn, -1);
        spotnik_sim_links_release(world);
    }
}

static void plan_paths(struct sim_world *world)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, world->options.seed ^ UINT64_C(0x627265616b));
    for (uint32_t i = 0; i < world->options.pairs; i++)
        spotnik_sim_push(world, SIM_PATH, spotnik_prng_below(&prng, world->options.safety_ns),
                         PATH_BREAKS, spotnik_prng_next(&prng) | 1, NULL);
}

static void plan_forged(struct sim_world *world)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, world->options.seed ^ UINT64_C(0x70726f7879));
    for (uint32_t i = 0; i < world->options.forged; i++)
        spotnik_sim_push(world, SIM_FORGE, spotnik_prng_below(&prng, world->options.safety_ns), 0,
                         spotnik_prng_next(&prng), NULL);
}

/* A stopped member dials when it goes on; one that died long after may then refuse: nothing is
 * promised there (docs/protocol.md 16). */
static bool is_awake(const struct sim_world *world, const struct sim_conn *conn)
{
    return !world->process[conn->process[0]]->stopped && !world->process[conn->process[1]]->stopped;
}

/* A proxy stands before one host, or before all: every link to another host ends. Or only one link
 * does. */
void spotnik_sim_ends_forged(struct sim_world *world, uint64_t drawn)
{
    uint32_t host = (uint32_t)(drawn >> 8) % world->options.hosts;
    bool all = (drawn & 3) == 0, one = (drawn & 3) == 1;

    if (world->healing)
        return;
    world->result->faults++;
    spotnik_sim_story(world, "links of %s end in the name of those who live",
                      all   ? "all hosts"
                      : one ? "one pair"
                            : "one host");
    for (struct sim_conn *conn = world->conns, *next; conn && !world->over; conn = next) {
        uint32_t a = world->process[conn->process[0]]->host,
                 b = world->process[conn->process[1]]->host;
        next = conn->all;
        if (a == b || !conn->open[0] || !conn->open[1] || !is_awake(world, conn)
            || (!all && a != host && b != host))
            continue;
        spotnik_sim_link_forge(world, conn);
        if (one)
            return;
    }
}

void spotnik_sim_churn_happens(struct sim_world *world, uint32_t index)
{
    bool add = world->options.churn[index].add;

    if (world->healing)
        return;
    world->result->faults++;
    spotnik_sim_story(world, "the trace: one %s", add ? "comes" : "goes");
    if (add)
        spotnik_sim_push(world, SIM_SPAWN, 0,
                         (uint32_t)spotnik_prng_below(&world->fault, world->options.hosts), 0,
                         NULL);
    else
        kill_one(world, random_live(world));
}

void spotnik_sim_faults_plan(struct sim_world *world)
{
    static const enum spotnik_message_kind aims[] = {
        SPOTNIK_MESSAGE_PREPARE, SPOTNIK_MESSAGE_ACCEPT, SPOTNIK_MESSAGE_RESTART,
        SPOTNIK_MESSAGE_FENCED, SPOTNIK_MESSAGE_ENTER
    };

    world->plan_count = world->options.faults;
    world->plan = spotnik_sim_alloc((world->plan_count + 1) * sizeof(*world->plan));
    for (uint32_t i = 0; i < world->plan_count; i++) {
        plan_one(world, &world->plan[i]);
        spotnik_sim_push(world, SIM_FAULT, world->plan[i].at_ns, 0, i, NULL);
    }
    for (uint32_t i = 0; i < world->options.churn_count; i++)
        spotnik_sim_push(world, SIM_CHURN, world->options.churn[i].at_ns, 0, i, NULL);
    world->aim_count = world->options.aimed;
    SPOTNIK_ASSERT(world->aim_count <= sizeof(world->aim) / sizeof(world->aim[0]));
    for (uint32_t i = 0; i < world->aim_count; i++)
        world->aim[i] =
            (struct sim_aim){ .kind = aims[spotnik_prng_below(&world->fault, 5)],
                              .countdown = (uint32_t)spotnik_prng_between(&world->fault, 1, 60),
                              .sender = spotnik_prng_chance(&world->fault, 1, 2),
                              .also = (uint32_t)spotnik_prng_below(&world->fault, 3) };
    plan_strikes(world);
    plan_forged(world);
    plan_paths(world);
    world->half_told.countdown = world->options.half_told;
}

/* Others that can go on without it: they stand in its view, or in the one before and are about
 * to. */
static uint32_t heirs(struct sim_world *world, const struct sim_process *process)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *other = world->process[i];
        count += other != process && sim_live(other) && other->epoch != 0
                 && other->epoch + 1 >= process->epoch && !other->app.leave;
    }
    return count;
}

static bool raise_to(uint64_t *highest, uint64_t value)
{
    bool higher = value > *highest;
    *highest = higher ? value : *highest;
    return higher;
}

/* The process has just done it, and nothing that follows from it. */
void spotnik_sim_struck(struct sim_world *world, struct sim_process *process,
                        const struct spotnik_action *action)
{
    bool counts =
        action->kind == SPOTNIK_ACTION_FROZEN
        || (action->kind == SPOTNIK_ACTION_VIEW && raise_to(&world->epoch_highest, action->epoch))
        || (action->kind == SPOTNIK_ACTION_COMMITTED && process->epoch != 0
            && raise_to(&world->step_highest, action->step));

    for (uint32_t i = 0; counts && i < world->strike_count && !world->healing; i++) {
        struct sim_strike *strike = &world->strike[i];
        if (strike->kind != action->kind || !strike->countdown || --strike->countdown)
            continue;
        if (!sim_live(process) || heirs(world, process) < 2)
            continue;
        spotnik_sim_story(world, "struck in the act");
        spotnik_sim_kill(world, process, false);
        replace(world, process);
    }
}

/* A message of a pass is being sent, or has arrived: the moment to die. */
void spotnik_sim_aimed(struct sim_world *world, struct sim_process *process,
                       enum spotnik_message_kind kind, bool sender)
{
    for (uint32_t i = 0; i < world->aim_count && !world->healing; i++) {
        struct sim_aim *aim = &world->aim[i];
        if (aim->kind != sim_pass_of(kind) || aim->sender != sender || !aim->countdown
            || --aim->countdown)
            continue;
        spotnik_sim_story(world, "aimed at %s", spotnik_sim_message_name(kind));
        kill_one(world, process);
        kill_group(world, aim->also);
    }
}

/* The initiator of a view, which is the first to tell anybody of it. */
static void initiator_said(struct sim_world *world, struct sim_process *from,
                           const struct sim_process *to)
{
    struct sim_half_told *half = &world->half_told;

    if (!raise_to(&half->seen_epoch, from->epoch) || !half->countdown || --half->countdown
        || heirs(world, from) < 2)
        return;
    half->epoch = from->epoch;
    half->bearer = to->index;
    half->told = 0;
    spotnik_sim_story(world, "dies when it has told %u of its view", to->index);
    spotnik_sim_kill(world, from, false);
    replace(world, from);
}

/* Everybody else in a view. Joiners may live: they come in again where it goes on. */
static void leave_only(struct sim_world *world, const struct sim_process *last)
{
    for (uint32_t i = 0; i < world->process_count; i++) {
        struct sim_process *process = world->process[i];
        if (process == last || !sim_live(process) || process->epoch == 0)
            continue;
        spotnik_sim_kill(world, process, false);
        replace(world, process);
    }
}

static void bearer_said(struct sim_world *world, const struct sim_process *to,
                        enum spotnik_message_kind kind)
{
    struct sim_half_told *half = &world->half_told;

    if (kind == SPOTNIK_MESSAGE_RESTART)
        half->told |= UINT64_C(1) << to->index;
    if (kind != SPOTNIK_MESSAGE_HEARTBEAT || (half->told >> to->index & 1)
        || to->epoch + 1 != half->epoch || !sim_live(to) || to->app.leave)
        return;
    half->epoch = 0;
    spotnik_sim_story(world, "all die but %u, which has only heard of the view", to->index);
    leave_only(world, to);
}

/* A control message is on its way. */
void spotnik_sim_said(struct sim_world *world, struct sim_process *from, struct sim_process *to,
                      enum spotnik_message_kind kind)
{
    const struct sim_half_told *half = &world->half_told;

    if (world->healing || !sim_live(from))
        return;
    if (half->epoch != 0 && half->bearer == from->index && from->epoch == half->epoch)
        bearer_said(world, to, kind);
    else if (kind == SPOTNIK_MESSAGE_RESTART)
        initiator_said(world, from, to);
}
