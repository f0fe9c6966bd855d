/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client: connect, prove the key, and hand the socket over. For state transfer, status and
 * the search for the job, each on a thread that may wait. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"
#include "net/answer.h"
#include "net/state.h"

/* Wait until the socket is ready for `events` or the time is over: 0, or SPOTNIK_ERR_PEERS. */
static int ready_wait(int fd, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t left_ns = spotnik_time_since(until_ns, spotnik_clock_ns());
        struct pollfd entry = { .fd = fd, .events = events };
        int rc = poll(&entry, 1, (int)((left_ns + SPOTNIK_MS - 1) / SPOTNIK_MS));
        if (rc > 0)
            return 0;
        if (rc == 0 || errno != EINTR)
            return SPOTNIK_ERR_PEERS;
    }
}

static int refused(const char *name, int error, bool *ret_refused)
{
    if (ret_refused != NULL)
        *ret_refused = error == ECONNREFUSED;
    errno = error;
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "cannot reach %s: %m", name);
}

static int connect_wait(const char *name, const uint8_t address[16], uint16_t port, uint64_t until_ns,
                        int *ret_fd, bool *ret_refused)
{
    int fd = -1, rc = spotnik_socket_connect(address, port, &fd);
    if (rc != 0)
        return refused(name, -rc, ret_refused);
    int error = ready_wait(fd, POLLOUT, until_ns) == 0 ? spotnik_socket_error(fd) : ETIMEDOUT;
    if (error != 0) {
        close(fd);
        return refused(name, error, ret_refused);
    }
    *ret_fd = fd;
    return 0;
}

static int shake_wait(struct spotnik_shake *shake, const char *name, int fd, uint64_t until_ns)
{
    for (;;) {
        int rc = spotnik_shake_run(shake, fd);
        if (rc == 0)
            return 0;
        if (rc != SPOTNIK_SHAKE_AGAIN) {
            spotnik_error_set("%s %s", name, spotnik_shake_text(shake, rc));
            return rc == SPOTNIK_ERR_ARGUMENT ? SPOTNIK_ERR_PEERS : rc;
        }
        short events = shake->out_at < shake->out_size ? POLLOUT : POLLIN;
        if (ready_wait(fd, events, until_ns) != 0)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s does not answer", name);
    }
}

static int dial(const struct spotnik_credentials *credentials, const uint8_t address[16], uint16_t port,
                enum spotnik_purpose purpose, uint64_t until_ns, int *ret_fd, struct spotnik_member *ret_peer,
                bool *ret_refused)
{
    char name[SPOTNIK_ADDRESS_TEXT];
    struct spotnik_shake shake;
    int fd = -1;
    spotnik_address_format(name, address, port);
    int rc = connect_wait(name, address, port, until_ns, &fd, ret_refused);
    if (rc != 0)
        return rc;
    spotnik_shake_init_client(&shake, credentials, purpose);
    rc = shake_wait(&shake, name, fd, until_ns);
    spotnik_shake_done(&shake);
    if (rc == 0 && fcntl(fd, F_SETFL, 0) != 0)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make a socket blocking: %m");
    if (rc != 0) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_peer = shake.wire.peer;
    return 0;
}

int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16], uint16_t port,
                     enum spotnik_purpose purpose, uint64_t timeout_ns, int *ret_fd,
                     struct spotnik_member *ret_peer)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    return dial(credentials, address, port, purpose, until_ns, ret_fd, ret_peer, NULL);
}

static int answer_read(int fd, uint64_t until_ns, struct spotnik_answer *ret_answer)
{
    uint8_t bytes[SPOTNIK_ANSWER_BYTES];
    size_t have = 0;
    while (have < sizeof bytes) {
        if (ready_wait(fd, POLLIN, until_ns) != 0)
            return SPOTNIK_ERR_PEERS;
        ssize_t got = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return SPOTNIK_ERR_PEERS;
        have += (size_t)got;
    }
    return spotnik_answer_decode(bytes, ret_answer) ? 0 : SPOTNIK_ERR_PEERS;
}

int spotnik_net_ask(const struct spotnik_credentials *credentials, const uint8_t address[16], uint16_t port,
                    uint64_t timeout_ns, struct spotnik_answer *ret_answer, bool *ret_refused)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    struct spotnik_member peer;
    char name[SPOTNIK_ADDRESS_TEXT];
    int fd;
    if (ret_refused != NULL)
        *ret_refused = false;
    int rc = dial(credentials, address, port, SPOTNIK_PURPOSE_PEERS, until_ns, &fd, &peer, ret_refused);
    if (rc != 0)
        return rc;
    rc = answer_read(fd, until_ns, ret_answer);
    close(fd);
    if (rc == 0 && !spotnik_id_equal(ret_answer->self.id, peer.id))
        rc = SPOTNIK_ERR_PEERS;
    if (rc != 0)
        spotnik_error_set("%s gives no answer", spotnik_address_format(name, address, port));
    return rc;
}
