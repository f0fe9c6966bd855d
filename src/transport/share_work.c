/* SPDX-License-Identifier: Apache-2.0 */
/* Flat all-reduces: memory for them, and slices of work on the caller's thread while it waits for
 * its step. Each slice holds the lock, so that a recovery comes between two of them and never into
 * one. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hurry.h"
#include "base/time.h"
#include "transport/share.h"
#include "member/hosts.h"
#include "step/transaction.h"

#define WAIT_MAX_NS SPOTNIK_S

/* ---- views ---- */

static uint32_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

/* The memory of one that has ended does as well: no sequence number will come up there, and a
 * recovery is near. */
static const struct spotnik_sharer *memory_find(const struct spotnik_share *share,
                                                struct spotnik_id id)
{
    const struct spotnik_sharer *found = NULL;
    for (const struct spotnik_sharer *sharer = share->sharers; sharer != NULL;
         sharer = sharer->next)
        if (sharer->header != NULL && spotnik_id_equal(sharer->peer.id, id)
            && (found == NULL || sharer->socket.fd >= 0))
            found = sharer;
    return found;
}

/* Find the memory of all members, or of those on our host if there are several (`part` of the
 * action). Returns how many; 0: one is not mapped here. */
static uint32_t peers_find(struct spotnik_share *share, const struct spotnik_view *view,
                           uint32_t own, enum spotnik_host_part part, uint32_t *ret_place)
{
    uint32_t size = 0;
    for (uint32_t rank = 0; rank < view->size; rank++) {
        if (part != SPOTNIK_PART_ALL && !spotnik_hosts_mate(view, rank, own))
            continue;
        const struct spotnik_sharer *sharer =
            rank == own ? NULL : memory_find(share, view->entry[rank].member.id);
        if (rank != own && sharer == NULL)
            return 0;
        if (rank == own)
            *ret_place = size;
        share->peer[size++] =
            rank == own ? (struct spotnik_flat_peer){ share->header, share->segment.reserved }
                        : (struct spotnik_flat_peer){ sharer->header, sharer->bytes };
    }
    return size;
}

/* Once per view: at its first flat step, when everybody has said that it has everybody's memory. */
static bool setup(struct spotnik_transport *transport, enum spotnik_host_part part)
{
    struct spotnik_share *share = transport->share;
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    uint32_t own = spotnik_view_rank(view, transport->credentials->self.id), place = 0;
    if (share->epoch == view->epoch)
        return true;
    if (own == SPOTNIK_NO_RANK || view->size > share->members_max)
        return false;
    uint32_t size = peers_find(share, view, own, part, &place);
    if (size == 0)
        return false;
    spotnik_flat_view(&share->flat, share->peer, share->source, place, size);
    share->crowded = size > processors();
    spotnik_spin_init(&share->spin, !share->crowded);
    share->epoch = view->epoch;
    share->commits = 0;
    return true;
}

void spotnik_share_view(struct spotnik_transport *transport)
{
    if (transport->share == NULL)
        return;
    spotnik_share_cut(transport);
    transport->share->dial_ns = 0;
    transport->share->dial_wait_ns = 20 * SPOTNIK_MS;
    spotnik_loop_kick(transport->loop);
}

/* ---- a bucket ---- */

static void failed(struct spotnik_transport *transport, uint32_t number, uint64_t step, int error)
{
    transport->share_failed =
        (struct spotnik_event_failure){ .at = { .epoch = spotnik_core_view(transport->core)->epoch,
                                                .step = step,
                                                .bucket = number },
                                        .error = error };
}

/* Report errors later: the core's actions may run. */
static void order_start(struct spotnik_transport *transport, uint32_t number,
                        struct spotnik_flat_order *order)
{
    struct spotnik_share *share = transport->share;
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];
    bucket->spread[order->step & 1] = NULL; /* what a view before had there is not of this one */
    if (!spotnik_area_find(transport, number, order)) {
        share->wanted[number] = *order;
        share->wanted_count += !share->is_wanted[number];
        share->is_wanted[number] = true;
        return;
    }
    if (order->input_area == NULL) {
        failed(transport, number, order->step, SPOTNIK_ERR_MEMORY);
        return;
    }
    bucket->flat_begun = true;
    bucket->spread[order->step & 1] = order->whole_area;
    bool large =
        !spotnik_flat_is_small(&share->flat,
                               order->count * spotnik_dtype_size((enum spotnik_dtype)order->dtype));
    if (order->part != SPOTNIK_FLAT_ALL && large && order->input_area != order->in)
        spotnik_deliver_lend(transport, number, order->step, order->input_area);
    spotnik_flat_start(&share->flat, number, order);
    spotnik_share_ring(share);
}

/* While the core's actions run. */
void spotnik_share_start(struct spotnik_transport *transport, const struct spotnik_work *work)
{
    struct spotnik_share *share = transport->share;
    uint32_t number = work->bucket;
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];
    unsigned parity = work->step & 1;
    bool barrier = bucket->step[parity] != work->step; /* the core's own: the caller began none */
    SPOTNIK_ASSERT(share != NULL);
    if (spotnik_core_view(transport->core)->size < 2)
        return; /* one event installed two views, and this was meant for the first */
    struct spotnik_flat_order order = {
        .part = (enum spotnik_flat_part)work->flat.part,
        .step = work->step,
        .count = work->flat.count,
        .weight = work->flat.weight,
        .dtype = barrier ? (uint8_t)SPOTNIK_U8 : bucket->dtype[parity],
        .op = barrier ? (uint8_t)SPOTNIK_MAX : bucket->op[parity],
        .in = barrier ? NULL : bucket->in,
        .out = barrier ? NULL : bucket->out[parity],
        .again = bucket->flat_begun,
    };
    size_t one = spotnik_dtype_size((enum spotnik_dtype)order.dtype);
    order.hosts = work->flat.hosts;
    order.host = work->flat.host;
    order.chunk_count =
        spotnik_transaction_chunk_count(transport->limits->chunk_bytes, (uint32_t)one);
    order.sequence =
        spotnik_shm_header_sequence(spotnik_core_view(transport->core)->epoch, work->step);
    share->shown[number][parity] = false;
    /* or else somebody's memory was here when the view was proposed, and is not */
    bool ready = setup(transport, work->flat.part);
    if (!ready || order.sequence == 0)
        failed(transport, number, work->step, SPOTNIK_ERR_AGAIN);
    else
        order_start(transport, number, &order);
}

static void unwant(struct spotnik_share *share, uint32_t number)
{
    share->wanted_count -= share->is_wanted[number];
    share->is_wanted[number] = false;
}

/* Get the memory that the first of these waits for, and start it. Without the lock a recovery may
 * have come: then another order stands there, or none. */
static void wanted_get(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    uint32_t number = 0;
    while (!share->is_wanted[number])
        number++;
    int rc = spotnik_area_get(transport, number);
    if (!share->is_wanted[number])
        return;
    struct spotnik_flat_order order = share->wanted[number];
    unwant(share, number);
    if (rc != 0)
        failed(transport, number, order.step, rc);
    else
        order_start(transport, number, &order);
}

void spotnik_share_spread(struct spotnik_transport *transport, const struct spotnik_work *work)
{
    struct spotnik_share *share = transport->share;
    SPOTNIK_ASSERT(share->epoch != 0);
    spotnik_flat_spread(&share->flat, work->bucket,
                        transport->bucket[work->bucket].spread[work->step & 1]);
    spotnik_share_ring(share);
}

void spotnik_transport_seal(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL || share->epoch == 0 || share->flat.last == 0
        || transport->share_failed.error != 0 || share->wanted_count > 0)
        /* what failed, or waits for memory, is not up, and our programs do not differ for that */
        return;
    spotnik_flat_seal(&share->flat,
                      spotnik_shm_header_sequence(share->epoch, transport->stand->begun_step));
    spotnik_share_ring(share);
}

struct place {
    const uint8_t *data;
    size_t bytes;
};

static struct place place_at(const struct spotnik_flat_peer *peer, uint64_t offset, size_t bytes)
{
    bool inside = offset < peer->bytes_max && bytes <= peer->bytes_max - offset;
    return (struct place){ inside ? (const uint8_t *)peer->header + offset : NULL,
                           inside ? bytes : 0 };
}

/* When a member is lost, all shares are cut anew, and ours lies a share further up or down at most:
 * have those parts of the other's input at hand before, and all that it has for results. */
static void places_find(const struct spotnik_share *share, uint32_t number, uint32_t rank,
                        struct place ret[2])
{
    const struct spotnik_flat *flat = &share->flat;
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    size_t wide = bucket->end - bucket->begin;
    size_t begin = bucket->begin > wide ? bucket->begin - wide : 0;
    size_t end = bucket->bytes - bucket->end > wide ? bucket->end + wide : bucket->bytes;
    const struct spotnik_shm_header_slot *slot =
        &flat->peer[rank].header->slot[number][bucket->order.step & 1];
    ret[0] = place_at(&flat->peer[rank], slot->input_offset + begin, end - begin);
    ret[1] = place_at(&flat->peer[rank], slot->result_offset,
                      spotnik_area_result_room(share, &bucket->order, bucket->bytes));
}

/* False: another view has begun. */
static bool neighbour_touch(struct spotnik_transport *transport, uint32_t number, uint32_t rank)
{
    struct spotnik_share *share = transport->share;
    struct place place[2] = { { NULL, 0 } };
    spotnik_loop_lock(transport->loop);
    bool stands = share->epoch != 0 && share->epoch == share->near_epoch;
    if (stands && rank != share->flat.rank)
        places_find(share, number, rank, place);
    spotnik_loop_unlock(transport->loop);
    for (uint32_t i = 0; i < 2; i++)
        if (place[i].bytes > 0)
            spotnik_segment_touch(place[i].data, place[i].bytes);
    return stands;
}

/* Pages of hundreds of megabytes take tens of milliseconds of processor; on a busy machine this
 * thread loses the processor meanwhile. The lock is for the places alone, since a recovery passes
 * through this member. Segments are unmapped by this thread only. */
void spotnik_share_neighbours(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    bool stands = share != NULL;
    for (uint32_t i = 0; stands && i < share->near_last; i++) {
        for (uint32_t rank = 0; stands && share->near_due[i] && rank < share->near_size; rank++)
            stands = neighbour_touch(transport, i, rank);
        share->near_due[i] = false;
    }
    if (share != NULL)
        share->near_last = 0;
}

/* This happens at the second and third steps of a view, since results of either parity have an area
 * of their own. The first step is what everybody has been waiting for. */
void spotnik_transport_committed(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL || share->epoch == 0)
        return;
    share->commits += share->commits < SPOTNIK_SHARE_SETTLED;
    bool settled_in = share->commits == 2 || share->commits == 3;
    share->near_epoch = share->epoch;
    share->near_size = share->flat.size;
    share->near_last = settled_in ? share->flat.last : share->near_last;
    for (uint32_t i = 0; settled_in && i < share->flat.last; i++)
        share->near_due[i] = share->flat.bucket[i].phase == SPOTNIK_FLAT_DONE
                             && !share->flat.bucket[i].small
                             && share->flat.bucket[i].order.part == SPOTNIK_FLAT_ALL;
    spotnik_flat_commit(&share->flat);
}

/* ---- work ---- */

bool spotnik_transport_is_busy(const struct spotnik_transport *transport)
{
    const struct spotnik_share *share = transport->share;
    return share != NULL
           && (share->flat.active > 0 || transport->share_failed.error != 0 || share->late_count > 0
               || share->wanted_count > 0);
}

bool spotnik_transport_is_ahead(const struct spotnik_transport *transport)
{
    const struct spotnik_share *share = transport->share;
    return share != NULL && share->crowded && share->flat.active > 0
           && spotnik_flat_is_ahead(&share->flat);
}

/* While the core's actions run: looked for later, by the caller's thread. */
void spotnik_share_late(struct spotnik_transport *transport, const struct spotnik_work *work)
{
    struct spotnik_share *share = transport->share;
    SPOTNIK_ASSERT(share != NULL);
    share->late_count += share->late[work->bucket] == 0;
    share->late[work->bucket] = work->step;
}

/* The members and orders of the view before stand until the next flat step is started, and so do
 * their shares (docs/design/0007-data-path.md). */
static void take_late(struct spotnik_transport *transport, uint32_t number)
{
    struct spotnik_share *share = transport->share;
    uint64_t step = share->late[number];
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_DONE };
    share->late[number] = 0;
    share->late_count--;
    if (!spotnik_flat_stands(&share->flat, number, step)
        || spotnik_map_show(&share->map[number][step & 1], &share->flat, number) != 0) {
        failed(transport, number, step, SPOTNIK_ERR_AGAIN);
        return;
    }
    share->shown[number][step & 1] = true;
    transport->counts.bytes_received += share->flat.bucket[number].bytes;
    event.flat.at.bucket = number;
    event.flat.at.epoch = spotnik_core_view(transport->core)->epoch;
    event.flat.at.step = step;
    spotnik_loop_drive(transport->loop, &event);
}

static void tell_done(struct spotnik_transport *transport, uint32_t number)
{
    struct spotnik_share *share = transport->share;
    const struct spotnik_flat_bucket *bucket = &share->flat.bucket[number];
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_DONE };
    unsigned parity = bucket->order.step & 1;
    event.flat.at.bucket = number;
    event.flat.at.epoch = share->epoch;
    event.flat.at.step = bucket->order.step;
    event.flat.weight = bucket->weight_sum;
    event.flat.chunks = spotnik_flat_collected(&share->flat, number);
    bool holder = bucket->order.part == SPOTNIK_FLAT_HOLDER;
    if (!bucket->small && !holder) {
        int rc = spotnik_map_show(&share->map[number][parity], &share->flat, number);
        if (rc != 0) {
            failed(transport, number, bucket->order.step, rc);
            return;
        }
        share->shown[number][parity] = true;
        transport->counts.bytes_received += bucket->bytes;
        transport->counts.bytes_sent += bucket->bytes;
    }
    spotnik_loop_drive(transport->loop, &event);
    if (holder)
        transport->move_due = true;
}

static void differs(struct spotnik_transport *transport, uint32_t number)
{
    const struct spotnik_flat *flat = &transport->share->flat;
    const struct spotnik_shm_header *header = flat->peer[flat->odd.rank].header;
    failed(transport, number, flat->bucket[number].order.step, SPOTNIK_ERR_MISMATCH);
    transport->share_failed.other =
        (struct spotnik_held){ .member = { header->id_high, header->id_low },
                               .count = flat->odd.count,
                               .has = flat->odd.has,
                               .dtype = flat->odd.dtype,
                               .op = flat->odd.op };
}

/* A slice of one bucket. True: it got on. */
static bool work_on(struct spotnik_transport *transport, uint32_t number)
{
    struct spotnik_share *share = transport->share;
    enum spotnik_flat_verdict verdict = spotnik_flat_run(&share->flat, number);
    spotnik_share_ring(share);
    switch (verdict) {
    case SPOTNIK_FLAT_MORE:
        return true;
    case SPOTNIK_FLAT_PART:
        if (share->flat.bucket[number].order.part == SPOTNIK_FLAT_SERVED) {
            spotnik_deliver_shown(transport, number, share->flat.bucket[number].order.step);
            return true;
        }
        tell_done(transport, number);
        return true;
    case SPOTNIK_FLAT_READY:
        tell_done(transport, number);
        return true;
    case SPOTNIK_FLAT_MISMATCH:
        if (share->differs_epoch == share->epoch)
            return false; /* the core has failed */
        share->differs_epoch = share->epoch;
        differs(transport, number);
        return true;
    case SPOTNIK_FLAT_BLOCKED:
        break;
    }
    return false;
}

/* The first bucket that gets on: the others come after it, or after a recovery that comes in
 * between. */
bool spotnik_share_work(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (transport->share_failed.error != 0) {
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_FAILED,
                                       .failure = transport->share_failed };
        transport->share_failed.error = 0;
        if (event.failure.error != SPOTNIK_ERR_MISMATCH && event.failure.error != SPOTNIK_ERR_AGAIN)
            spotnik_share_give_up(transport);
        spotnik_loop_drive(transport->loop, &event);
        spotnik_loop_kick(transport->loop);
        return true;
    }
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS && share->late_count > 0; i++)
        if (share->late[i] != 0) {
            take_late(transport, i);
            return true;
        }
    if (share->wanted_count > 0) {
        wanted_get(transport);
        return true;
    }
    if (transport->stand->sealed)
        spotnik_transport_seal(transport); /* again, after a recovery, or since memory has come */
    for (uint32_t i = 0; i < share->flat.last; i++)
        if (spotnik_flat_is_active(&share->flat, i) && work_on(transport, i))
            return true;
    return false;
}

/* Without the lock only copies are used: a view that begins meanwhile sets all this up anew.
 * Segments are unmapped by this thread only. */
static bool look(struct spotnik_transport *transport, const struct spotnik_watch *watch,
                 uint64_t spin_ns)
{
    const uint32_t *word = &transport->share->word;
    uint32_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
    spotnik_loop_unlock(transport->loop);
    bool enough = spotnik_watch_look(watch, word, value, spin_ns);
    spotnik_loop_lock(transport->loop);
    return enough;
}

static bool listen_and_sleep(struct spotnik_transport *transport, uint64_t spin_ns,
                             uint64_t until_ns)
{
    struct spotnik_share *share = transport->share;
    struct spotnik_futexes futexes;
    spotnik_futexes_listen(&share->flat, &futexes);
    uint32_t word = __atomic_load_n(&share->word, __ATOMIC_RELAXED);
    share->sleeping = true;
    bool enough = spotnik_share_work(transport) || spotnik_transport_early(transport);
    if (!enough) {
        spotnik_loop_unlock(transport->loop);
        enough = spotnik_futexes_wait(&futexes, &share->word, word, spin_ns, until_ns);
        spotnik_loop_lock(transport->loop);
    }
    share->sleeping = false;
    spotnik_futexes_ignore(share->header);
    return enough;
}

/* Mostly the others are as far as we are, and a glance does. */
void spotnik_share_wait(struct spotnik_transport *transport, uint64_t until_ns, uint32_t place)
{
    struct spotnik_share *share = transport->share;
    struct spotnik_watch watch;
    bool watching = share->spin.ns > 0 && spotnik_watch_take(&share->flat, &watch);
    if (watching && spotnik_watch_glance(&watch)) {
        spotnik_spin_found(&share->spin);
        return;
    }
    uint64_t spin_ns = spotnik_spin_choose(&share->spin), begin_ns = spotnik_clock_ns();
    bool enough = watching && look(transport, &watch, spin_ns);
    if (!enough)
        enough = listen_and_sleep(transport, watching ? 0 : spin_ns,
                                  spotnik_time_min(until_ns, begin_ns + WAIT_MAX_NS));
    if (spotnik_spin_learn(&share->spin, spin_ns, spotnik_clock_ns() - begin_ns, enough))
        spotnik_thread_spread(place);
}

/* Beside the condition variable: waiters for others in shared memory wait here. */
void spotnik_transport_changed(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL)
        return;
    __atomic_store_n(&share->word, share->word + 1, __ATOMIC_RELEASE);
    if (share->sleeping)
        spotnik_futexes_word_wake(&share->word);
}
