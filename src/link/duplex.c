/* SPDX-License-Identifier: Apache-2.0 */
/* See duplex.h. */
#include "link/duplex.h"

#include <string.h>
#include <unistd.h>

#include "link/socket.h"

struct spotnik_duplex spotnik_duplex_bare(int fd)
{
    return (struct spotnik_duplex){ .fd = fd, .send.bare = true, .receive.bare = true };
}

int spotnik_duplex_init(struct spotnik_duplex *duplex, int fd,
                        const struct spotnik_handshake *handshake)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    *duplex = spotnik_duplex_bare(fd);
    if (spotnik_socket_is_local(fd) || spotnik_tls_is_on(fd))
        return 0;
    spotnik_handshake_keys(handshake, send_key, receive_key);
    int rc = spotnik_seal_init(&duplex->send, send_key);
    if (rc == 0)
        rc = spotnik_seal_init(&duplex->receive, receive_key);
    if (rc != 0)
        spotnik_seal_done(&duplex->send);
    explicit_bzero(send_key, sizeof send_key);
    explicit_bzero(receive_key, sizeof receive_key);
    return rc;
}

void spotnik_duplex_close(struct spotnik_duplex *duplex)
{
    if (duplex->fd >= 0)
        spotnik_tls_close(spotnik_duplex_release(duplex));
}

int spotnik_duplex_release(struct spotnik_duplex *duplex)
{
    int fd = duplex->fd;
    duplex->fd = -1;
    spotnik_seal_done(&duplex->send);
    spotnik_seal_done(&duplex->receive);
    return fd;
}

bool spotnik_duplex_is_local(const struct spotnik_duplex *duplex)
{
    return spotnik_socket_is_local(duplex->fd);
}
