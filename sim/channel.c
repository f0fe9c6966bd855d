/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections: one direction, FIFO, a few frames deep. A frame's header arrives, is placed by
 * the core, and its payload arrives later; when a view change comes in between, the driver asks
 * again where it belongs, as the contract in core.h demands. WAIT leaves the frame in the socket,
 * so the sender is held up in the end. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

struct sim_channel *spotnik_sim_channel_new(struct sim_world *world, uint32_t from, uint32_t to,
                                            bool donor)
{
    struct sim_channel *channel = spotnik_sim_alloc(sizeof(*channel));
    channel->from = from;
    channel->to = to;
    channel->donor = donor;
    channel->tail = &channel->head;
    channel->all = world->channels;
    world->channels = channel;
    if (donor) {
        channel->next_donor = world->process[from]->donor_channels;
        world->process[from]->donor_channels = channel;
    }
    uint64_t rtt = 2 * spotnik_sim_latency(world, world->process[from], world->process[to]);
    spotnik_sim_push(world, SIM_LANE_OPEN, 2 * rtt, from, 0, channel);
    return channel;
}

void spotnik_sim_channel_expect(struct sim_world *world, struct sim_process *process,
                                struct sim_process *peer)
{
    uint32_t free = process->channel_top;

    for (uint32_t i = 0; i < process->channel_top; i++) {
        struct sim_channel *old = process->channel_out[i];
        if (old && old->to == peer->index) {
            old->expected = true;
            return;
        }
        free = !process->channel_out[i] && free == process->channel_top ? i : free;
    }
    SPOTNIK_ASSERT(free < SIM_LANES);
    process->channel_top += free == process->channel_top;
    process->channel_out[free] = spotnik_sim_channel_new(world, process->index, peer->index, false);
    process->channel_out[free]->expected = true;
}

/* Closed by the sender: what is on its way still gets to the kernel of a stopped receiver, and
 * waits there. */
static bool channel_ends(struct sim_world *world, struct sim_channel *channel, uint32_t out)
{
    if (!channel->open || channel->in_flight == 0 || !world->process[channel->to]->stopped)
        return false;
    world->process[channel->from]->channel_out[out] = NULL;
    channel->ended = true;
    return true;
}

/* A new view: what it does not name, */
void spotnik_sim_channels_doubt(struct sim_process *process)
{
    for (uint32_t i = 0; i < process->channel_top; i++)
        if (process->channel_out[i])
            process->channel_out[i]->expected = false;
}

/* is closed. */
void spotnik_sim_channels_renew(struct sim_world *world, struct sim_process *process)
{
    if (process->channels_epoch == process->epoch)
        return;
    process->channels_epoch = process->epoch;
    for (uint32_t i = 0; i < process->channel_top; i++) {
        struct sim_channel *channel = process->channel_out[i];
        if (channel && !channel->expected && !channel_ends(world, channel, i))
            spotnik_sim_channel_close(world, channel);
    }
}

static void channel_unlink(struct sim_world *world, const struct sim_channel *channel)
{
    struct sim_channel **at = &world->process[channel->to]->channel_in;
    while (*at && *at != channel)
        at = &(*at)->next_in;
    if (*at)
        *at = channel->next_in;
    at = &world->process[channel->from]->donor_channels;
    while (*at && *at != channel)
        at = &(*at)->next_donor;
    if (*at)
        *at = channel->next_donor;
}

/* The receiver forgets what it has not taken yet. */
void spotnik_sim_channel_close(struct sim_world *world, struct sim_channel *channel)
{
    if (channel->closed)
        return;
    channel->closed = true;
    channel->open = channel->placed = false;
    channel_unlink(world, channel);
    struct sim_process *from = world->process[channel->from];
    for (uint32_t i = 0; i < from->channel_top; i++)
        if (from->channel_out[i] == channel)
            from->channel_out[i] = NULL;
    while (channel->head) {
        struct sim_frame *frame = channel->head;
        channel->head = frame->next;
        free(frame);
    }
    channel->tail = &channel->head;
}

/* Breaks while both processes live: both are told, when nobody is to be told by anything else. */
void spotnik_sim_channel_break(struct sim_world *world, struct sim_channel *channel)
{
    if (channel->closed)
        return;
    bool was_open = channel->open;
    spotnik_sim_channel_close(world, channel);
    if (channel->donor || channel->ended || !was_open)
        return;
    spotnik_sim_note(world, SIM_ITEM_LANE_DOWN, channel->to, channel->from, 0);
    spotnik_sim_note(world, SIM_ITEM_LANE_DOWN, channel->from, channel->to, 0);
}

void spotnik_sim_channel_opens(struct sim_world *world, struct sim_channel *channel)
{
    struct sim_process *from = world->process[channel->from], *to = world->process[channel->to];

    if (channel->closed || !sim_live(from))
        return;
    if (!sim_live(to)) {
        spotnik_sim_channel_close(world, channel);
        return;
    }
    bool cut = spotnik_sim_is_blocked(world, from->host, to->host)
               || spotnik_sim_is_blocked(world, to->host, from->host);
    if (cut || from->stopped || to->stopped) {
        spotnik_sim_push(world, SIM_LANE_OPEN, 10 * 1000 * 1000, channel->from, 0, channel);
        return;
    }
    channel->open = true;
    channel->next_in = to->channel_in;
    to->channel_in = channel;
    from->pumped = false;
    spotnik_sim_pump(world, from);
}

/* -- Sending -- */

/* What a flat all-reduce made is handed on from where it lies. NULL: it lies with us. */
static unsigned char *handed_from_memory(struct sim_world *world, const struct sim_process *process,
                                         const struct spotnik_chunk_header *header)
{
    if (!header->handover || !world->options.flat)
        return NULL;
    unsigned char *whole =
        spotnik_sim_alloc(spotnik_sim_bucket_bytes(&world->bucket[header->bucket]) + 1);
    if (spotnik_sim_flat_read(world, process, header->step, header->bucket, whole))
        return whole;
    free(whole);
    return NULL;
}

static struct sim_frame *frame_of(struct sim_world *world, struct sim_process *process,
                                  struct sim_channel *channel,
                                  const struct spotnik_transfer *transfer, uint32_t element_bytes)
{
    size_t size = transfer->count * element_bytes;
    struct sim_frame *frame = spotnik_sim_alloc(sizeof(*frame) + size);
    uint32_t bucket = transfer->header.bucket;

    frame->channel = channel;
    frame->header = transfer->header;
    frame->size = size;
    if (size) {
        unsigned half = transfer->header.step & 1;
        const unsigned char *source =
            transfer->source == SPOTNIK_SOURCE_IN      ? process->app.in[bucket]
            : transfer->source == SPOTNIK_SOURCE_OFFER ? process->app.offer[half][bucket]
                                                       : process->app.out[half][bucket];
        unsigned char *whole = handed_from_memory(world, process, &transfer->header);
        memcpy(frame->bytes, (whole ? whole : source) + transfer->offset * element_bytes, size);
        free(whole);
    }
    return frame;
}

/* In scale mode a host has one card, and one frame after the other on the wire; what has arrived is
 * only copied. */
static uint64_t scale_delay_ns(struct sim_world *world, struct sim_channel *channel, size_t bytes)
{
    uint32_t host = world->process[channel->from]->host;
    bool inside = world->process[channel->to]->host == host;
    uint64_t rate = inside ? world->options.memory_bytes_per_ms : world->options.bytes_per_ms;
    uint64_t *free_ns = inside ? &channel->free_ns : &world->card_free_ns[host];

    *free_ns = (*free_ns > world->now_ns ? *free_ns : world->now_ns) + bytes * SPOTNIK_MS / rate;
    return *free_ns - world->now_ns;
}

static void frame_travels(struct sim_world *world, struct sim_channel *channel,
                          struct sim_frame *frame)
{
    uint64_t bytes = channel->donor ? frame->size / 20
                                    : frame->size + (world->scale ? 0 : SPOTNIK_DATA_BYTES_ON_WIRE);
    uint64_t delay =
        spotnik_sim_latency(world, world->process[channel->from], world->process[channel->to])
        + (world->options.memory_bytes_per_ms ? scale_delay_ns(world, channel, frame->size)
                                              : bytes * 1000000 / world->options.bytes_per_ms);
    uint64_t arrival = world->now_ns + delay;

    if (arrival < channel->last_ns)
        arrival = channel->last_ns;
    channel->last_ns = arrival;
    frame->number = ++channel->sent;
    if (world->options.trace_data)
        spotnik_sim_story(world, "%u - frame to %u: epoch %llu step %llu bucket %u number %llu%s",
                          channel->from, channel->to, (unsigned long long)frame->header.epoch,
                          (unsigned long long)frame->header.step, frame->header.bucket,
                          (unsigned long long)frame->header.sequence,
                          frame->header.handover ? " handover" : "");
    channel->in_flight++;
    spotnik_sim_push(world, SIM_FRAME, arrival - world->now_ns, channel->to, 0, frame);
}

static bool core_next(struct sim_world *world, struct sim_process *process,
                      struct sim_channel *channel, struct sim_frame **ret)
{
    struct spotnik_transfer transfer;

    if (!spotnik_core_send_next(process->core, world->process[channel->to]->member.id, &transfer))
        return false;
    uint32_t bucket = transfer.header.bucket;
    bool barrier = bucket >= SIM_BUCKETS;
    SPOTNIK_ASSERT(!barrier || transfer.count == 0);
    *ret = frame_of(world, process, channel, &transfer,
                    barrier ? 1 : world->bucket[bucket].element_bytes);
    return true;
}

/* False: it holds as many frames as it may, and there may be more to send. */
static bool channel_pump(struct sim_world *world, struct sim_process *process,
                         struct sim_channel *channel)
{
    struct sim_frame *frame;

    /* The stream to a joiner is wide: it must be faster than a member that trains alone, which
     * sends nothing. */
    uint32_t frames_max = channel->donor ? 4096 : world->options.channel_frames;

    while (channel->open && channel->in_flight < frames_max && !world->over) {
        bool any = channel->donor ? spotnik_sim_donor_next(world, channel, &frame)
                                  : core_next(world, process, channel, &frame);
        if (!any)
            return true;
        frame_travels(world, channel, frame);
    }
    return !channel->open;
}

/* Where the core has nothing to send it has nothing to send until something happens to it. */
void spotnik_sim_pump(struct sim_world *world, struct sim_process *process)
{
    if (!sim_live(process) || process->stopped || world->over || process->pumped)
        return;
    process->pumped = true;
    for (uint32_t i = 0; i < process->channel_top; i++)
        if (process->channel_out[i])
            process->pumped &= channel_pump(world, process, process->channel_out[i]);
    for (struct sim_channel *channel = process->donor_channels; channel;
         channel = channel->next_donor)
        process->pumped &= channel_pump(world, process, channel);
}

/* -- Receiving -- */

static void pop(struct sim_world *world, struct sim_channel *channel)
{
    struct sim_frame *frame = channel->head;
    channel->head = frame->next;
    if (!channel->head)
        channel->tail = &channel->head;
    free(frame);
    channel->in_flight--;
    channel->placed = false;
    if (channel->ended && channel->in_flight == 0)
        spotnik_sim_channel_close(world, channel);
    const struct sim_process *from = world->process[channel->from];
    spotnik_sim_push(world, SIM_PUMP, spotnik_sim_latency(world, world->process[channel->to], from),
                     channel->from, 0, NULL);
}

static const char *const verdict_name[] = { "take", "drop", "wait", "bad" };

/* Ask the core about the frame at the head. True: it is gone, the next one may be looked at. */
static bool place_head(struct sim_world *world, struct sim_channel *channel)
{
    struct sim_process *process = world->process[channel->to];
    struct sim_frame *frame = channel->head;

    channel->placement =
        spotnik_core_place(process->core, world->process[channel->from]->member.id, &frame->header);
    enum spotnik_verdict verdict = channel->placement.verdict;
    spotnik_sim_mix(world, verdict);
    channel->waiting = verdict == SPOTNIK_VERDICT_WAIT;
    if (world->options.trace_data)
        spotnik_sim_story(world,
                          "%u - frame of %u: %s: epoch %llu step %llu bucket %u number %llu%s",
                          process->index, channel->from, verdict_name[verdict],
                          (unsigned long long)frame->header.epoch,
                          (unsigned long long)frame->header.step, frame->header.bucket,
                          (unsigned long long)frame->header.sequence,
                          frame->header.handover ? " handover" : "");
    if (verdict == SPOTNIK_VERDICT_BAD)
        spotnik_sim_fail(world, "driver",
                         "%u calls a frame of %u bad: step %llu bucket %u number %llu",
                         process->index, channel->from, (unsigned long long)frame->header.step,
                         frame->header.bucket, (unsigned long long)frame->header.sequence);
    if (verdict == SPOTNIK_VERDICT_TAKE) {
        channel->placed = true;
        channel->placed_serial = process->view_serial;
        if (world->options.zero_copy)
            spotnik_sim_memory_take_half(world, process, &frame->header, &channel->placement,
                                         frame->bytes);
        uint64_t copied = world->options.memory_bytes_per_ms ? world->options.memory_bytes_per_ms
                                                             : world->options.bytes_per_ms;
        uint64_t rest = channel->donor ? 1000 : frame->size * 1000000 / copied;
        spotnik_sim_push(world, SIM_PAYLOAD, rest, channel->to, frame->number, channel);
    }
    return verdict == SPOTNIK_VERDICT_DROP;
}

void spotnik_sim_channel_serve(struct sim_world *world, struct sim_channel *channel)
{
    struct sim_process *process = world->process[channel->to];

    while (channel->open && channel->head && !channel->placed && !channel->waiting
           && sim_live(process) && !process->stopped && !world->over) {
        bool gone = place_head(world, channel);
        if (gone)
            pop(world, channel);
        spotnik_sim_core_drain(world, process);
    }
}

/* core.h: ask again after any event that polled an action, or any event of the caller's side. */
void spotnik_sim_channels_retry(struct sim_world *world, struct sim_process *process)
{
    for (struct sim_channel *channel = process->channel_in, *next; channel && sim_live(process);
         channel = next) {
        next = channel->next_in;
        if (channel->waiting) {
            channel->waiting = false;
            spotnik_sim_channel_serve(world, channel);
        }
    }
}

static bool channel_is_cut(struct sim_world *world, const struct sim_channel *channel)
{
    return spotnik_sim_is_blocked(world, world->process[channel->from]->host,
                                  world->process[channel->to]->host);
}

void spotnik_sim_channel_frame(struct sim_world *world, struct sim_frame *frame)
{
    struct sim_channel *channel = frame->channel;

    if (!channel->open || !sim_live(world->process[channel->to])) {
        free(frame);
        return;
    }
    if (channel_is_cut(world, channel)) { /* sent again until the line heals or breaks */
        channel->last_ns = world->now_ns + 5 * 1000 * 1000;
        spotnik_sim_push(world, SIM_FRAME, 5 * 1000 * 1000, channel->to, 0, frame);
        return;
    }
    if (frame->number != channel->arrived + 1) { /* an earlier one is still being sent again */
        spotnik_sim_push(world, SIM_FRAME, 1000 * 1000, channel->to, 0, frame);
        return;
    }
    channel->arrived++;
    frame->next = NULL;
    *channel->tail = frame;
    channel->tail = &frame->next;
    spotnik_sim_channel_serve(world, channel);
}

void spotnik_sim_channel_payload(struct sim_world *world, struct sim_channel *channel,
                                 uint64_t number)
{
    struct sim_process *process = world->process[channel->to];

    if (!channel->open || !channel->placed || !channel->head || channel->head->number != number
        || !sim_live(process))
        return;
    if (process->stopped) {
        spotnik_sim_push(world, SIM_PAYLOAD, 1000 * 1000, channel->to, number, channel);
        return;
    }
    if (channel->placed_serial != process->view_serial) { /* a recovery came in between */
        channel->placed = false;
        spotnik_sim_channel_serve(world, channel);
        return;
    }
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                   .chunk.header = channel->head->header };
    spotnik_sim_memory_take(world, process, &channel->head->header, &channel->placement,
                            channel->head->bytes);
    spotnik_sim_flat_show(world, process, &channel->head->header, &channel->placement);
    pop(world, channel);
    spotnik_sim_core_step(world, process, &event);
    spotnik_sim_channel_serve(world, channel);
}

void spotnik_sim_channels_free(struct sim_world *world)
{
    while (world->channels) {
        struct sim_channel *channel = world->channels;
        world->channels = channel->all;
        while (channel->head) {
            struct sim_frame *frame = channel->head;
            channel->head = frame->next;
            free(frame);
        }
        free(channel);
    }
}
