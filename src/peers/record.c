/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a peers directory: text, signature, and files that appear whole or not at all. */
#include "peers/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/address.h"
#include "net/auth.h"

#define MAC_LINE_BYTES (4 + 2 * SPOTNIK_AUTH_BYTES + 1) /* "mac ", hex, newline */

static void hex_write(char *to, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sprintf(to + 2 * i, "%02x", bytes[i]);
}

void spotnik_record_name(struct spotnik_id id, char name[64])
{
    snprintf(name, 64, "member-%016llx%016llx", (unsigned long long)id.high, (unsigned long long)id.low);
}

size_t spotnik_record_format(const struct spotnik_credentials *self, char text[SPOTNIK_RECORD_BYTES])
{
    char job[33], address[SPOTNIK_ADDRESS_TEXT], hex[2 * SPOTNIK_AUTH_BYTES + 1];
    uint8_t mac[SPOTNIK_AUTH_BYTES];
    const struct spotnik_member *member = &self->self;
    hex_write(job, self->job, 16);
    int size = snprintf(
        text, SPOTNIK_RECORD_BYTES, "spotnik 1\njob %s\nid %016llx %016llx\nhost %016llx\naddress %s\n", job,
        (unsigned long long)member->id.high, (unsigned long long)member->id.low,
        (unsigned long long)member->host, spotnik_address_format(address, member->address, member->port));
    if (!spotnik_auth_once(self->key, text, (size_t)size, mac))
        return 0;
    hex_write(hex, mac, sizeof mac);
    return (size_t)(size + snprintf(text + size, SPOTNIK_RECORD_BYTES - (size_t)size, "mac %s\n", hex));
}

/* The fields, whatever the signature says. */
static bool fields_parse(const char *text, char job[33], struct spotnik_member *member)
{
    unsigned long long high, low, host;
    char address[SPOTNIK_ADDRESS_TEXT];
    if (sscanf(text, "spotnik 1\njob %32s\nid %16llx %16llx\nhost %16llx\naddress %63s\n", job, &high, &low,
               &host, address)
        != 5)
        return false;
    memset(member, 0, sizeof *member);
    member->id = (struct spotnik_id){ .high = high, .low = low };
    member->host = host;
    /* Numbers only, as we write them: a damaged file must not make us ask a name server. */
    if (strspn(address, "0123456789abcdefABCDEF.:[]") != strlen(address))
        return false;
    return !spotnik_id_is_none(member->id)
           && spotnik_address_parse(address, member->address, &member->port) == 0 && member->port != 0;
}

int spotnik_record_parse(const struct spotnik_credentials *self, const char *text, size_t size,
                         struct spotnik_member *ret_member)
{
    char copy[SPOTNIK_RECORD_BYTES + 1], job[33], own_job[33], hex[2 * SPOTNIK_AUTH_BYTES + 1];
    uint8_t mac[SPOTNIK_AUTH_BYTES];
    struct spotnik_member member;
    if (size > SPOTNIK_RECORD_BYTES || size <= MAC_LINE_BYTES)
        return SPOTNIK_ERR_ARGUMENT;
    memcpy(copy, text, size);
    copy[size] = '\0';
    const char *mac_line = copy + size - MAC_LINE_BYTES;
    if (!fields_parse(copy, job, &member) || strncmp(mac_line, "mac ", 4) != 0 || copy[size - 1] != '\n')
        return SPOTNIK_ERR_ARGUMENT;
    hex_write(own_job, self->job, 16);
    if (strcmp(job, own_job) != 0)
        return SPOTNIK_ERR_JOB;
    if (!spotnik_auth_once(self->key, copy, size - MAC_LINE_BYTES, mac))
        return SPOTNIK_ERR_KEY;
    hex_write(hex, mac, sizeof mac);
    if (!spotnik_auth_equal((const uint8_t *)hex, (const uint8_t *)mac_line + 4, 2 * SPOTNIK_AUTH_BYTES))
        return SPOTNIK_ERR_KEY;
    *ret_member = member;
    return 0;
}

static int write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, text, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        text += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* A full disk shows here, before the rename could put half a record in place. */
static int temporary_write(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int rc = write_all(fd, text, size);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

int spotnik_record_write(const struct spotnik_credentials *self, const char *directory, const char *name,
                         bool exclusive)
{
    char text[SPOTNIK_RECORD_BYTES], temporary[PATH_MAX], path[PATH_MAX];
    size_t size = spotnik_record_format(self, text);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s/.%s.%016llx%s", directory, name,
             (unsigned long long)self->self.id.low, exclusive ? ".x" : "");
    int rc = size > 0 ? temporary_write(temporary, text, size) : -EIO;
    /* link() makes the name and finds it taken in one step, on network file systems too. */
    if (rc == 0 && (exclusive ? link(temporary, path) : rename(temporary, path)) != 0)
        rc = -errno;
    if (rc != 0 || exclusive)
        unlink(temporary);
    return rc;
}

int spotnik_record_read(const struct spotnik_credentials *self, const char *directory, const char *name,
                        struct spotnik_record *ret_record, bool *ret_readable)
{
    char text[SPOTNIK_RECORD_BYTES + 1], path[PATH_MAX];
    struct stat facts;
    *ret_readable = false;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t size = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? read(fd, text, sizeof text) : -1;
    close(fd);
    if (size < 0)
        return -EIO;
    *ret_readable = true;
    ret_record->written = facts.st_mtim;
    return spotnik_record_parse(self, text, (size_t)size, &ret_record->member);
}
