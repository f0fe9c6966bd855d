/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files for reading where others may have put something else under the name; putting files
 * into a folder that others read and write, too. */
#ifndef SPOTNIK_BASE_FILE_H
#define SPOTNIK_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A descriptor for reading the regular file `path`, or -errno. -EINVAL for anything else: a FIFO
 * without a writer would hold the caller for ever, and a device may have no end. */
int spotnik_file_open(const char *path);
/* The same, of a folder that is open: it stays the same folder when its path leads elsewhere. */
int spotnik_file_open_in(int folder, const char *name);

/* Why it failed, in words to put behind "cannot read PATH: ". Valid until the thread's next
 * call. */
const char *spotnik_file_why(int error);

/* For reading, with O_CLOEXEC and `flags` (O_NOFOLLOW). -1 with errno; EINVAL: it is no regular
 * file. Anything else is not even opened. */
int spotnik_regular_open(const char *path, int flags);

/* Put a file into the folder, whole or not at all: it is written under another name,
 * ".NAME.WRITER", and renamed. `exclusive`: -EEXIST where there is one already; of any number of
 * processes, on any machines, one succeeds. No two processes may share `writer`. Returns 0 or
 * -errno; then nothing has changed. */
int spotnik_file_put(const char *directory, const char *name, uint64_t writer, const void *bytes,
                     size_t size, bool exclusive);

#endif
