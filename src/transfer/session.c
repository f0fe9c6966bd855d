/* SPDX-License-Identifier: Apache-2.0 */
/* One joiner's conversation with a donor: a thread that answers requests and, once streaming, sends
 * every committed result. It waits for the joiner and for the hooks of donor.c at once, and never
 * makes either of them wait. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/time.h"
#include "base/wake.h"
#include "transfer/donor_inside.h"
#include "transfer/standing.h"

#define REQUEST_PATIENCE_NS (5 * SPOTNIK_S)
#define SIGN_OF_LIFE_MS 1000

void spotnik_session_wake(struct spotnik_session *session)
{
    spotnik_wake(session->event);
}

void spotnik_session_live(void *session)
{
    struct spotnik_session *own = session;

    (void)spotnik_packet_send(&own->duplex, SPOTNIK_PACKET_WAIT, NULL, 0, NULL, 0);
}

static int sorry(struct spotnik_session *session, const char *why)
{
    spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_SORRY, why, strlen(why), NULL, 0);
    return SPOTNIK_ERR_PEERS;
}

/* ---- what the joiner asks ---- */

static int on_snapshot(struct spotnik_session *session, uint64_t at_least)
{
    struct spotnik_donor *donor = session->donor;

    pthread_mutex_lock(&donor->lock);
    bool first = !session->snapshot && !session->wants_snapshot && donor->sealed;
    if (first) {
        session->wants_snapshot = true;
        session->at_least = at_least;
    }
    pthread_mutex_unlock(&donor->lock);
    return first ? 0 : sorry(session, "one snapshot per connection");
}

static int on_fetch(struct spotnik_session *session, uint64_t piece)
{
    const struct spotnik_snapshot *snapshot = session->snapshot; /* ours until the session ends */
    uint64_t offset = piece * SPOTNIK_PIECE_BYTES;
    uint8_t head[8];
    struct spotnik_writer writer;

    if (!session->told_taken || piece > snapshot->bytes / SPOTNIK_PIECE_BYTES
        || offset >= snapshot->bytes)
        return sorry(session, "no such piece");
    uint64_t size = snapshot->bytes - offset < SPOTNIK_PIECE_BYTES ? snapshot->bytes - offset
                                                                   : SPOTNIK_PIECE_BYTES;
    pthread_mutex_lock(&session->donor->lock);
    session->pieces++;
    pthread_mutex_unlock(&session->donor->lock);
    spotnik_writer_init(&writer, head, sizeof head);
    spotnik_writer_u64(&writer, piece);
    return spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_PIECE, head, sizeof head,
                               snapshot->data + offset, size);
}

static int on_extra(struct spotnik_session *session)
{
    const struct spotnik_snapshot *snapshot = session->snapshot;

    if (!session->told_taken)
        return sorry(session, "no snapshot to take from");
    return spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_EXTRA, NULL, 0, snapshot->extra,
                               snapshot->extra_bytes);
}

static int on_stream(struct spotnik_session *session, uint64_t first_step)
{
    if (!session->told_taken)
        return sorry(session, "no snapshot to stream from");
    pthread_mutex_lock(&session->donor->lock);
    session->following = session->snapshot != NULL;
    pthread_mutex_unlock(&session->donor->lock);
    session->streaming = true;
    session->told_dry = false;
    session->stream_next = first_step;
    return 0;
}

static int on_ack(struct spotnik_session *session, uint64_t step)
{
    struct spotnik_donor *donor = session->donor;

    pthread_mutex_lock(&donor->lock);
    if (session->snapshot && step < UINT64_MAX && step + 1 > session->needed)
        session->needed = step + 1;
    spotnik_donor_prune(donor);
    pthread_cond_broadcast(&donor->nearer);
    pthread_mutex_unlock(&donor->lock);
    return 0;
}

static bool has_number(uint8_t kind)
{
    return kind != SPOTNIK_PACKET_ASK && kind != SPOTNIK_PACKET_WANT_EXTRA;
}

static int on_request(struct spotnik_session *session)
{
    struct spotnik_reader reader;
    int rc = spotnik_packet_receive(&session->duplex, &session->packet, SPOTNIK_REQUEST_BYTES_MAX);

    if (rc)
        return rc;
    spotnik_reader_init(&reader, session->packet.body, session->packet.size);
    uint64_t number = has_number(session->packet.kind) ? spotnik_reader_u64(&reader) : 0;
    if (!spotnik_reader_is_done(&reader))
        return sorry(session, "a request of the wrong length");
    switch (session->packet.kind) {
    case SPOTNIK_PACKET_ASK:
        session->asked = true;
        return 0;
    case SPOTNIK_PACKET_SNAPSHOT:
        return on_snapshot(session, number);
    case SPOTNIK_PACKET_FETCH:
        return on_fetch(session, number);
    case SPOTNIK_PACKET_WANT_EXTRA:
        return on_extra(session);
    case SPOTNIK_PACKET_STREAM:
        return on_stream(session, number);
    case SPOTNIK_PACKET_ACK:
        return on_ack(session, number);
    }
    return sorry(session, "an unknown request");
}

/* ---- what we owe it ---- */

static int tell_view(struct spotnik_session *session, struct spotnik_runtime *runtime)
{
    struct spotnik_donor *donor = session->donor;
    struct spotnik_standing *answer = calloc(1, sizeof *answer);
    spotnik_job_status status;
    struct spotnik_writer writer;

    if (!answer)
        return SPOTNIK_ERR_MEMORY;
    spotnik_runtime_status(runtime, &status);
    answer->serving = !status.joining && !status.parked && status.size > 0;
    answer->member_count = spotnik_runtime_members(runtime, answer->member,
                                                   SPOTNIK_STANDING_MEMBERS_MAX, &answer->epoch);
    pthread_mutex_lock(&donor->lock);
    answer->serving &= !donor->outside;
    answer->committed = donor->committed;
    answer->waiting = donor->waiting;
    answer->step_ns = donor->step_ns;
    pthread_mutex_unlock(&donor->lock);
    answer->bytes = donor->registry->bytes;
    size_t size = spotnik_standing_size(answer, donor->registry);
    uint8_t *body = malloc(size);
    int rc = SPOTNIK_ERR_MEMORY;

    if (body) {
        spotnik_writer_init(&writer, body, size);
        spotnik_standing_write(answer, donor->registry, &writer);
        SPOTNIK_ASSERT(!writer.failed && writer.at == size);
        rc = spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_VIEW, body, size, NULL, 0);
    }
    free(body);
    free(answer);
    return rc;
}

/* Memory for the snapshot is got here, not in the caller's thread. Another session may have used
 * what there was, so this is asked again until we have ours. */
static int prepare(struct spotnik_session *session, struct spotnik_runtime *runtime)
{
    if (!spotnik_donor_provide(session->donor, session))
        return sorry(session, "no memory for a snapshot");
    spotnik_runtime_wake(runtime);
    return 0;
}

static int tell_taken(struct spotnik_session *session)
{
    uint8_t body[16];
    struct spotnik_writer writer;

    session->told_taken = true;
    spotnik_writer_init(&writer, body, sizeof body);
    spotnik_writer_u64(&writer, session->snapshot->step);
    spotnik_writer_u64(&writer, session->snapshot->bytes);
    return spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_TAKEN, body, sizeof body, NULL, 0);
}

/* Handover cuts a bucket in chunks of chunk_bytes; an empty bucket is one empty chunk
 * (src/step). */
static int send_bucket(struct spotnik_session *session, const struct spotnik_log_bucket *bucket,
                       uint64_t step, uint64_t latest)
{
    uint32_t element_bytes = spotnik_registry_element_bytes(bucket->dtype);
    uint64_t whole =
        element_bytes ? session->donor->chunk_bytes / element_bytes * element_bytes : 0;
    struct spotnik_result result = { .latest = latest };
    uint64_t offset = 0;

    result.header = (struct spotnik_chunk_header){ .handover = 1,
                                                   .dtype = bucket->dtype,
                                                   .op = bucket->op,
                                                   .step = step,
                                                   .bucket = bucket->bucket,
                                                   .count = bucket->count };
    do {
        uint64_t size = bucket->bytes - offset < whole ? bucket->bytes - offset : whole;
        uint8_t head[SPOTNIK_RESULT_BYTES];

        spotnik_result_write(&result, head);
        int rc = spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_RESULT, head, sizeof head,
                                     bucket->data + offset, size);
        if (rc)
            return rc;
        offset += size;
        result.header.sequence++;
    } while (offset < bucket->bytes);
    return 0;
}

static int send_step(struct spotnik_session *session, const struct spotnik_log_entry *entry,
                     uint64_t latest)
{
    /* A step without buckets is a barrier: the core counts it as one empty bucket of its own. */
    struct spotnik_log_bucket barrier = { .bucket = SPOTNIK_BUCKET_BARRIER,
                                          .dtype = SPOTNIK_U8,
                                          .op = SPOTNIK_MAX };
    int rc = 0;

    if (!entry->bucket_count)
        rc = send_bucket(session, &barrier, entry->step, latest);
    for (uint32_t i = 0; i < entry->bucket_count && !rc; i++)
        rc = send_bucket(session, &entry->bucket[i], entry->step, latest);
    return rc;
}

/* One step of the stream, or the word that there is none. *ret_more: there may be another. */
static int stream(struct spotnik_session *session, bool *ret_more)
{
    struct spotnik_donor *donor = session->donor;

    pthread_mutex_lock(&donor->lock);
    uint64_t stable = donor->stable;
    bool ready = session->stream_next <= stable;
    struct spotnik_log_entry *entry =
        ready ? spotnik_log_hold(&donor->log, session->stream_next) : NULL;
    pthread_mutex_unlock(&donor->lock);
    if (!entry && ready)
        return sorry(session, "results from that step on are no longer kept");
    if (!entry) {
        if (session->told_dry)
            return 0;
        session->told_dry = true;
        return spotnik_packet_send_u64(&session->duplex, SPOTNIK_PACKET_DRY, stable);
    }
    int rc = send_step(session, entry, stable);

    session->stream_next++;
    session->told_dry = false;
    *ret_more = true;
    pthread_mutex_lock(&donor->lock);
    spotnik_log_release(entry);
    pthread_mutex_unlock(&donor->lock);
    return rc;
}

static int serve(struct spotnik_session *session, bool *ret_more)
{
    struct spotnik_donor *donor = session->donor;
    int rc = 0;

    pthread_mutex_lock(&donor->lock);
    struct spotnik_runtime *runtime = donor->sealed ? donor->runtime : NULL;
    struct spotnik_snapshot *snapshot = session->snapshot; /* ours until the session ends */
    if (snapshot && snapshot->phase == SPOTNIK_SNAPSHOT_DUE)
        (void)spotnik_donor_copy(donor, snapshot, session);
    bool taken = snapshot && snapshot->phase == SPOTNIK_SNAPSHOT_COPIED && snapshot->confirmed
                 && snapshot->step <= donor->stable,
         bare = session->wants_snapshot && !donor->spare, spoilt = snapshot && snapshot->spoilt;
    pthread_mutex_unlock(&donor->lock);
    if (spoilt)
        return sorry(session, "the program has changed its state while it was copied");
    if (session->asked && runtime) {
        session->asked = false;
        rc = tell_view(session, runtime);
    }
    if (!rc && runtime && bare)
        rc = prepare(session, runtime);
    if (!rc && taken && !session->told_taken)
        rc = tell_taken(session);
    if (!rc && session->streaming)
        rc = stream(session, ret_more);
    return rc;
}

static bool is_ended(struct spotnik_session *session)
{
    pthread_mutex_lock(&session->donor->lock);
    bool ended = session->donor->stopping || session->dropped;
    pthread_mutex_unlock(&session->donor->lock);
    return ended;
}

/* It was too slow for the log. From where we are it knows whether a view can still let it in. */
static void tell_dropped(struct spotnik_session *session)
{
    pthread_mutex_lock(&session->donor->lock);
    bool tell = session->dropped && !session->donor->stopping && !session->donor->outside;
    uint64_t stable = session->donor->stable;
    pthread_mutex_unlock(&session->donor->lock);
    if (tell)
        spotnik_packet_send_u64(&session->duplex, SPOTNIK_PACKET_DROPPED, stable);
}

static int turn(struct spotnik_session *session, bool *more)
{
    struct pollfd wait[2] = { { session->duplex.fd, POLLIN, 0 }, { session->event, POLLIN, 0 } };
    bool asked = spotnik_tls_has_input(session->duplex.fd);
    int rc = 0, ready = poll(wait, 2, *more || asked ? 0 : SIGN_OF_LIFE_MS);

    if (wait[1].revents)
        spotnik_wake_take(session->event);
    if (wait[0].revents || asked)
        rc = on_request(session);
    if (!rc && ready == 0 && !asked && !*more)
        rc = spotnik_packet_send(&session->duplex, SPOTNIK_PACKET_WAIT, NULL, 0, NULL, 0);
    *more = false;
    return rc ? rc : serve(session, more);
}

static void end(struct spotnik_session *session)
{
    struct spotnik_donor *donor = session->donor;

    pthread_mutex_lock(&donor->lock);
    struct spotnik_session **at = &donor->session;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    donor->session_count--;
    struct spotnik_snapshot *last =
        session->snapshot ? spotnik_donor_release(donor, session->snapshot) : NULL;
    spotnik_donor_prune(donor);
    spotnik_duplex_close(&session->duplex);
    close(session->event);
    spotnik_packet_done(&session->packet);
    free(session);
    pthread_cond_broadcast(&donor->nearer);
    pthread_cond_broadcast(&donor->ended);
    /* The last access to the donor: a thread that waits for `ended` may free it now. */
    pthread_mutex_unlock(&donor->lock);
    spotnik_snapshot_free(last);
}

void *spotnik_session_run(void *argument)
{
    struct spotnik_session *session = argument;
    bool more = false;

    spotnik_packet_patience(session->duplex.fd, REQUEST_PATIENCE_NS);
    while (!is_ended(session) && turn(session, &more) == 0)
        continue;
    tell_dropped(session);
    end(session);
    return NULL;
}
