/* SPDX-License-Identifier: Apache-2.0 */
/* P6, bounded recovery. Control messages (no heartbeats) that a survivor sends between two views,
 * when nothing but deaths with proof, joins and leaves happen: at most MESSAGES_BASE, or _TREE, and
 * MESSAGES_PER_CHANGE for each member lost, come or gone, and each death on the way. Under silence
 * and cuts retries are bounded by time instead, and only recorded. */
#include <string.h>

#include "sim/check.h"

enum {
    MESSAGES_BASE = 12,      /* four ballots round the ring */
    MESSAGES_BASE_TREE = 24, /* two by a tree: four are asked, told and told again by one */
    MESSAGES_PER_CHANGE = 10,
    MESSAGES_PER_WAIT = 5 /* by a tree: four are asked, and one is answered */
};

static bool is_by_tree(const struct sim_world *world)
{
    return world->options.limits.tree_members < SIM_MEMBERS_MAX;
}

static uint64_t base_of(const struct sim_world *world)
{
    return is_by_tree(world) ? MESSAGES_BASE_TREE : MESSAGES_BASE;
}

/* A joiner that asks is told of the view, however often it asks: that is no part of a recovery. */
static bool is_recovery(enum spotnik_message_kind kind, const struct sim_process *to)
{
    return kind == SPOTNIK_MESSAGE_PREPARE || kind == SPOTNIK_MESSAGE_ACCEPT
           || kind == SPOTNIK_MESSAGE_FENCED || kind == SPOTNIK_MESSAGE_ASK
           || kind == SPOTNIK_MESSAGE_PROMISE || kind == SPOTNIK_MESSAGE_ACCEPTED
           || (kind == SPOTNIK_MESSAGE_RESTART && to->join == SIM_JOIN_NONE);
}

void spotnik_check_sent(struct sim_world *world, struct sim_process *process,
                        const struct sim_process *to, const struct spotnik_message *message)
{
    spotnik_sim_mix(world,
                    (uint64_t)message->kind << 48 | message->epoch << 24 | message->committed);
    if (message->kind == SPOTNIK_MESSAGE_HEARTBEAT)
        return;
    spotnik_check_proposal(world, process, message);
    world->result->messages++;
    process->messages++;
    process->recovery_messages += is_recovery(message->kind, to);
}

/* While a joiner is waited for what all have promised is gathered anew now and then, so that nobody
 * takes it for lost. How often is bounded by time. Round the ring that is one message. */
void spotnik_check_move(struct sim_world *world, const struct spotnik_move *move)
{
    world->waits += !strcmp(move->from, "joiner") && !strcmp(move->to, "reconcile");
}

static uint64_t waited(struct sim_world *world, struct sim_process *process)
{
    uint64_t waits = world->waits - process->last_waits;

    process->last_waits = world->waits;
    return is_by_tree(world) ? MESSAGES_PER_WAIT * waits : 0;
}

/* Members that came, went or died since this process installed its last view. */
static uint32_t changes(struct sim_world *world, const struct sim_process *process,
                        const struct fact_view *view)
{
    const struct fact_view *old = spotnik_fact_view_of(world, process->last_epoch);
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *other = world->process[i];
        bool was = old && spotnik_fact_rank(old, i) != SPOTNIK_NO_RANK,
             is = spotnik_fact_rank(view, i) != SPOTNIK_NO_RANK;
        count += was != is || (!sim_live(other) && (was || is || other->join != SIM_JOIN_NONE));
    }
    return count;
}

void spotnik_check_recovery_view(struct sim_world *world, struct sim_process *process,
                                 const struct fact_view *view)
{
    uint32_t count = changes(world, process, view);
    uint64_t sent = process->recovery_messages;
    uint64_t most = base_of(world) + waited(world, process) + (uint64_t)MESSAGES_PER_CHANGE * count;

    process->recovery_messages = 0;
    process->last_epoch = view->epoch;
    if (sent > world->result->recovery_messages_max)
        world->result->recovery_messages_max = sent;
    if (world->clean && sent > most)
        spotnik_sim_fail(world, "P6",
                         "%u sent %llu control messages on its way to view %llu, with %u changes",
                         process->index, (unsigned long long)sent, (unsigned long long)view->epoch,
                         count);
}
