/* SPDX-License-Identifier: Apache-2.0 */
/* The driver and the caller of a few cores; see pair.h. */
#include "pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"

double pair_input(uint32_t node, uint64_t step, uint32_t bucket, uint64_t index)
{
    return (double)(1000 * (node + 1) + 100 * step + 10 * bucket + index);
}

struct spotnik_core_status pair_status(struct pair *pair, uint32_t node)
{
    struct spotnik_core_status status;
    spotnik_core_status(pair->node[node].core, &status);
    return status;
}

static uint32_t index_of(const struct pair *pair, struct spotnik_id id)
{
    for (uint32_t i = pair->count; i-- > 0;)
        if (spotnik_id_equal(pair->node[i].member.id, id))
            return i;
    return NODES_MAX; /* a former process of a node that was renewed */
}

static void put_item(struct pair *pair, uint32_t from, uint32_t to, struct item *item)
{
    item->next = NULL;
    *pair->control_end[from][to] = item;
    pair->control_end[from][to] = &item->next;
}

static void put_end(struct pair *pair, uint32_t from, uint32_t to)
{
    struct item *item = calloc(1, sizeof *item);
    SPOTNIK_ASSERT(item != NULL);
    put_item(pair, from, to, item);
}

static struct item *take_item(struct pair *pair, uint32_t from, uint32_t to)
{
    struct item *item = pair->control[from][to];
    if (item && !(pair->control[from][to] = item->next))
        pair->control_end[from][to] = &pair->control[from][to];
    return item;
}

static void put_frame(struct pair *pair, uint32_t from, uint32_t to,
                      const struct spotnik_chunk_header *header, const double *payload,
                      uint64_t count)
{
    struct frame *frame = calloc(1, sizeof *frame);
    SPOTNIK_ASSERT(frame != NULL && count <= COUNT);
    frame->header = *header;
    frame->count = count;
    memcpy(frame->payload, payload, count * sizeof *payload);
    *pair->channel_end[from][to] = frame;
    pair->channel_end[from][to] = &frame->next;
}

static void drop_frame(struct pair *pair, uint32_t from, uint32_t to)
{
    struct frame *frame = pair->channel[from][to];
    if (!(pair->channel[from][to] = frame->next))
        pair->channel_end[from][to] = &pair->channel[from][to];
    free(frame);
}

static void empty_queues(struct pair *pair, uint32_t from, uint32_t to)
{
    for (struct item *item; (item = take_item(pair, from, to)); free(item))
        free(item->bytes);
    while (pair->channel[from][to])
        drop_frame(pair, from, to);
}

static void new_core(struct pair *pair, struct node *node, uint32_t members_min, uint64_t samples,
                     uint64_t batch)
{
    free(node->core);
    free(node->storage);
    void *core = aligned_alloc(16, (spotnik_core_size(&pair->limits) + 15) & ~(size_t)15);
    void *storage =
        aligned_alloc(16, (spotnik_wire_storage_size(&pair->limits) + 15) & ~(size_t)15);
    SPOTNIK_ASSERT(core && storage);
    node->core = spotnik_core_init(core, &pair->limits, &node->member, members_min, samples, batch);
    node->storage = spotnik_wire_storage_init(storage, &pair->limits);
}

void pair_renew(struct pair *pair, uint32_t index, uint64_t id, uint32_t members_min,
                uint64_t samples, uint64_t batch)
{
    struct node *node = &pair->node[index];
    struct spotnik_core *core = node->core;
    struct spotnik_wire_storage *storage = node->storage;

    for (uint32_t i = 0; i < pair->count; i++) {
        empty_queues(pair, i, index);
        pair->node[i].linked[index] = pair->node[i].dialling[index] = false;
    }
    *node = (struct node){
        .core = core, .storage = storage, .alive = true, .buckets = 1, .op = SPOTNIK_SUM
    };
    node->member.id = (struct spotnik_id){ 0, id };
    node->member.port = (uint16_t)(1000 + index);
    for (uint32_t b = 0; b < BUCKETS; b++)
        node->count[b] = COUNT - 7 * b;
    pair->donor[index] = 0;
    new_core(pair, node, members_min, samples, batch);
}

void pair_on_host(struct pair *pair, uint32_t node, uint64_t host, uint32_t members_min,
                  uint64_t samples, uint64_t batch)
{
    pair->node[node].member.host = host;
    new_core(pair, &pair->node[node], members_min, samples, batch);
}

void pair_together(struct pair *pair, uint32_t members_min, uint64_t samples, uint64_t batch)
{
    for (uint32_t i = 0; i < pair->count; i++)
        pair_on_host(pair, i, 1, members_min, samples, batch);
}

void pair_open(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
               uint64_t batch)
{
    pair_open_warm(pair, count, members_min, samples, batch, NODES_MAX);
}

void pair_open_dealt(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
                     uint64_t batch, const uint32_t *deal)
{
    pair_open(pair, 0, members_min, samples, batch);
    pair->limits.deals = true;
    pair->deal = deal;
    pair->count = count;
    for (uint32_t i = 0; i < count; i++)
        pair_renew(pair, i, i + 1, members_min, samples, batch);
}

void pair_open_warm(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
                    uint64_t batch, uint32_t warm_count)
{
    SPOTNIK_ASSERT(count <= NODES_MAX);
    memset(pair, 0, sizeof *pair);
    pair->count = count;
    pair->now_ns = SPOTNIK_S;
    spotnik_limits_init(&pair->limits, NODES_MAX);
    pair->limits.choice = NULL;
    pair->limits.chunk_bytes = 4 * sizeof(double);
    pair->limits.warm_count = warm_count;
    for (uint32_t i = 0; i < NODES_MAX; i++)
        for (uint32_t j = 0; j < NODES_MAX; j++) {
            pair->control_end[i][j] = &pair->control[i][j];
            pair->channel_end[i][j] = &pair->channel[i][j];
        }
    for (uint32_t i = 0; i < count; i++)
        pair_renew(pair, i, i + 1, members_min, samples, batch);
}

void pair_close(struct pair *pair)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        for (uint32_t j = 0; j < NODES_MAX; j++)
            empty_queues(pair, i, j);
        free(pair->node[i].core);
        free(pair->node[i].storage);
    }
    memset(pair, 0, sizeof *pair); /* closing again does no harm */
}

/* Everything it had said arrives, then the end of its links. */
void pair_kill(struct pair *pair, uint32_t index)
{
    struct node *node = &pair->node[index];
    node->alive = false;
    for (uint32_t i = 0; i < pair->count; i++) {
        if (node->linked[i])
            put_end(pair, index, i);
        node->linked[i] = node->dialling[i] = false;
        empty_queues(pair, i, index);
    }
}

static void link_up(struct pair *pair, uint32_t a, uint32_t b)
{
    pair->node[a].dialling[b] = pair->node[b].dialling[a] = false;
    if (pair->node[a].linked[b] || pair->node[b].linked[a])
        return;
    pair->node[a].linked[b] = pair->node[b].linked[a] = true;
    pair_event(pair, a,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                       .peer = pair->node[b].member });
    if (pair->node[a].alive)
        pair_event(pair, b,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                           .peer = pair->node[a].member });
}

static bool runs(const struct node *node)
{
    return node->alive && !node->stopped;
}

/* Answers what was dialled: refused by a dead node's kernel; not at all while stopped or cut
 * off. */
static bool answer_dials(struct pair *pair, uint32_t index)
{
    bool moved = false;
    for (uint32_t to = 0; to < pair->count; to++) {
        struct node *node = &pair->node[index], *other = &pair->node[to];
        if (!runs(node) || !node->dialling[to] || other->stopped || pair->cut[index][to])
            continue;
        if (other->alive && pair->control[to][index])
            continue; /* the old link has not been read to its end */
        moved = true;
        node->dialling[to] = false;
        if (other->alive)
            link_up(pair, index, to);
        else
            pair_event(pair, index,
                       (struct spotnik_event){ .kind = SPOTNIK_EVENT_DIAL_FAILED,
                                               .ended = { other->member, SPOTNIK_PROOF_GONE } });
    }
    return moved;
}

static void send_control(struct pair *pair, uint32_t from, uint32_t to,
                         const struct spotnik_message *message)
{
    struct item *item = calloc(1, sizeof *item);

    SPOTNIK_ASSERT(item != NULL);
    item->size = spotnik_control_size(message);
    item->bytes = malloc(item->size);
    SPOTNIK_ASSERT(item->bytes
                   && spotnik_control_encode(message, item->bytes, item->size) == item->size);
    pair->sent[message->kind]++;
    put_item(pair, from, to, item);
}

static void committed(struct node *node, uint64_t step)
{
    SPOTNIK_ASSERT(step < STEPS_MAX);
    memcpy(node->result[step], node->out[step & 1], sizeof node->result[step]);
    node->has[step] = true;
    node->begun = node->sealed = false;
}

static void do_scale(struct node *node, const struct spotnik_work *work)
{
    SPOTNIK_ASSERT(work->bucket < BUCKETS);
    for (uint64_t i = work->scale.offset; i < work->scale.offset + work->scale.count; i++)
        node->out[work->step & 1][work->bucket][i] =
            (double)work->scale.weight * node->in[work->bucket][i];
}

static void do_copy_own(struct node *node, const struct spotnik_work *work)
{
    if (work->bucket < BUCKETS)
        memcpy(node->out[work->step & 1][work->bucket], node->in[work->bucket],
               node->count[work->bucket] * sizeof(double));
}

static void hang_up(struct pair *pair, uint32_t a, uint32_t b)
{
    empty_queues(pair, b, a);
    pair->node[a].linked[b] = pair->node[b].linked[a] = false;
    pair_event(pair, b,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended.peer = pair->node[a].member });
}

static void do_action(struct pair *pair, uint32_t index, const struct spotnik_action *action)
{
    struct node *node = &pair->node[index];
    const struct spotnik_member *peer = spotnik_action_peer(action);
    uint32_t to = index_of(pair, peer ? peer->id : (struct spotnik_id){ 0, 0 });

    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
        if (to < NODES_MAX)
            node->dialling[to] = true;
        break;
    case SPOTNIK_ACTION_SEND:
        if (to < NODES_MAX && node->linked[to])
            send_control(pair, index, to, action->send.message);
        break;
    case SPOTNIK_ACTION_HANG_UP:
        if (to < NODES_MAX)
            hang_up(pair, index, to);
        break;
    case SPOTNIK_ACTION_VIEW:
        node->views++;
        break;
    case SPOTNIK_ACTION_FROZEN:
        node->frozen++;
        break;
    case SPOTNIK_ACTION_PARKED:
        node->parked++;
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        node->begun = true;
        node->wants = false;
        node->step = action->begun.step;
        node->replay = action->begun.replay;
        break;
    case SPOTNIK_ACTION_SCALE:
        do_scale(node, &action->work);
        break;
    case SPOTNIK_ACTION_COPY_OWN:
        do_copy_own(node, &action->work);
        break;
    case SPOTNIK_ACTION_DEAL:
        node->deal_due = true;
        break;
    case SPOTNIK_ACTION_COMMITTED:
        committed(node, action->step);
        break;
    case SPOTNIK_ACTION_WITNESS: /* told by the script */
        node->asked_epoch = action->epoch;
        break;
    case SPOTNIK_ACTION_LINK_EXPECT:
    case SPOTNIK_ACTION_FLAT_LATE:
    case SPOTNIK_ACTION_FLAT: /* these nodes share no memory, */
    case SPOTNIK_ACTION_SPREAD:
    case SPOTNIK_ACTION_OFFER: /* and know no way but the ring */
    case SPOTNIK_ACTION_SUM:
    case SPOTNIK_ACTION_GATHER:
        break;
    case SPOTNIK_ACTION_EXCLUDED:
        node->excluded++;
        break;
    case SPOTNIK_ACTION_LEFT:
        node->left++;
        break;
    case SPOTNIK_ACTION_FAILED:
        node->failed++;
        node->error = action->error;
        break;
    }
}

static void poll_once(struct pair *pair, uint32_t index)
{
    struct spotnik_action action;
    while (pair->node[index].alive && spotnik_core_poll(pair->node[index].core, &action)) {
        if (pair->before && pair->before(pair, index, &action))
            pair_kill(pair, index);
        else
            do_action(pair, index, &action);
    }
}

static void poll(struct pair *pair, uint32_t index)
{
    for (poll_once(pair, index); pair->node[index].alive && pair->node[index].deal_due;
         poll_once(pair, index)) {
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEAL,
                                       .now_ns = pair->now_ns,
                                       .deal = { pair->deal, NODES_MAX } };
        pair->node[index].deal_due = false;
        spotnik_core_step(pair->node[index].core, &event);
    }
}

void pair_event(struct pair *pair, uint32_t index, struct spotnik_event event)
{
    event.now_ns = pair->now_ns;
    if (!pair->node[index].alive)
        return;
    spotnik_core_step(pair->node[index].core, &event);
    poll(pair, index);
}

static void combine(struct node *node, const struct frame *frame, struct spotnik_placement at)
{
    for (uint64_t i = 0; i < at.count; i++) {
        double own = node->in[frame->header.bucket][at.offset + i], value = frame->payload[i];
        if (at.kind != SPOTNIK_RING_COPY && at.weight)
            value = (frame->header.weight ? value : 0) + (double)at.weight * own;
        if (at.kind == SPOTNIK_RING_REDUCE_LAST && frame->header.op == SPOTNIK_MEAN)
            value = at.weight_total ? value / (double)at.weight_total : 0;
        node->out[frame->header.step & 1][frame->header.bucket][at.offset + i] = value;
    }
}

static bool receive_frame(struct pair *pair, uint32_t from, uint32_t to)
{
    struct node *node = &pair->node[to];
    struct frame *frame = pair->channel[from][to];

    if (!frame || pair->cut[from][to])
        return false;
    if (pair->slow == to + 1 && pair->turn % 8)
        return true;
    struct spotnik_chunk_header header = frame->header;
    struct spotnik_placement at =
        spotnik_core_place(node->core, pair->node[from].member.id, &header);
    if (at.verdict == SPOTNIK_VERDICT_WAIT) {
        poll(pair, to);
        return false;
    }
    node->bad += at.verdict == SPOTNIK_VERDICT_BAD;
    if (at.verdict == SPOTNIK_VERDICT_TAKE) {
        SPOTNIK_ASSERT(at.count == frame->count);
        combine(node, frame, at);
        node->frames++;
    }
    drop_frame(pair, from, to);
    poll(pair, to);
    if (at.verdict == SPOTNIK_VERDICT_TAKE)
        pair_event(pair, to,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                           .chunk.header = header });
    return true;
}

static bool receive_control(struct pair *pair, uint32_t from, uint32_t to)
{
    struct spotnik_message message;
    struct item *item = pair->cut[from][to] ? NULL : take_item(pair, from, to);
    if (!item)
        return false;
    if (item->size) {
        int rc = spotnik_control_decode(item->bytes, item->size, pair->node[to].storage, &message);
        SPOTNIK_ASSERT(rc == 0);
        pair_event(pair, to,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                           .message = { pair->node[from].member, &message } });
    } else {
        pair->node[to].linked[from] = false;
        pair_event(pair, to,
                   (struct spotnik_event){
                       .kind = SPOTNIK_EVENT_LINK_DOWN,
                       .ended = { pair->node[from].member, SPOTNIK_PROOF_GONE } });
    }
    free(item->bytes);
    free(item);
    return true;
}

static bool send_frame_to(struct pair *pair, uint32_t index, uint32_t to)
{
    struct spotnik_transfer transfer;
    struct node *node = &pair->node[index];

    if (!spotnik_core_send_next(node->core, pair->node[to].member.id, &transfer))
        return false;
    uint32_t bucket = transfer.header.bucket;
    const double *from = bucket >= BUCKETS ? node->in[0]
                         : transfer.source == SPOTNIK_SOURCE_IN
                             ? node->in[bucket]
                             : node->out[transfer.header.step & 1][bucket];
    if (pair->node[to].alive)
        put_frame(pair, index, to, &transfer.header, from + transfer.offset, transfer.count);
    return true;
}

/* To a dead node too: its kernel still takes it. (A former process of a node that was renewed gets
 * nothing.) */
static bool send_frame(struct pair *pair, uint32_t index)
{
    for (uint32_t to = 0; to < pair->count; to++)
        if (to != index && send_frame_to(pair, index, to))
            return true;
    return false;
}

/* A donor hands the next stable result to its joiner: every bucket in chunks, no regard to
 * segments. */
static bool stream(struct pair *pair, uint32_t joiner)
{
    struct node *node = &pair->node[joiner];
    uint32_t donor = pair->donor[joiner];
    uint64_t step = node->streamed + 1, chunk = pair->limits.chunk_bytes / sizeof(double);

    if (!donor-- || !pair->node[donor].alive || pair_status(pair, donor).stable < step
        || pair_status(pair, joiner).role != SPOTNIK_ROLE_JOINER || !pair->node[donor].has[step])
        return false;
    for (uint32_t b = 0; b < pair->node[donor].buckets; b++)
        for (uint64_t at = 0, count = pair->node[donor].count[b]; at < count; at += chunk) {
            struct spotnik_chunk_header header = { .handover = 1,
                                                   .dtype = SPOTNIK_F64,
                                                   .bucket = b,
                                                   .step = step,
                                                   .op = (uint8_t)pair->node[donor].op,
                                                   .sequence = at / chunk,
                                                   .count = count };
            put_frame(pair, donor, joiner, &header, &pair->node[donor].result[step][b][at],
                      count - at < chunk ? count - at : chunk);
        }
    node->streamed = step;
    return true;
}

bool pair_turn(struct pair *pair)
{
    bool moved = false;
    pair->turn++;
    for (uint32_t i = 0; i < pair->count; i++) {
        for (uint32_t from = 0; from < pair->count && runs(&pair->node[i]); from++)
            moved |= receive_control(pair, from, i);
        moved |= answer_dials(pair, i);
        for (uint32_t from = 0; from < pair->count && runs(&pair->node[i]); from++)
            moved |= receive_frame(pair, from, i);
        if (runs(&pair->node[i])) {
            moved |= pair_call(pair, i);
            moved |= stream(pair, i);
        }
        if (runs(&pair->node[i]))
            moved |= send_frame(pair, i);
    }
    return moved;
}

static uint64_t next_deadline(const struct pair *pair)
{
    uint64_t next_ns = SPOTNIK_NEVER;
    for (uint32_t i = 0; i < pair->count; i++)
        if (runs(&pair->node[i]))
            next_ns = spotnik_time_min(next_ns, spotnik_core_deadline(pair->node[i].core));
    return next_ns;
}

void pair_pass(struct pair *pair, uint64_t duration_ns)
{
    pair->now_ns += duration_ns;
    for (uint32_t i = 0; i < pair->count; i++)
        if (runs(&pair->node[i]) && spotnik_core_deadline(pair->node[i].core) <= pair->now_ns)
            pair_event(pair, i, (struct spotnik_event){ .kind = SPOTNIK_EVENT_TICK });
}

void pair_run(struct pair *pair, uint64_t duration_ns)
{
    uint64_t end_ns = pair->now_ns + duration_ns;
    for (;;) {
        while (pair_turn(pair))
            ;
        uint64_t next_ns = next_deadline(pair);
        if (next_ns > end_ns)
            break;
        pair_pass(pair, spotnik_time_since(next_ns, pair->now_ns));
    }
    pair->now_ns = end_ns;
}

void pair_join(struct pair *pair, uint32_t index, uint64_t committed_step, uint32_t sponsor,
               uint32_t donor)
{
    pair_event(pair, index,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN,
                                       .join.committed = committed_step });
    pair->node[index].streamed = committed_step;
    pair->donor[index] = donor + 1;
    pair_event(pair, index,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_ENTER_READY,
                                       .peer = pair->node[sponsor].member });
}

void pair_assemble(struct pair *pair)
{
    uint64_t id = pair->witnessed ? PAIR_WITNESSED : PAIR_FOUNDING;
    struct spotnik_founding founding = { .id = id, .root = id, .founded_at_ms = 1 };
    pair_event(pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_FOUND, .found.founding = &founding });
    for (uint32_t i = 1; i < pair->count; i++)
        pair_join(pair, i, 0, 0, 0);
    pair_run(pair, SPOTNIK_S);
}

void pair_goal(struct pair *pair, uint64_t step)
{
    for (uint32_t i = 0; i < pair->count; i++)
        pair->node[i].goal = step;
}

void pair_stop(struct pair *pair, uint32_t index, bool stopped)
{
    pair->node[index].stopped = stopped;
}

void pair_cut(struct pair *pair, uint32_t a, uint32_t b, bool cut)
{
    pair->cut[a][b] = pair->cut[b][a] = cut;
}

void pair_cut_one_way(struct pair *pair, uint32_t from, uint32_t to, bool cut)
{
    pair->cut[from][to] = cut;
}
