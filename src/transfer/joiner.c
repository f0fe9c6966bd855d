/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner's donors, and the step after which to ask for the state. */
#include "transfer/joiner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/time.h"
#include "spotnik/spotnik.h"
#include "transfer/joiner_inside.h"

#define DIAL_TIMEOUT_NS (2 * SPOTNIK_S)
/* how far ahead of the members' steps the common boundary is chosen */
#define MEET_NS (20 * SPOTNIK_MS)
#define MEET_STEPS_MAX 1000

int spotnik_joiner_new(const struct spotnik_joiner_config *config,
                       struct spotnik_joiner **ret_joiner)
{
    struct spotnik_joiner *joiner = calloc(1, sizeof *joiner);

    if (!joiner)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to join");
    joiner->config = *config;
    pthread_mutex_init(&joiner->lock, NULL);
    pthread_cond_init(&joiner->changed, NULL);
    for (uint32_t i = 0; i < SPOTNIK_DONORS_MAX; i++) {
        joiner->source[i].joiner = joiner;
        joiner->source[i].duplex.fd = -1;
    }
    *ret_joiner = joiner;
    return 0;
}

void spotnik_giver_close(struct spotnik_giver *source)
{
    spotnik_duplex_close(&source->duplex);
}

static void close_all(struct spotnik_joiner *joiner)
{
    for (uint32_t i = 0; i < SPOTNIK_DONORS_MAX; i++) {
        spotnik_giver_close(&joiner->source[i]);
        spotnik_packet_done(&joiner->source[i].packet);
    }
    joiner->source_count = 0;
}

static bool is_stopped(struct spotnik_joiner *joiner)
{
    return joiner->config.stop && joiner->config.stop(joiner->config.context);
}

/* The next packet that says something. */
static int hear(struct spotnik_joiner *joiner, struct spotnik_giver *source, uint8_t kind)
{
    for (;;) {
        int rc = spotnik_packet_receive(&source->duplex, &source->packet, SPOTNIK_PACKET_BYTES_MAX);

        if (rc || source->packet.kind == kind)
            return rc;
        if (is_stopped(joiner))
            return spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                        "a notice came while the state was copied");
        if (source->packet.kind == SPOTNIK_PACKET_SORRY)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "a member cannot be our donor: %.*s",
                                        (int)source->packet.size,
                                        (const char *)source->packet.body);
        if (source->packet.kind == SPOTNIK_PACKET_DROPPED)
            return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                        "the members made more steps while we copied the state "
                                        "than a donor can keep for us");
        if (source->packet.kind != SPOTNIK_PACKET_WAIT)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "a member sent packet %u out of order",
                                        source->packet.kind);
    }
}

/* Connect to a member and hear what it knows. On success it is one more source, joiner->answer its
 * words. */
static int ask(struct spotnik_joiner *joiner, const struct spotnik_member *member)
{
    struct spotnik_giver *source = &joiner->source[joiner->source_count];
    struct spotnik_reader reader;
    const struct spotnik_credentials *credentials =
        spotnik_runtime_credentials(joiner->config.runtime);
    int rc = spotnik_net_dial(credentials, member->address, member->port, SPOTNIK_PURPOSE_STATE,
                              DIAL_TIMEOUT_NS, &source->duplex, &source->member);

    if (rc)
        return rc;
    spotnik_packet_patience(source->duplex.fd, SPOTNIK_DONOR_PATIENCE_NS);
    rc = spotnik_packet_send(&source->duplex, SPOTNIK_PACKET_ASK, NULL, 0, NULL, 0);
    if (!rc)
        rc = hear(joiner, source, SPOTNIK_PACKET_VIEW);
    if (!rc) {
        spotnik_reader_init(&reader, source->packet.body, source->packet.size);
        rc = spotnik_standing_read(&joiner->answer, joiner->config.registry, &reader);
    }
    if (!rc && !joiner->answer.serving)
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS,
                                  "the member that answered is not in the job yet itself");
    if (rc) {
        spotnik_giver_close(source);
        return rc;
    }
    joiner->source_count++;
    return 0;
}

static bool is_asked(const struct spotnik_joiner *joiner, struct spotnik_id id)
{
    if (spotnik_id_equal(id, spotnik_runtime_credentials(joiner->config.runtime)->self.id))
        return true;
    for (uint32_t i = 0; i < joiner->source_count; i++)
        if (spotnik_id_equal(id, joiner->source[i].member.id))
            return true;
    return false;
}

/* The sponsor and up to two others, from a random place in the ring so that joiners spread over the
 * members. A steps' worth of margin lets all donors copy at the same boundary. */
static int choose(struct spotnik_joiner *joiner, const struct spotnik_member *sponsor,
                  uint64_t *ret_at_least)
{
    int rc = ask(joiner, sponsor);

    if (rc)
        return rc;
    uint32_t count = joiner->answer.member_count;
    struct spotnik_member *member = malloc((count + 1) * sizeof *member);
    if (!member)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to join");
    memcpy(member, joiner->answer.member, count * sizeof *member);
    uint64_t committed = joiner->answer.committed, step_ns = joiner->answer.step_ns;
    uint32_t first =
        count ? (uint32_t)(spotnik_runtime_credentials(joiner->config.runtime)->self.id.low % count)
              : 0;

    for (uint32_t i = 0;
         i < count && joiner->source_count < SPOTNIK_DONORS_MAX && rc != SPOTNIK_ERR_LEAVING; i++) {
        const struct spotnik_member *candidate = &member[(first + i) % count];

        if (is_asked(joiner, candidate->id))
            continue;
        rc = ask(joiner, candidate);
        if (!rc && joiner->answer.committed > committed)
            committed = joiner->answer.committed;
    }
    free(member);
    uint64_t margin = step_ns ? MEET_NS / step_ns : 0;
    *ret_at_least = committed + 1 + (margin < MEET_STEPS_MAX ? margin : MEET_STEPS_MAX);
    return rc == SPOTNIK_ERR_LEAVING ? rc : 0;
}

static int hear_taken(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    struct spotnik_reader reader;
    int rc = hear(joiner, source, SPOTNIK_PACKET_TAKEN);

    if (rc)
        return rc;
    spotnik_reader_init(&reader, source->packet.body, source->packet.size);
    source->step = spotnik_reader_u64(&reader);
    uint64_t bytes = spotnik_reader_u64(&reader);
    if (!spotnik_reader_is_done(&reader) || bytes != joiner->config.registry->bytes)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a donor's snapshot has another size than it said");
    return 0;
}

/* All sources copy at their first boundary from `at_least` on. Those that copied at an earlier one
 * than others (they happened to wait there) are let go: results are streamed from one boundary
 * only. */
static int settle(struct spotnik_joiner *joiner, uint64_t at_least)
{
    int rc = 0;

    joiner->step = 0;
    for (uint32_t i = 0; i < joiner->source_count; i++)
        if (spotnik_packet_send_u64(&joiner->source[i].duplex, SPOTNIK_PACKET_SNAPSHOT, at_least))
            spotnik_giver_close(&joiner->source[i]);
    for (uint32_t i = 0; i < joiner->source_count; i++) {
        struct spotnik_giver *source = &joiner->source[i];

        if (source->duplex.fd < 0)
            continue;
        rc = hear_taken(joiner, source);
        if (rc)
            spotnik_giver_close(source);
        if (rc == SPOTNIK_ERR_LEAVING)
            return rc;
        if (!rc && source->step > joiner->step)
            joiner->step = source->step;
    }
    uint32_t open = 0;

    for (uint32_t i = 0; i < joiner->source_count; i++) {
        if (joiner->source[i].duplex.fd >= 0 && joiner->source[i].step != joiner->step)
            spotnik_giver_close(&joiner->source[i]);
        open += joiner->source[i].duplex.fd >= 0;
    }
    return open ? 0 : rc ? rc : SPOTNIK_ERR_PEERS;
}

/* What travels beside the tensors, whole, from one of the sources: theirs may differ in bytes. */
static int take_extra(struct spotnik_joiner *joiner, struct spotnik_giver *source)
{
    struct spotnik_reader reader;
    int rc = spotnik_packet_send(&source->duplex, SPOTNIK_PACKET_WANT_EXTRA, NULL, 0, NULL, 0);

    if (!rc)
        rc = hear(joiner, source, SPOTNIK_PACKET_EXTRA);
    if (rc)
        return rc;
    spotnik_reader_init(&reader, source->packet.body, source->packet.size);
    return spotnik_registry_extra_read(joiner->config.registry, &reader);
}

static int fetch_extra(struct spotnik_joiner *joiner)
{
    int rc = SPOTNIK_ERR_PEERS;

    for (uint32_t i = 0; i < joiner->source_count && rc == SPOTNIK_ERR_PEERS; i++) {
        struct spotnik_giver *source = &joiner->source[i];

        if (source->duplex.fd < 0)
            continue;
        rc = take_extra(joiner, source);
        if (rc)
            spotnik_giver_close(source);
    }
    return rc;
}

int spotnik_joiner_copy(struct spotnik_joiner *joiner, const struct spotnik_member *sponsor,
                        uint64_t *ret_step)
{
    uint64_t at_least = 0;

    SPOTNIK_ASSERT(!joiner->following);
    close_all(joiner);
    int rc = choose(joiner, sponsor, &at_least);
    if (!rc)
        rc = settle(joiner, at_least);
    if (!rc)
        rc = spotnik_joiner_fetch(joiner);
    if (!rc)
        rc = fetch_extra(joiner);
    if (!rc && spotnik_registry_is_failed(joiner->config.registry))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                  "the program could not take over the state that was received");
    if (rc) {
        close_all(joiner);
        return rc;
    }
    joiner->next_step = joiner->step + 1;
    *ret_step = joiner->step;
    return 0;
}

bool spotnik_joiner_has_written(const struct spotnik_joiner *joiner)
{
    return joiner->wrote;
}

bool spotnik_joiner_is_done(const struct spotnik_joiner *joiner)
{
    return __atomic_load_n(&joiner->done, __ATOMIC_ACQUIRE);
}

void spotnik_joiner_free(struct spotnik_joiner *joiner)
{
    if (!joiner)
        return;
    if (joiner->following) {
        __atomic_store_n(&joiner->stopping, true, __ATOMIC_RELEASE);
        pthread_mutex_lock(&joiner->lock);
        for (uint32_t i = 0; i < joiner->source_count; i++)
            if (joiner->source[i].duplex.fd >= 0)
                shutdown(joiner->source[i].duplex.fd, SHUT_RDWR);
        pthread_mutex_unlock(&joiner->lock);
        pthread_join(joiner->thread, NULL);
    }
    close_all(joiner);
    pthread_cond_destroy(&joiner->changed);
    pthread_mutex_destroy(&joiner->lock);
    free(joiner);
}
