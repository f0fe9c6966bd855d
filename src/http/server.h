/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on a thread of its own. It has GET only, a fixed set of answers given by a
 * callback, and one stream of server-sent events that all readers share. It knows nothing of jobs.
 * libmicrohttpd does the work. It is loaded when a server is wanted, so programs that do not watch
 * do not depend on it (docs/design/0023-observability.md).
 *
 * Access: on loopback every user of this host, but only under a name of loopback (a page elsewhere
 * must not read through a rebound name). Elsewhere only with the token, as "Authorization: Bearer
 * TOKEN". Answers that the callback marks as open, such as a page without content of the job, need
 * none. */
#ifndef SPOTNIK_HTTP_SERVER_H
#define SPOTNIK_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_HTTP_PORT 9640
/* Several members of one host share the setting: each takes the next free port. */
#define SPOTNIK_HTTP_PORTS_TRIED 64
#define SPOTNIK_HTTP_ADDRESS_MAX 80

struct spotnik_http_reply {
    unsigned status;
    const char *type; /* static */
    char *body;       /* malloc; the server frees it */
    size_t size;
    const char *script; /* static: the one that may run, as CSP names it; NULL: none */
    bool stream;        /* no body: what spotnik_http_push() brings, until either side ends it */
};

struct spotnik_http_config {
    const char *where; /* "PORT", "ADDRESS" or "ADDRESS:PORT"; port 0: any */
    const char *token; /* NULL: none */
    void *context;
    /* The server's thread. `path` has no query. `open`: asked without a right to the job's data;
     * answer only what holds none of it, and leave the rest to the server. False: there is nothing
     * for this reader under this path. */
    bool (*get)(void *context, const char *path, bool open, struct spotnik_http_reply *ret);
};

struct spotnik_http;

/* Errors: ARGUMENT (the setting, a missing token), SYSTEM (no library, no port), MEMORY. */
int spotnik_http_new(const struct spotnik_http_config *config, struct spotnik_http **ret);

/* Ends streams and the thread. Accepts NULL. Not from a callback. */
void spotnik_http_free(struct spotnik_http *http);

/* The port that it listens on; and whether it listens on all addresses of this host. */
uint16_t spotnik_http_port(const struct spotnik_http *http);
bool spotnik_http_is_any(const struct spotnik_http *http);
const char *spotnik_http_where(const struct spotnik_http *http); /* "127.0.0.1:9640" */

/* Any thread: send `text` to all readers of the stream. One that is too slow misses texts, never
 * parts of one. */
void spotnik_http_push(struct spotnik_http *http, const char *text, size_t size);
uint32_t spotnik_http_readers(struct spotnik_http *http);

#endif
