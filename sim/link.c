/* SPDX-License-Identifier: Apache-2.0 */
/* Control links as TCP gives them: FIFO in each direction, every direction with its own delay; what
 * is sent while the network is cut is sent again when it heals; an end tells the other one why it
 * closes (GOODBYE), with two exceptions: its process died (EOF, and everything said before arrives
 * before), or the link broke (no proof of anything). Dials are answered, refused by the kernel of a
 * dead process, or run out of time. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

static struct sim_process *process_at(struct sim_world *world, uint32_t index)
{
    return world->process[index];
}

static struct sim_conn **slot(struct sim_world *world, uint32_t a, uint32_t b)
{
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    return &world->link[(size_t)low * world->options.processes_max + high];
}

static int end_of(const struct sim_conn *conn, uint32_t process)
{
    return conn->process[0] == process ? 0 : 1;
}

uint64_t spotnik_sim_latency(struct sim_world *world, const struct sim_process *from,
                             const struct sim_process *to)
{
    uint64_t jitter =
        world->options.jitter_ns ? spotnik_prng_below(&world->net, world->options.jitter_ns) : 0;
    size_t pair = (size_t)from->host * world->options.hosts + to->host;
    if (from->host == to->host)
        return 20 * SPOTNIK_US + jitter / 4;
    return world->latency_ns[pair] + world->slow_ns[pair] + jitter;
}

bool spotnik_sim_is_linked(const struct sim_world *world, const struct sim_process *a,
                           const struct sim_process *b)
{
    uint32_t low = a->index < b->index ? a->index : b->index,
             high = a->index < b->index ? b->index : a->index;
    const struct sim_conn *conn = world->link[(size_t)low * world->options.processes_max + high];
    return conn && conn->open[end_of(conn, a->index)];
}

static struct sim_item *item_new(enum sim_item_kind kind, uint32_t from, uint32_t to, size_t size)
{
    struct sim_item *item = spotnik_sim_alloc(sizeof(*item) + size);
    item->kind = kind;
    item->from = from;
    item->to = to;
    item->size = size;
    return item;
}

static void item_travels(struct sim_world *world, struct sim_item *item, uint64_t delay_ns)
{
    spotnik_sim_push(world, SIM_ITEM, delay_ns, item->to, 0, item);
}

/* On a link: not before what was sent earlier. */
static void item_on_link(struct sim_world *world, struct sim_conn *conn, int to_end,
                         struct sim_item *item)
{
    struct sim_direction *direction = &conn->to[to_end];
    uint64_t delay =
        spotnik_sim_latency(world, process_at(world, item->from), process_at(world, item->to))
        + item->size / 100 + spotnik_sim_cost_delay(world, process_at(world, item->from));
    uint64_t arrival = world->now_ns + delay;

    item->conn = conn;
    item->number = direction->sent++;
    if (arrival < direction->last_ns)
        arrival = direction->last_ns;
    direction->last_ns = arrival;
    item_travels(world, item, arrival - world->now_ns);
}

void spotnik_sim_note(struct sim_world *world, enum sim_item_kind kind, uint32_t from, uint32_t to,
                      uint64_t delay_ns)
{
    struct sim_conn *conn = *slot(world, from, to);
    struct sim_item *item = item_new(kind, from, to, 0);

    /* A certificate of death does not overtake what the dead had sent: the driver drains its link
     * first. */
    if (kind == SIM_ITEM_DEATH && conn
        && conn->to[end_of(conn, to)].last_ns > world->now_ns + delay_ns)
        delay_ns = conn->to[end_of(conn, to)].last_ns - world->now_ns;
    item_travels(world, item, delay_ns);
}

void spotnik_sim_dial(struct sim_world *world, struct sim_process *from, struct sim_process *to)
{
    struct sim_item *item = item_new(SIM_ITEM_SYN, from->index, to->index, 0);

    if (from->dial[to->index] && from->dial[to->index] == from->search_dial)
        return; /* the driver is at it already, for reasons of its own: the answer serves both */
    if (from->dial[to->index])
        spotnik_sim_fail(world, "driver", "%u dials %u while it is dialling it", from->index,
                         to->index);
    item->number = from->dial[to->index] = ++world->dials;
    item_travels(world, item,
                 2 * spotnik_sim_latency(world, from, to) + spotnik_sim_latency(world, to, from));
    spotnik_sim_push(world, SIM_DIAL_OVER, world->options.dial_timeout_ns, from->index,
                     item->number, NULL);
}

static void tell(struct sim_world *world, struct sim_process *process, enum spotnik_event_kind kind,
                 uint32_t peer, enum spotnik_proof proof)
{
    const struct spotnik_member member = process_at(world, peer)->member;
    struct spotnik_event event = { .kind = kind, .peer = member };
    if (kind == SPOTNIK_EVENT_LINK_DOWN || kind == SPOTNIK_EVENT_DIAL_FAILED)
        event.ended = (struct spotnik_event_ended){ member, proof };
    if (kind == SPOTNIK_EVENT_LINK_UP) {
        process->dial[peer] = 0;
        spotnik_check_unheard(world, process, peer);
    }
    if ((kind == SPOTNIK_EVENT_LINK_DOWN || kind == SPOTNIK_EVENT_DIAL_FAILED)
        && proof == SPOTNIK_PROOF_NONE)
        spotnik_check_unheard(world, process, peer);
    if (kind == SPOTNIK_EVENT_DEATH)
        event.death = (struct spotnik_event_death){ member, process_at(world, peer)->voted_epoch };
    if (proof != SPOTNIK_PROOF_NONE || kind == SPOTNIK_EVENT_DEATH)
        spotnik_check_proof(world, process, peer, kind, proof);
    spotnik_sim_core_step(world, process, &event);
}

static void end_closes(struct sim_world *world, struct sim_conn *conn, int end,
                       enum spotnik_proof proof)
{
    if (!conn->open[end])
        return;
    conn->open[end] = false;
    struct sim_process *process = process_at(world, conn->process[end]);
    if (sim_live(process))
        tell(world, process, SPOTNIK_EVENT_LINK_DOWN, conn->process[!end], proof);
}

/* The dial ran out of time. If it had been answered, the answer is on a cut line: give up that
 * link. */
void spotnik_sim_dial_over(struct sim_world *world, struct sim_process *process, uint64_t dial)
{
    for (uint32_t i = 0; i < world->process_count; i++) {
        if (process->dial[i] != dial || !sim_live(process))
            continue;
        struct sim_conn *conn = *slot(world, process->index, i);
        process->dial[i] = 0;
        if (conn && conn->process[0] == process->index && conn->coming_up) {
            conn->coming_up = false;
            item_on_link(world, conn, 1, item_new(SIM_ITEM_GOODBYE, process->index, i, 0));
        }
        tell(world, process, SPOTNIK_EVENT_DIAL_FAILED, i, SPOTNIK_PROOF_NONE);
        return;
    }
}

static void say_goodbye(struct sim_world *world, struct sim_conn *conn, int end,
                        enum sim_item_kind kind)
{
    if (!conn->open[end])
        return;
    conn->open[end] = false;
    item_on_link(world, conn, !end, item_new(kind, conn->process[end], conn->process[!end], 0));
}

void spotnik_sim_hang_up(struct sim_world *world, struct sim_process *process,
                         struct sim_process *peer)
{
    struct sim_conn *conn = *slot(world, process->index, peer->index);
    if (conn)
        say_goodbye(world, conn, end_of(conn, process->index), SIM_ITEM_GOODBYE);
}

void spotnik_sim_send(struct sim_world *world, struct sim_process *from, struct sim_process *to,
                      const struct spotnik_message *message)
{
    struct sim_conn *conn = *slot(world, from->index, to->index);
    size_t size = spotnik_control_size(message);

    if (!conn || !conn->open[end_of(conn, from->index)]) {
        spotnik_sim_fail(world, "driver", "%u sends to %u without a link", from->index, to->index);
        return;
    }
    struct sim_item *item = item_new(SIM_ITEM_MESSAGE, from->index, to->index, size);
    uint64_t begun_ns = spotnik_sim_cost_begin(world);
    SPOTNIK_ASSERT(spotnik_control_encode(message, item->bytes, size) == size);
    spotnik_sim_cost_end(world, from, begun_ns);
    if (message->kind != SPOTNIK_MESSAGE_HEARTBEAT)
        from->bytes += size;
    if (size > from->bytes_longest)
        from->bytes_longest = size;
    item_on_link(world, conn, end_of(conn, to->index), item);
}

/* -- Arrival -- */

static void hold(struct sim_direction *direction, struct sim_item *item)
{
    if (!direction->held)
        direction->held_end = &direction->held;
    item->next = NULL;
    *direction->held_end = item;
    direction->held_end = &item->next;
}

static void refuse(struct sim_world *world, const struct sim_item *syn)
{
    struct sim_process *from = process_at(world, syn->from), *to = process_at(world, syn->to);
    struct sim_item *item = item_new(SIM_ITEM_REFUSED, syn->to, syn->from, 0);
    item->number = syn->number;
    item_travels(world, item, spotnik_sim_latency(world, to, from));
}

/* The kernel of the receiving host has the item; the process gets it at once unless it is
 * stopped. */
static void kernel_takes(struct sim_world *world, struct sim_item *item)
{
    struct sim_process *to = process_at(world, item->to);

    if (sim_live(to) && !to->stopped) {
        spotnik_sim_item_deliver(world, item);
    } else if (sim_live(to)) {
        item->next = NULL;
        *to->inbox_end = item;
        to->inbox_end = &item->next;
    } else {
        free(item);
    }
}

/* TCP: in order, and what meets a cut line waits there until it heals. */
void spotnik_sim_link_flush(struct sim_world *world, struct sim_conn *conn, int to_end)
{
    struct sim_direction *direction = &conn->to[to_end];
    const struct sim_process *from = process_at(world, conn->process[!to_end]);
    const struct sim_process *to = process_at(world, conn->process[to_end]);

    while (direction->held && !spotnik_sim_is_blocked(world, from->host, to->host)) {
        struct sim_item *item = direction->held;
        direction->held = item->next;
        if (item->kind == SIM_ITEM_MESSAGE && item->number >= direction->lost_from)
            free(item);
        else
            kernel_takes(world, item);
    }
}

/* A dial meets the network and the kernel of the other host before any process sees it. True: it
 * goes no further. */
static bool syn_ends_here(struct sim_world *world, const struct sim_item *item)
{
    struct sim_process *from = process_at(world, item->from), *to = process_at(world, item->to);

    if (sim_live(to) || (to->life == SIM_DEAD && !to->torn_down))
        return false;
    if (!to->silent_death && !spotnik_sim_is_blocked(world, to->host, from->host))
        refuse(world, item);
    return true;
}

void spotnik_sim_item_arrives(struct sim_world *world, struct sim_item *item)
{
    if (item->conn) {
        int end = end_of(item->conn, item->to);
        hold(&item->conn->to[end], item);
        spotnik_sim_link_flush(world, item->conn, end);
        return;
    }
    bool cut = spotnik_sim_is_blocked(world, process_at(world, item->from)->host,
                                      process_at(world, item->to)->host);
    if ((cut && item->kind != SIM_ITEM_LANE_DOWN)
        || (item->kind == SIM_ITEM_SYN && syn_ends_here(world, item)))
        free(item);
    else
        kernel_takes(world, item);
}

/* -- The process -- */

static struct sim_conn *conn_new(struct sim_world *world, uint32_t dialler, uint32_t acceptor)
{
    struct sim_conn *conn = spotnik_sim_alloc(sizeof(*conn));
    conn->process[0] = dialler;
    conn->process[1] = acceptor;
    conn->to[0].lost_from = conn->to[1].lost_from = UINT64_MAX;
    conn->all = world->conns;
    world->conns = conn;
    *slot(world, dialler, acceptor) = conn;
    return conn;
}

static void accept_dial(struct sim_world *world, struct sim_process *process,
                        const struct sim_item *syn)
{
    struct sim_process *dialler = process_at(world, syn->from);
    struct sim_conn *old = *slot(world, dialler->index, process->index);

    if (!sim_live(dialler) || dialler->dial[process->index] != syn->number
        || spotnik_sim_is_blocked(world, process->host, dialler->host))
        return;
    if (old) {
        int here = end_of(old, process->index);
        if ((old->open[here] || (here == 0 && old->coming_up))
            && (old->open[!here] || (here == 1 && old->coming_up)))
            return; /* we dialled each other: one link is enough, and its news is on the way */
        end_closes(world, old, here, SPOTNIK_PROOF_NONE);
        if (!sim_live(process) || process->stopped)
            return;
    }
    struct sim_conn *conn = conn_new(world, dialler->index, process->index);
    conn->open[1] = conn->coming_up = true;
    item_on_link(world, conn, 0, item_new(SIM_ITEM_UP, process->index, dialler->index, 0));
    tell(world, process, SPOTNIK_EVENT_LINK_UP, dialler->index, SPOTNIK_PROOF_NONE);
}

/* Scale mode: two processes are linked from the start. */
void spotnik_sim_link_make(struct sim_world *world, struct sim_process *a, struct sim_process *b)
{
    struct sim_conn *conn = conn_new(world, a->index, b->index);
    conn->open[0] = conn->open[1] = true;
    tell(world, a, SPOTNIK_EVENT_LINK_UP, b->index, SPOTNIK_PROOF_NONE);
    tell(world, b, SPOTNIK_EVENT_LINK_UP, a->index, SPOTNIK_PROOF_NONE);
}

static void message_arrives(struct sim_world *world, struct sim_process *process,
                            const struct sim_item *item)
{
    struct spotnik_message message;
    uint64_t begun_ns = spotnik_sim_cost_begin(world);
    int rc = spotnik_control_decode(item->bytes, item->size, world->storage, &message);

    spotnik_sim_cost_end(world, process, begun_ns);
    if (rc != 0) {
        spotnik_sim_fail(world, "driver", "a message of %u to %u cannot be decoded: %d", item->from,
                         item->to, rc);
        return;
    }
    spotnik_sim_aimed(world, process, message.kind, false);
    if (!sim_live(process))
        return;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_MESSAGE,
                                   .message = { process_at(world, item->from)->member, &message } };
    spotnik_check_message(world, process, process_at(world, item->from), &message);
    spotnik_sim_core_step(world, process, &event);
}

static void link_comes_up(struct sim_world *world, struct sim_process *process,
                          struct sim_conn *conn, uint32_t peer)
{
    if (!conn->coming_up)
        return; /* the dial had been given up */
    conn->coming_up = false;
    conn->open[0] = true;
    tell(world, process, SPOTNIK_EVENT_LINK_UP, peer, SPOTNIK_PROOF_NONE);
}

/* Between members of one host there is nobody; between hosts a proxy may be, and the two do not
 * always see it. */
static enum spotnik_proof end_proof(struct sim_world *world, const struct sim_item *item)
{
    if (process_at(world, item->from)->host == process_at(world, item->to)->host)
        return SPOTNIK_PROOF_GONE;
    return world->options.between ? SPOTNIK_PROOF_END : SPOTNIK_PROOF_LIKELY;
}

static void deliver(struct sim_world *world, struct sim_process *process,
                    const struct sim_item *item)
{
    struct sim_conn *conn = item->conn;
    int end = conn ? end_of(conn, process->index) : 0;

    switch (item->kind) {
    case SIM_ITEM_SYN:
        accept_dial(world, process, item);
        break;
    case SIM_ITEM_UP:
        link_comes_up(world, process, conn, item->from);
        break;
    case SIM_ITEM_REFUSED:
        if (process->dial[item->from] != item->number)
            break;
        process->dial[item->from] = 0;
        tell(world, process, SPOTNIK_EVENT_DIAL_FAILED, item->from, SPOTNIK_PROOF_GONE);
        break;
    case SIM_ITEM_MESSAGE:
        if (conn->open[end])
            message_arrives(world, process, item);
        break;
    case SIM_ITEM_GOODBYE:
    case SIM_ITEM_BREAK:
        end_closes(world, conn, end, SPOTNIK_PROOF_NONE);
        break;
    case SIM_ITEM_OVER:
        end_closes(world, conn, end, SPOTNIK_PROOF_GONE);
        break;
    case SIM_ITEM_EOF:
        end_closes(world, conn, end, end_proof(world, item));
        break;
    case SIM_ITEM_DEATH:
        tell(world, process, SPOTNIK_EVENT_DEATH, item->from, SPOTNIK_PROOF_GONE);
        break;
    case SIM_ITEM_LANE_DOWN:
        tell(world, process, SPOTNIK_EVENT_CHANNEL_DOWN, item->from, SPOTNIK_PROOF_NONE);
        break;
    }
}

void spotnik_sim_item_deliver(struct sim_world *world, struct sim_item *item)
{
    struct sim_process *process = process_at(world, item->to);
    if (sim_live(process))
        deliver(world, process, item);
    free(item);
}

/* -- Ends -- */

/* The kernel of a dead process closes its links: everything said arrives, then EOF; or the last
 * words are lost, and then so is the proof. */
void spotnik_sim_links_torn_down(struct sim_world *world, struct sim_process *process)
{
    process->torn_down = true;
    for (struct sim_conn *conn = world->conns; conn; conn = conn->all) {
        if (conn->process[0] != process->index && conn->process[1] != process->index)
            continue;
        int end = end_of(conn, process->index);
        bool was_open = conn->open[end] || (end == 0 && conn->coming_up);
        conn->open[end] = false;
        if (end == 0)
            conn->coming_up = false;
        if (!was_open)
            continue;
        enum sim_item_kind kind = SIM_ITEM_EOF;
        struct sim_direction *direction = &conn->to[!end];
        if (world->options.lost_with_death && spotnik_prng_chance(&world->net, 1, 4)) {
            kind = SIM_ITEM_BREAK;
            uint64_t last_words = direction->sent < 3 ? direction->sent + 1 : 4;
            direction->lost_from = direction->sent - spotnik_prng_below(&world->net, last_words);
            world->clean = false;
        }
        item_on_link(world, conn, !end, item_new(kind, process->index, conn->process[!end], 0));
    }
}

/* The process ends its links properly: it was excluded or has left, and will never act again under
 * this id. */
void spotnik_sim_links_goodbye(struct sim_world *world, struct sim_process *process)
{
    for (struct sim_conn *conn = world->conns; conn; conn = conn->all)
        if (conn->process[0] == process->index || conn->process[1] == process->index)
            say_goodbye(world, conn, end_of(conn, process->index), SIM_ITEM_OVER);
}

void spotnik_sim_link_break(struct sim_world *world, struct sim_conn *conn)
{
    for (int end = 0; end < 2; end++) {
        struct sim_item *item =
            item_new(SIM_ITEM_BREAK, conn->process[!end], conn->process[end], 0);
        item->conn = conn;
        kernel_takes(world, item);
    }
}

/* Something between the hosts ends a link in the name of both: a proxy that starts again, two
 * forged segments. */
void spotnik_sim_link_forge(struct sim_world *world, struct sim_conn *conn)
{
    for (int end = 0; end < 2; end++) {
        struct sim_item *item = item_new(SIM_ITEM_EOF, conn->process[!end], conn->process[end], 0);
        item->conn = conn;
        kernel_takes(world, item);
    }
}

/* The network has changed: what was held on lines that are free again goes on, in order. */
void spotnik_sim_links_release(struct sim_world *world)
{
    for (struct sim_conn *conn = world->conns; conn; conn = conn->all)
        for (int end = 0; end < 2; end++) {
            struct sim_direction *direction = &conn->to[end];
            struct sim_process *from = process_at(world, conn->process[!end]);
            struct sim_process *to = process_at(world, conn->process[end]);
            if (!direction->held || spotnik_sim_is_blocked(world, from->host, to->host))
                continue;
            spotnik_sim_push(world, SIM_FLUSH, spotnik_sim_latency(world, from, to), to->index,
                             (uint64_t)end, conn);
        }
}

void spotnik_sim_links_free(struct sim_world *world)
{
    while (world->conns) {
        struct sim_conn *conn = world->conns;
        world->conns = conn->all;
        for (int end = 0; end < 2; end++)
            while (conn->to[end].held) {
                struct sim_item *item = conn->to[end].held;
                conn->to[end].held = item->next;
                free(item);
            }
        free(conn);
    }
}
