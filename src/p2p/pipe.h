/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes over a connection, by a thread that may wait. It waits until the other side says nothing
 * for too long, or until it is woken and told to stop. Decides nothing about what the bytes
 * mean. */
#ifndef SPOTNIK_P2P_PIPE_H
#define SPOTNIK_P2P_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/duplex.h"
#include "wire/p2p_frame.h"

struct spotnik_pipe {
    struct spotnik_duplex *duplex;
    int wake_fd;                    /* an eventfd, emptied when it is seen */
    uint64_t silence_ns;            /* how long nothing may move */
    uint64_t until_ns;              /* the end of all patience; NEVER: none */
    bool (*goes_on)(void *context); /* asked after each waking and at the end of patience */
    void *context;
};

/* All return 0, or SPOTNIK_ERR_PEERS: the connection is of no more use. Between hosts a tag follows
 * each head, and each payload (link/seal.h): what was altered on its way is such a failure. */
int spotnik_pipe_write(const struct spotnik_pipe *pipe, const struct spotnik_p2p_head *head,
                       const void *payload);
int spotnik_pipe_read_head(const struct spotnik_pipe *pipe, struct spotnik_p2p_head *ret_head);
/* A whole payload. After a failure `bytes` may hold what the other side has not said. */
int spotnik_pipe_read(const struct spotnik_pipe *pipe, void *bytes, size_t size);
/* Past a payload that is of no use. */
int spotnik_pipe_skip(const struct spotnik_pipe *pipe, uint64_t size);

/* The same over a Unix socket, with a file beside the head. *ret_fd: the caller's; -1: there was
 * none. */
int spotnik_pipe_write_file(const struct spotnik_pipe *pipe, const struct spotnik_p2p_head *head,
                            int fd);
int spotnik_pipe_read_file(const struct spotnik_pipe *pipe, struct spotnik_p2p_head *ret_head,
                           int *ret_fd);

/* Wait for a first byte, without limit. */
int spotnik_pipe_await(const struct spotnik_pipe *pipe);

/* Wait at most that long for something to read or to be woken. 1: something to read. 0: not.
 * SPOTNIK_ERR_PEERS. */
int spotnik_pipe_look(const struct spotnik_pipe *pipe, uint64_t timeout_ns);

#endif
