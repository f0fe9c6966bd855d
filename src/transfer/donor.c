/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of a donor: snapshots at boundaries and the log of committed results. The conversation
 * with each joiner is in session.c. */
#include "transfer/donor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "transfer/donor_inside.h"
#include "transfer/memory.h"
#include "transfer/thread.h"

#define LOG_BYTES_MIN (UINT64_C(64) << 20)
#define LOG_STEPS_MIN 4
/* for what is on its way to a joiner that we drop, and the word of it */
#define FAREWELL_NS SPOTNIK_S

int spotnik_donor_new(struct spotnik_registry *registry, uint32_t chunk_bytes,
                      struct spotnik_donor **ret_donor)
{
    struct spotnik_donor *donor = calloc(1, sizeof *donor);

    if (!donor)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the state transfer");
    donor->registry = registry;
    donor->chunk_bytes = chunk_bytes;
    pthread_mutex_init(&donor->lock, NULL);
    pthread_cond_init(&donor->ended, NULL);
    pthread_cond_init(&donor->copied, NULL);
    spotnik_cond_init(&donor->nearer);
    *ret_donor = donor;
    return 0;
}

static void wake_all(struct spotnik_donor *donor)
{
    for (struct spotnik_session *session = donor->session; session; session = session->next)
        spotnik_session_wake(session);
}

void spotnik_donor_attach(struct spotnik_donor *donor, struct spotnik_runtime *runtime)
{
    pthread_mutex_lock(&donor->lock);
    donor->runtime = runtime;
    wake_all(donor);
    pthread_mutex_unlock(&donor->lock);
}

void spotnik_donor_seal(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    donor->sealed = true;
    donor->log_bytes_max = 2 * donor->registry->bytes;
    if (donor->log_bytes_max < LOG_BYTES_MIN)
        donor->log_bytes_max = LOG_BYTES_MIN;
    wake_all(donor);
    pthread_mutex_unlock(&donor->lock);
}

static struct spotnik_session *session_new(struct spotnik_donor *donor,
                                           const struct spotnik_duplex *duplex)
{
    struct spotnik_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->donor = donor;
    session->duplex = *duplex;
    session->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (session->event < 0) {
        free(session);
        return NULL;
    }
    return session;
}

static void unlink_session(struct spotnik_donor *donor, struct spotnik_session *session)
{
    struct spotnik_session **at = &donor->session;

    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    donor->session_count--;
}

void spotnik_donor_accept(struct spotnik_donor *donor, struct spotnik_duplex *duplex)
{
    struct spotnik_session *session = NULL;

    pthread_mutex_lock(&donor->lock);
    if (!donor->stopping && donor->session_count < SPOTNIK_SESSIONS_MAX)
        session = session_new(donor, duplex);
    if (session) {
        session->next = donor->session;
        donor->session = session;
        donor->session_count++;
        if (spotnik_thread_start(spotnik_session_run, session, NULL)) {
            unlink_session(donor, session);
            close(session->event);
            free(session);
            session = NULL;
        }
    }
    pthread_mutex_unlock(&donor->lock);
    if (!session)
        spotnik_duplex_close(
            duplex); /* to the joiner we are a donor that died: it turns to another */
}

/* ---- memory of snapshots ---- */

static size_t mapped_bytes(const struct spotnik_donor *donor)
{
    return donor->registry->bytes ? donor->registry->bytes : 1;
}

bool spotnik_donor_provide(struct spotnik_donor *donor, struct spotnik_session *session)
{
    pthread_mutex_lock(&donor->lock);
    bool wanted = !donor->spare && !donor->spare_coming;
    donor->spare_coming |= wanted;
    pthread_mutex_unlock(&donor->lock);
    if (!wanted)
        return true;
    void *memory = spotnik_memory_warm(mapped_bytes(donor), spotnik_session_live, session);
    pthread_mutex_lock(&donor->lock);
    donor->spare_coming = false;
    if (memory)
        donor->spare = memory;
    pthread_mutex_unlock(&donor->lock);
    return memory != NULL;
}

struct spotnik_snapshot *spotnik_donor_release(struct spotnik_donor *donor,
                                               struct spotnik_snapshot *snapshot)
{
    SPOTNIK_ASSERT(snapshot->references);
    if (--snapshot->references)
        return NULL;
    struct spotnik_snapshot **at = &donor->snapshot;

    while (*at != snapshot)
        at = &(*at)->next;
    *at = snapshot->next;
    donor->snapshot_count--;
    return snapshot;
}

void spotnik_snapshot_free(struct spotnik_snapshot *snapshot)
{
    if (!snapshot)
        return;
    munmap(snapshot->data, snapshot->bytes ? snapshot->bytes : 1);
    free(snapshot->extra);
    free(snapshot);
}

void spotnik_donor_prune(struct spotnik_donor *donor)
{
    uint64_t needed = UINT64_MAX;
    bool wanted = false;

    for (struct spotnik_session *session = donor->session; session; session = session->next) {
        if (session->snapshot && !session->dropped && session->needed < needed)
            needed = session->needed;
        wanted |= session->wants_snapshot;
    }
    spotnik_log_prune(&donor->log, needed);
    if (!wanted && donor->spare) {
        munmap(donor->spare, mapped_bytes(donor));
        donor->spare = NULL;
    }
}

/* ---- the boundary hook ---- */

static bool is_due(const struct spotnik_donor *donor, const struct spotnik_session *session)
{
    return session->wants_snapshot && (donor->waiting || donor->committed >= session->at_least);
}

static void give(struct spotnik_donor *donor, struct spotnik_snapshot *snapshot)
{
    for (struct spotnik_session *session = donor->session; session; session = session->next) {
        if (!is_due(donor, session))
            continue;
        session->wants_snapshot = false;
        session->snapshot = snapshot;
        session->needed = snapshot->step + 1;
        snapshot->references++;
        spotnik_session_wake(session);
    }
}

static struct spotnik_snapshot *present(struct spotnik_donor *donor)
{
    for (struct spotnik_snapshot *snapshot = donor->snapshot; snapshot; snapshot = snapshot->next)
        if (snapshot->step == donor->committed)
            return snapshot;
    return NULL;
}

/* False: no memory. */
static bool take_extra(const struct spotnik_registry *registry, struct spotnik_snapshot *snapshot)
{
    struct spotnik_writer writer;

    snapshot->extra_bytes = spotnik_registry_extra_size(registry);
    snapshot->extra = malloc(snapshot->extra_bytes);
    if (!snapshot->extra)
        return false;
    spotnik_writer_init(&writer, snapshot->extra, snapshot->extra_bytes);
    spotnik_registry_extra_write(registry, &writer);
    SPOTNIK_ASSERT(!writer.failed && writer.at == writer.size);
    return true;
}

/* The lock is given up meanwhile: only this thread changes the state. `waiting`: the program is not
 * about to compute, so nothing is left for later. */
static bool fill(struct spotnik_donor *donor, struct spotnik_snapshot *snapshot, bool waiting)
{
    struct spotnik_registry *registry = donor->registry;
    bool late = !waiting && spotnik_registry_has_late(registry);

    pthread_mutex_unlock(&donor->lock);
    spotnik_registry_refresh(registry);
    bool good = take_extra(registry, snapshot);
    if (good)
        spotnik_registry_read(registry, late ? SPOTNIK_REGISTRY_EARLY : SPOTNIK_REGISTRY_ALL, 0,
                              snapshot->data, snapshot->bytes);
    pthread_mutex_lock(&donor->lock);
    snapshot->phase = late ? SPOTNIK_SNAPSHOT_DUE : SPOTNIK_SNAPSHOT_COPIED;
    snapshot->confirmed = !late;
    snapshot->spoilt = spotnik_registry_is_failed(registry);
    return good;
}

/* Begin to copy the state into the spare memory. */
static struct spotnik_snapshot *take(struct spotnik_donor *donor, bool waiting)
{
    struct spotnik_snapshot *snapshot = NULL;

    if (donor->spare && donor->snapshot_count < SPOTNIK_SNAPSHOTS_MAX)
        snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot) {
        wake_all(donor); /* one of those waiting gets more memory; the hook comes again */
        return NULL;
    }
    snapshot->step = donor->committed;
    snapshot->bytes = donor->registry->bytes;
    snapshot->data = donor->spare;
    donor->spare = NULL;
    if (!fill(donor, snapshot, waiting)) {
        spotnik_snapshot_free(snapshot); /* the joiners wait on, and the hook comes again */
        return NULL;
    }
    snapshot->next = donor->snapshot;
    donor->snapshot = snapshot;
    donor->snapshot_count++;
    return snapshot;
}

/* ---- the late copy ---- */

struct spotnik_snapshot *spotnik_donor_copy(struct spotnik_donor *donor,
                                            struct spotnik_snapshot *snapshot,
                                            struct spotnik_session *session)
{
    const uint64_t piece = SPOTNIK_MEMORY_PIECE_BYTES;

    SPOTNIK_ASSERT(snapshot->phase == SPOTNIK_SNAPSHOT_DUE);
    snapshot->phase = SPOTNIK_SNAPSHOT_COPYING;
    snapshot->references++;
    for (uint64_t at = 0; at < snapshot->bytes && !snapshot->spoilt; at += piece) {
        uint64_t left = snapshot->bytes - at, size = left < piece ? left : piece;

        pthread_mutex_unlock(&donor->lock);
        if (session && at)
            spotnik_session_live(session);
        spotnik_registry_read(donor->registry, SPOTNIK_REGISTRY_LATE, at, snapshot->data + at,
                              size);
        pthread_mutex_lock(&donor->lock);
        snapshot->spoilt |= donor->stopping || spotnik_registry_is_failed(donor->registry);
    }
    snapshot->phase = SPOTNIK_SNAPSHOT_COPIED;
    pthread_cond_broadcast(&donor->copied);
    wake_all(donor);
    return spotnik_donor_release(donor, snapshot);
}

static struct spotnik_snapshot *uncopied(struct spotnik_donor *donor)
{
    struct spotnik_snapshot *snapshot = donor->snapshot;

    while (snapshot && snapshot->phase == SPOTNIK_SNAPSHOT_COPIED)
        snapshot = snapshot->next;
    return snapshot;
}

/* Under the lock. A session that has not come to its copy yet may be held up by its joiner, so this
 * thread copies in its place. */
static void settle(struct spotnik_donor *donor)
{
    struct spotnik_snapshot *snapshot, *last;

    while ((snapshot = uncopied(donor))) {
        if (snapshot->phase == SPOTNIK_SNAPSHOT_COPYING) {
            pthread_cond_wait(&donor->copied, &donor->lock);
            continue;
        }
        last = spotnik_donor_copy(donor, snapshot, NULL);
        pthread_mutex_unlock(&donor->lock);
        spotnik_snapshot_free(last);
        pthread_mutex_lock(&donor->lock);
    }
}

void spotnik_donor_settle(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    settle(donor);
    pthread_mutex_unlock(&donor->lock);
}

static void confirm(struct spotnik_donor *donor)
{
    for (struct spotnik_snapshot *one = donor->snapshot; one; one = one->next)
        one->confirmed = true;
    if (donor->snapshot)
        wake_all(donor);
}

void spotnik_donor_confirm(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    confirm(donor);
    pthread_mutex_unlock(&donor->lock);
}

/* Under the lock. */
static void spoil(struct spotnik_donor *donor)
{
    for (struct spotnik_snapshot *one = donor->snapshot; one; one = one->next)
        one->spoilt |= !one->confirmed;
    wake_all(donor);
}

void spotnik_donor_spoil(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    spoil(donor);
    pthread_mutex_unlock(&donor->lock);
}

void spotnik_donor_stable(struct spotnik_donor *donor, uint64_t step)
{
    pthread_mutex_lock(&donor->lock);
    if (step > donor->stable && !donor->outside) {
        donor->stable = step;
        wake_all(donor);
    }
    pthread_mutex_unlock(&donor->lock);
}

/* The core's word on stability and membership, for waiting threads. */
static void look(struct spotnik_donor *donor)
{
    struct spotnik_runtime *runtime = donor->runtime;
    spotnik_job_status status;

    if (!runtime || (!donor->session && !donor->outside))
        return;
    pthread_mutex_unlock(&donor->lock);
    spotnik_runtime_status(runtime, &status);
    pthread_mutex_lock(&donor->lock);
    if (status.joining)
        return;
    donor->outside = false;
    if (status.step_stable > donor->stable) {
        donor->stable = status.step_stable;
        wake_all(donor);
    }
}

void spotnik_donor_boundary(struct spotnik_donor *donor, uint64_t committed, bool waiting)
{
    struct spotnik_snapshot *untaken = NULL;
    bool due = false;

    pthread_mutex_lock(&donor->lock);
    donor->committed = committed;
    donor->waiting = waiting;
    look(donor);
    for (struct spotnik_session *session = donor->session; session; session = session->next)
        due |= is_due(donor, session);
    if (due) {
        struct spotnik_snapshot *snapshot = present(donor);

        if (!snapshot)
            snapshot = take(donor, waiting);
        if (snapshot) {
            snapshot->references++; /* nobody may be left to take it: it then goes at once */
            give(donor, snapshot);
            untaken = spotnik_donor_release(donor, snapshot);
        }
        spotnik_donor_prune(donor);
    }
    if (!waiting)
        spotnik_donor_await(donor);
    pthread_mutex_unlock(&donor->lock);
    spotnik_snapshot_free(untaken);
}

/* ---- the commit hook ---- */

static bool is_attached(const struct spotnik_session *session)
{
    return session->snapshot && !session->dropped;
}

/* Its thread tells the joiner so, which else could not tell us from a donor that died. */
static void drop(struct spotnik_donor *donor, struct spotnik_session *session)
{
    session->dropped = true;
    session->dropped_ns = spotnik_clock_ns();
    donor->dropped++;
    spotnik_session_wake(session);
}

/* One that reads nothing would keep its thread for ever. */
static void cut_late(struct spotnik_donor *donor, uint64_t now_ns)
{
    for (struct spotnik_session *session = donor->session; session; session = session->next)
        if (session->dropped && spotnik_time_since(now_ns, session->dropped_ns) > FAREWELL_NS)
            shutdown(session->duplex.fd, SHUT_RDWR);
}

/* The log is bounded: a joiner that needs the oldest entries is too slow and starts over. */
static void limit(struct spotnik_donor *donor)
{
    while (donor->log.bytes > donor->log_bytes_max
           && donor->log.last->step - donor->log.first->step >= LOG_STEPS_MIN) {
        for (struct spotnik_session *session = donor->session; session; session = session->next)
            if (is_attached(session) && session->needed <= donor->log.first->step)
                drop(donor, session);
        if (donor->log_wait_from_ns == 0)
            donor->log_wait_from_ns = spotnik_clock_ns();
        spotnik_donor_prune(donor);
    }
}

static void measure_step(struct spotnik_donor *donor)
{
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t took_ns = donor->committed_ns ? spotnik_time_since(now_ns, donor->committed_ns) : 0;

    donor->committed_ns = now_ns;
    donor->step_ns = donor->step_ns ? donor->step_ns - donor->step_ns / 8 + took_ns / 8 : took_ns;
}

static bool has_joiners(const struct spotnik_donor *donor)
{
    for (const struct spotnik_session *session = donor->session; session; session = session->next)
        if (is_attached(session))
            return true;
    return false;
}

static void keep(struct spotnik_donor *donor, struct spotnik_log_entry *entry)
{
    if (entry) {
        spotnik_log_append(&donor->log, entry);
        return;
    }
    for (struct spotnik_session *session = donor->session; session; session = session->next)
        if (is_attached(session))
            drop(donor, session); /* no memory: they start over, we go on */
    spotnik_donor_prune(donor);
}

void spotnik_donor_committed(struct spotnik_donor *donor, uint64_t step, uint32_t bucket_count,
                             const struct spotnik_bucket_result *result)
{
    struct spotnik_log_entry *entry = NULL;

    pthread_mutex_lock(&donor->lock);
    confirm(donor);
    settle(donor);
    bool wanted = has_joiners(donor);
    if (wanted) {
        pthread_mutex_unlock(&donor->lock);
        entry = spotnik_log_entry_new(step, bucket_count,
                                      result); /* without the lock: it may be many megabytes */
        pthread_mutex_lock(&donor->lock);
    }
    measure_step(donor);
    cut_late(donor, donor->committed_ns);
    donor->waiting = false;
    donor->committed = step;
    if (step > donor->stable + 1)
        donor->stable =
            /* everybody has contributed to this step, and so has committed the one before */
            step - 1;
    if (wanted && has_joiners(donor)) {
        keep(donor, entry);
        limit(donor);
        wake_all(donor);
    } else if (entry) {
        spotnik_log_release(entry);
    }
    pthread_mutex_unlock(&donor->lock);
}

void spotnik_donor_reset(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    for (struct spotnik_session *session = donor->session; session; session = session->next)
        if (session->snapshot) {
            if (!session->dropped)
                drop(donor, session);
            shutdown(session->duplex.fd, SHUT_RDWR);
        }
    spoil(donor);
    settle(donor);
    donor->outside = true;
    donor->stable = 0;
    spotnik_donor_prune(donor);
    SPOTNIK_ASSERT(!donor->log.first);
    pthread_mutex_unlock(&donor->lock);
}

/* ---- the end ---- */

void spotnik_donor_status(struct spotnik_donor *donor, struct spotnik_donor_status *ret)
{
    pthread_mutex_lock(&donor->lock);
    /* Before there is a snapshot the program may still be adding tensors. */
    uint64_t each = donor->snapshot_count ? donor->registry->bytes : 0;
    *ret = (struct spotnik_donor_status){ .sessions = donor->session_count,
                                          .log_bytes = donor->log.bytes,
                                          .dropped = donor->dropped,
                                          .snapshot_bytes = donor->snapshot_count * each };
    pthread_mutex_unlock(&donor->lock);
}

void spotnik_donor_stop(struct spotnik_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    donor->stopping = true;
    for (struct spotnik_session *session = donor->session; session; session = session->next) {
        shutdown(session->duplex.fd, SHUT_RDWR);
        spotnik_session_wake(session);
    }
    while (donor->session_count)
        pthread_cond_wait(&donor->ended, &donor->lock);
    spotnik_donor_prune(donor);
    pthread_mutex_unlock(&donor->lock);
}

void spotnik_donor_free(struct spotnik_donor *donor)
{
    if (!donor)
        return;
    SPOTNIK_ASSERT(!donor->session_count && !donor->snapshot && !donor->log.first);
    pthread_cond_destroy(&donor->ended);
    pthread_cond_destroy(&donor->copied);
    pthread_cond_destroy(&donor->nearer);
    pthread_mutex_destroy(&donor->lock);
    free(donor);
}
