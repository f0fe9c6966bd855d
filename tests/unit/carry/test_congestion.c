/* SPDX-License-Identifier: Apache-2.0 */
/* Which congestion controls the kernel lets us set: words of SPOTNIK_CONGESTION, and that what is
 * named gets on the lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/cluster.h"
#include "base/error.h"
#include "carry/congestion.h"
#include "carry/inside.h"
#include "engine/inside.h"

static const char *used(int fd, char name[SPOTNIK_CONGESTION_NAME])
{
    socklen_t size = SPOTNIK_CONGESTION_NAME - 1;
    memset(name, 0, SPOTNIK_CONGESTION_NAME);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    return name;
}

static int tcp_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    assert_true(fd >= 0);
    return fd;
}

static void test_what_there_is_not_is_refused(void **context)
{
    static const char *const bad[] = { "nosuchcontrol", "a name that is longer than any", " reno",
                                       "auto" };
    char name[SPOTNIK_CONGESTION_NAME];
    (void)context;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(spotnik_congestion_parse(bad[i], name), SPOTNIK_ERR_ARGUMENT);
        assert_non_null(strstr(spotnik_last_error(), "SPOTNIK_CONGESTION"));
        assert_non_null(strstr(spotnik_last_error(), "tcp_allowed_congestion_control"));
    }
}

static struct spotnik_engine *engine_new(const char *congestion)
{
    struct spotnik_engine_config config;
    struct spotnik_engine *engine = NULL;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    config.congestion = congestion;
    assert_int_equal(spotnik_engine_new(&config, &engine), 0);
    return engine;
}

/* Without a name a connection keeps what it has. Reno needs no privilege, on any system. */
static void test_a_name_holds_for_every_lane(void **context)
{
    static const char *const words[] = { NULL, "reno" };
    char name[SPOTNIK_CONGESTION_NAME], before[SPOTNIK_CONGESTION_NAME];
    (void)context;
    for (unsigned i = 0; i < 2; i++) {
        struct spotnik_engine *engine = engine_new(words[i]);
        spotnik_engine_lock(engine);
        struct spotnik_lane *lane = &engine->carriage->lane[0];
        lane->peer = engine->config.credentials.self;
        lane->first.socket.fd = tcp_socket();
        lane->first.up = true;
        used(lane->first.socket.fd, before);
        spotnik_widen_begin(engine->carriage, lane);
        assert_string_equal(used(lane->first.socket.fd, name), i == 0 ? before : "reno");
        close(lane->first.socket.fd);
        lane->first.up = false;
        spotnik_engine_unlock(engine);
        spotnik_engine_free(engine, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_there_is_not_is_refused),
        cmocka_unit_test(test_a_name_holds_for_every_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
