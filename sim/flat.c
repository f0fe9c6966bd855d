/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that simulated processes share: each has a segment of its own that all others can read:
 * alive or dead, stopped or cut off from the network, on whatever host (in worlds of hierarchy: on
 * its own). The flat all-reduce of src/shm runs over it, slice by slice in virtual time. That is
 * worse than any real host: an excluded member goes on reading and writing next to those that
 * excluded it. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "reduce/reduce.h"
#include "step/transaction.h"
#include "sim/check.h"
#include "sim/world.h"

/* of a bucket: the input, our share of the result, and the whole of it, per parity */
#define AREAS 6

static size_t area_bytes(const struct sim_world *world, uint32_t bucket)
{
    const struct sim_bucket *of = &world->bucket[bucket];
    /* sums lie in whole chunks */
    size_t longer =
        world->options.limits.members_max * of->element_bytes + world->options.limits.chunk_bytes;
    return (spotnik_sim_bucket_bytes(of) + longer + 64 + 63) & ~(size_t)63;
}

static unsigned char *area(const struct sim_world *world, const struct sim_process *process,
                           uint32_t bucket, uint32_t which)
{
    size_t at = sizeof(struct spotnik_shm_header);
    for (uint32_t i = 0; i < bucket; i++)
        at += AREAS * area_bytes(world, i);
    return (unsigned char *)process->flat.board + at + which * area_bytes(world, bucket);
}

void spotnik_sim_flat_init(struct sim_world *world, struct sim_process *process)
{
    struct sim_flat *flat = &process->flat;
    size_t bytes = sizeof(struct spotnik_shm_header) + 64;

    if (!world->options.flat)
        return;
    for (uint32_t i = 0; i < world->options.buckets; i++)
        bytes += AREAS * area_bytes(world, i);
    flat->board = spotnik_sim_alloc(bytes);
    flat->bytes = bytes;
    flat->work = spotnik_sim_alloc(sizeof(*flat->work));
    flat->peer = spotnik_sim_alloc(world->options.limits.members_max * sizeof(*flat->peer));
    flat->source = spotnik_sim_alloc(world->options.limits.members_max * sizeof(*flat->source));
    flat->told = spotnik_sim_alloc(world->options.processes_max * sizeof(*flat->told));
    flat->work->limits =
        (struct spotnik_flat_limits){ .small_bytes = world->options.flat_small_bytes,
                                      .page_bytes = world->options.flat_page_bytes,
                                      .slice_bytes = world->options.flat_slice_bytes };
    for (uint32_t i = 0; i < world->options.buckets; i++)
        flat->shown[i].bytes = spotnik_sim_alloc(spotnik_sim_bucket_bytes(&world->bucket[i]) + 1);
    spotnik_shm_header_init(flat->board, process->member.id.high, process->member.id.low, 0);
}

void spotnik_sim_flat_free(struct sim_process *process)
{
    for (uint32_t i = 0; i < SIM_BUCKETS; i++)
        free(process->flat.shown[i].bytes);
    free(process->flat.board);
    free(process->flat.work);
    free(process->flat.peer);
    free(process->flat.source);
    free(process->flat.told);
}

/* In scale mode memory has a rate, whatever is done with it, and nobody is held up. */
static uint64_t slice_ns(const struct sim_world *world)
{
    size_t bytes = spotnik_sim_bucket_bytes(&world->bucket[0]);
    size_t some = bytes < world->options.flat_slice_bytes ? bytes : world->options.flat_slice_bytes;
    return world->options.flat_slice_max_ns
           + some * SPOTNIK_MS / world->options.memory_bytes_per_ms;
}

static uint64_t moment(struct sim_world *world)
{
    if (world->scale)
        return slice_ns(world);
    /* now and then others have the processor for long */
    uint64_t slow = spotnik_prng_chance(&world->memory, 1, 64) ? 64 : 1;
    return 1 + slow * spotnik_prng_below(&world->memory, world->options.flat_slice_max_ns);
}

/* -- Pairs that share memory -- */

static bool is_mate(const struct sim_world *world, const struct sim_process *process,
                    const struct sim_process *other)
{
    return !world->options.limits.hierarchy || other->host == process->host;
}

/* Once per view, at its first flat step. Until then the members and orders of the view before
 * stand. */
static void setup(struct sim_world *world, struct sim_process *process)
{
    const struct spotnik_view *view = spotnik_core_view(process->core);
    struct sim_flat *flat = &process->flat;
    uint32_t size = 0, own = 0;

    if (flat->view_epoch == view->epoch)
        return;
    flat->view_epoch = view->epoch;
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct sim_process *other = sim_process_of(world, &view->entry[rank].member);
        if (!is_mate(world, process, other))
            continue;
        SPOTNIK_ASSERT(size < SIM_MEMBERS_MAX);
        own = other == process ? size : own;
        flat->peer[size++] = (struct spotnik_flat_peer){ other->flat.board, other->flat.bytes };
    }
    spotnik_flat_view(flat->work, flat->peer, flat->source, own, size);
}

/* A new view: segments of members that we have none of yet come over a socket, a little later. */
void spotnik_sim_flat_view(struct sim_world *world, struct sim_process *process)
{
    const struct spotnik_view *view = spotnik_core_view(process->core);

    spotnik_sim_flat_cut(world, process);
    if (!world->options.flat || spotnik_view_rank(view, process->member.id) == SPOTNIK_NO_RANK)
        return;
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct sim_process *other = sim_process_of(world, &view->entry[rank].member);
        if (other != process && is_mate(world, process, other) && !process->flat.told[other->index])
            spotnik_sim_push(world, SIM_SHARE, 10 * moment(world), process->index, other->index,
                             NULL);
    }
}

void spotnik_sim_flat_share(struct sim_world *world, struct sim_process *process, uint32_t index)
{
    const struct sim_process *other = world->process[index];
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_SHARED,
                                   .shared = { other->member, true } };

    if (!sim_live(process) || !sim_live(other) || process->flat.told[index]
        || process->flat.given_up)
        return;
    process->flat.told[index] = true;
    spotnik_sim_core_step(world, process, &event);
}

/* -- Failing -- */

static bool is_failing(struct sim_world *world)
{
    uint32_t of = world->options.flat_fails_of;
    return of != 0 && !world->healing && spotnik_prng_chance(&world->memory, 1, of);
}

/* One in two shares nothing with anybody any more; the other only lacked this once. */
static void fail_one(struct sim_world *world, struct sim_process *process)
{
    struct sim_flat *flat = &process->flat;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_FAILED,
                                   .failure.error = SPOTNIK_ERR_MEMORY };

    event.failure.at.bucket = flat->failed_bucket;
    event.failure.at.epoch = flat->failed_epoch;
    event.failure.at.step = flat->failed_step;
    flat->failed_step = 0;
    world->clean = false;
    flat->given_up |= event.failure.at.step % 2;
    spotnik_sim_story(world, "%u has no shared memory%s", process->index,
                      flat->given_up ? " any more" : "");
    for (uint32_t i = 0; i < world->process_count && flat->given_up; i++) {
        struct spotnik_event apart = { .kind = SPOTNIK_EVENT_SHARED,
                                       .shared = { world->process[i]->member, false } };
        if (flat->told[i])
            spotnik_sim_core_step(world, process, &apart);
        flat->told[i] = false;
    }
    spotnik_sim_core_step(world, process, &event);
}

/* -- Work -- */

void spotnik_sim_flat_later(struct sim_world *world, struct sim_process *process)
{
    if (!world->options.flat || process->flat.scheduled
        || (process->flat.work->active == 0 && process->flat.failed_step == 0
            && process->flat.late_count == 0))
        return;
    process->flat.scheduled = true;
    spotnik_sim_push(world, SIM_FLAT, moment(world), process->index, 0, NULL);
}

/* At scale nobody looks at what it cannot see. Elsewhere all do: seeds keep their histories. */
static bool hears(const struct sim_world *world, const struct sim_process *process,
                  const struct sim_process *other)
{
    return other != process && sim_live(other) && (!world->scale || other->host == process->host);
}

/* Every process that may wait for our futex word looks again. */
static void wake_others(struct sim_world *world, struct sim_process *process)
{
    if (!process->flat.work->rung)
        return;
    process->flat.work->rung = false;
    for (uint32_t i = 0; i < world->process_count; i++)
        if (hears(world, process, world->process[i]))
            spotnik_sim_flat_later(world, world->process[i]);
}

static unsigned char no_elements[8];

void spotnik_sim_flat_start(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work)
{
    bool barrier = work->bucket >= world->options.buckets;
    uint32_t number = barrier ? 0 : work->bucket, parity = work->step & 1;
    const struct sim_bucket *bucket = &world->bucket[number];
    bool some = !barrier && spotnik_sim_bucket_bytes(bucket) > 0;
    size_t bytes = some ? spotnik_sim_bucket_bytes(bucket) : 0;
    bool small = spotnik_flat_is_small(process->flat.work, bytes);
    struct spotnik_flat_order order = {
        .part = (enum spotnik_flat_part)work->flat.part,
        .sequence = spotnik_shm_header_sequence(process->epoch, work->step),
        .step = work->step,
        .count = work->flat.count,
        .weight = work->flat.weight,
        .dtype = barrier ? (uint8_t)SPOTNIK_U8 : bucket->dtype,
        .op = barrier ? (uint8_t)SPOTNIK_MAX : bucket->op,
        .in = some ? process->app.in[number] : no_elements,
        .input_area = some ? area(world, process, number, small ? parity : 0)
                           : (unsigned char *)process->flat.board,
        .result_area =
            some ? area(world, process, number, 2 + parity) : (unsigned char *)process->flat.board,
        .whole_area =
            some ? area(world, process, number, 4 + parity) : (unsigned char *)process->flat.board,
        .out = some ? process->app.out[parity][number] : no_elements,
        .hosts = work->flat.hosts,
        .host = work->flat.host,
        .again = true, /* nobody begins a step twice here */
    };

    setup(world, process);
    order.chunk_count =
        spotnik_transaction_chunk_count(world->options.limits.chunk_bytes,
                                        (uint32_t)
                                            spotnik_dtype_size((enum spotnik_dtype)order.dtype));
    SPOTNIK_ASSERT(!some || order.part != SPOTNIK_FLAT_SERVED
                   || spotnik_flat_pipeline_room(order.count, bucket->element_bytes, order.hosts,
                                                 order.chunk_count, process->flat.work->size)
                          <= area_bytes(world, number));
    if (is_failing(world)) {
        process->flat.failed_bucket = work->bucket;
        process->flat.failed_step = work->step;
        process->flat.failed_epoch = process->epoch;
        spotnik_sim_flat_later(world, process);
        return;
    }
    spotnik_fact_flat(world, process->epoch, work->step);
    spotnik_flat_start(process->flat.work, work->bucket, &order);
    process->flat.epoch = process->epoch;
    if (!barrier)
        process->flat.window[number][parity].step = 0;
    wake_others(world, process);
    spotnik_sim_flat_later(world, process);
}

void spotnik_sim_flat_seal(struct sim_world *world, struct sim_process *process)
{
    if (!world->options.flat || process->flat.work->last == 0 || process->flat.failed_step != 0)
        return; /* what failed is not up, and our programs do not differ for that */
    spotnik_flat_seal(process->flat.work,
                      spotnik_shm_header_sequence(process->epoch, process->app.step));
    wake_others(world, process);
}

/* What we now hold lies in the memory of these, and stays there. */
static void window_keep(struct sim_process *process, uint32_t number, uint64_t step)
{
    struct sim_window *window = &process->flat.window[number][step & 1];
    window->step = step;
    window->shares.place = window->place;
    spotnik_shares_find(&window->shares, process->flat.work, number);
}

static bool lies_in_memory(const struct sim_world *world, const struct sim_process *process,
                           uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &process->flat.work->bucket[number];
    return number < world->options.buckets && !bucket->small
           && bucket->order.part != SPOTNIK_FLAT_HOLDER;
}

static void done(struct sim_world *world, struct sim_process *process, uint32_t number)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_DONE };

    if (lies_in_memory(world, process, number))
        window_keep(process, number, process->flat.work->bucket[number].order.step);
    event.flat.at.bucket = number;
    event.flat.at.epoch = process->flat.epoch;
    event.flat.at.step = process->flat.work->bucket[number].order.step;
    event.flat.weight = process->flat.work->bucket[number].weight_sum;
    event.flat.chunks = spotnik_flat_collected(process->flat.work, number);
    spotnik_sim_flat_later(world, process);
    wake_others(world, process);
    spotnik_sim_core_step(world, process, &event);
}

void spotnik_sim_flat_spread(struct sim_world *world, struct sim_process *process,
                             const struct spotnik_work *work)
{
    bool barrier = work->bucket >= world->options.buckets;

    spotnik_flat_spread(process->flat.work, work->bucket,
                        barrier ? no_elements : process->app.out[work->step & 1][work->bucket]);
    wake_others(world, process);
}

/* -- Results before they are whole -- */

/* A chunk has come to the holder that nobody will change any more. */
void spotnik_sim_flat_show(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement)
{
    struct spotnik_flat *work = process->flat.work;
    uint32_t number = header->bucket;
    bool final =
        placement->kind == SPOTNIK_RING_COPY || placement->kind == SPOTNIK_RING_REDUCE_LAST;

    if (!world->options.flat || !final || header->handover
        || header->schedule != SPOTNIK_SCHEDULE_RING || number >= world->options.buckets
        || number >= work->last || work->bucket[number].order.step != header->step)
        return;
    uint64_t early = (world->options.bugs & SPOTNIK_BUG_SHOW_EARLY) != 0;
    spotnik_flat_show(work, number, header->sequence + 1 + early,
                      process->app.out[header->step & 1][number]);
    wake_others(world, process);
}

/* As the real driver, which writes it over the input: so a copy of that must lie there. */
static void shown_take(struct sim_world *world, struct sim_process *process, uint32_t number)
{
    struct spotnik_flat *work = process->flat.work;
    struct sim_shown *shown = &process->flat.shown[number];
    size_t one = work->bucket[number].one;

    if (number >= world->options.buckets)
        return;
    if (shown->sequence != work->bucket[number].order.sequence)
        *shown = (struct sim_shown){ .sequence = work->bucket[number].order.sequence,
                                     .bytes = shown->bytes };
    for (; shown->chunks < spotnik_flat_shown(work, number); shown->chunks++) {
        struct spotnik_ring_chunk chunk = spotnik_flat_shown_chunk(work, number, shown->chunks);
        size_t at = chunk.offset * one, bytes = chunk.count * one;
        memcpy(shown->bytes + at,
               (const unsigned char *)spotnik_flat_shown_result(work, number) + at, bytes);
        if (memcmp(area(world, process, number, 0) + at, process->app.in[number] + at, bytes) != 0)
            spotnik_sim_fail(world, "P5",
                             "%u is shown a result of bucket %u and has no copy of its input there",
                             process->index, number);
    }
    if (!spotnik_flat_shown_stands(work, number))
        shown->sequence = 0;
}

static void shown_check(struct sim_world *world, const struct sim_process *process, uint64_t step,
                        uint32_t number)
{
    const struct sim_shown *shown = &process->flat.shown[number];
    const struct sim_window *window = &process->flat.window[number][step & 1];
    size_t one = process->flat.work->bucket[number].one;

    for (uint64_t i = 0; window->step == step && window->shares.whole
                         && shown->sequence == window->shares.sequence && i < shown->chunks;
         i++) {
        struct spotnik_ring_chunk chunk = spotnik_flat_shown_chunk(process->flat.work, number, i);
        size_t at = chunk.offset * one;
        if (memcmp(shown->bytes + at, process->app.out[step & 1][number] + at, chunk.count * one)
            != 0)
            spotnik_sim_fail(
                world, "P4",
                "%u was shown another result of step %llu, bucket %u, than was committed",
                process->index, (unsigned long long)step, number);
    }
}

void spotnik_sim_flat_late(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_work *work)
{
    process->flat.late[work->bucket] = work->step;
    process->flat.late_count++;
    spotnik_sim_flat_later(world, process);
}

/* Has a view been installed that leaves this process out, and of which it has not heard? */
static bool is_left_behind(const struct sim_world *world, const struct sim_process *process)
{
    const struct sim_facts *facts = world->facts;

    for (uint64_t epoch = process->epoch + 1; epoch < facts->view_count; epoch++)
        if (facts->view[epoch].known
            && spotnik_fact_rank(&facts->view[epoch], process->index) == SPOTNIK_NO_RANK)
            return true;
    return false;
}

/* As the real driver: it looks once, and says so. The memory is as good as before. */
static void late_missing(struct sim_world *world, struct sim_process *process, uint32_t number,
                         uint64_t step)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_FAILED,
                                   .failure.error = SPOTNIK_ERR_AGAIN };

    spotnik_sim_story(world, "%u finds nothing of step %llu in memory any more, bucket %u",
                      process->index, (unsigned long long)step, number);
    event.failure.at.bucket = number;
    event.failure.at.epoch = process->epoch;
    event.failure.at.step = step;
    spotnik_sim_core_step(world, process, &event);
}

/* The first bucket of them. It must be there: somebody has committed it. But we may be unable to
 * look. And the others reuse the place for the step after the next one, which they do not make
 * without us unless a view leaves us out. */
static void take_late(struct sim_world *world, struct sim_process *process)
{
    struct sim_flat *flat = &process->flat;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FLAT_DONE };
    uint32_t number = 0;

    while (!flat->late[number])
        number++;
    uint64_t step = flat->late[number];
    flat->late[number] = 0;
    flat->late_count--;
    if (is_failing(world)) {
        flat->failed_bucket = number;
        flat->failed_step = step;
        flat->failed_epoch = process->epoch;
        return;
    }
    bool stands = spotnik_flat_stands(flat->work, number, step);
    if (!stands && is_left_behind(world, process)) {
        late_missing(world, process, number, step);
        return;
    }
    if (!stands)
        spotnik_sim_fail(
            world, "P3",
            "%u does not find the result of step %llu, bucket %u, which others have committed",
            process->index, (unsigned long long)step, number);
    else
        window_keep(process, number, step);
    spotnik_sim_story(world, "%u finds the result of step %llu in memory, bucket %u",
                      process->index, (unsigned long long)step, number);
    event.flat.at.bucket = number;
    event.flat.at.epoch = process->epoch;
    event.flat.at.step = step;
    spotnik_sim_core_step(world, process, &event);
}

/* One slice of every bucket. */
void spotnik_sim_flat_work(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_flat *work = process->flat.work;
    bool more = false;

    process->flat.scheduled = false;
    if (!sim_live(process) || process->stopped)
        return;
    if (process->flat.failed_step != 0) {
        fail_one(world, process);
        spotnik_sim_flat_later(world, process);
        return;
    }
    if (process->flat.late_count > 0) {
        take_late(world, process);
        spotnik_sim_flat_later(world, process);
        return;
    }
    if (process->app.state == SIM_APP_WAIT_COMMIT)
        spotnik_sim_flat_seal(world, process); /* again, after a recovery */
    for (uint32_t i = 0; i < work->last; i++) {
        if (!spotnik_flat_is_active(work, i))
            continue;
        enum spotnik_flat_verdict verdict = spotnik_flat_run(work, i);
        if (verdict == SPOTNIK_FLAT_MISMATCH) {
            spotnik_sim_fail(world, "driver", "%u finds that programs differ in bucket %u",
                             process->index, i);
            return;
        }
        if (verdict == SPOTNIK_FLAT_PART && work->bucket[i].order.part == SPOTNIK_FLAT_SERVED) {
            shown_take(world, process, i);
            more = true;
            continue;
        }
        if (verdict == SPOTNIK_FLAT_READY || verdict == SPOTNIK_FLAT_PART) {
            done(world, process, i);
            return;
        }
        more |= verdict == SPOTNIK_FLAT_MORE;
    }
    wake_others(world, process);
    if (more)
        spotnik_sim_flat_later(world, process);
}

void spotnik_sim_flat_cut(struct sim_world *world, struct sim_process *process)
{
    if (!world->options.flat)
        return;
    memset(process->flat.late, 0, sizeof(process->flat.late));
    process->flat.late_count = 0;
    spotnik_flat_cut(process->flat.work);
    wake_others(world, process);
}

/* Bytes of this bucket come another way: what was held, but never committed, is void. Until then it
 * counts: a laggard is handed only what it lacks. */
void spotnik_sim_flat_void(struct sim_process *process, uint64_t step, uint32_t number)
{
    process->flat.window[number][step & 1].step = 0;
}

/* -- Results -- */

/* The result of a bucket as it lies in the members' memory. False: it does not. */
bool spotnik_sim_flat_read(const struct sim_world *world, const struct sim_process *process,
                           uint64_t step, uint32_t number, unsigned char *out)
{
    const struct sim_window *window = &process->flat.window[number][step & 1];

    if (!world->options.flat || window->step != step)
        return false;
    spotnik_shares_copy(&window->shares, out);
    spotnik_shares_copy_own(&window->shares, out);
    return true;
}

/* The step is committed: copy the results out. False: they are not there any more, because the
 * others have gone on without us: the caller gets no result but an error, and starts anew. */
bool spotnik_sim_flat_committed(struct sim_world *world, struct sim_process *process, uint64_t step)
{
    if (!world->options.flat)
        return true;
    spotnik_flat_commit(process->flat.work);
    for (uint32_t i = 0; i < world->options.buckets; i++) {
        if (!spotnik_sim_flat_read(world, process, step, i, process->app.out[step & 1][i]))
            continue;
        if (spotnik_shares_stand(&process->flat.window[i][step & 1].shares)) {
            shown_check(world, process, step, i);
            continue;
        }
        if (!spotnik_fact_excluded(world, process))
            spotnik_sim_fail(world, "P3",
                             "%u cannot read the result of step %llu, and is not excluded",
                             process->index, (unsigned long long)step);
        return false;
    }
    return true;
}
