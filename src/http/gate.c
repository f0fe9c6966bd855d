/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of access. */
#include "http/gate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "http/server.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

#define TOKEN_LEAST 16

static bool is_number(const char *text, uint16_t *ret)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || value > UINT16_MAX || *text == '-')
        return false;
    *ret = (uint16_t)value;
    return true;
}

int spotnik_gate_open(const char *where, const char *token, struct spotnik_gate *ret)
{
    *ret =
        (struct spotnik_gate){ .port = SPOTNIK_HTTP_PORT, .token = token && *token ? token : NULL };
    int rc = is_number(where, &ret->port)
                 ? spotnik_address_parse("127.0.0.1", ret->address, &(uint16_t){ 0 })
                 : spotnik_address_parse(where, ret->address, &ret->port);

    if (rc)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_HTTP is \"%.60s\"; it must be a port, an address or address:port", where);
    ret->loopback = spotnik_address_is_loopback(ret->address);
    if (ret->token && strlen(ret->token) < TOKEN_LEAST)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "the token of SPOTNIK_HTTP_TOKEN_FILE has fewer than %d characters", TOKEN_LEAST);
    if (!ret->loopback && !ret->token)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_HTTP=%.60s can be reached from other hosts: it needs a token. Put one into a "
            "file and name it in SPOTNIK_HTTP_TOKEN_FILE, or listen on 127.0.0.1",
            where);
    return 0;
}

/* The time it takes tells nothing of where they differ. */
static bool is_same(const char *a, const char *b)
{
    size_t size = strlen(a);
    unsigned char differs = 0;

    if (strlen(b) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

/* "localhost:9640", "127.0.0.1:9640", "[::1]:9640": a browser that came through another domain name
 * sends that name. */
static bool is_loopback_name(const char *host)
{
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

    return (length == 9 && !strncasecmp(host, "localhost", 9))
           || (length == 5 && !strncmp(host, "[::1]", 5))
           || (length > 4 && !strncmp(host, "127.", 4) && strspn(host, "0123456789.") == length);
}

bool spotnik_gate_admits(const struct spotnik_gate *door, const char *host,
                         const char *authorization)
{
    static const char scheme[] = "Bearer ";

    if (door->token)
        return authorization && !strncasecmp(authorization, scheme, sizeof scheme - 1)
               && is_same(door->token, authorization + sizeof scheme - 1);
    return door->loopback && (!host || is_loopback_name(host));
}
