/* SPDX-License-Identifier: Apache-2.0 */
/* A pull, towards one member. What has come in part is written over by what the next one sends. */
#include <string.h>

#include "p2p/inside.h"

static enum spotnik_asked answer(struct spotnik_request *request, struct spotnik_pipe *pipe,
                                 const struct spotnik_p2p_head *head)
{
    if (head->kind == SPOTNIK_P2P_ABSENT)
        return SPOTNIK_ASKED_ABSENT;
    if (head->kind == SPOTNIK_P2P_OTHER)
        return SPOTNIK_ASKED_OTHER;
    if (head->kind != SPOTNIK_P2P_SNAPSHOT || head->bytes != request->bytes || head->version == 0
        || head->version < request->version_min)
        return SPOTNIK_ASKED_LOST;
    if (spotnik_pipe_read(pipe, request->data, request->bytes))
        return SPOTNIK_ASKED_LOST;
    request->arrival.version = head->version;
    return SPOTNIK_ASKED_ARRIVED;
}

enum spotnik_asked spotnik_pull_ask(struct spotnik_request *request, struct spotnik_pipe *pipe)
{
    struct spotnik_p2p_head head = {
        .kind = SPOTNIK_P2P_PULL,
        .dtype = (uint8_t)request->dtype,
        .version = request->version_min,
        .bytes = request->bytes,
    };

    memcpy(head.name, request->name, sizeof head.name);
    int rc = spotnik_pipe_write(pipe, &head, NULL);
    do
        rc = rc ? rc : spotnik_pipe_read_head(pipe, &head);
    while (!rc && head.kind == SPOTNIK_P2P_WAIT && !spotnik_request_is_over(request));
    return rc ? SPOTNIK_ASKED_LOST : answer(request, pipe, &head);
}
