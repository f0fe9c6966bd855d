/* SPDX-License-Identifier: Apache-2.0 */
/* Names instead of addresses. See dns.h. */
#include "peers/dns.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

static int refuse(const char *text)
{
    return spotnik_error_return(
        SPOTNIK_ERR_ARGUMENT,
        "SPOTNIK_PEERS: \"dns://%.80s\": write dns://train-[0-7].train:PORT, or dns://train:PORT/8 "
        "where 8 is how many processes the job begins with",
        text);
}

/* The number behind `sign`, which is cut off. False: it is no number from 1 to `most`. */
static bool cut_number(char *text, char sign, unsigned long most, unsigned long *ret)
{
    char *at = strrchr(text, sign), *end;
    if (at == NULL)
        return true;
    *ret = strtoul(at + 1, &end, 10);
    *at = '\0';
    return at[1] >= '0' && at[1] <= '9' && *end == '\0' && *ret >= 1 && *ret <= most;
}

int spotnik_dns_parse(const char *text, struct spotnik_peers_spec *spec)
{
    unsigned long port = SPOTNIK_DNS_PORT, count = 0;
    char names[2048];
    if (snprintf(names, sizeof names, "%s", text) >= (int)sizeof names)
        return refuse(text);
    if (!cut_number(names, '/', SPOTNIK_PEERS_LISTED_MAX, &count)
        || !cut_number(names, ':', UINT16_MAX, &port))
        return refuse(text);
    int rc = spotnik_hosts_expand(names, spec->name, SPOTNIK_PEERS_LISTED_MAX, &spec->name_count);
    if (rc != 0)
        return rc;
    if (spec->name_count > SPOTNIK_PEERS_LISTED_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "SPOTNIK_PEERS: %u names; the first %d of them are enough: others join",
                                    spec->name_count, SPOTNIK_PEERS_LISTED_MAX);
    if (spec->name_count == 0 || (spec->name_count == 1) != (count > 0))
        return refuse(text);
    spec->port = (uint16_t)port;
    spec->begin_with = (uint32_t)count;
    spec->count = count > 0 ? (uint32_t)count : spec->name_count;
    return 0;
}

/* ---- a file of names ---- */

/* The first word of each line that is no comment; those before stay when it cannot be read just now. */
static void file_read(struct spotnik_peers_spec *spec)
{
    char line[1024], word[1024];
    uint32_t count = 0;
    FILE *file = fopen(spec->directory, "re");
    while (file != NULL && count < SPOTNIK_PEERS_LISTED_MAX && fgets(line, sizeof line, file) != NULL) {
        uint32_t more = 0;
        if (sscanf(line, " %1023s", word) != 1 || word[0] == '#')
            continue;
        if (spotnik_hosts_expand(word, spec->name + count, SPOTNIK_PEERS_LISTED_MAX - count, &more) == 0)
            count += more < SPOTNIK_PEERS_LISTED_MAX - count ? more : SPOTNIK_PEERS_LISTED_MAX - count;
    }
    if (file != NULL)
        fclose(file);
    if (count > 0)
        spec->name_count = spec->count = count;
}

int spotnik_hosts_file_parse(const char *path, struct spotnik_peers_spec *spec)
{
    if (snprintf(spec->directory, sizeof spec->directory, "%s", path) < (int)sizeof spec->directory)
        file_read(spec);
    if (spec->name_count == 0)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_PEERS: \"hosts:%.200s\": there is no host in that file, or no such file", path);
    spec->is_file = true;
    spec->port = SPOTNIK_DNS_PORT;
    return 0;
}

/* ---- looking up ---- */

static int by_address(const void *a, const void *b)
{
    return memcmp(((const struct spotnik_member *)a)->address, ((const struct spotnik_member *)b)->address,
                  16);
}

/* At most `max` addresses of a name, each once. */
static uint32_t look_up(const char *name, uint16_t port, struct spotnik_member *ret, uint32_t max)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list;
    uint32_t count = 0;
    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return 0;
    for (const struct addrinfo *at = list; at != NULL && count < max; at = at->ai_next) {
        struct sockaddr_storage kernel;
        uint16_t unused;
        memset(&kernel, 0, sizeof kernel);
        memcpy(&kernel, at->ai_addr, at->ai_addrlen);
        memset(&ret[count], 0, sizeof ret[count]);
        spotnik_address_from_kernel(&kernel, ret[count].address, &unused);
        ret[count].port = port;
        uint32_t before = 0;
        while (before < count && memcmp(ret[before].address, ret[count].address, 16) != 0)
            before++;
        count += before == count;
    }
    freeaddrinfo(list);
    return count;
}

static void say(char *said, size_t size, const char *name)
{
    size_t used = strlen(said);
    if (used < size / 2) /* two or three of them say enough */
        snprintf(said + used, size - used, "%s%s has no address now", used > 0 ? "; " : "", name);
}

/* In a fixed order: the first of the list that lives is everybody's favourite as founder. */
static void resolve_one_name(struct spotnik_peers_spec *spec, char *said, size_t size)
{
    uint32_t count = look_up(spec->name[0], spec->port, spec->listed, SPOTNIK_PEERS_LISTED_MAX);
    if (count == 0)
        say(said, size, spec->name[0]);
    qsort(spec->listed, count, sizeof *spec->listed, by_address);
    spec->count = count > spec->begin_with ? count : spec->begin_with;
    if (count < spec->count)
        memset(&spec->listed[count], 0, (spec->count - count) * sizeof *spec->listed);
}

void spotnik_dns_resolve(struct spotnik_peers_spec *spec, char *said, size_t size)
{
    said[0] = '\0';
    if (spec->is_file)
        file_read(spec);
    if (spec->begin_with > 0) {
        resolve_one_name(spec, said, size);
        return;
    }
    for (uint32_t i = 0; i < spec->name_count; i++) {
        if (look_up(spec->name[i], spec->port, &spec->listed[i], 1) == 1)
            continue;
        memset(&spec->listed[i], 0, sizeof spec->listed[i]);
        say(said, size, spec->name[i]);
    }
}
