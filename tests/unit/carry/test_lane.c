/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, seen from inside: what a cut leaves half sent, what is lost with a lane, and
 * in which segments it is dialled. */
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/cluster.h"
#include "carry/inside.h"
#include "engine/inside.h"
#include "link/inside.h"
#include "tests.h"

#define PAYLOAD_BYTES 5000
#define SENT_BYTES 100

static uint8_t payload[PAYLOAD_BYTES];

static struct spotnik_engine *engine_start(void)
{
    struct spotnik_engine_config config;
    struct spotnik_engine *engine = NULL;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    assert_int_equal(spotnik_engine_new(&config, &engine), 0);
    return engine;
}

/* A lane with one frame, of which some has left. Returns the other end of its connection. The lock
 * is held from here on. */
static int half_sent(struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    int fd[2];
    spotnik_engine_lock(engine);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(spotnik_socket_watch(&lane->first.socket, engine->loop.data.fd, fd[0],
                                          SPOTNIK_SOCKET_LANE),
                     0);
    memset(payload, 0xab, sizeof payload);
    engine->carriage->lane_count = 1;
    lane->wanted = lane->expected = lane->first.up = lane->first.socket.writable = true;
    lane->peer = (struct spotnik_member){ .id = cluster_id(2) };
    lane->first.frame[0] = (struct spotnik_outgoing){ .payload = payload,
                                                      .payload_bytes = PAYLOAD_BYTES,
                                                      .sent = SENT_BYTES };
    lane->first.count = 1;
    return fd[1];
}

static ssize_t come(int fd, uint8_t *bytes, size_t size)
{
    return recv(fd, bytes, size, 0);
}

TEST(zeros_wait_for_the_next_view)
{
    struct spotnik_engine *engine = engine_start();
    struct spotnik_lane *lane = &engine->carriage->lane[0];
    uint8_t bytes[2 * PAYLOAD_BYTES], zero[PAYLOAD_BYTES] = { 0 };
    size_t rest = SPOTNIK_DATA_PREFIX_BYTES + PAYLOAD_BYTES - SENT_BYTES;

    int fd = half_sent(engine, lane);
    engine->stand.frozen = true; /* our promise */
    spotnik_lanes_cut(engine->carriage);
    assert_false(spotnik_carriage_pump(engine->carriage, SIZE_MAX));
    assert_int_equal(come(fd, bytes, sizeof bytes), -1);
    /* a view without the reader, which may not have promised anything */
    engine->stand.frozen = false;
    lane->expected = false;
    spotnik_lanes_cut(engine->carriage);
    spotnik_carriage_pump(engine->carriage, SIZE_MAX);
    assert_int_equal(come(fd, bytes, sizeof bytes), -1);
    lane->expected = true; /* with it */
    spotnik_carriage_pump(engine->carriage, SIZE_MAX);
    assert_int_equal(come(fd, bytes, sizeof bytes), (ssize_t)rest);
    assert_memory_equal(bytes, zero, rest);
    close(fd);
    spotnik_engine_unlock(engine);
    spotnik_engine_free(engine, false);
}

/* Its control link may have broken with it, and be dialled again: that data are lost is told when
 * the link is back, however late, unless a view has come first. */
TEST(a_loss_waits_for_its_link)
{
    struct spotnik_engine *engine = engine_start();
    struct spotnik_lane *lane = &engine->carriage->lane[0];
    uint64_t late_ns = spotnik_clock_ns() + SPOTNIK_S;

    close(half_sent(engine, lane));
    lane->first.socket.readable = true;
    spotnik_lanes_look(engine->carriage, spotnik_clock_ns());
    assert_false(lane->first.up);
    spotnik_lanes_look(engine->carriage, late_ns); /* there is no link */
    assert_true(lane->down_ns > late_ns && lane->down_ns != SPOTNIK_NEVER);
    spotnik_lanes_doubt(engine->carriage);
    assert_int_equal(lane->down_ns, SPOTNIK_NEVER);
    spotnik_engine_unlock(engine);
    spotnik_engine_free(engine, false);
}
