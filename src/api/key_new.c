/* SPDX-License-Identifier: Apache-2.0 */
/* New key files. They stand apart from what derives keys: the command that writes Slurm's files
 * makes a key, and needs no OpenSSL. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/key_file.h"
#include "base/error.h"
#include "spotnik/spotnik.h"

const char *const spotnik_key_mark[] = { "\n", "\nmade\n", "\nobserver\n", "\n" };

int spotnik_key_random(void *out, uint32_t size)
{
    if (getrandom(out, size, 0) != (ssize_t)size)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "no random bytes from the kernel: %m");
    return 0;
}

static size_t key_print(const uint8_t key[SPOTNIK_KEY_BYTES], char *text)
{
    for (uint32_t i = 0; i < SPOTNIK_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
    return SPOTNIK_KEY_HEX_BYTES;
}

int spotnik_key_write(const char *path, const uint8_t *key, enum spotnik_key_kind kind)
{
    char text[SPOTNIK_KEY_TEXT_BYTES];
    int rc = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s exists; a key is never overwritten: remove it first", path);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot create %s: %m", path);
    size_t size = key_print(key, text);
    if (kind == SPOTNIK_KEY_ROTATED) {
        text[size++] = '\n';
        size += key_print(key + SPOTNIK_KEY_BYTES, text + size);
    }
    size += (size_t)snprintf(text + size, sizeof text - size, "%s", spotnik_key_mark[kind]);
    ssize_t written = write(fd, text, size);
    explicit_bzero(text, sizeof text);
    if (written != (ssize_t)size)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s: %m", path);
    if (close(fd) && !rc)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s: %m", path);
    if (rc)
        unlink(path);
    return rc;
}

static int create(const char *path, enum spotnik_key_kind kind)
{
    uint8_t key[SPOTNIK_KEY_BYTES];
    int rc = spotnik_key_random(key, sizeof key);

    if (!rc)
        rc = spotnik_key_write(path, key, kind);
    explicit_bzero(key, sizeof key);
    return rc;
}

int spotnik_key_create(const char *path)
{
    return create(path, SPOTNIK_KEY_OF_JOB);
}

int spotnik_key_create_for_run(const char *path)
{
    return create(path, SPOTNIK_KEY_OF_ONE_RUN);
}
