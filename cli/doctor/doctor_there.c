/* SPDX-License-Identifier: Apache-2.0 */
/* Another host: door, key, round trip, large packets, clock, and whether its folder is ours. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "doctor.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

#define DOOR_NS (3 * SPOTNIK_S)
#define TALK_S 5
#define PINGS 20
#define STALE_WARN_MS 3000
#define STALE_MAX_MS 70000 /* NFS caches what is not there for up to a minute */
#define CLOCK_WARN_MS 2000

struct visit {
    struct doctor *doctor;
    const char *where;
    int fd;
};

bool doctor_move(int fd, void *bytes, size_t size, bool out)
{
    uint8_t *at = bytes;

    while (size > 0) {
        ssize_t done = out ? send(fd, at, size, MSG_NOSIGNAL) : read(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

static bool ask(const struct visit *visit, struct doctor_message *message)
{
    message->magic = DOCTOR_MAGIC;
    return doctor_move(visit->fd, message, sizeof(*message), true)
           && doctor_move(visit->fd, message, sizeof(*message), false);
}

/* ---- the door ---- */

static void say_why(const struct visit *visit, int rc, bool refused)
{
    const char *next = "is the name right, and the same on both?";

    if (rc == SPOTNIK_ERR_PEERS && refused)
        next = "nobody listens there, or a firewall rejects: start spotnik doctor --serve on it; "
               "open the port";
    else if (rc == SPOTNIK_ERR_PEERS)
        next = "no answer: a firewall that drops, a wrong address, or no route; ping it, and open "
               "the port";
    else if (rc == SPOTNIK_ERR_KEY)
        next = "compare: sha256sum KEY-FILE on both hosts";
    else if (rc == SPOTNIK_ERR_VERSION)
        next = "compare: spotnik --version on both hosts";
    doctor_say(visit->doctor, DOCTOR_BAD, visit->where, "%s (%s)", spotnik_last_error(), next);
}

/* Does a doctor answer there? A member of a job must not be asked what it does not understand. */
static bool is_doctor(const struct visit *visit, const struct spotnik_member *at)
{
    char *text;
    size_t size;

    if (spotnik_net_question(&visit->doctor->credentials, at->address, at->port,
                             SPOTNIK_PURPOSE_STATUS, DOOR_NS, &text, &size))
        return false;
    bool doctor = strstr(text, "\"doctor\":true") != NULL;
    free(text);
    return doctor;
}

static bool enter(struct visit *visit)
{
    struct spotnik_member at = { .port = DOCTOR_PORT }, peer;
    struct spotnik_answer answer;
    struct spotnik_duplex duplex;
    bool refused = false;

    if (spotnik_address_parse(visit->where, at.address, &at.port)) {
        doctor_say(visit->doctor, DOCTOR_BAD, visit->where, "%s", spotnik_last_error());
        return false;
    }
    int rc = spotnik_net_ask(&visit->doctor->credentials, at.address, at.port, DOOR_NS, &answer,
                             &refused);
    if (rc) {
        say_why(visit, rc, refused);
        return false;
    }
    if (!is_doctor(visit, &at)) {
        doctor_say(visit->doctor, DOCTOR_FINE, visit->where,
                   "a member of the job answers: way, key, name and version are right");
        return false;
    }
    rc = spotnik_net_dial(&visit->doctor->credentials, at.address, at.port,
                          SPOTNIK_PURPOSE_EXCHANGE, DOOR_NS, &duplex, &peer);
    if (rc)
        say_why(visit, rc, false);
    visit->fd = spotnik_duplex_release(&duplex);
    return rc == 0;
}

/* ---- the way ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t x = ((const struct doctor_ping *)a)->took_ns,
             y = ((const struct doctor_ping *)b)->took_ns;
    return (x > y) - (x < y);
}

static bool ping(struct visit *visit, struct doctor_ping *ret)
{
    struct doctor_message message = { .what = DOCTOR_PING };
    struct timespec wall;
    uint64_t begun_ns = spotnik_clock_ns();

    if (!ask(visit, &message))
        return false;
    ret->took_ns = spotnik_clock_ns() - begun_ns;
    clock_gettime(CLOCK_REALTIME, &wall);
    ret->theirs_ms = message.wall_ms;
    ret->ours_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    return true;
}

/* What the clocks may differ by without harm is so much that only a clear case is worth a line. */
static void say_clock(struct visit *visit, const struct doctor_ping *pings)
{
    int64_t doubt_ms, apart_ms = doctor_clock_apart_ms(pings, PINGS, &doubt_ms);

    if (llabs((long long)apart_ms) > CLOCK_WARN_MS + doubt_ms)
        doctor_say(visit->doctor, DOCTOR_WARNING, visit->where,
                   "its clock is %.1f s away from ours: training does not mind, deadlines do",
                   (double)apart_ms / 1e3);
}

static bool look_round_trip(struct visit *visit)
{
    struct doctor_ping pings[PINGS];

    for (int i = 0; i < PINGS; i++)
        if (!ping(visit, &pings[i])) {
            doctor_say(visit->doctor, DOCTOR_BAD, visit->where, "answered, and fell silent: %s",
                       strerror(errno));
            return false;
        }
    qsort(pings, PINGS, sizeof(*pings), by_size);
    doctor_say(visit->doctor, DOCTOR_FINE, visit->where,
               "way, key, name and version are right; round trip %.2f ms, at most %.2f ms",
               (double)pings[PINGS / 2].took_ns / 1e6, (double)pings[PINGS - 1].took_ns / 1e6);
    say_clock(visit, pings);
    return true;
}

/* Small packets have passed both ways. */
static bool look_large(struct visit *visit)
{
    struct doctor_message message = { .magic = DOCTOR_MAGIC,
                                      .what = DOCTOR_BULK,
                                      .bytes = DOCTOR_BULK_MAX };
    uint8_t *memory = calloc(1, DOCTOR_BULK_MAX);
    uint64_t begun_ns = spotnik_clock_ns();
    bool there = memory && doctor_move(visit->fd, &message, sizeof(message), true)
                 && doctor_move(visit->fd, memory, DOCTOR_BULK_MAX, true)
                 && doctor_move(visit->fd, &message, sizeof(message), false);
    bool back = there && doctor_move(visit->fd, memory, DOCTOR_BULK_MAX, false);
    double took_s = (double)(spotnik_clock_ns() - begun_ns) / 1e9;

    free(memory);
    if (back)
        doctor_say(visit->doctor, DOCTOR_FINE, visit->where,
                   "large packets pass both ways, %.0f Mbit/s",
                   2.0 * 8 * DOCTOR_BULK_MAX / took_s / 1e6);
    else
        doctor_say(visit->doctor, DOCTOR_BAD, visit->where,
                   "small packets pass and large ones vanish %s: the path has a smaller MTU than "
                   "this host "
                   "believes; "
                   "try: ip link set dev DEVICE mtu 1400, or sysctl net.ipv4.tcp_mtu_probing=1",
                   there ? "on the way back" : "on the way there");
    return back;
}

/* ---- the folder ---- */

/* Until the other host sees `wanted` ("": no file) under the name. The time that took; -1: never,
 * or it fell silent. */
static int64_t until_seen(const struct visit *visit, const char *name, const char *wanted)
{
    uint64_t begun_ns = spotnik_clock_ns();

    for (;;) {
        struct doctor_message message = { .what = DOCTOR_LOOK };
        snprintf(message.text, sizeof(message.text), "%s", name);
        if (!ask(visit, &message))
            return -1;
        message.text[sizeof(message.text) - 1] = 0;
        int64_t took_ms = (int64_t)((spotnik_clock_ns() - begun_ns) / SPOTNIK_MS);
        if (!strcmp(message.text, wanted))
            return took_ms;
        if (took_ms > STALE_MAX_MS || (took_ms > STALE_WARN_MS * 3 && !*message.text && *wanted))
            return -1;
        poll(NULL, 0, 10); /* between two questions */
    }
}

static void look_folder(struct visit *visit)
{
    struct doctor *doctor = visit->doctor;
    struct doctor_message message = { .what = DOCTOR_SELF };
    char name[64], path[4400];
    int64_t took_ms[3] = { -1, -1, -1 };

    if (!doctor->folder[0])
        return;
    if (!ask(visit, &message) || strstr(message.text, " -")) {
        doctor_say(doctor, DOCTOR_WARNING, visit->where,
                   "has no folder to compare: start it with --peers file:%s, too", doctor->folder);
        return;
    }
    snprintf(name, sizeof(name), DOCTOR_PROBE "%d-%llx", (int)getpid(),
             (unsigned long long)doctor->credentials.self.id.low);
    snprintf(path, sizeof(path), "%s/%s", doctor->folder, name);
    if (doctor_probe_write(doctor->folder, name, "one"))
        took_ms[0] = until_seen(visit, name, "one");
    if (took_ms[0] >= 0 && doctor_probe_write(doctor->folder, name, "two"))
        took_ms[1] = until_seen(visit, name, "two");
    unlink(path);
    if (took_ms[1] >= 0)
        took_ms[2] = until_seen(visit, name, "");
    int64_t most = took_ms[0] > took_ms[1] ? took_ms[0] : took_ms[1];
    most = most > took_ms[2] ? most : took_ms[2];
    if (took_ms[0] < 0)
        doctor_say(doctor, DOCTOR_BAD, visit->where,
                   "does not see what we write: its folder (%.150s) is another one than ours",
                   message.text);
    else if (took_ms[2] < 0 || most > STALE_WARN_MS)
        doctor_say(doctor, DOCTOR_WARNING, visit->where,
                   "sees changes in the folder only after %s: mount it with actimeo=1",
                   took_ms[2] < 0 ? "more than a minute" : "seconds");
    else
        doctor_say(
            doctor, DOCTOR_FINE, visit->where,
            "sees a new, a changed and a removed file of the folder after %lld, %lld and %lld ms",
            (long long)took_ms[0], (long long)took_ms[1], (long long)took_ms[2]);
}

void doctor_look_there(struct doctor *doctor, const char *where)
{
    struct visit visit = { .doctor = doctor, .where = where, .fd = -1 };
    struct timeval patience = { .tv_sec = TALK_S };

    if (!doctor->has_key) {
        doctor_say(doctor, DOCTOR_BAD, where, "not asked: that needs a key");
        return;
    }
    if (!enter(&visit))
        return;
    setsockopt(visit.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(visit.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (look_round_trip(&visit)) {
        look_folder(&visit);
        look_large(&visit);
    }
    close(visit.fd);
}
