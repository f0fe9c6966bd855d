/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of other members of this host, read where they lie: their owners do nothing for it. The
 * reader asks for the memory once and keeps it mapped while its owner lives. A connection of its
 * own tells when the owner ends. From then on the reader takes nothing of the dead, and the request
 * turns to the next member. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/time.h"
#include "p2p/call.h"
#include "p2p/inside.h"

#define LOANS_MAX 256

static void loan_free(struct spotnik_loan *loan)
{
    spotnik_segment_unmap(loan->base);
    close(loan->link_fd);
    close(loan->memory_fd);
    free(loan);
}

/* Nothing is ever said on its connection, so what can be read is its end. */
static bool is_alive(const struct spotnik_loan *loan)
{
    uint8_t byte;

    return recv(loan->link_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

static void take_out(struct spotnik_p2p *p2p, struct spotnik_loan *loan)
{
    struct spotnik_loan **at = &p2p->loans;

    while (*at != loan)
        at = &(*at)->next;
    *at = loan->next;
    loan->over = true;
    if (loan->users == 0)
        loan_free(loan);
}

void spotnik_loans_prune(struct spotnik_p2p *p2p)
{
    uint32_t count = 0;

    for (struct spotnik_loan *loan = p2p->loans, *next; loan; loan = next) {
        next = loan->next;
        if (!is_alive(loan) || ++count > LOANS_MAX)
            take_out(p2p, loan);
    }
}

void spotnik_loans_end(struct spotnik_p2p *p2p)
{
    while (p2p->loans)
        take_out(p2p, p2p->loans);
}

static void loan_release(struct spotnik_p2p *p2p, struct spotnik_loan *loan)
{
    pthread_mutex_lock(&p2p->lock);
    if (--loan->users == 0 && loan->over)
        loan_free(loan);
    pthread_mutex_unlock(&p2p->lock);
}

/* For use, while its owner lives. NULL: there is none. */
static struct spotnik_loan *loan_find(struct spotnik_p2p *p2p, struct spotnik_id peer)
{
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_loan *loan = p2p->loans;
    while (loan && !spotnik_id_equal(loan->peer, peer))
        loan = loan->next;
    if (loan && !is_alive(loan)) {
        take_out(p2p, loan);
        loan = NULL;
    }
    if (loan)
        loan->users++;
    pthread_mutex_unlock(&p2p->lock);
    return loan;
}

/* ---- a new one ---- */

static int memory_ask(struct spotnik_request *request, struct spotnik_duplex *duplex,
                      int *ret_memory_fd)
{
    struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_IMPORT };
    struct spotnik_pipe pipe = spotnik_request_pipe(request, duplex);
    int rc = spotnik_pipe_write(&pipe, &head, NULL);

    if (!rc)
        rc = spotnik_pipe_read_file(&pipe, &head, ret_memory_fd);
    return rc;
}

/* The connection becomes the loan's. NULL: `fd` is still the caller's. */
static struct spotnik_loan *loan_make(struct spotnik_id peer, int fd, int memory_fd)
{
    struct spotnik_loan *loan = malloc(sizeof *loan);
    size_t reserved;

    if (!loan)
        return NULL;
    *loan = (struct spotnik_loan){ .peer = peer,
                                   .link_fd = fd,
                                   .memory_fd = memory_fd,
                                   .users = 1,
                                   .size = spotnik_segment_size(memory_fd) };
    if (spotnik_segment_map(memory_fd, &loan->base, &reserved) == 0) {
        loan->size = loan->size < reserved ? loan->size : reserved;
        return loan;
    }
    free(loan);
    return NULL;
}

/* One of each member is enough: another thread may have been faster. */
static struct spotnik_loan *loan_add(struct spotnik_p2p *p2p, struct spotnik_loan *loan)
{
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_loan *one = p2p->loans;
    while (one && !spotnik_id_equal(one->peer, loan->peer))
        one = one->next;
    if (one) {
        loan_free(loan);
        one->users++;
    } else {
        spotnik_loans_prune(p2p);
        loan->next = p2p->loans;
        p2p->loans = one = loan;
    }
    pthread_mutex_unlock(&p2p->lock);
    return one;
}

/* ARRIVED: *ret_loan is for use. NOT: the peer lends nothing. LOST. */
static enum spotnik_asked loan_get(struct spotnik_request *request, struct spotnik_loan **ret_loan)
{
    struct spotnik_p2p *p2p = request->p2p;
    struct spotnik_duplex duplex;
    int memory_fd = -1;

    *ret_loan = loan_find(p2p, request->peer.id);
    if (*ret_loan)
        return SPOTNIK_ASKED_ARRIVED;
    if (!spotnik_peer_kept(p2p, request->peer.id, &duplex)
        && spotnik_peer_dial(p2p, &request->peer, request->wake_fd, &duplex))
        return SPOTNIK_ASKED_NOT; /* which will find out why */
    if (spotnik_duplex_is_local(&duplex) && memory_ask(request, &duplex, &memory_fd)) {
        spotnik_duplex_close(&duplex);
        return SPOTNIK_ASKED_NOT;
    }
    struct spotnik_loan *loan =
        memory_fd >= 0 ? loan_make(request->peer.id, duplex.fd, memory_fd) : NULL;
    if (loan) {
        *ret_loan = loan_add(p2p, loan);
        return SPOTNIK_ASKED_ARRIVED;
    }
    if (memory_fd >= 0)
        close(memory_fd);
    spotnik_peer_keep(p2p, request->peer.id, &duplex);
    return SPOTNIK_ASKED_NOT;
}

/* ---- reading ---- */

static enum spotnik_published_sight look(struct spotnik_request *request, struct spotnik_loan *loan)
{
    struct spotnik_published_wanted wanted = { .dtype = (uint64_t)request->dtype,
                                               .bytes = request->bytes,
                                               .version_min = request->version_min };
    struct spotnik_p2p *p2p = request->p2p;
    enum spotnik_published_sight sight = SPOTNIK_PUBLISHED_SHORT;

    memcpy(wanted.name, request->name, strlen(request->name));
    for (int i = 0; i < 2 && sight == SPOTNIK_PUBLISHED_SHORT; i++) {
        pthread_mutex_lock(&p2p->lock);
        if (i > 0) /* it has grown */
            loan->size = spotnik_segment_size(loan->memory_fd);
        size_t size = loan->size;
        pthread_mutex_unlock(&p2p->lock);
        sight = spotnik_published_look(loan->base, size, &wanted, request->data,
                                       &request->arrival.version);
    }
    return sight;
}

/* ARRIVED: look again. */
static enum spotnik_asked await_news(struct spotnik_request *request)
{
    struct spotnik_p2p_head head = {
        .kind = SPOTNIK_P2P_AWAIT,
        .dtype = (uint8_t)request->dtype,
        .version = request->version_min,
        .bytes = request->bytes,
    };
    struct spotnik_caller caller = { .p2p = request->p2p,
                                     .wake_fd = request->wake_fd,
                                     .until_ns = request->until_ns,
                                     .goes_on = spotnik_request_goes_on,
                                     .context = request };

    memcpy(head.name, request->name, sizeof head.name);
    if (spotnik_call(&caller, &request->peer, &head, NULL, &head, NULL, 0))
        return spotnik_request_is_over(request) ? SPOTNIK_ASKED_OVER : SPOTNIK_ASKED_NOT;
    if (head.kind == SPOTNIK_P2P_OTHER)
        return SPOTNIK_ASKED_OTHER;
    return head.kind == SPOTNIK_P2P_READY ? SPOTNIK_ASKED_ARRIVED : SPOTNIK_ASKED_LOST;
}

static enum spotnik_asked read_on(struct spotnik_request *request, struct spotnik_loan *loan)
{
    enum spotnik_asked asked = SPOTNIK_ASKED_ARRIVED;

    while (asked == SPOTNIK_ASKED_ARRIVED && is_alive(loan)) {
        switch (look(request, loan)) {
        case SPOTNIK_PUBLISHED_READ:
            return SPOTNIK_ASKED_ARRIVED;
        case SPOTNIK_PUBLISHED_OTHER:
            return SPOTNIK_ASKED_OTHER;
        case SPOTNIK_PUBLISHED_NONE:
            if (request->version_min == 0)
                return SPOTNIK_ASKED_ABSENT;
            asked = await_news(request);
            break;
        default:
            return SPOTNIK_ASKED_NOT;
        }
    }
    return asked == SPOTNIK_ASKED_ARRIVED ? SPOTNIK_ASKED_LOST : asked;
}

enum spotnik_asked spotnik_import_pull(struct spotnik_request *request)
{
    struct spotnik_loan *loan;

    if (request->peer.host != request->host)
        return SPOTNIK_ASKED_NOT;
    enum spotnik_asked asked = loan_get(request, &loan);
    if (asked != SPOTNIK_ASKED_ARRIVED)
        return asked;
    asked = spotnik_request_goes_on(request) ? read_on(request, loan) : SPOTNIK_ASKED_LOST;
    loan_release(request->p2p, loan);
    return asked == SPOTNIK_ASKED_LOST && spotnik_request_is_over(request) ? SPOTNIK_ASKED_OVER
                                                                           : asked;
}
