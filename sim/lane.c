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

struct sim_lane *spotnik_sim_lane_new(struct sim_world *world, uint32_t from, uint32_t to,
                                      bool donor)
{
    struct sim_lane *lane = spotnik_sim_alloc(sizeof(*lane));
    lane->from = from;
    lane->to = to;
    lane->donor = donor;
    lane->tail = &lane->head;
    lane->all = world->lanes;
    world->lanes = lane;
    if (donor) {
        lane->next_donor = world->process[from]->donor_lanes;
        world->process[from]->donor_lanes = lane;
    }
    uint64_t rtt = 2 * spotnik_sim_latency(world, world->process[from], world->process[to]);
    spotnik_sim_push(world, SIM_LANE_OPEN, 2 * rtt, from, 0, lane);
    return lane;
}

void spotnik_sim_lane_expect(struct sim_world *world, struct sim_process *process,
                             struct sim_process *peer)
{
    uint32_t free = process->lane_top;

    for (uint32_t i = 0; i < process->lane_top; i++) {
        struct sim_lane *old = process->lane_out[i];
        if (old && old->to == peer->index) {
            old->expected = true;
            return;
        }
        free = !process->lane_out[i] && free == process->lane_top ? i : free;
    }
    SPOTNIK_ASSERT(free < SIM_LANES);
    process->lane_top += free == process->lane_top;
    process->lane_out[free] = spotnik_sim_lane_new(world, process->index, peer->index, false);
    process->lane_out[free]->expected = true;
}

/* Closed by the sender: what is on its way still gets to the kernel of a stopped receiver, and
 * waits there. */
static bool lane_ends(struct sim_world *world, struct sim_lane *lane, uint32_t out)
{
    if (!lane->open || lane->in_flight == 0 || !world->process[lane->to]->stopped)
        return false;
    world->process[lane->from]->lane_out[out] = NULL;
    lane->ended = true;
    return true;
}

/* A new view: what it does not name, */
void spotnik_sim_lanes_doubt(struct sim_process *process)
{
    for (uint32_t i = 0; i < process->lane_top; i++)
        if (process->lane_out[i])
            process->lane_out[i]->expected = false;
}

/* is closed. */
void spotnik_sim_lanes_renew(struct sim_world *world, struct sim_process *process)
{
    if (process->lanes_epoch == process->epoch)
        return;
    process->lanes_epoch = process->epoch;
    for (uint32_t i = 0; i < process->lane_top; i++) {
        struct sim_lane *lane = process->lane_out[i];
        if (lane && !lane->expected && !lane_ends(world, lane, i))
            spotnik_sim_lane_close(world, lane);
    }
}

static void lane_unlink(struct sim_world *world, const struct sim_lane *lane)
{
    struct sim_lane **at = &world->process[lane->to]->lane_in;
    while (*at && *at != lane)
        at = &(*at)->next_in;
    if (*at)
        *at = lane->next_in;
    at = &world->process[lane->from]->donor_lanes;
    while (*at && *at != lane)
        at = &(*at)->next_donor;
    if (*at)
        *at = lane->next_donor;
}

/* The receiver forgets what it has not taken yet. */
void spotnik_sim_lane_close(struct sim_world *world, struct sim_lane *lane)
{
    if (lane->closed)
        return;
    lane->closed = true;
    lane->open = lane->placed = false;
    lane_unlink(world, lane);
    struct sim_process *from = world->process[lane->from];
    for (uint32_t i = 0; i < from->lane_top; i++)
        if (from->lane_out[i] == lane)
            from->lane_out[i] = NULL;
    while (lane->head) {
        struct sim_frame *frame = lane->head;
        lane->head = frame->next;
        free(frame);
    }
    lane->tail = &lane->head;
}

/* Breaks while both processes live: both are told, when nobody is to be told by anything else. */
void spotnik_sim_lane_break(struct sim_world *world, struct sim_lane *lane)
{
    if (lane->closed)
        return;
    bool was_open = lane->open;
    spotnik_sim_lane_close(world, lane);
    if (lane->donor || lane->ended || !was_open)
        return;
    spotnik_sim_note(world, SIM_ITEM_LANE_DOWN, lane->to, lane->from, 0);
    spotnik_sim_note(world, SIM_ITEM_LANE_DOWN, lane->from, lane->to, 0);
}

void spotnik_sim_lane_opens(struct sim_world *world, struct sim_lane *lane)
{
    struct sim_process *from = world->process[lane->from], *to = world->process[lane->to];

    if (lane->closed || !sim_live(from))
        return;
    if (!sim_live(to)) {
        spotnik_sim_lane_close(world, lane);
        return;
    }
    bool cut = spotnik_sim_is_blocked(world, from->host, to->host)
               || spotnik_sim_is_blocked(world, to->host, from->host);
    if (cut || from->stopped || to->stopped) {
        spotnik_sim_push(world, SIM_LANE_OPEN, 10 * 1000 * 1000, lane->from, 0, lane);
        return;
    }
    lane->open = true;
    lane->next_in = to->lane_in;
    to->lane_in = lane;
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
                                  struct sim_lane *lane, const struct spotnik_transfer *transfer,
                                  uint32_t element_bytes)
{
    size_t size = transfer->count * element_bytes;
    struct sim_frame *frame = spotnik_sim_alloc(sizeof(*frame) + size);
    uint32_t bucket = transfer->header.bucket;

    frame->lane = lane;
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
static uint64_t scale_delay_ns(struct sim_world *world, struct sim_lane *lane, size_t bytes)
{
    uint32_t host = world->process[lane->from]->host;
    bool inside = world->process[lane->to]->host == host;
    uint64_t rate = inside ? world->options.memory_bytes_per_ms : world->options.bytes_per_ms;
    uint64_t *free_ns = inside ? &lane->free_ns : &world->card_free_ns[host];

    *free_ns = (*free_ns > world->now_ns ? *free_ns : world->now_ns) + bytes * SPOTNIK_MS / rate;
    return *free_ns - world->now_ns;
}

static void frame_travels(struct sim_world *world, struct sim_lane *lane, struct sim_frame *frame)
{
    uint64_t bytes = lane->donor ? frame->size / 20
                                 : frame->size + (world->scale ? 0 : SPOTNIK_DATA_BYTES_ON_WIRE);
    uint64_t delay =
        spotnik_sim_latency(world, world->process[lane->from], world->process[lane->to])
        + (world->options.memory_bytes_per_ms ? scale_delay_ns(world, lane, frame->size)
                                              : bytes * 1000000 / world->options.bytes_per_ms);
    uint64_t arrival = world->now_ns + delay;

    if (arrival < lane->last_ns)
        arrival = lane->last_ns;
    lane->last_ns = arrival;
    frame->number = ++lane->sent;
    if (world->options.trace_data)
        spotnik_sim_story(world, "%u - frame to %u: epoch %llu step %llu bucket %u number %llu%s",
                          lane->from, lane->to, (unsigned long long)frame->header.epoch,
                          (unsigned long long)frame->header.step, frame->header.bucket,
                          (unsigned long long)frame->header.sequence,
                          frame->header.handover ? " handover" : "");
    lane->in_flight++;
    spotnik_sim_push(world, SIM_FRAME, arrival - world->now_ns, lane->to, 0, frame);
}

static bool core_next(struct sim_world *world, struct sim_process *process, struct sim_lane *lane,
                      struct sim_frame **ret)
{
    struct spotnik_transfer transfer;

    if (!spotnik_core_send_next(process->core, world->process[lane->to]->member.id, &transfer))
        return false;
    uint32_t bucket = transfer.header.bucket;
    bool barrier = bucket >= SIM_BUCKETS;
    SPOTNIK_ASSERT(!barrier || transfer.count == 0);
    *ret = frame_of(world, process, lane, &transfer,
                    barrier ? 1 : world->bucket[bucket].element_bytes);
    return true;
}

/* False: it holds as many frames as it may, and there may be more to send. */
static bool lane_pump(struct sim_world *world, struct sim_process *process, struct sim_lane *lane)
{
    struct sim_frame *frame;

    /* The stream to a joiner is wide: it must be faster than a member that trains alone, which
     * sends nothing. */
    uint32_t frames_max = lane->donor ? 4096 : world->options.lane_frames;

    while (lane->open && lane->in_flight < frames_max && !world->over) {
        bool any = lane->donor ? spotnik_sim_donor_next(world, lane, &frame)
                               : core_next(world, process, lane, &frame);
        if (!any)
            return true;
        frame_travels(world, lane, frame);
    }
    return !lane->open;
}

/* Where the core has nothing to send it has nothing to send until something happens to it. */
void spotnik_sim_pump(struct sim_world *world, struct sim_process *process)
{
    if (!sim_live(process) || process->stopped || world->over || process->pumped)
        return;
    process->pumped = true;
    for (uint32_t i = 0; i < process->lane_top; i++)
        if (process->lane_out[i])
            process->pumped &= lane_pump(world, process, process->lane_out[i]);
    for (struct sim_lane *lane = process->donor_lanes; lane; lane = lane->next_donor)
        process->pumped &= lane_pump(world, process, lane);
}

/* -- Receiving -- */

static void pop(struct sim_world *world, struct sim_lane *lane)
{
    struct sim_frame *frame = lane->head;
    lane->head = frame->next;
    if (!lane->head)
        lane->tail = &lane->head;
    free(frame);
    lane->in_flight--;
    lane->placed = false;
    if (lane->ended && lane->in_flight == 0)
        spotnik_sim_lane_close(world, lane);
    const struct sim_process *from = world->process[lane->from];
    spotnik_sim_push(world, SIM_PUMP, spotnik_sim_latency(world, world->process[lane->to], from),
                     lane->from, 0, NULL);
}

static const char *const verdict_name[] = { "take", "drop", "wait", "bad" };

/* Ask the core about the frame at the head. True: it is gone, the next one may be looked at. */
static bool place_head(struct sim_world *world, struct sim_lane *lane)
{
    struct sim_process *process = world->process[lane->to];
    struct sim_frame *frame = lane->head;

    lane->placement =
        spotnik_core_place(process->core, world->process[lane->from]->member.id, &frame->header);
    enum spotnik_verdict verdict = lane->placement.verdict;
    spotnik_sim_mix(world, verdict);
    lane->waiting = verdict == SPOTNIK_VERDICT_WAIT;
    if (world->options.trace_data)
        spotnik_sim_story(world,
                          "%u - frame of %u: %s: epoch %llu step %llu bucket %u number %llu%s",
                          process->index, lane->from, verdict_name[verdict],
                          (unsigned long long)frame->header.epoch,
                          (unsigned long long)frame->header.step, frame->header.bucket,
                          (unsigned long long)frame->header.sequence,
                          frame->header.handover ? " handover" : "");
    if (verdict == SPOTNIK_VERDICT_BAD)
        spotnik_sim_fail(world, "driver",
                         "%u calls a frame of %u bad: step %llu bucket %u number %llu",
                         process->index, lane->from, (unsigned long long)frame->header.step,
                         frame->header.bucket, (unsigned long long)frame->header.sequence);
    if (verdict == SPOTNIK_VERDICT_TAKE) {
        lane->placed = true;
        lane->placed_serial = process->view_serial;
        if (world->options.zero_copy)
            spotnik_sim_memory_take_half(world, process, &frame->header, &lane->placement,
                                         frame->bytes);
        uint64_t copied = world->options.memory_bytes_per_ms ? world->options.memory_bytes_per_ms
                                                             : world->options.bytes_per_ms;
        uint64_t rest = lane->donor ? 1000 : frame->size * 1000000 / copied;
        spotnik_sim_push(world, SIM_PAYLOAD, rest, lane->to, frame->number, lane);
    }
    return verdict == SPOTNIK_VERDICT_DROP;
}

void spotnik_sim_lane_serve(struct sim_world *world, struct sim_lane *lane)
{
    struct sim_process *process = world->process[lane->to];

    while (lane->open && lane->head && !lane->placed && !lane->waiting && sim_live(process)
           && !process->stopped && !world->over) {
        bool gone = place_head(world, lane);
        if (gone)
            pop(world, lane);
        spotnik_sim_core_drain(world, process);
    }
}

/* core.h: ask again after any event that polled an action, or any event of the caller's side. */
void spotnik_sim_lanes_retry(struct sim_world *world, struct sim_process *process)
{
    for (struct sim_lane *lane = process->lane_in, *next; lane && sim_live(process); lane = next) {
        next = lane->next_in;
        if (lane->waiting) {
            lane->waiting = false;
            spotnik_sim_lane_serve(world, lane);
        }
    }
}

static bool lane_is_cut(struct sim_world *world, const struct sim_lane *lane)
{
    return spotnik_sim_is_blocked(world, world->process[lane->from]->host,
                                  world->process[lane->to]->host);
}

void spotnik_sim_lane_frame(struct sim_world *world, struct sim_frame *frame)
{
    struct sim_lane *lane = frame->lane;

    if (!lane->open || !sim_live(world->process[lane->to])) {
        free(frame);
        return;
    }
    if (lane_is_cut(world, lane)) { /* sent again until the line heals or breaks */
        lane->last_ns = world->now_ns + 5 * 1000 * 1000;
        spotnik_sim_push(world, SIM_FRAME, 5 * 1000 * 1000, lane->to, 0, frame);
        return;
    }
    if (frame->number != lane->arrived + 1) { /* an earlier one is still being sent again */
        spotnik_sim_push(world, SIM_FRAME, 1000 * 1000, lane->to, 0, frame);
        return;
    }
    lane->arrived++;
    frame->next = NULL;
    *lane->tail = frame;
    lane->tail = &frame->next;
    spotnik_sim_lane_serve(world, lane);
}

void spotnik_sim_lane_payload(struct sim_world *world, struct sim_lane *lane, uint64_t number)
{
    struct sim_process *process = world->process[lane->to];

    if (!lane->open || !lane->placed || !lane->head || lane->head->number != number
        || !sim_live(process))
        return;
    if (process->stopped) {
        spotnik_sim_push(world, SIM_PAYLOAD, 1000 * 1000, lane->to, number, lane);
        return;
    }
    if (lane->placed_serial != process->view_serial) { /* a recovery came in between */
        lane->placed = false;
        spotnik_sim_lane_serve(world, lane);
        return;
    }
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                   .chunk.header = lane->head->header };
    spotnik_sim_memory_take(world, process, &lane->head->header, &lane->placement,
                            lane->head->bytes);
    spotnik_sim_flat_show(world, process, &lane->head->header, &lane->placement);
    pop(world, lane);
    spotnik_sim_core_step(world, process, &event);
    spotnik_sim_lane_serve(world, lane);
}

void spotnik_sim_lanes_free(struct sim_world *world)
{
    while (world->lanes) {
        struct sim_lane *lane = world->lanes;
        world->lanes = lane->all;
        while (lane->head) {
            struct sim_frame *frame = lane->head;
            lane->head = frame->next;
            free(frame);
        }
        free(lane);
    }
}
