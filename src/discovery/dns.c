/* SPDX-License-Identifier: Apache-2.0 */
/* Names instead of addresses. See dns.h. */
#include "base/assert.h"
#include "discovery/dns.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

int spotnik_dns_parse(const char *text, struct spotnik_discovery_spec *spec)
{
    unsigned long port = SPOTNIK_DNS_PORT, count = 0;
    char names[2048];
    if (snprintf(names, sizeof names, "%s", text) >= (int)sizeof names)
        return refuse(text);
    if (!cut_number(names, '/', SPOTNIK_DISCOVERY_LISTED_MAX, &count)
        || !cut_number(names, ':', UINT16_MAX, &port))
        return refuse(text);
    int rc = spotnik_host_list_expand(names, spec->name, SPOTNIK_DISCOVERY_LISTED_MAX,
                                      &spec->name_count);
    if (rc != 0)
        return rc;
    if (spec->name_count > SPOTNIK_DISCOVERY_LISTED_MAX)
        return spotnik_error_return(
            SPOTNIK_ERR_LIMIT,
            "SPOTNIK_PEERS: %u names; the first %d of them are enough: others join",
            spec->name_count, SPOTNIK_DISCOVERY_LISTED_MAX);
    if (spec->name_count == 0 || (spec->name_count == 1) != (count > 0))
        return refuse(text);
    spec->port = (uint16_t)port;
    spec->begin_with = (uint32_t)count;
    spec->count = count > 0 ? (uint32_t)count : spec->name_count;
    return 0;
}

/* ---- a file of names ---- */

/* The host in a line of such a file, where others read user@, :SLOTS, brackets around IPv6 and
 * comments, too. NULL: none. */
static char *host_cut(char *line)
{
    char *word = line + strspn(line, " \t"), *at, *colon;
    word[strcspn(word, "# \t\r\n")] = '\0';
    if ((at = strrchr(word, '@')) != NULL)
        word = at + 1;
    if (word[0] == '[' && (at = strchr(word, ']')) != NULL && (colon = strchr(word, ':')) != NULL
        && colon < at) {
        *at = '\0';
        return word + 1;
    }
    colon = strchr(word, ':');
    if (colon != NULL && strchr(colon + 1, ':') == NULL)
        *colon = '\0';
    return word[0] != '\0' ? word : NULL;
}

/* How many of the `more` names behind `count` are new; those move up. Batch systems write a node
 * once for each of its slots: it is one host all the same. */
static uint32_t each_once(char (*names)[SPOTNIK_HOST_NAME], uint32_t count, uint32_t more)
{
    uint32_t end = count;
    for (uint32_t i = count; i < count + more; i++) {
        uint32_t before = 0;
        while (before < end && strcasecmp(names[before], names[i]) != 0)
            before++;
        if (before == end)
            memmove(names[end++], names[i], sizeof names[i]);
    }
    return end - count;
}

/* `names` has room for SPOTNIK_DISCOVERY_LISTED_MAX; what is beyond is not needed. A line that
 * cannot be read is an error: without it this process would think the list shorter than others do.
 */
static int names_read(FILE *file, char (*names)[SPOTNIK_HOST_NAME], uint32_t *ret_count)
{
    char line[1024];
    uint32_t count = 0;
    while (count < SPOTNIK_DISCOVERY_LISTED_MAX && fgets(line, sizeof line, file) != NULL) {
        uint32_t more = 0, room = SPOTNIK_DISCOVERY_LISTED_MAX - count;
        const char *host = host_cut(line);
        int rc = host != NULL ? spotnik_host_list_expand(host, names + count, room, &more) : 0;
        if (rc != 0)
            return rc;
        count += each_once(names, count, more < room ? more : room);
    }
    *ret_count = count;
    return 0;
}

/* The names of before stay when the file cannot be read just now. */
static int file_read(struct spotnik_discovery_spec *spec)
{
    char names[SPOTNIK_DISCOVERY_LISTED_MAX][SPOTNIK_HOST_NAME];
    uint32_t count = 0;
    FILE *file = fopen(spec->location, "re");
    int rc = file != NULL ? names_read(file, names, &count) : 0;
    if (file != NULL)
        fclose(file);
    if (rc == 0 && count > 0) {
        memcpy(spec->name, names, count * sizeof *names);
        spec->name_count = spec->count = count;
    }
    return rc;
}

int spotnik_hosts_file_parse(const char *path, struct spotnik_discovery_spec *spec)
{
    int rc = 0;
    if (snprintf(spec->location, sizeof spec->location, "%s", path) < (int)sizeof spec->location)
        rc = file_read(spec);
    if (rc != 0)
        return rc;
    if (spec->name_count == 0)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_PEERS: \"hosts:%.200s\": there is no host in that file, or no such file",
            path);
    spec->is_file = true;
    spec->port = SPOTNIK_DNS_PORT;
    return 0;
}

/* ---- looking up ---- */

static int by_address(const void *a, const void *b)
{
    return memcmp(((const struct spotnik_member *)a)->address,
                  ((const struct spotnik_member *)b)->address, 16);
}

/* Hosts of two families have an address of each; their processes bind one. Take those of our own
 * family if there are any: else a host would count twice, or be looked for where it does not
 * listen. */
static int family_of(const struct addrinfo *list, const uint8_t *own)
{
    int family = spotnik_address_is_ipv4(own) ? AF_INET : AF_INET6;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next)
        if (at->ai_family == family)
            return family;
    SPOTNIK_ASSERT(list != NULL);
    return list->ai_family;
}

/* Debian gives a host's own name the address 127.0.1.1, on that host alone. Such a name is ours, so
 * its address is the one that others know. If we bind to a loopback, keep the loopback. */
static void own_instead(const uint8_t *own, uint8_t address[16])
{
    if (own != NULL && spotnik_address_is_loopback(address) && !spotnik_address_is_loopback(own)
        && !spotnik_address_is_any(own))
        memcpy(address, own, 16);
}

static void take(const struct addrinfo *from, uint16_t port, struct spotnik_member *ret)
{
    struct sockaddr_storage kernel;
    uint16_t unused;
    memset(&kernel, 0, sizeof kernel);
    memcpy(&kernel, from->ai_addr, from->ai_addrlen);
    memset(ret, 0, sizeof *ret);
    spotnik_address_from_kernel(&kernel, ret->address, &unused);
    ret->port = port;
}

/* At most `max` addresses of a name, each once. */
static uint32_t look_up(const char *name, uint16_t port, const uint8_t *own,
                        struct spotnik_member *ret, uint32_t max)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list;
    uint32_t count = 0;
    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return 0;
    int family = own != NULL ? family_of(list, own) : AF_UNSPEC;
    for (const struct addrinfo *at = list; at != NULL && count < max; at = at->ai_next) {
        if (family != AF_UNSPEC && at->ai_family != family)
            continue;
        take(at, port, &ret[count]);
        own_instead(own, ret[count].address);
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
static void resolve_one_name(struct spotnik_discovery_spec *spec, const uint8_t *own, char *said,
                             size_t size)
{
    uint32_t count =
        look_up(spec->name[0], spec->port, own, spec->listed, SPOTNIK_DISCOVERY_LISTED_MAX);
    if (count == 0)
        say(said, size, spec->name[0]);
    qsort(spec->listed, count, sizeof *spec->listed, by_address);
    spec->count = count > spec->begin_with ? count : spec->begin_with;
    if (count < spec->count)
        memset(&spec->listed[count], 0, (spec->count - count) * sizeof *spec->listed);
}

void spotnik_dns_resolve(struct spotnik_discovery_spec *spec, const uint8_t *own, char *said,
                         size_t size)
{
    said[0] = '\0';
    if (spec->is_file && file_read(spec) != 0)
        snprintf(said, size, "%.120s", spotnik_last_error());
    if (spec->begin_with > 0) {
        resolve_one_name(spec, own, said, size);
        return;
    }
    for (uint32_t i = 0; i < spec->name_count; i++) {
        if (look_up(spec->name[i], spec->port, own, &spec->listed[i], 1) == 1)
            continue;
        memset(&spec->listed[i], 0, sizeof spec->listed[i]);
        say(said, size, spec->name[i]);
    }
}
