/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and making key files. */
#include "api/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "spotnik/spotnik.h"

#define HEX_BYTES (2 * SPOTNIK_KEY_BYTES)

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* 64 hex digits, then nothing but white space. */
static bool parse(const char *text, size_t size, uint8_t ret_key[SPOTNIK_KEY_BYTES])
{
    if (size < HEX_BYTES)
        return false;
    for (uint32_t i = 0; i < SPOTNIK_KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_key[i] = (uint8_t)(high << 4 | low);
    }
    for (size_t i = HEX_BYTES; i < size; i++)
        if (text[i] != '\n' && text[i] != '\r' && text[i] != ' ')
            return false;
    return true;
}

static bool is_zero(const uint8_t key[SPOTNIK_KEY_BYTES])
{
    uint8_t any = 0;

    for (uint32_t i = 0; i < SPOTNIK_KEY_BYTES; i++)
        any |= key[i];
    return any == 0;
}

static int read_open(int fd, const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES])
{
    struct stat facts;
    char text[HEX_BYTES + 8];

    if (fstat(fd, &facts))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the key file %s: %m", path);
    if (facts.st_mode & 077)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the key file %s can be read by others; run: chmod 600 %s",
                                    path, path);
    if (facts.st_uid != geteuid() && facts.st_uid != 0)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the key file %s belongs to user %u, who can exchange it; make "
                                    "it your own with chown, or copy it",
                                    path, (unsigned)facts.st_uid);
    ssize_t size = read(fd, text, sizeof text);
    if (size < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the key file %s: %m", path);
    if (!parse(text, (size_t)size, ret_key))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "%s is no key file: 64 hex digits are expected; make one with: spotnik key FILE", path);
    if (is_zero(ret_key))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the key in %s is all zeros, which anybody can guess; make one "
                                    "with: spotnik key FILE",
                                    path);
    return 0;
}

int spotnik_key_read(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES])
{
    int fd = spotnik_file_open(path);

    if (fd == -EINVAL)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the key file %s is no regular file",
                                    path);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot open the key file %s: %s", path,
                                    spotnik_file_why(fd));
    int rc = read_open(fd, path, ret_key);

    close(fd);
    return rc;
}

int spotnik_key_random(void *out, uint32_t size)
{
    if (getrandom(out, size, 0) != (ssize_t)size)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "no random bytes from the kernel: %m");
    return 0;
}

int spotnik_key_create(const char *path)
{
    uint8_t key[SPOTNIK_KEY_BYTES];
    char text[HEX_BYTES + 2];
    int rc = spotnik_key_random(key, sizeof key);

    if (rc)
        return rc;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s exists; a key is never overwritten: remove it first", path);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot create %s: %m", path);
    for (uint32_t i = 0; i < SPOTNIK_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
    text[HEX_BYTES] = '\n';
    ssize_t written = write(fd, text, HEX_BYTES + 1);
    if (written != HEX_BYTES + 1)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s: %m", path);
    if (close(fd) && !rc)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s: %m", path);
    if (rc)
        unlink(path);
    return rc;
}

void spotnik_job_hash(const char *name, uint8_t ret_job[16])
{
    char twice[512];
    int size = snprintf(twice, sizeof twice, "%s/%s", name, name);
    uint64_t hash[2] = { spotnik_hash_bytes(name, strlen(name)),
                         spotnik_hash_bytes(twice, (size_t)size) };

    memcpy(ret_job, hash, 16);
}
