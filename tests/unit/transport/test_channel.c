/* SPDX-License-Identifier: Apache-2.0 */
/* Channels, seen from inside: what a cut leaves half sent, what is lost with a channel, and
 * in which segments it is dialled. */
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "transport/inside.h"
#include "runtime/inside.h"
#include "link/inside.h"
#include "tests.h"

#define PAYLOAD_BYTES 5000
#define SENT_BYTES 100

static uint8_t payload[PAYLOAD_BYTES];

static struct spotnik_runtime *runtime_start(void)
{
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime = NULL;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    return runtime;
}

/* A channel with one frame, of which some has left. Returns the other end of its connection. The
 * lock is held from here on. */
static int half_sent(struct spotnik_runtime *runtime, struct spotnik_channel *channel)
{
    int fd[2];
    spotnik_runtime_lock(runtime);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(spotnik_socket_watch(&channel->first.socket, runtime->loop.data.fd, fd[0],
                                          SPOTNIK_SOCKET_LANE),
                     0);
    memset(payload, 0xab, sizeof payload);
    runtime->transport->channel_count = 1;
    channel->wanted = channel->expected = channel->first.up = channel->first.socket.writable = true;
    channel->peer = (struct spotnik_member){ .id = cluster_id(2) };
    channel->first.frame[0] = (struct spotnik_outgoing){ .payload = payload,
                                                         .payload_bytes = PAYLOAD_BYTES,
                                                         .sent = SENT_BYTES };
    channel->first.count = 1;
    return fd[1];
}

static ssize_t come(int fd, uint8_t *bytes, size_t size)
{
    return recv(fd, bytes, size, 0);
}

TEST(zeros_wait_for_the_next_view)
{
    struct spotnik_runtime *runtime = runtime_start();
    struct spotnik_channel *channel = &runtime->transport->channel[0];
    uint8_t bytes[2 * PAYLOAD_BYTES], zero[PAYLOAD_BYTES] = { 0 };
    size_t rest = SPOTNIK_DATA_PREFIX_BYTES + PAYLOAD_BYTES - SENT_BYTES;

    int fd = half_sent(runtime, channel);
    runtime->stand.frozen = true; /* our promise */
    spotnik_channels_cut(runtime->transport);
    assert_false(spotnik_transport_pump(runtime->transport, SIZE_MAX));
    assert_int_equal(come(fd, bytes, sizeof bytes), -1);
    /* a view without the reader, which may not have promised anything */
    runtime->stand.frozen = false;
    channel->expected = false;
    spotnik_channels_cut(runtime->transport);
    spotnik_transport_pump(runtime->transport, SIZE_MAX);
    assert_int_equal(come(fd, bytes, sizeof bytes), -1);
    channel->expected = true; /* with it */
    spotnik_transport_pump(runtime->transport, SIZE_MAX);
    assert_int_equal(come(fd, bytes, sizeof bytes), (ssize_t)rest);
    assert_memory_equal(bytes, zero, rest);
    close(fd);
    spotnik_runtime_unlock(runtime);
    spotnik_runtime_free(runtime, false);
}

/* Its control link may have broken with it, and be dialled again: that data are lost is told when
 * the link is back, however late, unless a view has come first. */
TEST(a_loss_waits_for_its_link)
{
    struct spotnik_runtime *runtime = runtime_start();
    struct spotnik_channel *channel = &runtime->transport->channel[0];
    uint64_t late_ns = spotnik_clock_ns() + SPOTNIK_S;

    close(half_sent(runtime, channel));
    channel->first.socket.readable = true;
    spotnik_channels_look(runtime->transport, spotnik_clock_ns());
    assert_false(channel->first.up);
    spotnik_channels_look(runtime->transport, late_ns); /* there is no link */
    assert_true(channel->down_ns > late_ns && channel->down_ns != SPOTNIK_NEVER);
    spotnik_channels_doubt(runtime->transport);
    assert_int_equal(channel->down_ns, SPOTNIK_NEVER);
    spotnik_runtime_unlock(runtime);
    spotnik_runtime_free(runtime, false);
}
