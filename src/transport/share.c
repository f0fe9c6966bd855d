/* SPDX-License-Identifier: Apache-2.0 */
/* The members whose memory we can read, and those that can read ours. Members of one host find each
 * other by a Unix socket whose name only holders of the job key can know. Over it they prove the
 * key as on any other connection, and pass their segments' file descriptors. They keep it open for
 * as long as they live. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/time.h"
#include "transport/share.h"
#include "link/auth.h"
#include "reduce/reduce.h"

#define DIAL_FIRST_NS (20 * SPOTNIK_MS)
#define DIAL_LAST_NS (5 * SPOTNIK_S)
#define BACKLOG 128
#define WORD_SEGMENT 's'

static const struct spotnik_flat_limits limits = {
    .page_bytes = SPOTNIK_SEGMENT_PAGE,
    .slice_bytes = 128 * 1024,
    /* what caches hold; where they hold less, it pays earlier, but nothing is lost
     * (results/allreduce.md) */
    .stream_bytes = 32 * 1024 * 1024,
};

/* ---- the acceptor ---- */

/* In the abstract namespace, which lives as long as its socket. */
static socklen_t name_of(const struct spotnik_transport *transport, struct spotnik_id id,
                         struct sockaddr_un *ret)
{
    uint8_t mac[SPOTNIK_AUTH_BYTES] = { 0 }, text[32] = "spotnik share  1";
    memcpy(text + 16, &id, sizeof id);
    if (!spotnik_auth_once(transport->credentials->key, text, sizeof text, mac))
        spotnik_auth_random(mac, sizeof mac); /* no member finds us, and that is all */
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(ret->sun_path + 1 + 2 * i, 3, "%02x", mac[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + 2 * sizeof mac);
}

static int door_open(struct spotnik_transport *transport)
{
    struct sockaddr_un name;
    socklen_t size = name_of(transport, transport->credentials->self.id, &name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, size) != 0 || listen(fd, BACKLOG) != 0
        || spotnik_socket_watch(&transport->share->listener, transport->loop->epoll_fd, fd,
                                SPOTNIK_SOCKET_LISTENER)
               != 0) {
        if (fd >= 0)
            close(fd);
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot listen on a Unix socket: %m");
    }
    spotnik_fork_note(fd);
    return 0;
}

static void door_close(struct spotnik_transport *transport)
{
    if (transport->share->listener.fd >= 0)
        close(spotnik_socket_release(&transport->share->listener, transport->loop->epoll_fd));
}

void spotnik_transport_accept(struct spotnik_transport *transport)
{
    if (transport->share == NULL || !transport->share->listener.readable)
        return;
    spotnik_acceptor_turn(transport->links, spotnik_core_view(transport->core),
                          &transport->share->listener);
}

int spotnik_transport_connect(const struct spotnik_transport *transport,
                              const struct spotnik_member *peer, int *ret_fd)
{
    struct sockaddr_un name;
    socklen_t size = name_of(transport, peer->id, &name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&name, size) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    spotnik_fork_note(fd);
    *ret_fd = fd;
    return 0;
}

/* ---- sharers ---- */

struct spotnik_sharer *spotnik_share_find(const struct spotnik_share *share, struct spotnik_id peer)
{
    for (struct spotnik_sharer *sharer = share->sharers; sharer != NULL; sharer = sharer->next)
        if (sharer->socket.fd >= 0 && spotnik_id_equal(sharer->peer.id, peer))
            return sharer;
    return NULL;
}

static bool word_send(const struct spotnik_sharer *sharer, char word, int fd)
{
    struct iovec piece = { .iov_base = &word, .iov_len = 1 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .bytes = { 0 } };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ssize_t sent;
    do
        sent = sendmsg(sharer->socket.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        spotnik_descriptor_check(errno);
    return sent == 1;
}

/* 1: a word; 0: nothing yet; -1: the end. */
static int word_receive(struct spotnik_sharer *sharer, char *ret_word, int *ret_fd)
{
    struct iovec piece = { .iov_base = ret_word, .iov_len = 1 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = { .msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };
    *ret_fd = -1;
    ssize_t got = recvmsg(sharer->socket.fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
        return 1;
    if (got < 0 && spotnik_descriptor_waits(errno))
        return 0;
    struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS
        && header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
    return got > 0 ? 1 : -1;
}

static void tell(struct spotnik_transport *transport, struct spotnik_sharer *sharer, bool shared)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_SHARED,
                                   .shared = { sharer->peer, shared } };
    if (sharer->told == shared || (shared && transport->share->given_up))
        return;
    sharer->told = shared;
    spotnik_loop_drive(transport->loop, &event);
}

/* Its memory stays mapped until no thread can be reading it: spotnik_transport_prune(). */
static void part(struct spotnik_transport *transport, struct spotnik_sharer *sharer)
{
    if (sharer->socket.fd >= 0)
        close(spotnik_socket_release(&sharer->socket, transport->loop->epoll_fd));
    tell(transport, sharer, false);
}

void spotnik_share_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending)
{
    struct spotnik_share *share = transport->share;
    int fd = spotnik_pending_take(transport->links, pending), domain = 0;
    socklen_t size = sizeof domain;
    struct spotnik_sharer *sharer = calloc(1, sizeof *sharer);
    if (share == NULL || sharer == NULL
        || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX
        || spotnik_socket_watch(&sharer->socket, transport->loop->epoll_fd, fd,
                                SPOTNIK_SOCKET_SHARER)
               != 0) {
        free(sharer);
        close(fd);
        return;
    }
    sharer->peer = *spotnik_pending_peer(pending);
    sharer->socket.readable = true;
    struct spotnik_sharer *before = spotnik_share_find(share, sharer->peer.id);
    if (before != NULL)
        part(transport, before); /* it dialled anew */
    sharer->next = share->sharers;
    share->sharers = sharer;
    if (!word_send(sharer, WORD_SEGMENT, share->segment.fd))
        part(transport, sharer);
}

static bool is_true_board(const struct spotnik_share *share, const struct spotnik_sharer *sharer,
                          const void *base)
{
    const struct spotnik_shm_header *header = base;
    return header->magic == SPOTNIK_BOARD_MAGIC && header->version == SPOTNIK_BOARD_VERSION
           && header->id_high == sharer->peer.id.high && header->id_low == sharer->peer.id.low
           && header->kernels == share->kernels;
}

/* Memory that does not do is not used: then the view goes round the ring. */
static void segment_take(struct spotnik_transport *transport, struct spotnik_sharer *sharer, int fd)
{
    void *base = NULL;
    size_t bytes = 0;
    if (sharer->header == NULL && spotnik_segment_size(fd) >= sizeof(struct spotnik_shm_header)
        && spotnik_segment_map(fd, &base, &bytes) == 0) {
        if (is_true_board(transport->share, sharer, base)) {
            sharer->header = base;
            sharer->bytes = bytes;
        } else {
            spotnik_segment_unmap(base);
        }
    }
    close(fd);
    if (sharer->header != NULL)
        tell(transport, sharer, true);
}

static void read_one(struct spotnik_transport *transport, struct spotnik_sharer *sharer)
{
    while (sharer->socket.fd >= 0 && sharer->socket.readable) {
        char word = 0;
        int fd, got = word_receive(sharer, &word, &fd);
        if (got == 0)
            sharer->socket.readable = false;
        else if (got < 0)
            part(transport, sharer);
        else if (fd >= 0)
            segment_take(transport, sharer, fd);
    }
}

void spotnik_share_read(struct spotnik_transport *transport)
{
    if (transport->share == NULL)
        return;
    for (struct spotnik_sharer *sharer = transport->share->sharers; sharer != NULL;
         sharer = sharer->next)
        read_one(transport, sharer);
}

static bool is_in_view(const struct spotnik_transport *transport, struct spotnik_id id)
{
    return spotnik_view_rank(spotnik_core_view(transport->core), id) != SPOTNIK_NO_RANK;
}

static void maps_forget(struct spotnik_share *share)
{
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        share->map[i][0].bytes = share->map[i][1].bytes = 0;
}

/* Unmapping takes a while, and the first steps after a loss are in a hurry. */
static bool is_in_a_hurry(const struct spotnik_share *share)
{
    return share->epoch != 0 && share->commits < SPOTNIK_SHARE_SETTLED;
}

/* Drop members that have ended, and their memory. The running view may still name them. */
void spotnik_transport_prune(struct spotnik_transport *transport)
{
    if (transport->share == NULL || is_in_a_hurry(transport->share))
        return;
    for (struct spotnik_sharer **at = &transport->share->sharers; *at != NULL;) {
        struct spotnik_sharer *sharer = *at;
        if (sharer->socket.fd >= 0 || is_in_view(transport, sharer->peer.id)) {
            at = &sharer->next;
            continue;
        }
        *at = sharer->next;
        maps_forget(transport->share); /* another segment may come to lie where this one was */
        spotnik_segment_unmap(sharer->header);
        sharer->header = NULL;
        spotnik_loop_free_later(transport->loop, &sharer->socket);
    }
}

/* Our memory has failed: withdraw it for good. */
void spotnik_share_give_up(struct spotnik_transport *transport)
{
    transport->share->given_up = true;
    for (struct spotnik_sharer *sharer = transport->share->sharers; sharer != NULL;
         sharer = sharer->next)
        tell(transport, sharer, false);
}

/* ---- views ---- */

/* A recovery: nothing of the running epoch is touched any more. */
void spotnik_share_cut(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL)
        return;
    memset(share->late, 0, sizeof share->late);
    share->late_count = 0;
    memset(share->is_wanted, 0, sizeof share->is_wanted);
    share->wanted_count = 0;
    if (share->epoch == 0)
        return;
    spotnik_flat_cut(&share->flat);
    share->flat.rung = false;
    share->epoch = 0;
}

/* ---- missing members ---- */

/* The one with the larger id dials. Unauthenticated peers to this host, and members that are shut
 * off from it, are asked ever more seldom. */
static bool dial_missing(struct spotnik_transport *transport)
{
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    const struct spotnik_member *self = &transport->credentials->self;
    bool missing = false;
    if (!is_in_view(transport, self->id))
        return false;
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct spotnik_member *peer = &view->entry[rank].member;
        if (peer->host != self->host || spotnik_id_compare(peer->id, self->id) >= 0
            || spotnik_share_find(transport->share, peer->id) != NULL)
            continue;
        missing = true;
        spotnik_pending_dial(transport->links, peer, SPOTNIK_PURPOSE_SHARE);
    }
    return missing;
}

void spotnik_share_look(struct spotnik_transport *transport, uint64_t now_ns)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL || now_ns < share->dial_ns)
        return;
    share->dial_ns = SPOTNIK_NEVER;
    if (!dial_missing(transport))
        return;
    share->dial_ns = spotnik_time_add(now_ns, share->dial_wait_ns);
    share->dial_wait_ns = spotnik_time_min(2 * share->dial_wait_ns, DIAL_LAST_NS);
}

uint64_t spotnik_share_deadline(const struct spotnik_transport *transport)
{
    return transport->share != NULL ? transport->share->dial_ns : SPOTNIK_NEVER;
}

/* ---- life ---- */

static int memory_get(struct spotnik_share *share, const struct spotnik_transport *transport)
{
    struct spotnik_id id = transport->credentials->self.id;
    share->members_max = transport->limits->members_max;
    share->peer = calloc(share->members_max, sizeof *share->peer);
    share->source = calloc(share->members_max, sizeof *share->source);
    if (share->peer == NULL || share->source == NULL)
        return SPOTNIK_ERR_MEMORY;
    int rc = spotnik_segment_new(&share->segment);
    if (rc != 0)
        return rc;
    share->header = spotnik_segment_take(&share->segment, sizeof *share->header);
    if (share->header == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no shared memory");
    const char *tier = spotnik_reduce_tier_name();
    share->kernels = spotnik_hash_bytes(tier, strlen(tier));
    spotnik_shm_header_init(share->header, id.high, id.low, share->kernels);
    return 0;
}

static void release(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    while (share->sharers != NULL) {
        struct spotnik_sharer *sharer = share->sharers;
        share->sharers = sharer->next;
        if (sharer->socket.fd >= 0)
            close(spotnik_socket_release(&sharer->socket, transport->loop->epoll_fd));
        spotnik_segment_unmap(sharer->header);
        free(sharer);
    }
    for (uint32_t i = 0; i < SPOTNIK_BUCKET_SLOTS; i++)
        for (int parity = 0; parity < 2; parity++)
            spotnik_map_free(&share->map[i][parity]);
    door_close(transport);
    spotnik_segment_free(&share->segment);
    free(share->peer);
    free(share->source);
    free(share);
    transport->share = NULL;
}

/* "tcp": none. "shm": it must be possible. "auto": if it is. */
int spotnik_share_new(struct spotnik_transport *transport, const char *transport_name)
{
    bool only = transport_name != NULL && strcmp(transport_name, "shm") == 0;
    if (transport_name != NULL && strcmp(transport_name, "tcp") == 0)
        return 0;
    if (transport_name != NULL && !only && strcmp(transport_name, "auto") != 0)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_TRANSPORT is \"%.40s\"; it must be auto, shm or tcp",
                                    transport_name);
    struct spotnik_share *share = transport->share = calloc(1, sizeof *share);
    if (share == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for shared buckets");
    share->segment.fd = share->listener.fd = -1;
    share->dial_ns = SPOTNIK_NEVER;
    share->dial_wait_ns = DIAL_FIRST_NS;
    share->flat.limits = limits;
    share->flat.limits.small_bytes = transport->limits->flat_small_bytes;
    int rc = memory_get(share, transport);
    if (rc == 0)
        rc = door_open(transport);
    if (rc == 0)
        return 0;
    release(transport);
    return only ? rc : 0;
}

/* Results of the member we were stay readable until we reduce again: another member may be handing
 * them on. */
void spotnik_transport_renamed(struct spotnik_transport *transport)
{
    struct spotnik_share *share = transport->share;
    if (share == NULL)
        return;
    spotnik_share_cut(transport);
    for (struct spotnik_sharer *sharer = share->sharers; sharer != NULL; sharer = sharer->next) {
        if (sharer->socket.fd >= 0)
            close(spotnik_socket_release(&sharer->socket, transport->loop->epoll_fd));
        sharer->told = false; /* the core that knew is reset */
    }
    door_close(transport);
    memset(share->shown, 0, sizeof share->shown);
    share->header->id_high = transport->credentials->self.id.high;
    share->header->id_low = transport->credentials->self.id.low;
    (void)!door_open(transport); /* without it no member finds us, and steps go round the ring */
}

void spotnik_share_free(struct spotnik_transport *transport)
{
    if (transport->share != NULL)
        release(transport);
}
