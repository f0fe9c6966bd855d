/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses in text, on the wire and for the kernel. See address.h. */
#include "link/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* Cut "[host]:port" or "host:port" in place; *ret_port is NULL where there is none. */
static const char *text_cut(char *text, const char **ret_port)
{
    *ret_port = NULL;
    if (*text == '[') {
        char *end = strchr(text, ']');
        if (end == NULL)
            return NULL;
        *end++ = '\0';
        if (*end == ':')
            *ret_port = end + 1;
        else if (*end != '\0')
            return NULL;
        return text + 1;
    }
    char *colon = strchr(text, ':');
    if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        *colon = '\0';
        *ret_port = colon + 1;
    }
    return text;
}

static bool port_parse(const char *text, uint16_t *ret_port)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > UINT16_MAX)
        return false;
    *ret_port = (uint16_t)value;
    return true;
}

static void take(const struct addrinfo *from, uint8_t ret_address[16])
{
    struct sockaddr_storage kernel;
    uint16_t port;
    memset(&kernel, 0, sizeof kernel);
    memcpy(&kernel, from->ai_addr, from->ai_addrlen);
    spotnik_address_from_kernel(&kernel, ret_address, &port);
}

/* How well an address suits a process that binds `own`. */
static int suits(const uint8_t address[16], const uint8_t *own)
{
    static const uint8_t debian[16] = { [10] = 0xff, 0xff, 127, 0, 1, 1 };
    if (memcmp(address, own, 16) == 0
        || (memcmp(address, debian, 16) == 0 && !spotnik_address_is_loopback(own)))
        return 2;
    return spotnik_address_is_ipv4(address) == spotnik_address_is_ipv4(own);
}

static void choose(const struct addrinfo *list, const uint8_t *own, uint8_t ret_address[16])
{
    uint8_t address[16];
    int best = 0;
    take(list, ret_address);
    for (; own != NULL && list != NULL; list = list->ai_next) {
        take(list, address);
        int suited = suits(address, own);
        if (suited > best)
            memcpy(ret_address, suited == 2 ? own : address, 16);
        best = suited > best ? suited : best;
    }
}

static int resolve(const char *host, const uint8_t *own, uint8_t ret_address[16])
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list;
    int rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc != 0)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "cannot resolve %s: %s", host,
                                    gai_strerror(rc));
    choose(list, own, ret_address);
    freeaddrinfo(list);
    return 0;
}

int spotnik_address_parse_for(const char *text, const uint8_t *own, uint8_t ret_address[16],
                              uint16_t *ret_port)
{
    char copy[300];
    const char *port;
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof copy)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "\"%.100s\" is no address", text);
    memcpy(copy, text, length + 1);
    const char *host = text_cut(copy, &port);
    if (host == NULL || *host == '\0')
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "\"%s\" is no address; write host:port or [v6]:port", text);
    if (port != NULL && !port_parse(port, ret_port))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "\"%s\": the port must be a number up to 65535", text);
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        memcpy(ret_address, mapped, 12);
        memcpy(ret_address + 12, &v4, 4);
        return 0;
    }
    if (inet_pton(AF_INET6, host, ret_address) == 1)
        return 0;
    return resolve(host, own, ret_address);
}

int spotnik_address_parse(const char *text, uint8_t ret_address[16], uint16_t *ret_port)
{
    return spotnik_address_parse_for(text, NULL, ret_address, ret_port);
}

const char *spotnik_address_format(char text[SPOTNIK_ADDRESS_TEXT], const uint8_t address[16],
                                   uint16_t port)
{
    char host[INET6_ADDRSTRLEN];
    if (spotnik_address_is_ipv4(address)) {
        inet_ntop(AF_INET, address + 12, host, sizeof host);
        snprintf(text, SPOTNIK_ADDRESS_TEXT, "%s:%u", host, port);
    } else {
        inet_ntop(AF_INET6, address, host, sizeof host);
        snprintf(text, SPOTNIK_ADDRESS_TEXT, "[%s]:%u", host, port);
    }
    return text;
}

socklen_t spotnik_address_to_kernel(struct sockaddr_storage *to, const uint8_t address[16],
                                    uint16_t port)
{
    memset(to, 0, sizeof *to);
    if (spotnik_address_is_ipv4(address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)to;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address + 12, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, address, 16);
    return sizeof *v6;
}

void spotnik_address_from_kernel(const struct sockaddr_storage *from, uint8_t ret_address[16],
                                 uint16_t *ret_port)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        memcpy(ret_address, mapped, 12);
        memcpy(ret_address + 12, &v4->sin_addr, 4);
        *ret_port = ntohs(v4->sin_port);
        return;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
    memcpy(ret_address, &v6->sin6_addr, 16);
    *ret_port = ntohs(v6->sin6_port);
}

bool spotnik_address_is_ipv4(const uint8_t address[16])
{
    return memcmp(address, mapped, 12) == 0;
}

bool spotnik_address_is_loopback(const uint8_t address[16])
{
    static const uint8_t v6[16] = { [15] = 1 };
    return spotnik_address_is_ipv4(address) ? address[12] == 127 : memcmp(address, v6, 16) == 0;
}

bool spotnik_address_is_any(const uint8_t address[16])
{
    static const uint8_t zero[16];
    return memcmp(address, zero, 16) == 0
           || (spotnik_address_is_ipv4(address) && memcmp(address + 12, zero, 4) == 0);
}
