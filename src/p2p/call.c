/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers. A kept connection that has ended since is replaced by a new one, once. */
#include "p2p/call.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

int spotnik_body_reserve(struct spotnik_body *body, uint64_t size)
{
    if (size <= body->capacity)
        return 0;
    uint8_t *bytes = realloc(body->bytes, size);
    if (!bytes)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for an exchange");
    body->bytes = bytes;
    body->capacity = size;
    return 0;
}

static int answer_read(const struct spotnik_pipe *pipe, struct spotnik_p2p_head *ret_answer,
                       struct spotnik_body *body, uint64_t body_max)
{
    int rc;

    do
        rc = spotnik_pipe_read_head(pipe, ret_answer);
    while (!rc && ret_answer->kind == SPOTNIK_P2P_WAIT);
    if (rc || !spotnik_p2p_has_payload(ret_answer->kind))
        return rc;
    if (!body || ret_answer->bytes > body_max || spotnik_body_reserve(body, ret_answer->bytes))
        return SPOTNIK_ERR_PEERS;
    body->size = ret_answer->bytes;
    return spotnik_pipe_read(pipe, body->bytes, body->size);
}

static int converse(const struct spotnik_caller *caller, struct spotnik_duplex *duplex,
                    const struct spotnik_p2p_head *question, const void *payload,
                    struct spotnik_p2p_head *ret_answer, struct spotnik_body *body,
                    uint64_t body_max)
{
    struct spotnik_pipe pipe = {
        .duplex = duplex,
        .wake_fd = caller->wake_fd,
        .silence_ns = caller->p2p->silence_ns,
        .until_ns = caller->until_ns,
        .goes_on = caller->goes_on,
        .context = caller->context,
    };
    int rc = spotnik_pipe_write(&pipe, question, payload);

    return rc ? rc : answer_read(&pipe, ret_answer, body, body_max);
}

/* On a failure the connection is closed. */
static int try(const struct spotnik_caller *caller, struct spotnik_duplex *duplex,
               const struct spotnik_p2p_head *question, const void *payload,
               struct spotnik_p2p_head *ret_answer, struct spotnik_body *body, uint64_t body_max)
{
    int rc = converse(caller, duplex, question, payload, ret_answer, body, body_max);

    if (rc)
        spotnik_duplex_close(duplex);
    return rc;
}

int spotnik_call(const struct spotnik_caller *caller, const struct spotnik_member *peer,
                 const struct spotnik_p2p_head *question, const void *payload,
                 struct spotnik_p2p_head *ret_answer, struct spotnik_body *body, uint64_t body_max)
{
    struct spotnik_duplex duplex;
    int rc = SPOTNIK_ERR_PEERS;

    if (spotnik_peer_kept(caller->p2p, peer->id, &duplex))
        rc = try(caller, &duplex, question, payload, ret_answer, body, body_max);
    if (rc && caller->goes_on(caller->context)) {
        rc = spotnik_peer_dial(caller->p2p, peer, caller->wake_fd, &duplex);
        if (rc)
            return SPOTNIK_ERR_PEERS;
        rc = try(caller, &duplex, question, payload, ret_answer, body, body_max);
    }
    if (rc)
        return SPOTNIK_ERR_PEERS;
    spotnik_peer_keep(caller->p2p, peer->id, &duplex);
    return 0;
}
