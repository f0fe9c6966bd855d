/* SPDX-License-Identifier: Apache-2.0 */
/* struct spotnik_transport and the vocabulary of its files. Private to them.
 *
 *     channel.c     data that goes         inbound.c   data that comes
 *     add_connection.c    more connections for it
 *     standby.c    channels in reserve       channel_watch.c  whether what goes out on a channel
 *                  arrives
 *     share.h    memory shared with members of this host
 *     bucket.c   memory and kernels     deliver.c  results that reach the caller, some before the
 *                commit (early.h)
 *     transport.c all of them together, as transport.h says */
#ifndef SPOTNIK_TRANSPORT_INSIDE_H
#define SPOTNIK_TRANSPORT_INSIDE_H

#include "base/clock.h"
#include "transport/transport.h"
#include "transport/early.h"
#include "record/recorder.h"
#include "wire/data.h"
#include "wire/frame.h"

#define SPOTNIK_LANE_FRAMES 8
#define SPOTNIK_WIDTH_MAX 8 /* connections of a channel */
/* data connections of a view that we send on. To all others where those are few; else at most to
 * neighbours in rings and in the trees of members and of hosts */
#define SPOTNIK_LANES 24

/* One data frame on its way out. */
struct spotnik_outgoing {
    uint8_t prefix[SPOTNIK_DATA_PREFIX_BYTES];
    /* NULL: zeros; the frame is of an older epoch, and its receiver drops it */
    const uint8_t *payload;
    size_t payload_bytes;
    size_t sent; /* of prefix and payload together */
};

/* A data connection whose handshake is done, before it has its place. */
struct spotnik_opened {
    int fd;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_seal seal;
};

/* One connection of a channel. */
struct spotnik_connection {
    struct spotnik_socket socket;
    bool up;
    struct spotnik_seal seal;
    uint64_t sealed; /* frames that have got their tags, without those a cut took back */
    uint32_t count;
    struct spotnik_outgoing frame[SPOTNIK_LANE_FRAMES]; /* frame[0] first */
};

/* The way of data to one member: one connection, or several side by side that share what there is
 * to send, frame by frame. */
struct spotnik_channel {
    struct spotnik_connection first;
    struct spotnik_connection *more; /* SPOTNIK_WIDTH_MAX - 1 of them; NULL: never needed yet */
    uint32_t more_up;                /* of those, number that are up */
    bool wanted, pending;
    bool expected;   /* by the present view */
    uint32_t adding; /* further ones being opened */
    struct spotnik_member peer;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]; /* of the first connection */
    uint64_t turn_epoch, turn;              /* of the next frame */
    uint64_t redial_ns;                     /* NEVER: not due */
    /* channel_watch.c: next look; since when it is not up; since when the link is asked, 0: it is
     * not */
    uint64_t look_ns, opening_ns, asked_ns;
    uint64_t broken_ns; /* when it was broken for bytes that were stuck; 0: never */
    /* when to tell the core that the channel broke, unless its link tells of a death first */
    uint64_t down_ns;
    uint32_t width; /* connections that it is to have */
    uint64_t sent;  /* bytes, since it is up */
};

#define SPOTNIK_SPARES 3

/* A data connection in reserve (standby.c). */
struct spotnik_standby {
    struct spotnik_socket socket;
    bool up, pending;
    struct spotnik_member peer;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_seal seal;
};

_Static_assert(SPOTNIK_LANES >= SPOTNIK_SMALL_MEMBERS_MAX
                   && SPOTNIK_LANES >= 2 + 2 * (1 + SPOTNIK_TREE_FAN_MAX),
               "room for every channel");

enum spotnik_inbound_state {
    SPOTNIK_STREAM_PREFIX,
    /* a frame before its turn: its payload comes into the scratch meanwhile */
    SPOTNIK_STREAM_AHEAD,
    SPOTNIK_STREAM_WAIT,
    SPOTNIK_STREAM_BODY,
};

/* Data from one member: one connection of its channel. */
struct spotnik_inbound {
    struct spotnik_socket socket;
    struct spotnik_inbound *next;
    enum spotnik_inbound_state state;
    struct spotnik_member peer;
    /* the first connection of the channel, which may be this one, and closes with all others */
    struct spotnik_inbound *head;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];    /* head: of the connection; */
    uint32_t width;                            /* how many there are, */
    uint64_t epoch, turn;                      /* and which frame is next on whichever of them */
    uint8_t prefix[SPOTNIK_DATA_PREFIX_BYTES]; /* of the next frame */
    size_t prefix_have;
    struct spotnik_seal seal;
    uint64_t opened;                     /* frames whose header has verified */
    uint8_t tag[SPOTNIK_DATA_TAG_BYTES]; /* of the payload below */
    uint64_t frame_turn;                 /* of the header below */
    struct spotnik_chunk_header header;
    struct spotnik_placement placement;
    uint8_t *target;  /* where the payload goes; NULL: to the sink */
    uint8_t *scratch; /* one chunk: payload that is combined when it is whole */
    size_t bytes, have;
};

/* Memory of one bucket. Results are ours, kept for two steps; `in` is the caller's. */
struct spotnik_bucket_memory {
    void *in;
    uint8_t *out[2]; /* never by itself: spotnik_bucket_out() */
    /* what takes the place of out[] in the step it was last used in: memory that our host reads;
     * NULL: nothing */
    uint8_t *spread[2];
    size_t capacity[2];
    /* Of a small bucket, which may not go round the ring. Copies of `in` to send; the others'
     * inputs by rank, or their sums by slot. */
    uint8_t *offer[2], *tray;
    uint64_t tray_weight[SPOTNIK_SMALL_MEMBERS_MAX];
    size_t offer_bytes[2], tray_bytes;
    uint64_t step[2]; /* the step out[] was last used in */
    uint64_t count[2];
    uint8_t dtype[2], op[2];
    struct spotnik_early *early; /* NULL: never needed so far */
    bool kept;       /* `in` stays as it is: the caller reads the result where it lies */
    bool flat_begun; /* the flat all-reduce of this very input has been started before */
};

struct spotnik_transport {
    struct spotnik_loop *loop;
    struct spotnik_links *links;
    const struct spotnik_credentials *credentials;
    const struct spotnik_limits *limits;
    struct spotnik_stand *stand;
    struct spotnik_transport_hooks hooks;
    struct spotnik_core *core;
    struct spotnik_recorder *recorder; /* NULL: none is kept */
    bool far; /* what we add to comes from another host: there is time to copy meanwhile */
    struct spotnik_transport_counts counts;
    struct spotnik_inbound *inbounds;
    struct spotnik_channel channel[SPOTNIK_LANES];
    uint32_t channel_count; /* one past the last that was ever used */
    uint32_t width;         /* connections of each channel; 0: the default */
    struct spotnik_standby standby[SPOTNIK_SPARES];
    uint64_t standby_epoch; /* of the view they are for */
    struct spotnik_bucket_memory bucket[SPOTNIK_BUCKET_SLOTS];
    uint32_t bucket_count;       /* one past the last that was ever used */
    uint8_t *sink;               /* one chunk, for data to drop */
    struct spotnik_share *share; /* NULL: none */
    bool move_due;               /* work in shared memory has made data ready for the wire */
    struct spotnik_event_failure share_failed; /* error 0: none; to be told when no actions run */
    struct spotnik_owned {
        struct spotnik_owned *next;
        void *memory;
        size_t bytes;
    } *owned; /* what the caller has from us */
};

/* channel.c */
void spotnik_channel_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending);
void spotnik_channel_failed(struct spotnik_transport *transport, const struct spotnik_member *peer);
bool spotnik_channel_leads_to(struct spotnik_transport *transport, struct spotnik_id peer);
void spotnik_channels_init(struct spotnik_transport *transport);
void spotnik_channels_doubt(struct spotnik_transport *transport);
void spotnik_channels_cut(struct spotnik_transport *transport);
void spotnik_channels_close(struct spotnik_transport *transport);
void spotnik_channels_free(struct spotnik_transport *transport);
bool spotnik_channels_are_up(const struct spotnik_transport *transport);
void spotnik_channels_look(struct spotnik_transport *transport, uint64_t now_ns);
struct spotnik_channel *spotnik_channel_find(struct spotnik_transport *transport,
                                             struct spotnik_id peer);
static inline struct spotnik_connection *spotnik_channel_connection(struct spotnik_channel *channel,
                                                                    uint32_t i)
{
    return i == 0 ? &channel->first : &channel->more[i - 1];
}
bool spotnik_channels_want_a_look(const struct spotnik_transport *transport);
uint64_t spotnik_channels_deadline(const struct spotnik_transport *transport);

/* add_connection.c */
int spotnik_add_connection_parse(const char *text, uint32_t *ret_width);
/* its first connection is up */
void spotnik_add_connection_begin(struct spotnik_transport *transport,
                                  struct spotnik_channel *channel);
/* and is not any more */
void spotnik_add_connection_end(struct spotnik_transport *transport,
                                struct spotnik_channel *channel);
void spotnik_add_connection_look(struct spotnik_transport *transport,
                                 struct spotnik_channel *channel);
void spotnik_add_connection_adopt(struct spotnik_transport *transport,
                                  struct spotnik_pending *pending);
void spotnik_add_connection_failed(struct spotnik_transport *transport,
                                   const struct spotnik_member *peer,
                                   const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);

/* channel.c: take one out of a pending connection. False: it stays there, and is of no use. */
bool spotnik_opened_take(struct spotnik_transport *transport, struct spotnik_pending *pending,
                         struct spotnik_opened *ret);
/* Numbers of the two tags of a frame (link/seal.h), of which `frames` went before. */
static inline uint64_t spotnik_elements_number(uint64_t frames)
{
    return 2 * frames;
}
static inline uint64_t spotnik_header_number(uint64_t frames)
{
    return 2 * frames + 1;
}

/* standby.c: take is false when there is none; adopt is false when the connection is not wanted
 * and still the caller's */
bool spotnik_standby_take(struct spotnik_transport *transport, struct spotnik_id peer,
                          struct spotnik_opened *ret);
bool spotnik_standby_cede(struct spotnik_transport *transport, struct spotnik_id peer);
bool spotnik_standby_adopt(struct spotnik_transport *transport, struct spotnik_id peer,
                           const struct spotnik_opened *opened);
void spotnik_standby_failed(struct spotnik_transport *transport, struct spotnik_id peer);
void spotnik_standby_look(struct spotnik_transport *transport);
void spotnik_standby_close(struct spotnik_transport *transport);

/* inbound.c */
void spotnik_inbound_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending);
void spotnik_inbound_add(struct spotnik_transport *transport, struct spotnik_pending *pending);
void spotnik_inbound_cut(struct spotnik_transport *transport);
void spotnik_inbound_close(struct spotnik_transport *transport);

/* bucket.c */
int spotnik_bucket_prepare(struct spotnik_bucket_memory *bucket,
                           const struct spotnik_limits *limits, uint64_t step, void *in,
                           uint64_t count, enum spotnik_dtype dtype, enum spotnik_op op);
static inline uint8_t *spotnik_bucket_out(const struct spotnik_bucket_memory *bucket, unsigned half)
{
    return bucket->spread[half] != NULL ? bucket->spread[half] : bucket->out[half];
}
uint8_t *spotnik_bucket_place(struct spotnik_bucket_memory *bucket,
                              const struct spotnik_chunk_header *header);
void spotnik_bucket_offer(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work);
void spotnik_bucket_sum(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work);
void spotnik_bucket_gather(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work);
void spotnik_bucket_scale(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work);
void spotnik_bucket_copy_own(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work);
void spotnik_bucket_combine(struct spotnik_bucket_memory *bucket, uint64_t step,
                            const void *received, const struct spotnik_placement *placement,
                            uint64_t received_weight);
void spotnik_bucket_free(struct spotnik_bucket_memory *bucket);

/* deliver.c: results to the caller, what can be before the commit; the rest is in transport.h */
void spotnik_deliver_lend(struct spotnik_transport *transport, uint32_t number, uint64_t step,
                          const void *input);
void spotnik_deliver_shown(struct spotnik_transport *transport, uint32_t number, uint64_t step);
void spotnik_deliver_final(struct spotnik_transport *transport,
                           const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement);

/* channel_watch.c: true, its connections have to be made anew */
bool spotnik_channel_watch(struct spotnik_transport *transport, struct spotnik_channel *channel,
                           uint64_t now_ns);

/* owned.c: what the caller has from us */
void spotnik_owned_release(struct spotnik_transport *transport);

#endif
