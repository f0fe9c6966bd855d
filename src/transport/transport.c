/* SPDX-License-Identifier: Apache-2.0 */
/* All transports together: begin and end, a view change, and which of them an action concerns. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/time.h"
#include "transport/share.h"

#define INLINE_BYTES                                                                               \
    (64u * 1024) /* more than this is left to the progress thread: the caller has work to do */

/* ---- life ---- */

int spotnik_transport_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials,
                          const struct spotnik_limits *limits, struct spotnik_stand *stand,
                          const struct spotnik_transport_hooks *hooks, const char *channels,
                          struct spotnik_transport **ret)
{
    struct spotnik_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL || (transport->sink = malloc(limits->chunk_bytes)) == NULL) {
        free(transport);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for what carries data");
    }
    transport->loop = loop;
    transport->credentials = credentials;
    transport->limits = limits;
    transport->stand = stand;
    transport->hooks = *hooks;
    spotnik_channels_init(transport);
    int rc = spotnik_add_connection_parse(channels, &transport->width);
    if (rc != 0)
        spotnik_transport_free(transport);
    else
        *ret = transport;
    return rc;
}

int spotnik_transport_open(struct spotnik_transport *transport, struct spotnik_links *links,
                           const char *transport_name)
{
    transport->links = links;
    return spotnik_share_new(transport, transport_name);
}

void spotnik_transport_core_set(struct spotnik_transport *transport, struct spotnik_core *core,
                                struct spotnik_recorder *recorder)
{
    transport->core = core;
    transport->recorder = recorder;
}

void spotnik_transport_forget(struct spotnik_transport *transport)
{
    spotnik_channels_close(transport);
    spotnik_standby_close(transport);
    spotnik_inbound_close(transport);
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        transport->bucket[i].step[0] = transport->bucket[i].step[1] = 0;
}

void spotnik_transport_free(struct spotnik_transport *transport)
{
    if (transport == NULL)
        return;
    spotnik_channels_free(transport);
    spotnik_standby_close(transport);
    spotnik_inbound_close(transport);
    spotnik_owned_release(transport);
    spotnik_share_free(transport);
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        spotnik_bucket_free(&transport->bucket[i]);
    free(transport->sink);
    free(transport);
}

/* ---- views ---- */

void spotnik_transport_cut(struct spotnik_transport *transport)
{
    spotnik_channels_cut(transport);
    spotnik_inbound_cut(transport);
    spotnik_share_cut(transport);
    spotnik_transport_undo(transport);
}

/* Does the inbound channel that we add to come over a wire? */
static bool is_far(const struct spotnik_transport *transport, const struct spotnik_view *view)
{
    const struct spotnik_member *self = &transport->credentials->self;
    uint32_t rank = spotnik_view_rank(view, self->id);

    if (view->size < 2 || rank == SPOTNIK_NO_RANK)
        return false;
    const struct spotnik_member *before = &view->entry[(rank + view->size - 1) % view->size].member;
    return memcmp(before->address, self->address, sizeof self->address) != 0;
}

void spotnik_transport_view(struct spotnik_transport *transport)
{
    spotnik_channels_doubt(transport);
    spotnik_share_view(transport);
    transport->far = is_far(transport, spotnik_core_view(transport->core));
}

/* ---- connections ---- */

void spotnik_transport_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending,
                             enum spotnik_purpose purpose, bool dialled)
{
    if (purpose == SPOTNIK_PURPOSE_SHARE)
        spotnik_share_adopt(transport, pending);
    else if (purpose == SPOTNIK_PURPOSE_DATA && dialled)
        spotnik_channel_adopt(transport, pending);
    else if (purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_inbound_adopt(transport, pending);
    else if (dialled)
        spotnik_add_connection_adopt(transport, pending);
    else
        spotnik_inbound_add(transport, pending);
}

/* A failed SHARE is not reported: it is tried again, and until then steps go round the ring. */
void spotnik_transport_failed(struct spotnik_transport *transport, enum spotnik_purpose purpose,
                              const struct spotnik_member *peer,
                              const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    if (purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_channel_failed(transport, peer);
    else if (purpose == SPOTNIK_PURPOSE_ADD_CONNECTION)
        spotnik_add_connection_failed(transport, peer, name);
}

bool spotnik_transport_is_sharing(const struct spotnik_transport *transport)
{
    return transport->share != NULL;
}

/* ---- data ---- */

bool spotnik_transport_wants_a_look(const struct spotnik_transport *transport)
{
    return spotnik_channels_want_a_look(transport);
}

void spotnik_transport_move(struct spotnik_transport *transport)
{
    bool more =
        spotnik_transport_is_waiting(transport) && spotnik_transport_read(transport, INLINE_BYTES);
    more |= spotnik_transport_pump(transport, INLINE_BYTES);
    if (more || spotnik_transport_wants_a_look(transport))
        spotnik_loop_kick(transport->loop);
}

/* ---- the progress thread ---- */

void spotnik_transport_look(struct spotnik_transport *transport, uint64_t now_ns)
{
    spotnik_channels_look(transport, now_ns);
    spotnik_share_read(transport);
    spotnik_share_look(transport, now_ns);
}

uint64_t spotnik_transport_deadline(const struct spotnik_transport *transport)
{
    return spotnik_time_min(spotnik_share_deadline(transport),
                            spotnik_channels_deadline(transport));
}

/* ---- shared memory ---- */

static void move_if_due(struct spotnik_transport *transport)
{
    if (!transport->move_due)
        return;
    transport->move_due = false;
    spotnik_transport_move(transport);
}

bool spotnik_transport_work(struct spotnik_transport *transport)
{
    bool done = spotnik_share_work(transport);
    move_if_due(transport);
    return done;
}

void spotnik_transport_wait(struct spotnik_transport *transport, uint64_t until_ns, uint32_t place)
{
    spotnik_share_wait(transport, until_ns, place);
    move_if_due(transport);
}

/* ---- buckets ---- */

int spotnik_transport_begin(struct spotnik_transport *transport, uint32_t number, void *in,
                            size_t count, enum spotnik_dtype dtype, enum spotnik_op op, bool kept)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];
    uint64_t step = transport->stand->begun_step;
    if (bucket->step[step & 1] == step)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "bucket %u was already started in step %llu",
                                    number, (unsigned long long)step);
    int rc = spotnik_bucket_prepare(bucket, transport->limits, step, in, count, dtype, op);
    if (rc != 0)
        return rc;
    bucket->kept = kept;
    if (number >= transport->bucket_count)
        transport->bucket_count = number + 1;
    return 0;
}

static void gather(struct spotnik_transport *transport, struct spotnik_bucket_memory *bucket,
                   const struct spotnik_work *work)
{
    if (!work->gather.summed)
        spotnik_share_void(transport, work->bucket, work->step);
    spotnik_bucket_gather(bucket, work);
}

static void share_start(struct spotnik_transport *transport,
                        const struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    if (bucket->step[half] == work->step)
        transport->counts.bytes_shared +=
            bucket->count[half] * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
    spotnik_share_start(transport, work);
}

void spotnik_transport_act(struct spotnik_transport *transport, const struct spotnik_action *action)
{
    const struct spotnik_work *work = &action->work;
    struct spotnik_bucket_memory *bucket = &transport->bucket[work->bucket];
    switch (action->kind) {
    case SPOTNIK_ACTION_SCALE:
        spotnik_bucket_scale(bucket, work);
        break;
    case SPOTNIK_ACTION_COPY_OWN:
        spotnik_share_void(transport, work->bucket, work->step);
        spotnik_bucket_copy_own(bucket, work);
        break;
    case SPOTNIK_ACTION_OFFER:
        spotnik_bucket_offer(bucket, work);
        break;
    case SPOTNIK_ACTION_SUM:
        spotnik_share_void(transport, work->bucket, work->step);
        spotnik_bucket_sum(bucket, work);
        break;
    case SPOTNIK_ACTION_GATHER:
        gather(transport, bucket, work);
        break;
    case SPOTNIK_ACTION_FLAT_LATE:
        spotnik_share_late(transport, work);
        break;
    case SPOTNIK_ACTION_FLAT:
        share_start(transport, bucket, work);
        break;
    case SPOTNIK_ACTION_SPREAD:
        spotnik_share_spread(transport, work);
        break;
    default:
        break; /* of the runtime */
    }
}

int spotnik_transport_handover(struct spotnik_transport *transport,
                               const struct spotnik_chunk_header *header,
                               const struct spotnik_placement *placement, const void *payload,
                               size_t bytes)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[header->bucket];
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

struct spotnik_transport_counts
spotnik_transport_counts_get(const struct spotnik_transport *transport)
{
    return transport->counts;
}
