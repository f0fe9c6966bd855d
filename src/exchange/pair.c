/* SPDX-License-Identifier: Apache-2.0 */
/* A pairwise average, on the active side. Until our half is here, whole, nothing has happened and
 * we may turn to somebody else. From then on it has happened: the peer is told until it says so, or
 * is no member any more (prepared.c). */
#include <string.h>

#include "exchange/inside.h"

/* The peer may refuse before megabytes travel. */
static enum spotnik_asked offer(struct spotnik_request *request, struct spotnik_pipe *pipe)
{
    struct spotnik_exchange_head head = {
        .kind = SPOTNIK_EXCHANGE_OFFER,
        .dtype = SPOTNIK_F32,
        .sequence = request->sequence,
        .bytes = request->bytes,
    };

    memcpy(head.name, request->name, sizeof head.name);
    if (spotnik_pipe_write(pipe, &head, NULL) || spotnik_pipe_read_head(pipe, &head))
        return SPOTNIK_ASKED_LOST;
    if (head.kind == SPOTNIK_EXCHANGE_OTHER)
        return SPOTNIK_ASKED_OTHER;
    if (head.kind == SPOTNIK_EXCHANGE_ABSENT)
        return SPOTNIK_ASKED_ABSENT;
    return head.kind == SPOTNIK_EXCHANGE_GO && head.sequence == request->sequence
               ? SPOTNIK_ASKED_ARRIVED
               : SPOTNIK_ASKED_LOST;
}

static int halves(struct spotnik_request *request, struct spotnik_pipe *pipe, float *half)
{
    struct spotnik_exchange_head head = {
        .kind = SPOTNIK_EXCHANGE_ANSWER,
        .dtype = SPOTNIK_F32,
        .sequence = request->sequence,
        .bytes = request->bytes,
    };

    memcpy(head.name, request->name, sizeof head.name);
    int rc = spotnik_pipe_write(pipe, &head, request->data);
    if (!rc)
        rc = spotnik_pipe_read_head(pipe, &head);
    if (!rc
        && (head.kind != SPOTNIK_EXCHANGE_ANSWER || head.sequence != request->sequence
            || head.bytes != request->bytes || head.version == 0))
        rc = SPOTNIK_ERR_PEERS;
    if (!rc)
        rc = spotnik_pipe_read(pipe, half, request->bytes);
    if (!rc)
        request->arrival.version = head.version;
    return rc;
}

/* The peer adds `half` to its model, so we take it from ours. */
static void decide(struct spotnik_request *request, const float *half)
{
    float *data = (float *)(void *)request->data;

    for (uint64_t i = 0; i < request->bytes / sizeof *half; i++)
        data[i] = -half[i];
    request->decided = true;
}

enum spotnik_asked spotnik_pair_insist(struct spotnik_request *request, struct spotnik_pipe *pipe)
{
    struct spotnik_exchange_head head = { .kind = SPOTNIK_EXCHANGE_COMMIT,
                                          .sequence = request->sequence };

    if (spotnik_pipe_write(pipe, &head, NULL) || spotnik_pipe_read_head(pipe, &head))
        return SPOTNIK_ASKED_LOST;
    return head.kind == SPOTNIK_EXCHANGE_DONE || head.kind == SPOTNIK_EXCHANGE_ABSENT
               ? SPOTNIK_ASKED_ARRIVED
               : SPOTNIK_ASKED_LOST;
}

enum spotnik_asked spotnik_pair_ask(struct spotnik_request *request, struct spotnik_pipe *pipe,
                                    float *half)
{
    struct spotnik_exchange *exchange = request->exchange;

    pthread_mutex_lock(&exchange->lock);
    request->sequence = ++exchange->sequence;
    pthread_mutex_unlock(&exchange->lock);
    enum spotnik_asked asked = offer(request, pipe);
    if (asked != SPOTNIK_ASKED_ARRIVED)
        return asked;
    if (halves(request, pipe, half))
        return SPOTNIK_ASKED_LOST;
    if (spotnik_request_is_over(request))
        return SPOTNIK_ASKED_OVER;
    decide(request, half);
    pipe->until_ns = UINT64_MAX;
    return spotnik_pair_insist(request, pipe);
}
