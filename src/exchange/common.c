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
#include "exchange/inside.h"
#include "shm/common.h"

#define PATIENCE_NS (10 * SPOTNIK_S)
#define PAUSE_NS (2 * SPOTNIK_MS)

struct spotnik_common {
    struct spotnik_common *next;
    char name[SPOTNIK_EXCHANGE_NAME_MAX + 1];
    uint64_t bytes;
    int fd;
    void *base;
};

/* Under the lock. */
static struct spotnik_common *find(const struct spotnik_exchange *exchange, const char *name)
{
    struct spotnik_common *common = exchange->commons;

    while (common && strcmp(common->name, name) != 0)
        common = common->next;
    return common;
}

/* ---- our clients ---- */

int spotnik_common_serve(struct spotnik_exchange_session *session,
                         const struct spotnik_exchange_head *asked)
{
    struct spotnik_exchange *exchange = session->exchange;
    struct spotnik_exchange_head head = { .kind = SPOTNIK_EXCHANGE_ABSENT };
    int fd = -1;

    pthread_mutex_lock(&exchange->lock);
    const struct spotnik_common *common = find(exchange, asked->name);
    if (common && common->bytes != asked->bytes)
        head.kind = SPOTNIK_EXCHANGE_OTHER;
    else if (common && spotnik_pipe_is_local(session->pipe.fd))
        fd = dup(common->fd); /* ours may be closed meanwhile */
    pthread_mutex_unlock(&exchange->lock);
    if (fd < 0)
        return spotnik_pipe_write(&session->pipe, &head, NULL);
    head.kind = SPOTNIK_EXCHANGE_LEND;
    int rc = spotnik_pipe_write_file(&session->pipe, &head, fd);
    close(fd);
    return rc;
}

/* ---- asking ---- */

struct host {
    uint32_t count; /* members of our host in the view, we among them */
    bool is_first;  /* no other one has a lower rank */
    struct spotnik_member other[SPOTNIK_EXCHANGE_MEMBERS_MAX]; /* count - 1 of them, by rank */
};

static void host_look(struct spotnik_exchange *exchange, struct host *ret)
{
    struct spotnik_member member[SPOTNIK_EXCHANGE_MEMBERS_MAX];
    struct spotnik_id self = spotnik_peers_self(exchange);
    uint64_t epoch;
    uint32_t size = spotnik_peers_view(exchange, member, &epoch), own = 0;

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

static int converse(struct spotnik_exchange *exchange, int fd, const char *name, uint64_t bytes,
                    struct spotnik_exchange_head *ret_head, int *ret_fd)
{
    struct spotnik_pipe pipe = {
        .fd = fd, .wake_fd = -1, .silence_ns = exchange->silence_ns, .until_ns = SPOTNIK_NEVER
    };

    *ret_head = (struct spotnik_exchange_head){ .kind = SPOTNIK_EXCHANGE_SHARE,
                                                .dtype = SPOTNIK_F32,
                                                .bytes = bytes };
    memcpy(ret_head->name, name, strlen(name));
    int rc = spotnik_pipe_write(&pipe, ret_head, NULL);
    return rc ? rc : spotnik_pipe_read_file(&pipe, ret_head, ret_fd);
}

/* 0: *ret_fd is its memory, -1 when it has none. A member that we cannot ask has none. */
static int ask(struct spotnik_exchange *exchange, const struct spotnik_member *peer,
               const char *name, uint64_t bytes, int *ret_fd)
{
    struct spotnik_exchange_head head = { 0 };
    int fd = spotnik_peer_kept(exchange, peer->id);

    *ret_fd = -1;
    if (fd < 0 && spotnik_peer_dial(exchange, peer, -1, &fd))
        return 0;
    if (!spotnik_pipe_is_local(fd) || converse(exchange, fd, name, bytes, &head, ret_fd)) {
        close(fd);
        return 0;
    }
    spotnik_peer_keep(exchange, peer->id, fd);
    return head.kind != SPOTNIK_EXCHANGE_OTHER
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                      "%s: other members of this host have another number of "
                                      "elements in common: give all the same model",
                                      name);
}

static int add(struct spotnik_exchange *exchange, const char *name, uint64_t bytes, int fd,
               void *base)
{
    struct spotnik_common *common = calloc(1, sizeof *common);

    if (!common)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %s", name);
    *common = (struct spotnik_common){ .bytes = bytes, .fd = fd, .base = base };
    memcpy(common->name, name, strlen(name));
    pthread_mutex_lock(&exchange->lock);
    common->next = exchange->commons;
    exchange->commons = common;
    pthread_mutex_unlock(&exchange->lock);
    return 0;
}

/* From one of the others of our host. 0: *ret_base may be NULL still. */
static int take(struct spotnik_exchange *exchange, const struct host *host, const char *name,
                uint64_t bytes, void **ret_base)
{
    for (uint32_t i = 0; i + 1 < host->count; i++) {
        int fd, rc = ask(exchange, &host->other[i], name, bytes, &fd);
        if (!rc && fd >= 0)
            rc = spotnik_common_map(fd, bytes, ret_base);
        if (!rc && fd >= 0)
            rc = add(exchange, name, bytes, fd, *ret_base);
        if (rc && fd >= 0)
            close(fd);
        if (rc || fd >= 0)
            return rc;
    }
    return 0;
}

static int make(struct spotnik_exchange *exchange, const char *name, const float *initial,
                uint64_t bytes, void **ret_base)
{
    int fd, rc = spotnik_common_new(bytes, &fd, ret_base);

    if (rc)
        return rc;
    memcpy(*ret_base, initial, bytes);
    rc = add(exchange, name, bytes, fd, *ret_base);
    if (rc)
        close(fd);
    return rc;
}

static bool can_share(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool can = exchange->engine && spotnik_engine_is_sharing(exchange->engine);
    pthread_mutex_unlock(&exchange->lock);
    return can;
}

/* We have none yet. Where the first of the host does not make it in time, it is of no use to wait
 * for it. */
static int obtain(struct spotnik_exchange *exchange, const char *name, const float *initial,
                  uint64_t bytes, void **ret_base)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), PATIENCE_NS);
    struct timespec pause = { .tv_nsec = PAUSE_NS };
    struct host *host = malloc(sizeof *host);
    int rc = host ? 0 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %s", name);

    *ret_base = NULL;
    while (!rc && !*ret_base) {
        host_look(exchange, host);
        rc = take(exchange, host, name, bytes, ret_base);
        if (rc || *ret_base)
            break;
        if (host->is_first || spotnik_clock_ns() >= until_ns)
            rc = make(exchange, name, initial, bytes, ret_base);
        else
            nanosleep(&pause, NULL);
    }
    free(host);
    return rc;
}

int spotnik_exchange_common(struct spotnik_exchange *exchange, const char *name,
                            const float *initial, uint64_t count, float **ret_memory)
{
    uint64_t bytes = count * sizeof *initial;
    void *base;

    pthread_mutex_lock(&exchange->lock);
    const struct spotnik_common *common = find(exchange, name);
    base = common ? common->base : NULL;
    bool differs = common && common->bytes != bytes;
    pthread_mutex_unlock(&exchange->lock);
    if (differs)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s has another number of elements already", name);
    if (!base && !can_share(exchange))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "members of one host cannot share memory here "
                                    "(SPOTNIK_TRANSPORT=tcp, or a system without memfd)");
    int rc = base ? 0 : obtain(exchange, name, initial, bytes, &base);
    if (!rc)
        *ret_memory = base;
    return rc;
}

uint32_t spotnik_exchange_neighbours(struct spotnik_exchange *exchange)
{
    struct host *host = malloc(sizeof *host);

    if (!host)
        return 1;
    host_look(exchange, host);
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

void spotnik_exchange_common_leave(struct spotnik_exchange *exchange, const char *name)
{
    pthread_mutex_lock(&exchange->lock);
    struct spotnik_common *common = find(exchange, name), **at = &exchange->commons;
    while (common && *at != common)
        at = &(*at)->next;
    if (common)
        *at = common->next;
    pthread_mutex_unlock(&exchange->lock);
    if (common)
        common_free(common);
}

void spotnik_commons_free(struct spotnik_exchange *exchange)
{
    while (exchange->commons) {
        struct spotnik_common *common = exchange->commons;
        exchange->commons = common->next;
        common_free(common);
    }
}
