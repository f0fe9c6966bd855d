/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files for reading where others may have put something else under the name; and closing what is still ours. */
#ifndef SPOTNIK_BASE_FILE_H
#define SPOTNIK_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* A descriptor for reading the regular file `path`, or -errno. A FIFO without a writer would hold the caller for ever, and a
 * device may have no end: for these, and all else that is no regular file, -EINVAL. */
int spotnik_file_open(const char *path);

/* Why it failed, in words to put behind "cannot read PATH: ". Valid until the thread's next call. */
const char *spotnik_file_why(int error);

/* For reading, with O_CLOEXEC and `flags` (O_NOFOLLOW). -1 with errno; EINVAL: it is no regular file. Anything else is
 * not even opened. */
int spotnik_regular_open(const char *path, int flags);

/* Which file stands behind a descriptor; 0: none. Files without a place in a file system (eventfds) have one together. */
uint64_t spotnik_file_identity(int fd);

/* Close or shut down a descriptor unless another file has taken its number: a program may close descriptors that it does not
 * know, and open its own in their place. */
void spotnik_file_close(int fd, uint64_t identity);
void spotnik_file_shutdown(int fd, uint64_t identity);

#endif
