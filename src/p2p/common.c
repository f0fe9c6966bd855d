/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the members of one host have in common. A member that wants it asks the others of its
 * host, in order of rank. If none has it, the first of the host makes it and the others ask again.
 * It has no owner: it vanishes with the last member that has it mapped, and the death of any other
 * changes nothing. Decides which member makes it; the strategy decides its meaning.
 *
 * Two of a host may come to have two such memories when the one that made it dies while it is
 * handing it over. Then they are like members of two hosts until one of them lets go of its own:
 * nothing relies on there being one only. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "p2p/inside.h"
#include "shm/common.h"

#define PATIENCE_NS (10 * SPOTNIK_S)
#define PAUSE_NS (2 * SPOTNIK_MS)

struct spotnik_common {
    struct spotnik_common *next;
    char name[SPOTNIK_P2P_NAME_MAX + 1];
    uint64_t bytes;
    int fd;
    void *base;
};

/* Under the lock. */
static struct spotnik_common *find(const struct spotnik_p2p *p2p, const char *name)
{
    struct spotnik_common *common = p2p->commons;

    while (common && strcmp(common->name, name) != 0)
        common = common->next;
    return common;
}

/* ---- our clients ---- */

int spotnik_common_serve(struct spotnik_p2p_session *session, const struct spotnik_p2p_head *asked)
{
    struct spotnik_p2p *p2p = session->p2p;
    struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_ABSENT };
    int fd = -1;

    pthread_mutex_lock(&p2p->lock);
    const struct spotnik_common *common = find(p2p, asked->name);
    if (common && common->bytes != asked->bytes)
        head.kind = SPOTNIK_P2P_OTHER;
    else if (common && spotnik_duplex_is_local(&session->duplex))
        fd = dup(common->fd); /* ours may be closed meanwhile */
    pthread_mutex_unlock(&p2p->lock);
    if (fd < 0)
        return spotnik_pipe_write(&session->pipe, &head, NULL);
    head.kind = SPOTNIK_P2P_EXPORT;
    int rc = spotnik_pipe_write_file(&session->pipe, &head, fd);
    close(fd);
    return rc;
}

/* ---- asking ---- */

struct host {
    uint32_t count; /* members of our host in the view, we among them */
    bool is_first;  /* no other one has a lower rank */
    struct spotnik_member other[SPOTNIK_P2P_MEMBERS_MAX]; /* count - 1 of them, by rank */
};

static void host_look(struct spotnik_p2p *p2p, struct host *ret)
{
    struct spotnik_member member[SPOTNIK_P2P_MEMBERS_MAX];
    struct spotnik_id self = spotnik_discovery_self(p2p);
    uint64_t epoch;
    uint32_t size = spotnik_discovery_view(p2p, member, &epoch), own = 0;

    *ret = (struct host){ .count = 1, .is_first = true };
    while (own < size && !spotnik_id_equal(member[own].id, self))
        own++;
    for (uint32_t i = 0; own < size && i < size; i++) {
        if (i == own || member[i].host != member[own].host)
            continue;
        ret->other[ret->count++ - 1] = member[i];
        ret->is_first = ret->is_first && i > own;
    }
}

static int converse(struct spotnik_p2p *p2p, struct spotnik_duplex *duplex, const char *name,
                    uint64_t bytes, struct spotnik_p2p_head *ret_head, int *ret_fd)
{
    struct spotnik_pipe pipe = {
        .duplex = duplex, .wake_fd = -1, .silence_ns = p2p->silence_ns, .until_ns = SPOTNIK_NEVER
    };

    *ret_head = (struct spotnik_p2p_head){ .kind = SPOTNIK_P2P_SHARE,
                                           .dtype = SPOTNIK_F32,
                                           .bytes = bytes };
    memcpy(ret_head->name, name, strlen(name));
    int rc = spotnik_pipe_write(&pipe, ret_head, NULL);
    return rc ? rc : spotnik_pipe_read_file(&pipe, ret_head, ret_fd);
}

/* 0: *ret_fd is its memory, -1 when it has none. A member that we cannot ask has none. */
static int ask(struct spotnik_p2p *p2p, const struct spotnik_member *peer, const char *name,
               uint64_t bytes, int *ret_fd)
{
    struct spotnik_p2p_head head = { 0 };
    struct spotnik_duplex duplex;

    *ret_fd = -1;
    if (!spotnik_peer_kept(p2p, peer->id, &duplex) && spotnik_peer_dial(p2p, peer, -1, &duplex))
        return 0;
    if (!spotnik_duplex_is_local(&duplex) || converse(p2p, &duplex, name, bytes, &head, ret_fd)) {
        spotnik_duplex_close(&duplex);
        return 0;
    }
    spotnik_peer_keep(p2p, peer->id, &duplex);
    return head.kind != SPOTNIK_P2P_OTHER
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                      "%s: other members of this host have another number of "
                                      "elements in common: give all the same model",
                                      name);
}

static int add(struct spotnik_p2p *p2p, const char *name, uint64_t bytes, int fd, void *base)
{
    struct spotnik_common *common = calloc(1, sizeof *common);

    if (!common)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %s", name);
    *common = (struct spotnik_common){ .bytes = bytes, .fd = fd, .base = base };
    memcpy(common->name, name, strlen(name));
    pthread_mutex_lock(&p2p->lock);
    common->next = p2p->commons;
    p2p->commons = common;
    pthread_mutex_unlock(&p2p->lock);
    return 0;
}

/* From one of the others of our host. 0: *ret_base may be NULL still. */
static int take(struct spotnik_p2p *p2p, const struct host *host, const char *name, uint64_t bytes,
                void **ret_base)
{
    for (uint32_t i = 0; i + 1 < host->count; i++) {
        int fd, rc = ask(p2p, &host->other[i], name, bytes, &fd);
        if (!rc && fd >= 0)
            rc = spotnik_common_map(fd, bytes, ret_base);
        if (!rc && fd >= 0)
            rc = add(p2p, name, bytes, fd, *ret_base);
        if (rc && fd >= 0)
            close(fd);
        if (rc || fd >= 0)
            return rc;
    }
    return 0;
}

static int make(struct spotnik_p2p *p2p, const char *name, const float *initial, uint64_t bytes,
                void **ret_base)
{
    int fd, rc = spotnik_common_new(bytes, &fd, ret_base);

    if (rc)
        return rc;
    memcpy(*ret_base, initial, bytes);
    rc = add(p2p, name, bytes, fd, *ret_base);
    if (rc)
        close(fd);
    return rc;
}

static bool can_share(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    bool can = p2p->runtime && spotnik_runtime_is_sharing(p2p->runtime);
    pthread_mutex_unlock(&p2p->lock);
    return can;
}

/* We have none yet. Where the first of the host does not make it in time, it is of no use to wait
 * for it. */
static int obtain(struct spotnik_p2p *p2p, const char *name, const float *initial, uint64_t bytes,
                  void **ret_base)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), PATIENCE_NS);
    struct timespec pause = { .tv_nsec = PAUSE_NS };
    struct host *host = malloc(sizeof *host);
    int rc = host ? 0 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %s", name);

    *ret_base = NULL;
    while (!rc && !*ret_base) {
        host_look(p2p, host);
        rc = take(p2p, host, name, bytes, ret_base);
        if (rc || *ret_base)
            break;
        if (host->is_first || spotnik_clock_ns() >= until_ns)
            rc = make(p2p, name, initial, bytes, ret_base);
        else
            nanosleep(&pause, NULL);
    }
    free(host);
    return rc;
}

int spotnik_p2p_common(struct spotnik_p2p *p2p, const char *name, const float *initial,
                       uint64_t count, float **ret_memory)
{
    uint64_t bytes = count * sizeof *initial;
    void *base;

    pthread_mutex_lock(&p2p->lock);
    const struct spotnik_common *common = find(p2p, name);
    base = common ? common->base : NULL;
    bool differs = common && common->bytes != bytes;
    pthread_mutex_unlock(&p2p->lock);
    if (differs)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s has another number of elements already", name);
    if (!base && !can_share(p2p))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "members of one host cannot share memory here "
                                    "(SPOTNIK_TRANSPORT=tcp, or a system without memfd)");
    int rc = base ? 0 : obtain(p2p, name, initial, bytes, &base);
    if (!rc)
        *ret_memory = base;
    return rc;
}

uint32_t spotnik_p2p_neighbours(struct spotnik_p2p *p2p)
{
    struct host *host = malloc(sizeof *host);

    if (!host)
        return 1;
    host_look(p2p, host);
    uint32_t count = host->count;
    free(host);
    return count;
}

static void common_free(struct spotnik_common *common)
{
    spotnik_common_unmap(common->base, common->bytes);
    close(common->fd);
    free(common);
}

void spotnik_p2p_common_leave(struct spotnik_p2p *p2p, const char *name)
{
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_common *common = find(p2p, name), **at = &p2p->commons;
    while (common && *at != common)
        at = &(*at)->next;
    if (common)
        *at = common->next;
    pthread_mutex_unlock(&p2p->lock);
    if (common)
        common_free(common);
}

void spotnik_commons_free(struct spotnik_p2p *p2p)
{
    while (p2p->commons) {
        struct spotnik_common *common = p2p->commons;
        p2p->commons = common->next;
        common_free(common);
    }
}
