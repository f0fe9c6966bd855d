/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd set up for the few answers that a member gives. One thread of the library serves
 * all connections. A reader of the stream is suspended while there is nothing for it;
 * spotnik_http_push() hands the text over and wakes it. */
#include "http/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "http/gate.h"
#include "http/library.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

#define CONNECTIONS_MAX 64
/* At most so many connections that do not read the stream: one more closes the oldest. So slow ones
 * cannot keep a probe of /healthz out. */
#define CLIENTS_MAX 32
#define READERS_MAX 24
#define CONNECTION_MEMORY (16u * 1024)
#define IDLE_S 30
#define STREAM_BLOCK 4096

/* One reader of the stream. In the list of its server, under the lock. */
struct reader {
    struct spotnik_http *http;
    struct MHD_Connection *connection;
    char *text; /* what is being sent; NULL: nothing */
    size_t size, sent;
    bool suspended;
    struct reader *next;
};

/* A connection. The library's thread alone looks at them; oldest first. */
struct client {
    int fd;
    bool reads; /* the stream */
    struct client *next;
};

struct spotnik_http {
    struct client *clients;
    const struct spotnik_http_library *lib;
    struct spotnik_http_config config;
    struct spotnik_gate door;
    char *token, where[SPOTNIK_HTTP_ADDRESS_MAX];
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_mutex_t lock;
    struct reader *readers;
    bool stopping;
};

/* ---- the stream ---- */

static void reader_done(void *context)
{
    struct reader *reader = context;
    struct spotnik_http *http = reader->http;

    pthread_mutex_lock(&http->lock);
    struct reader **at = &http->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    pthread_mutex_unlock(&http->lock);
    free(reader->text);
    free(reader);
}

/* The library's thread wants more to send: the rest of the text, or sleep until there is one. */
static ssize_t reader_more(void *context, uint64_t position, char *to, size_t room)
{
    struct reader *reader = context;
    struct spotnik_http *http = reader->http;
    ssize_t given = 0;

    (void)position;
    pthread_mutex_lock(&http->lock);
    if (reader->text) {
        size_t left = reader->size - reader->sent;
        given = (ssize_t)(left < room ? left : room);
        memcpy(to, reader->text + reader->sent, (size_t)given);
        reader->sent += (size_t)given;
        if (reader->sent == reader->size) {
            free(reader->text);
            reader->text = NULL;
        }
    } else if (http->stopping) {
        given = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        reader->suspended = true;
        http->lib->MHD_suspend_connection(reader->connection);
    }
    pthread_mutex_unlock(&http->lock);
    return given;
}

static void reader_give(struct reader *reader, const char *text, size_t size)
{
    if (reader->text)
        return; /* slow: it is still at an older text */
    reader->text = malloc(size);
    if (!reader->text)
        return;
    memcpy(reader->text, text, size);
    reader->size = size;
    reader->sent = 0;
}

static void reader_wake(struct reader *reader)
{
    if (!reader->suspended)
        return;
    reader->suspended = false;
    reader->http->lib->MHD_resume_connection(reader->connection);
}

void spotnik_http_push(struct spotnik_http *http, const char *text, size_t size)
{
    pthread_mutex_lock(&http->lock);
    for (struct reader *reader = http->readers; reader; reader = reader->next) {
        reader_give(reader, text, size);
        reader_wake(reader);
    }
    pthread_mutex_unlock(&http->lock);
}

uint32_t spotnik_http_readers(struct spotnik_http *http)
{
    uint32_t count = 0;

    pthread_mutex_lock(&http->lock);
    for (struct reader *reader = http->readers; reader; reader = reader->next)
        count++;
    pthread_mutex_unlock(&http->lock);
    return count;
}

static struct MHD_Response *stream_response(struct spotnik_http *http,
                                            struct MHD_Connection *connection)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return NULL;
    *reader = (struct reader){ .http = http, .connection = connection };
    struct MHD_Response *response =
        http->lib->MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, reader_more,
                                                     reader, reader_done);
    if (!response) {
        free(reader);
        return NULL;
    }
    reader_give(reader, ": hello\n\n", 9);
    pthread_mutex_lock(&http->lock);
    reader->next = http->readers;
    http->readers = reader;
    pthread_mutex_unlock(&http->lock);
    return response;
}

/* ---- answers ---- */

static void refuse(struct spotnik_http_reply *reply, unsigned status, const char *text)
{
    *reply = (struct spotnik_http_reply){ .status = status,
                                          .type = "text/plain; charset=utf-8",
                                          .body = strdup(text) };
    reply->size = reply->body ? strlen(text) : 0;
}

static void choose(struct spotnik_http *http, struct MHD_Connection *connection, const char *path,
                   struct spotnik_http_reply *ret)
{
    const char *host = http->lib->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *right =
        http->lib->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    bool admitted = spotnik_gate_admits(&http->door, host, right);

    *ret = (struct spotnik_http_reply){ .status = MHD_HTTP_OK };
    if (http->config.get(http->config.context, path, !admitted, ret))
        return;
    if (admitted)
        refuse(ret, MHD_HTTP_NOT_FOUND,
               "There is nothing here. Try /, /metrics, /status.json, /job.json, /healthz or "
               "/readyz.\n");
    else if (http->door.token)
        refuse(ret, MHD_HTTP_UNAUTHORIZED,
               "This needs the token of the job: Authorization: Bearer TOKEN\n");
    else
        refuse(ret, MHD_HTTP_FORBIDDEN,
               "This host answers under localhost, 127.0.0.1 and [::1] alone.\n");
}

static void headers_add(const struct spotnik_http_library *lib, struct MHD_Response *response,
                        const struct spotnik_http_reply *reply)
{
    char policy[300];

    snprintf(policy, sizeof policy,
             "default-src 'none'; style-src 'unsafe-inline'; script-src %s; connect-src 'self'; "
             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             reply->script ? reply->script : "'none'");

    lib->MHD_add_response_header(response, "Content-Type", reply->type);
    lib->MHD_add_response_header(response, "Cache-Control", "no-store");
    lib->MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    lib->MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    lib->MHD_add_response_header(response, "Content-Security-Policy", policy);
    if (reply->status == MHD_HTTP_UNAUTHORIZED)
        lib->MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"spotnik\"");
}

/* False: there are readers enough. */
static bool reads(struct spotnik_http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        http->lib->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct client *client = info ? info->socket_context : NULL;

    if (!client || spotnik_http_readers(http) >= READERS_MAX)
        return false;
    client->reads = true;
    return true;
}

static enum MHD_Result answer(struct spotnik_http *http, struct MHD_Connection *connection,
                              const char *path)
{
    const struct spotnik_http_library *lib = http->lib;
    struct spotnik_http_reply reply;

    choose(http, connection, path, &reply);
    if (reply.stream && !reads(http, connection))
        refuse(&reply, MHD_HTTP_SERVICE_UNAVAILABLE, "Enough others read this already.\n");
    struct MHD_Response *response =
        reply.stream ? stream_response(http, connection)
        : reply.body
            ? lib->MHD_create_response_from_buffer(reply.size, reply.body, MHD_RESPMEM_MUST_FREE)
            : NULL;

    if (!response) {
        free(reply.body);
        return MHD_NO; /* no memory: the connection is closed */
    }
    headers_add(lib, response, &reply);
    enum MHD_Result result = lib->MHD_queue_response(connection, reply.status, response);
    lib->MHD_destroy_response(response);
    return result;
}

/* Called first with the headers, then again when the request is whole; a body is not read. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *data_size, void **memory)
{
    static int seen;

    (void)version;
    (void)data;
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return MHD_NO;
    if (!*memory) {
        *memory = &seen;
        return MHD_YES;
    }
    if (*data_size) {
        *data_size = 0;
        return MHD_YES;
    }
    return answer(context, connection, path);
}

/* The library finds the end of it, and closes it. */
static void make_room(struct spotnik_http *http)
{
    struct client *oldest = NULL;
    uint32_t count = 0;

    for (struct client *client = http->clients; client; client = client->next) {
        if (client->reads || client->fd < 0)
            continue;
        oldest = oldest ? oldest : client;
        count++;
    }
    if (count <= CLIENTS_MAX)
        return;
    shutdown(oldest->fd, SHUT_RDWR);
    oldest->fd = -1;
}

static void client_new(struct spotnik_http *http, int fd, void **memory)
{
    struct client *client = calloc(1, sizeof *client), **at = &http->clients;

    if (!client)
        return; /* it is not counted */
    while (*at)
        at = &(*at)->next;
    client->fd = fd;
    *at = *memory = client;
    make_room(http);
}

static void client_end(struct spotnik_http *http, struct client *client)
{
    struct client **at = &http->clients;

    while (*at && *at != client)
        at = &(*at)->next;
    if (*at)
        *at = client->next;
    free(client);
}

/* A child made by fork() must not keep a dead member's readers connected. */
static void on_connection(void *context, struct MHD_Connection *connection, void **memory,
                          enum MHD_ConnectionNotificationCode code)
{
    struct spotnik_http *http = context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        client_end(http, *memory);
        return;
    }
    const union MHD_ConnectionInfo *info =
        http->lib->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    spotnik_fork_note(info->connect_fd);
    client_new(http, info->connect_fd, memory);
}

/* ---- life ---- */

static int listen_on(struct spotnik_http *http, uint16_t port)
{
    struct sockaddr_storage address;
    socklen_t size = spotnik_address_to_kernel(&address, http->door.address, port);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 32)) {
        close(fd);
        return -1;
    }
    uint8_t at[16];
    size = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &size);
    spotnik_address_from_kernel(&address, at, &http->port);
    spotnik_address_format(http->where, at, http->port);
    spotnik_fork_note(fd);
    return fd;
}

static int listen_somewhere(struct spotnik_http *http)
{
    uint16_t first = http->door.port;
    int fd = -1;

    for (uint32_t i = 0;
         fd < 0 && i < (first ? SPOTNIK_HTTP_PORTS_TRIED : 1) && first + i <= UINT16_MAX; i++)
        fd = listen_on(http, (uint16_t)(first + i));
    return fd;
}

/* Its thread gets no signals: handlers belong to the program. */
static struct MHD_Daemon *start(struct spotnik_http *http, int fd)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        http->lib->MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME
                                        | MHD_USE_ITC,
                                    0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                                    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                                    MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
                                    MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static int begin(struct spotnik_http *http)
{
    int fd = listen_somewhere(http);

    if (fd < 0)
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "SPOTNIK_HTTP: cannot listen on %.60s, nor on the ports after it: %m",
            http->config.where);
    http->daemon = start(http, fd);
    if (http->daemon)
        return 0;
    close(fd);
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "SPOTNIK_HTTP: libmicrohttpd does not start: %m");
}

int spotnik_http_new(const struct spotnik_http_config *config, struct spotnik_http **ret)
{
    struct spotnik_http *http = calloc(1, sizeof *http);

    if (!http)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for an HTTP server");
    http->config = *config;
    http->token = config->token ? strdup(config->token) : NULL;
    pthread_mutex_init(&http->lock, NULL);
    int rc = spotnik_gate_open(config->where, http->token, &http->door);

    if (!rc)
        rc = spotnik_http_library(&http->lib);
    if (!rc)
        rc = begin(http);
    http->config.where = http->config.token = NULL; /* were borrowed */
    if (rc) {
        spotnik_http_free(http);
        return rc;
    }
    *ret = http;
    return 0;
}

void spotnik_http_free(struct spotnik_http *http)
{
    if (!http)
        return;
    pthread_mutex_lock(&http->lock);
    http->stopping = true;
    for (struct reader *reader = http->readers; reader; reader = reader->next)
        reader_wake(reader); /* the library stops only when none sleeps */
    pthread_mutex_unlock(&http->lock);
    if (http->daemon)
        http->lib->MHD_stop_daemon(http->daemon); /* closes the listening socket */
    pthread_mutex_destroy(&http->lock);
    free(http->token);
    free(http);
}

uint16_t spotnik_http_port(const struct spotnik_http *http)
{
    return http->port;
}

bool spotnik_http_is_any(const struct spotnik_http *http)
{
    return spotnik_address_is_any(http->door.address);
}

const char *spotnik_http_where(const struct spotnik_http *http)
{
    return http->where;
}
