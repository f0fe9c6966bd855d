/* SPDX-License-Identifier: Apache-2.0 */
/* However many slow connections there are, a whole request is answered: Kubernetes asks /healthz
 * whether the member lives. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "http/server.h"
#include "spotnik/spotnik.h"
#include "tests.h"

#define SLOW 90
#define PATIENCE_S 10 /* a connection without a request is closed by itself after 30 s */

static bool get(void *context, const char *path, bool open, struct spotnik_http_reply *ret)
{
    (void)context, (void)open;
    if (strcmp(path, "/healthz") != 0)
        return false;
    *ret = (struct spotnik_http_reply){ .status = 200, .type = "text/plain", .body = strdup("ok") };
    ret->size = 2;
    return true;
}

static int say(uint16_t port, const char *text)
{
    struct sockaddr_in name = { .sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval patience = { .tv_sec = PATIENCE_S };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

TEST(slow_ones_keep_nobody_out)
{
    struct spotnik_http_config config = { .where = "127.0.0.1:0", .get = get };
    struct spotnik_http *http;
    int slow[SLOW];
    char text[64] = "";

    if (spotnik_http_new(&config, &http) != 0) {
        print_message("%s\n", spotnik_last_error()); /* no libmicrohttpd here */
        skip();
    }
    for (int i = 0; i < SLOW; i++)
        slow[i] = say(spotnik_http_port(http), "GET /healthz HTTP/1.1\r\nHost: loc");
    int fd = say(spotnik_http_port(http), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    close(fd);
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    spotnik_http_free(http);
}

static bool get_page(void *context, const char *path, bool open, struct spotnik_http_reply *ret)
{
    (void)context, (void)path, (void)open;
    *ret = (struct spotnik_http_reply){
        .status = 200, .type = "text/html", .body = strdup("<p>"), .size = 3, .script = "'sha256-x'"
    };
    return true;
}

/* What may run is named by its hash, and what runs reaches this server alone. */
TEST(one_script_may_run)
{
    struct spotnik_http_config config = { .where = "127.0.0.1:0", .get = get_page };
    struct spotnik_http *http;
    char text[2048] = "";

    if (spotnik_http_new(&config, &http) != 0)
        skip();
    int fd = say(spotnik_http_port(http), "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    for (size_t have = 0; have < sizeof text - 1;) {
        ssize_t got = recv(fd, text + have, sizeof text - 1 - have, 0);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    assert_non_null(strstr(text, "script-src 'sha256-x'; connect-src 'self';"));
    close(fd);
    spotnik_http_free(http);
}
