/* SPDX-License-Identifier: Apache-2.0 */
/* Reading key files, and making those that follow from another one. */
#include "api/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "link/auth.h"
#include "spotnik/spotnik.h"

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

static bool is_marked(const char *end, size_t size, enum spotnik_key_kind kind)
{
    return size == strlen(spotnik_key_mark[kind]) && memcmp(end, spotnik_key_mark[kind], size) == 0;
}

/* What a file says. */
struct content {
    enum spotnik_key_kind kind;
    bool has_old;
    uint8_t pair[SPOTNIK_KEY_PAIR_BYTES];
};

static bool digits(const char *text, size_t size, uint8_t ret_key[SPOTNIK_KEY_BYTES])
{
    if (size < SPOTNIK_KEY_HEX_BYTES)
        return false;
    for (uint32_t i = 0; i < SPOTNIK_KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_key[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* 64 hex digits, then the mark of a kind, a line with the key before, or nothing but white space.
 */
static bool parse(const char *text, size_t size, struct content *ret)
{
    size_t at = SPOTNIK_KEY_HEX_BYTES;

    ret->kind = SPOTNIK_KEY_OF_JOB;
    if (!digits(text, size, ret->pair))
        return false;
    for (enum spotnik_key_kind kind = SPOTNIK_KEY_OF_ONE_RUN; kind <= SPOTNIK_KEY_OBSERVER; kind++)
        if (is_marked(text + at, size - at, kind))
            ret->kind = kind;
    ret->has_old = size > at && text[at] == '\n'
                   && digits(text + at + 1, size - at - 1, ret->pair + SPOTNIK_KEY_BYTES);
    if (ret->has_old)
        at += 1 + SPOTNIK_KEY_HEX_BYTES;
    for (; at < size && ret->kind == SPOTNIK_KEY_OF_JOB; at++)
        if (text[at] != '\n' && text[at] != '\r' && text[at] != ' ')
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

static int read_open(int fd, const char *path, struct content *ret)
{
    struct stat facts;
    char text[SPOTNIK_KEY_TEXT_BYTES];

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
    bool good = parse(text, (size_t)size, ret);
    explicit_bzero(text, sizeof text);
    if (!good)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "%s is no key file: 64 hex digits are expected; make one with: spotnik key FILE", path);
    if (is_zero(ret->pair) || (ret->has_old && is_zero(ret->pair + SPOTNIK_KEY_BYTES)))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "a key in %s is all zeros, which anybody can guess; make one "
                                    "with: spotnik key FILE",
                                    path);
    return 0;
}

static int read_file(const char *path, struct content *ret)
{
    int fd = spotnik_file_open(path);

    if (fd == -EINVAL)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the key file %s is no regular file",
                                    path);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot open the key file %s: %s", path,
                                    spotnik_file_why(fd));
    int rc = read_open(fd, path, ret);

    close(fd);
    return rc;
}

static int job_key_read(const char *path, struct content *ret)
{
    int rc = read_file(path, ret);

    if (!rc && ret->kind == SPOTNIK_KEY_OBSERVER)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                  "%s is an observer key, which may ask for the status alone; give "
                                  "the job key",
                                  path);
    return rc;
}

int spotnik_key_read_pair(const char *path, uint8_t ret_pair[SPOTNIK_KEY_PAIR_BYTES],
                          bool *ret_has_old)
{
    struct content content;
    int rc = job_key_read(path, &content);

    if (!rc) {
        memcpy(ret_pair, content.pair, sizeof content.pair);
        *ret_has_old = content.has_old;
    }
    explicit_bzero(&content, sizeof content);
    return rc;
}

int spotnik_key_read(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES])
{
    struct content content;
    int rc = job_key_read(path, &content);

    if (!rc)
        memcpy(ret_key, content.pair, SPOTNIK_KEY_BYTES);
    explicit_bzero(&content, sizeof content);
    return rc;
}

int spotnik_key_read_to_ask(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES],
                            bool *ret_observes)
{
    struct content content;
    int rc = read_file(path, &content);

    *ret_observes = !rc && content.kind == SPOTNIK_KEY_OBSERVER;
    if (!rc)
        memcpy(ret_key, content.pair, SPOTNIK_KEY_BYTES);
    explicit_bzero(&content, sizeof content);
    return rc;
}

int spotnik_key_signer(const char *path, struct spotnik_signer ret[2])
{
    struct content content = { .kind = SPOTNIK_KEY_OF_ONE_RUN };

    memset(ret, 0, 2 * sizeof *ret);
    int rc = path ? job_key_read(path, &content) : 0;

    if (!rc && content.kind == SPOTNIK_KEY_OF_JOB) {
        rc = spotnik_signer_init(ret, content.pair);
        if (!rc && content.has_old) {
            rc = spotnik_signer_init(ret + 1, content.pair + SPOTNIK_KEY_BYTES);
            ret->old = ret + 1;
        }
    }
    explicit_bzero(&content, sizeof content);
    return rc;
}

/* A reader sees the one file or the other: the new one takes the other's place at once. */
static int replace(const char *path, const uint8_t pair[SPOTNIK_KEY_PAIR_BYTES])
{
    char beside[4096];

    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the name of the key file is too long");
    int rc = spotnik_key_write(beside, pair, SPOTNIK_KEY_ROTATED);

    if (!rc && rename(beside, path)) {
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot exchange %s: %m", path);
        unlink(beside);
    }
    return rc;
}

int spotnik_key_rotate(const char *path)
{
    struct content content;
    int rc = job_key_read(path, &content);

    if (!rc && content.kind == SPOTNIK_KEY_OF_ONE_RUN)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                  "%s was made for one run: the next one makes its own", path);
    memcpy(content.pair + SPOTNIK_KEY_BYTES, content.pair, SPOTNIK_KEY_BYTES);
    rc = rc ? rc : spotnik_key_random(content.pair, SPOTNIK_KEY_BYTES);
    rc = rc ? rc : replace(path, content.pair);
    explicit_bzero(&content, sizeof content);
    return rc;
}

int spotnik_key_create_observer(const char *path, const char *job_path)
{
    uint8_t key[SPOTNIK_KEY_BYTES], observer[SPOTNIK_KEY_BYTES];
    int rc = spotnik_key_read(job_path, key);

    if (!rc && !spotnik_auth_observer_key(key, observer))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL cannot make a key");
    if (!rc)
        rc = spotnik_key_write(path, observer, SPOTNIK_KEY_OBSERVER);
    explicit_bzero(key, sizeof key);
    explicit_bzero(observer, sizeof observer);
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
