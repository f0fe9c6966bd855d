/* SPDX-License-Identifier: Apache-2.0 */
/* In place of server.c where the library was built without libmicrohttpd's header. */
#include "http/server.h"

#include "base/error.h"
#include "spotnik/spotnik.h"

int spotnik_http_new(const struct spotnik_http_config *config, struct spotnik_http **ret)
{
    (void)config;
    (void)ret;
    return spotnik_error_return(
        SPOTNIK_ERR_SYSTEM,
        "SPOTNIK_HTTP is set, but this library was built without HTTP; build it again with "
        "libmicrohttpd's header (Debian: libmicrohttpd-dev), or unset SPOTNIK_HTTP");
}

void spotnik_http_free(struct spotnik_http *http)
{
    (void)http;
}

uint16_t spotnik_http_port(const struct spotnik_http *http)
{
    (void)http;
    return 0;
}

bool spotnik_http_is_any(const struct spotnik_http *http)
{
    (void)http;
    return false;
}

const char *spotnik_http_where(const struct spotnik_http *http)
{
    (void)http;
    return "";
}

void spotnik_http_push(struct spotnik_http *http, const char *text, size_t size)
{
    (void)http;
    (void)text;
    (void)size;
}

uint32_t spotnik_http_readers(struct spotnik_http *http)
{
    (void)http;
    return 0;
}
