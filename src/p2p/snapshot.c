/* SPDX-License-Identifier: Apache-2.0 */
/* What is published under one name. The writer takes a buffer that is neither the newest nor
 * pinned, so it never waits. Three buffers suffice if readers are done before two more
 * publications. A slower reader keeps its own until it is done, and the writer gets another; there
 * are never more than readers and two. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/wake.h"
#include "p2p/inside.h"

#define VERSIONS_KEPT 3

struct spotnik_p2p_snapshot *spotnik_p2p_snapshot_find(const struct spotnik_p2p *p2p,
                                                       const char *name)
{
    struct spotnik_p2p_snapshot *snapshot = p2p->snapshots;

    while (snapshot && strcmp(snapshot->name, name) != 0)
        snapshot = snapshot->next;
    return snapshot;
}

/* ---- the writer ---- */

static int snapshot_new(struct spotnik_p2p *p2p, const char *name, uint64_t count,
                        enum spotnik_dtype dtype, struct spotnik_p2p_snapshot **ret)
{
    struct spotnik_p2p_snapshot *snapshot = calloc(1, sizeof *snapshot);

    if (p2p->snapshot_count >= SPOTNIK_P2P_SNAPSHOTS_MAX) {
        free(snapshot);
        return spotnik_error_return(SPOTNIK_ERR_LIMIT, "%s: at most %d names can be published",
                                    name, SPOTNIK_P2P_SNAPSHOTS_MAX);
    }
    if (!snapshot)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to publish %s", name);
    memcpy(snapshot->name, name, strlen(name) + 1);
    snapshot->dtype = dtype;
    snapshot->count = count;
    snapshot->bytes = count * spotnik_dtype_bytes(dtype);
    if (p2p->published)
        snapshot->row =
            spotnik_published_add(p2p->published, name, (uint64_t)dtype, snapshot->bytes);
    snapshot->next = p2p->snapshots;
    p2p->snapshots = snapshot;
    p2p->snapshot_count++;
    *ret = snapshot;
    return 0;
}

static int snapshot_get(struct spotnik_p2p *p2p, const char *name, uint64_t count,
                        enum spotnik_dtype dtype, struct spotnik_p2p_snapshot **ret)
{
    struct spotnik_p2p_snapshot *snapshot = spotnik_p2p_snapshot_find(p2p, name);

    if (!snapshot)
        return snapshot_new(p2p, name, count, dtype, ret);
    if (snapshot->count != count || snapshot->dtype != dtype)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s was published with %llu elements of type %d before; give "
                                    "another name to something else",
                                    name, (unsigned long long)snapshot->count,
                                    (int)snapshot->dtype);
    *ret = snapshot;
    return 0;
}

/* Room that is lent has no other use, and stays with its snapshot. */
static void version_free(struct spotnik_p2p_version *held)
{
    if (!held->lent)
        free(held->copy);
    free(held);
}

/* The one published first, so that direct readers had the longest time for it. NULL: a new one is
 * needed. */
static struct spotnik_p2p_version *version_find(const struct spotnik_p2p_snapshot *snapshot)
{
    struct spotnik_p2p_version *oldest = NULL;

    for (struct spotnik_p2p_version *one = snapshot->versions;
         one && snapshot->version_count >= VERSIONS_KEPT; one = one->next)
        if (!one->pins && one != snapshot->newest && (!oldest || one->taken < oldest->taken))
            oldest = one;
    return oldest;
}

/* Without the lock: megabytes are not had in no time. NULL: no memory. */
static struct spotnik_p2p_version *version_new(struct spotnik_p2p *p2p,
                                               const struct spotnik_p2p_snapshot *snapshot)
{
    struct spotnik_p2p_version *held = calloc(1, sizeof *held);

    if (!held)
        return NULL;
    held->copy = snapshot->row ? spotnik_export_take(p2p, snapshot->bytes) : NULL;
    held->lent = held->copy != NULL;
    if (!held->copy)
        held->copy = calloc(1, sizeof *held->copy + snapshot->bytes);
    if (held->copy)
        return held;
    free(held);
    return NULL;
}

/* Pinned for the writer. Under the lock, which is given up meanwhile. NULL: no memory. */
static struct spotnik_p2p_version *version_take(struct spotnik_p2p *p2p,
                                                struct spotnik_p2p_snapshot *snapshot)
{
    struct spotnik_p2p_version *held = version_find(snapshot);

    if (!held) {
        pthread_mutex_unlock(&p2p->lock);
        held = version_new(p2p, snapshot);
        pthread_mutex_lock(&p2p->lock);
        if (!held)
            return NULL;
        held->next = snapshot->versions;
        snapshot->versions = held;
        snapshot->version_count++;
    }
    held->pins++;
    held->taken = ++snapshot->published;
    return held;
}

/* Those that wait for something, and look whether this is it. */
static void wake_sessions(struct spotnik_p2p *p2p)
{
    for (struct spotnik_p2p_session *session = p2p->sessions; session; session = session->next)
        if (session->awaits)
            spotnik_wake(session->pipe.wake_fd);
}

static void show(const struct spotnik_p2p *p2p, const struct spotnik_p2p_snapshot *snapshot)
{
    if (snapshot->row)
        spotnik_published_show(snapshot->row, snapshot->newest
                                                  ? spotnik_export_offset(p2p, snapshot->newest)
                                                  : SPOTNIK_PUBLISHED_NOTHING);
}

int spotnik_p2p_publish(struct spotnik_p2p *p2p, const char *name, const void *data, uint64_t count,
                        enum spotnik_dtype dtype, uint64_t version)
{
    struct spotnik_p2p_snapshot *snapshot = NULL;

    spotnik_export_open(p2p);
    pthread_mutex_lock(&p2p->lock);
    int rc = snapshot_get(p2p, name, count, dtype, &snapshot);
    struct spotnik_p2p_version *held = rc ? NULL : version_take(p2p, snapshot);
    pthread_mutex_unlock(&p2p->lock);
    if (!held)
        return rc ? rc : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to publish %s", name);
    spotnik_published_write(held->copy, data, snapshot->bytes, version);
    pthread_mutex_lock(&p2p->lock);
    held->version = version;
    snapshot->newest = held;
    show(p2p, snapshot);
    spotnik_p2p_snapshot_unpin(snapshot, held);
    wake_sessions(p2p);
    pthread_mutex_unlock(&p2p->lock);
    return 0;
}

/* ---- readers ---- */

/* 0: *ret_held is pinned; NULL: there is none that is new enough. MISMATCH: not what was asked
 * for. */
int spotnik_p2p_snapshot_pin(struct spotnik_p2p *p2p, const struct spotnik_p2p_head *asked,
                             struct spotnik_p2p_snapshot **ret_snapshot,
                             struct spotnik_p2p_version **ret_held)
{
    struct spotnik_p2p_snapshot *snapshot = spotnik_p2p_snapshot_find(p2p, asked->name);
    struct spotnik_p2p_version *newest = snapshot ? snapshot->newest : NULL;

    if (snapshot && (snapshot->bytes != asked->bytes || (uint8_t)snapshot->dtype != asked->dtype))
        return SPOTNIK_ERR_MISMATCH;
    *ret_snapshot = snapshot;
    *ret_held = newest && newest->version >= asked->version ? newest : NULL;
    if (*ret_held)
        newest->pins++;
    return 0;
}

/* What a slow reader had kept is given back, unless it will be needed again. */
void spotnik_p2p_snapshot_unpin(struct spotnik_p2p_snapshot *snapshot,
                                struct spotnik_p2p_version *held)
{
    SPOTNIK_ASSERT(held->pins > 0);
    held->pins--;
    for (struct spotnik_p2p_version **at = &snapshot->versions; *at;) {
        struct spotnik_p2p_version *one = *at;
        if (snapshot->version_count > VERSIONS_KEPT && one->pins == 0 && one != snapshot->newest
            && !one->lent) {
            *at = one->next;
            snapshot->version_count--;
            version_free(one);
        } else {
            at = &one->next;
        }
    }
}

/* What was published here was that of another member. */
void spotnik_p2p_snapshot_clear(struct spotnik_p2p *p2p)
{
    for (struct spotnik_p2p_snapshot *snapshot = p2p->snapshots; snapshot;
         snapshot = snapshot->next) {
        snapshot->newest = NULL;
        show(p2p, snapshot);
    }
}

void spotnik_p2p_snapshot_free(struct spotnik_p2p *p2p)
{
    while (p2p->snapshots) {
        struct spotnik_p2p_snapshot *snapshot = p2p->snapshots;
        p2p->snapshots = snapshot->next;
        while (snapshot->versions) {
            struct spotnik_p2p_version *held = snapshot->versions;
            snapshot->versions = held->next;
            version_free(held);
        }
        free(snapshot);
    }
}
