/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to members for other folders: as whom we introduce ourselves, and by which socket. */
#include <string.h>

#include "runtime/inside.h"

/* -1: there is none, or no process behind it. */
static int unix_socket(struct spotnik_runtime *runtime, const struct spotnik_member *self,
                       const struct spotnik_member *peer)
{
    int fd = -1;
    if (!spotnik_transport_is_sharing(runtime->transport) || peer->host != self->host
        || spotnik_transport_connect(runtime->transport, peer, &fd) != 0)
        return -1;
    return fd;
}

bool spotnik_runtime_is_sharing(const struct spotnik_runtime *runtime)
{
    return spotnik_transport_is_sharing(runtime->transport);
}

int spotnik_runtime_dial(struct spotnik_runtime *runtime, const struct spotnik_member *peer,
                         uint64_t timeout_ns, int stop_fd, struct spotnik_duplex *ret)
{
    spotnik_runtime_lock(runtime); /* we may be about to become another member */
    struct spotnik_credentials credentials = runtime->config.credentials;
    spotnik_presence_get(runtime, &credentials.presence);
    spotnik_runtime_unlock(runtime);
    int rc = spotnik_net_reach(&credentials, peer, unix_socket(runtime, &credentials.self, peer),
                               timeout_ns, stop_fd, ret);
    return rc;
}
