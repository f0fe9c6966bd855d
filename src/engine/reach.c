/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to members for other folders: as whom we introduce ourselves, and by which socket. */
#include <string.h>

#include "engine/inside.h"

/* -1: there is none, or nobody behind it. */
static int unix_socket(struct spotnik_engine *engine, const struct spotnik_member *self,
                       const struct spotnik_member *peer)
{
    int fd = -1;
    if (!spotnik_carriage_is_sharing(engine->carriage) || peer->host != self->host
        || spotnik_carriage_connect(engine->carriage, peer, &fd) != 0)
        return -1;
    return fd;
}

bool spotnik_engine_is_sharing(const struct spotnik_engine *engine)
{
    return spotnik_carriage_is_sharing(engine->carriage);
}

int spotnik_engine_dial(struct spotnik_engine *engine, const struct spotnik_member *peer,
                        uint64_t timeout_ns, int stop_fd, int *ret_fd)
{
    spotnik_engine_lock(engine); /* we may be about to become another member */
    struct spotnik_credentials credentials = engine->config.credentials;
    spotnik_presence_get(engine, &credentials.presence);
    spotnik_engine_unlock(engine);
    int rc = spotnik_net_reach(&credentials, peer, unix_socket(engine, &credentials.self, peer),
                               timeout_ns, stop_fd, ret_fd);
    explicit_bzero(&credentials, sizeof credentials);
    return rc;
}
