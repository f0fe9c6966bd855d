/* SPDX-License-Identifier: Apache-2.0 */
/* Following the job: committed results go from one donor into the runtime until the members have
 * let us in. The caller runs its own loop meanwhile. The runtime makes this thread wait when the
 * caller is not that far yet, and TCP passes that on to the donor. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"
#include "transfer/joiner_inside.h"
#include "transfer/thread.h"

#define LOOK_MS 10
#define NEAR_STEPS 1 /* behind */

static bool is_stopping(const struct spotnik_joiner *joiner)
{
    return __atomic_load_n(&joiner->stopping, __ATOMIC_ACQUIRE);
}

static bool is_in(struct spotnik_joiner *joiner)
{
    spotnik_job_status status;

    spotnik_runtime_status(joiner->config.runtime, &status);
    return !status.joining;
}

static void close_source(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    pthread_mutex_lock(&joiner->lock); /* spotnik_joiner_free() may be about to shut it down */
    spotnik_giver_close(source);
    pthread_mutex_unlock(&joiner->lock);
}

/* Near enough: ask this donor to let us in, once for each donor. */
static void enter(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    uint64_t index = (uint64_t)(source - joiner->source) + 1;

    if (joiner->entered_by == index)
        return;
    joiner->entered_by = index;
    spotnik_runtime_enter(joiner->config.runtime, &source->member);
}

/* The caller has started step `step`, so the ones before are applied: all donors may forget
 * them. One that cannot be told is lost, and closed. */
static void acknowledge(struct spotnik_joiner *joiner, uint64_t step)
{
    if (step <= joiner->next_step)
        return;
    joiner->next_step = step;
    for (uint32_t i = 0; i < joiner->source_count; i++)
        if (joiner->source[i].duplex.fd >= 0
            && spotnik_packet_send_u64(&joiner->source[i].duplex, SPOTNIK_PACKET_ACK, step - 1))
            close_source(joiner, &joiner->source[i]);
}

static int on_result(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    struct spotnik_reader reader;
    struct spotnik_result result;

    spotnik_reader_init(&reader, source->packet.body, source->packet.size);
    spotnik_result_read(&reader, &result);
    size_t size = spotnik_reader_left(&reader);
    const uint8_t *bytes = spotnik_reader_skip(&reader, size);
    if (reader.failed)
        return SPOTNIK_ERR_PEERS;
    joiner->replayed = result.header.step;
    if (result.latest > joiner->stable)
        joiner->stable = result.latest;
    if (spotnik_nearness_asks(&joiner->nearness, NEAR_STEPS, result.header.step, result.latest,
                              spotnik_clock_ns()))
        enter(joiner, source);
    int rc = spotnik_runtime_handover(joiner->config.runtime, &result.header, bytes, size);
    if (!rc)
        acknowledge(joiner, result.header.step);
    /* nothing comes from a closed connection, not even its end */
    return !rc && source->duplex.fd < 0 ? SPOTNIK_ERR_PEERS : rc;
}

/* This donor lives, and has no more for us. */
static int on_dropped(struct spotnik_joiner *joiner, const struct spotnik_giver *source)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, source->packet.body, source->packet.size);
    uint64_t stable = spotnik_reader_u64(&reader);
    if (!reader.failed && stable > joiner->stable)
        joiner->stable = stable;
    return SPOTNIK_ERR_PEERS;
}

static int on_packet(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    int rc = spotnik_packet_receive(&source->duplex, &source->packet, SPOTNIK_PACKET_BYTES_MAX);

    if (rc)
        return rc;
    switch (source->packet.kind) {
    case SPOTNIK_PACKET_RESULT:
        return on_result(joiner, source);
    case SPOTNIK_PACKET_DRY:
        enter(joiner, source);
        return 0;
    case SPOTNIK_PACKET_WAIT:
        return 0;
    case SPOTNIK_PACKET_DROPPED:
        return on_dropped(joiner, source);
    }
    return SPOTNIK_ERR_PEERS;
}

/* Take the stream of one donor. True: we are in, or have to stop; false: the donor is lost. */
static bool follow(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    uint64_t heard_ns = spotnik_clock_ns();

    if (spotnik_packet_send_u64(&source->duplex, SPOTNIK_PACKET_STREAM, joiner->next_step))
        return false;
    while (!is_stopping(joiner) && !is_in(joiner)) {
        struct pollfd wait = { source->duplex.fd, POLLIN, 0 };
        int ready = spotnik_tls_has_input(source->duplex.fd) ? 1 : poll(&wait, 1, LOOK_MS);

        if (ready > 0) {
            if (on_packet(joiner, source))
                return is_stopping(joiner) || is_in(joiner);
            heard_ns = spotnik_clock_ns();
        } else if (spotnik_time_since(spotnik_clock_ns(), heard_ns) > SPOTNIK_DONOR_PATIENCE_NS) {
            return false;
        }
    }
    return true;
}

static bool has_time_left(const struct spotnik_joiner *joiner, uint64_t lost_ns)
{
    return !is_stopping(joiner) && spotnik_nearness_may_enter(joiner->replayed, joiner->stable)
           && spotnik_time_since(spotnik_clock_ns(), lost_ns) <= joiner->config.patience_ns;
}

/* All donors are lost. The members may have let us in already, or be about to: were we to go now,
 * they would lose a member whose death nobody can prove. The result of the last step comes from our
 * predecessor in the ring, so a joiner that is near needs no donor. One that is not let in by then
 * starts over. So does, at once, one that asked from afar: no view can let it in, and the members
 * would freeze for it in vain as long as it asks. */
static bool comes_in(struct spotnik_joiner *joiner)
{
    uint64_t lost_ns = spotnik_clock_ns();

    if (joiner->entered_by == 0)
        return false;
    while (!is_in(joiner)) {
        if (!has_time_left(joiner, lost_ns))
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return true;
}

static void *run(void *argument)
{
    struct spotnik_joiner *joiner = argument;
    bool over = false;

    for (uint32_t i = 0; i < joiner->source_count && !over; i++)
        if (joiner->source[i].duplex.fd >= 0) {
            over = follow(joiner, &joiner->source[i]);
            close_source(joiner, &joiner->source[i]);
        }
    for (uint32_t i = 0; i < joiner->source_count; i++)
        close_source(joiner, &joiner->source[i]);
    over = over || comes_in(joiner);
    __atomic_store_n(&joiner->done, true, __ATOMIC_RELEASE);
    if (!over && !is_stopping(joiner) && joiner->config.lost)
        joiner->config.lost(joiner->config.context);
    return NULL;
}

int spotnik_joiner_follow(struct spotnik_joiner *joiner)
{
    SPOTNIK_ASSERT(!joiner->following);
    int rc = spotnik_thread_start(run, joiner, &joiner->thread);

    joiner->following = rc == 0;
    return rc;
}
