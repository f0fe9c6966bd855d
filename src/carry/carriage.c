/* SPDX-License-Identifier: Apache-2.0 */
/* All carriers together: begin and end, a view change, and which of them an action concerns. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/time.h"
#include "carry/share.h"

#define INLINE_BYTES                                                                               \
    (64u * 1024) /* more than this is left to the progress thread: the caller has work to do */

/* ---- life ---- */

int spotnik_carriage_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials,
                         const struct spotnik_limits *limits, struct spotnik_stand *stand,
                         const struct spotnik_carriage_hooks *hooks, const char *lanes,
                         struct spotnik_carriage **ret)
{
    struct spotnik_carriage *carriage = calloc(1, sizeof *carriage);
    if (carriage == NULL || (carriage->sink = malloc(limits->chunk_bytes)) == NULL) {
        free(carriage);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for what carries data");
    }
    carriage->loop = loop;
    carriage->credentials = credentials;
    carriage->limits = limits;
    carriage->stand = stand;
    carriage->hooks = *hooks;
    spotnik_lanes_init(carriage);
    int rc = spotnik_widen_parse(lanes, &carriage->width);
    if (rc != 0)
        spotnik_carriage_free(carriage);
    else
        *ret = carriage;
    return rc;
}

int spotnik_carriage_open(struct spotnik_carriage *carriage, struct spotnik_links *links,
                          const char *transport)
{
    carriage->links = links;
    return spotnik_share_new(carriage, transport);
}

void spotnik_carriage_core_set(struct spotnik_carriage *carriage, struct spotnik_core *core,
                               struct spotnik_recorder *recorder)
{
    carriage->core = core;
    carriage->recorder = recorder;
}

void spotnik_carriage_forget(struct spotnik_carriage *carriage)
{
    spotnik_lanes_close(carriage);
    spotnik_spares_close(carriage);
    spotnik_streams_close(carriage);
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        carriage->bucket[i].step[0] = carriage->bucket[i].step[1] = 0;
}

void spotnik_carriage_free(struct spotnik_carriage *carriage)
{
    if (carriage == NULL)
        return;
    spotnik_lanes_free(carriage);
    spotnik_spares_close(carriage);
    spotnik_streams_close(carriage);
    spotnik_owned_release(carriage);
    spotnik_share_free(carriage);
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        spotnik_bucket_free(&carriage->bucket[i]);
    free(carriage->sink);
    free(carriage);
}

/* ---- views ---- */

void spotnik_carriage_cut(struct spotnik_carriage *carriage)
{
    spotnik_lanes_cut(carriage);
    spotnik_streams_cut(carriage);
    spotnik_share_cut(carriage);
    spotnik_carriage_undo(carriage);
}

/* Does the stream that we add to come over a wire? */
static bool is_far(const struct spotnik_carriage *carriage, const struct spotnik_view *view)
{
    const struct spotnik_member *self = &carriage->credentials->self;
    uint32_t rank = spotnik_view_rank(view, self->id);

    if (view->size < 2 || rank == SPOTNIK_NO_RANK)
        return false;
    const struct spotnik_member *before = &view->entry[(rank + view->size - 1) % view->size].member;
    return memcmp(before->address, self->address, sizeof self->address) != 0;
}

void spotnik_carriage_view(struct spotnik_carriage *carriage)
{
    spotnik_lanes_doubt(carriage);
    spotnik_share_view(carriage);
    carriage->far = is_far(carriage, spotnik_core_view(carriage->core));
}

/* ---- connections ---- */

void spotnik_carriage_adopt(struct spotnik_carriage *carriage, struct spotnik_opening *opening,
                            enum spotnik_purpose purpose, bool dialled)
{
    if (purpose == SPOTNIK_PURPOSE_SHARE)
        spotnik_share_adopt(carriage, opening);
    else if (purpose == SPOTNIK_PURPOSE_DATA && dialled)
        spotnik_lane_adopt(carriage, opening);
    else if (purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_stream_adopt(carriage, opening);
    else if (dialled)
        spotnik_widen_adopt(carriage, opening);
    else
        spotnik_stream_widen(carriage, opening);
}

/* Of SHARE nobody is told: it is tried again, and until then steps go round the ring. */
void spotnik_carriage_failed(struct spotnik_carriage *carriage, enum spotnik_purpose purpose,
                             const struct spotnik_member *peer,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    if (purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_lane_failed(carriage, peer);
    else if (purpose == SPOTNIK_PURPOSE_WIDEN)
        spotnik_widen_failed(carriage, peer, name);
}

bool spotnik_carriage_is_sharing(const struct spotnik_carriage *carriage)
{
    return carriage->share != NULL;
}

/* ---- data ---- */

bool spotnik_carriage_wants_a_look(const struct spotnik_carriage *carriage)
{
    return spotnik_lanes_want_a_look(carriage);
}

void spotnik_carriage_move(struct spotnik_carriage *carriage)
{
    bool more =
        spotnik_carriage_is_waiting(carriage) && spotnik_carriage_read(carriage, INLINE_BYTES);
    more |= spotnik_carriage_pump(carriage, INLINE_BYTES);
    if (more || spotnik_carriage_wants_a_look(carriage))
        spotnik_loop_kick(carriage->loop);
}

/* ---- the progress thread ---- */

void spotnik_carriage_look(struct spotnik_carriage *carriage, uint64_t now_ns)
{
    spotnik_lanes_look(carriage, now_ns);
    spotnik_share_read(carriage);
    spotnik_share_look(carriage, now_ns);
}

uint64_t spotnik_carriage_deadline(const struct spotnik_carriage *carriage)
{
    return spotnik_time_min(spotnik_share_deadline(carriage), spotnik_lanes_deadline(carriage));
}

/* ---- shared memory ---- */

static void move_if_due(struct spotnik_carriage *carriage)
{
    if (!carriage->move_due)
        return;
    carriage->move_due = false;
    spotnik_carriage_move(carriage);
}

bool spotnik_carriage_work(struct spotnik_carriage *carriage)
{
    bool done = spotnik_share_work(carriage);
    move_if_due(carriage);
    return done;
}

void spotnik_carriage_wait(struct spotnik_carriage *carriage, uint64_t until_ns, uint32_t place)
{
    spotnik_share_wait(carriage, until_ns, place);
    move_if_due(carriage);
}

/* ---- buckets ---- */

int spotnik_carriage_begin(struct spotnik_carriage *carriage, uint32_t number, void *in,
                           size_t count, enum spotnik_dtype dtype, enum spotnik_op op, bool kept)
{
    struct spotnik_bucket_memory *bucket = &carriage->bucket[number];
    uint64_t step = carriage->stand->begun_step;
    if (bucket->step[step & 1] == step)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "bucket %u was already started in step %llu",
                                    number, (unsigned long long)step);
    int rc = spotnik_bucket_prepare(bucket, carriage->limits, step, in, count, dtype, op);
    if (rc != 0)
        return rc;
    bucket->kept = kept;
    if (number >= carriage->bucket_count)
        carriage->bucket_count = number + 1;
    return 0;
}

static void gather(struct spotnik_carriage *carriage, struct spotnik_bucket_memory *bucket,
                   const struct spotnik_work *work)
{
    if (!work->gather.summed)
        spotnik_share_void(carriage, work->bucket, work->step);
    spotnik_bucket_gather(bucket, work);
}

static void share_start(struct spotnik_carriage *carriage,
                        const struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    if (bucket->step[half] == work->step)
        carriage->counts.bytes_shared +=
            bucket->count[half] * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
    spotnik_share_start(carriage, work);
}

void spotnik_carriage_act(struct spotnik_carriage *carriage, const struct spotnik_action *action)
{
    const struct spotnik_work *work = &action->work;
    struct spotnik_bucket_memory *bucket = &carriage->bucket[work->bucket];
    switch (action->kind) {
    case SPOTNIK_ACTION_SCALE:
        spotnik_bucket_scale(bucket, work);
        break;
    case SPOTNIK_ACTION_COPY_OWN:
        spotnik_share_void(carriage, work->bucket, work->step);
        spotnik_bucket_copy_own(bucket, work);
        break;
    case SPOTNIK_ACTION_OFFER:
        spotnik_bucket_offer(bucket, work);
        break;
    case SPOTNIK_ACTION_SUM:
        spotnik_share_void(carriage, work->bucket, work->step);
        spotnik_bucket_sum(bucket, work);
        break;
    case SPOTNIK_ACTION_GATHER:
        gather(carriage, bucket, work);
        break;
    case SPOTNIK_ACTION_FLAT_LATE:
        spotnik_share_late(carriage, work);
        break;
    case SPOTNIK_ACTION_FLAT:
        share_start(carriage, bucket, work);
        break;
    case SPOTNIK_ACTION_SPREAD:
        spotnik_share_spread(carriage, work);
        break;
    default:
        break; /* of the engine */
    }
}

int spotnik_carriage_handover(struct spotnik_carriage *carriage,
                              const struct spotnik_chunk_header *header,
                              const struct spotnik_placement *placement, const void *payload,
                              size_t bytes)
{
    struct spotnik_bucket_memory *bucket = &carriage->bucket[header->bucket];
    size_t one = spotnik_dtype_size((enum spotnik_dtype)header->dtype);
    unsigned half = header->step & 1;
    if (bytes != placement->count * one || placement->kind != SPOTNIK_RING_COPY)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "a donor sent a result of the wrong size");
    if (bytes > 0) {
        SPOTNIK_ASSERT(bucket->step[half] == header->step);
        memcpy(spotnik_bucket_out(bucket, half) + placement->offset * one, payload, bytes);
    }
    return 0;
}

struct spotnik_carriage_counts spotnik_carriage_counts_get(const struct spotnik_carriage *carriage)
{
    return carriage->counts;
}
