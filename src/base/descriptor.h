/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that belong to the library. A program that closes all it does not know (close_range,
 * a daemoniser) closes them, too. Then the kernel tells the peers that this process has ended. So
 * it ends: what they were told is true, and it commits nothing that they repeat without it. */
#ifndef SPOTNIK_BASE_DESCRIPTOR_H
#define SPOTNIK_BASE_DESCRIPTOR_H

#include <errno.h>
#include <stdbool.h>

#include "base/assert.h"

/* A call on one of them has failed with this errno. Ends the process where the number names
 * nothing, or another kind of file. */
static inline void spotnik_descriptor_check(int error)
{
    if (error == EBADF || error == ENOTSOCK || error == EINVAL)
        spotnik_assert_say("a descriptor of Spotnik was closed by this process (close_range, "
                           "closefrom, a daemoniser?); close descriptors before spotnik_join()");
}

/* The same; true: the call is to be made again when the descriptor is ready. */
static inline bool spotnik_descriptor_waits(int error)
{
    spotnik_descriptor_check(error);
    return error == EAGAIN || error == EWOULDBLOCK;
}

#endif
