/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files for reading that others may have put there: a FIFO would block for ever, a device may act on being
 * opened, and both never end. */
#ifndef SPOTNIK_BASE_REGULAR_H
#define SPOTNIK_BASE_REGULAR_H

/* For reading, with O_CLOEXEC and `flags` (O_NOFOLLOW). -1 with errno; EINVAL: it is no regular file. Anything else is
 * not even opened. */
int spotnik_regular_open(const char *path, int flags);

#endif
