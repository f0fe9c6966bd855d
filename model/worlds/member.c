/* SPDX-License-Identifier: Apache-2.0 */
/* A member of a small world: the driver of its core, and its caller. As in tests/unit/core/pair.c,
 * control messages go through the real codec. The caller and the data connections do what they can
 * at once: their orders are not tried. */
#include "member.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "queue.h"
#include "spotnik/spotnik.h"
#include "wire/control.h"

/* ---- what a member does ---- */

/* Its kernel ends its links in order: what it had said arrives before. */
void member_die(uint32_t index)
{
    struct node *node = &world.node[index];

    if (world_tells)
        fprintf(stderr, "    %u dies\n", index);
    *node = (struct node){ .epoch = node->epoch };
    for (uint32_t i = 0; i < bounds.members; i++) {
        if (world.up[index][i])
            queue_end(index, i, SPOTNIK_PROOF_GONE);
        world.up[index][i] = world.up[i][index] = false;
        queue_clear(i, index);
    }
    memset(world_core_of[index], 0, world_core_bytes);
}

static void do_send(uint32_t index, const struct spotnik_action *action)
{
    uint32_t to = world_index(action->send.to.id);

    if (to == NODES || !world.up[index][to])
        return;
    size_t size = spotnik_control_size(action->send.message);
    SPOTNIK_ASSERT(spotnik_control_encode(action->send.message,
                                          queue_put(index, to, ITEM_MESSAGE, size), size)
                   == size);
}

static void do_hang_up(uint32_t index, const struct spotnik_action *action)
{
    uint32_t to = world_index(action->peer.id);

    if (to == NODES || !world.up[index][to])
        return;
    world.up[index][to] = world.up[to][index] = false;
    world.node[index].linked[to] = false;
    queue_clear(to, index);
    queue_end(index, to, SPOTNIK_PROOF_NONE);
}

static void do_begun(struct node *node, const struct spotnik_action *action)
{
    node->begun = true;
    node->wants = false;
    node->step = action->begun.step;
    node->replay = action->begun.replay;
}

static void do_work(struct node *node, const struct spotnik_action *action)
{
    const struct spotnik_work *work = &action->work;

    if (work->bucket != 0)
        return;
    if (action->kind == SPOTNIK_ACTION_SCALE && work->scale.count)
        node->out[work->step & 1] = work->scale.weight * node->in;
    if (action->kind == SPOTNIK_ACTION_COPY_OWN)
        node->out[work->step & 1] = node->in;
}

static void do_committed(uint32_t index, uint64_t step)
{
    struct node *node = &world.node[index];

    world.history.result[index][step] = node->out[step & 1];
    node->begun = node->sealed = false;
    node->committed = step;
    check_commit(index, step);
}

static void tell(uint32_t index, const struct spotnik_action *action, uint32_t to)
{
    static const char *const kind[SPOTNIK_MESSAGE_KIND_COUNT] = {
        "",      "heartbeat", "PREPARE",     "ACCEPT",    "RESTART", "FENCED",  "VIEW ASK",
        "ENTER", "MISMATCH",  "PAUSE_CHECK", "PAUSE_ACK", "ASK",     "PROMISE", "ACCEPTED",
    };

    if (action->kind == SPOTNIK_ACTION_SEND)
        fprintf(stderr, "    %u: %s to %u\n", index, kind[action->send.message->kind], to);
    else
        fprintf(stderr, to < NODES ? "    %u: %s %llu, %u\n" : "    %u: %s %llu\n", index,
                spotnik_action_name(action->kind),
                (unsigned long long)spotnik_action_number(action), to);
}

static void do_action(uint32_t index, const struct spotnik_action *action)
{
    struct node *node = &world.node[index];
    const struct spotnik_member *peer = spotnik_action_peer(action);
    uint32_t to = world_index(peer ? peer->id : (struct spotnik_id){ 0, 0 });

    if (world_tells)
        tell(index, action, to);
    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
        if (to < NODES && !node->linked[to])
            node->dialling[to] = true;
        break;
    case SPOTNIK_ACTION_SEND:
        do_send(index, action);
        break;
    case SPOTNIK_ACTION_HANG_UP:
        do_hang_up(index, action);
        break;
    case SPOTNIK_ACTION_VIEW:
        node->epoch = action->epoch;
        check_view(index);
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        do_begun(node, action);
        break;
    case SPOTNIK_ACTION_SCALE:
    case SPOTNIK_ACTION_COPY_OWN:
        do_work(node, action);
        break;
    case SPOTNIK_ACTION_COMMITTED:
        do_committed(index, action->step);
        break;
    case SPOTNIK_ACTION_EXCLUDED:
        node->excluded = true;
        break;
    case SPOTNIK_ACTION_LEFT:
        node->left = true;
        break;
    case SPOTNIK_ACTION_FAILED:
        world.broken = "a member has FAILED";
        break;
    default: /* these members share no memory, and know no way but the ring */
        break;
    }
}

/* False: it died. */
bool member_polled(uint32_t index)
{
    struct spotnik_action action;

    while (spotnik_core_poll(world_core_of[index], &action)) {
        if (++world.actions == world.dies_at) {
            member_die(index);
            return false;
        }
        do_action(index, &action);
    }
    return true;
}

bool member_hears(uint32_t index, struct spotnik_event event)
{
    event.now_ns = world.now_ns;
    if (world_tells && event.kind != SPOTNIK_EVENT_RESULT)
        fprintf(stderr, "  %u hears %s at %.3f s\n", index, spotnik_event_name(event.kind),
                (double)world.now_ns / 1e9);
    spotnik_core_step(world_core_of[index], &event);
    return member_polled(index);
}

/* ---- what follows at once ---- */

static bool start(uint32_t index)
{
    struct node *node = &world.node[index];

    node->sealed = true;
    node->in = (uint64_t)1 << 4 * index;
    return member_hears(index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_BUCKET_START,
                                                       .start = { .count = 1,
                                                                  .dtype = SPOTNIK_I64,
                                                                  .op = SPOTNIK_SUM,
                                                                  .element_bytes = 8 } })
           && member_hears(index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_STEP_SEAL });
}

/* One call of the caller. `*moved`: there was one. False: it died. */
static bool call(uint32_t index, bool *moved)
{
    struct node *node = &world.node[index];
    uint64_t committed = world_status(index).committed;

    *moved = true;
    if (node->begun && !node->sealed)
        return start(index);
    if (!node->begun && committed != node->told) {
        node->told = committed;
        return member_hears(index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_RESULT,
                                                           .result = { committed, committed } });
    }
    if (!node->begun && !node->wants && committed < bounds.steps && !node->asked_to_leave) {
        node->wants = true;
        return member_hears(index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_STEP_BEGIN });
    }
    *moved = false;
    return true;
}

/* Frames that its data connections can take. A dead peer's kernel takes them, too. */
static bool pump(uint32_t index)
{
    struct node *node = &world.node[index];
    struct spotnik_transfer transfer;

    for (uint32_t to = 0; to < bounds.members; to++) {
        struct spotnik_id id = world_member(to).id;
        while (to != index && spotnik_core_send_next(world_core_of[index], id, &transfer)) {
            if (++world.actions == world.dies_at) {
                member_die(index);
                return false;
            }
            uint64_t value = transfer.header.bucket != 0 ? 0
                             : transfer.source == SPOTNIK_SOURCE_OUT
                                 ? node->out[transfer.header.step & 1]
                                 : node->in;
            if (world.node[to].alive)
                queue_frame(index, to, &transfer.header, value);
        }
    }
    return true;
}

void member_goes_on(uint32_t index)
{
    bool moved = true;

    while (moved && world.node[index].alive)
        if (world.node[index].excluded || world.node[index].left || !call(index, &moved))
            moved = false;
    if (world.node[index].alive && pump(index) && world.node[index].left)
        member_die(index); /* its process ends in order, and says so */
    world_tidy(index);
}
