/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at the door of a live job: port scans, garbage, half a handshake, connections that say
 * nothing for ever, a recorded handshake played again, another wire version, another key, another
 * job; and holders of the key that talk nonsense once they are in. Claims: no view change, no lost
 * step, the rate of steps holds, no file stays open; whoever is turned away by version, key or job
 * is told so, and the member's status says it too; a rightful joiner gets in meanwhile (P10).
 *
 *     e2e-unauthenticated WORKER [seed=1] */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "probe.h"
#include "spotnik/spotnik.h"
#include "wire/handshake.h"

#define PATIENCE_MS 40000
#define HEAR_MS 20000
#define STEADY 5 /* times in a row that members have as many files open as before */

enum {
    FLOOD = 20000,
    MEMBERS = 3,
    SOME = 2 * MEMBERS,
    SILENT = 200,
    SCANS = 200,
    TALKERS = 8,
    OTHER_VERSION = SPOTNIK_WIRE_VERSION + 1
};

static char door[MEMBERS + 1][32];
static int silent[SILENT], files[MEMBERS];
static uint64_t step_wanted, epoch;

/* ---- the door ---- */

/* A listener on a port that is free now. */
static int listener(uint16_t *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        exit(2);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A port of ours for as long as the test runs: nobody else gets it, and who binds it by name may
 * listen there. */
static uint16_t reserve(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)
        || bind(fd, (struct sockaddr *)&address, size)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        exit(2);
    return ntohs(address.sin_port);
}

static uint16_t port_of(uint32_t place)
{
    return (uint16_t)atoi(strchr(door[place], ':') + 1);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval patience = { .tv_sec = HEAR_MS / 1000 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons(port);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        exit(2); /* a door that does not open: the member is dead or deaf */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static int knock(uint32_t place)
{
    return connect_to(port_of(place));
}

/* As much as it takes; it may have shut the door already. */
static void say(int fd, const void *bytes, size_t size)
{
    ssize_t sent = spotnik_tls_send(fd, bytes, size, 0);

    (void)sent;
}

static size_t hear(int fd, uint8_t *bytes, size_t size)
{
    size_t used = 0;
    ssize_t got;

    while (used < size && (got = spotnik_tls_recv(fd, bytes + used, size - used, 0)) > 0)
        used += (size_t)got;
    return used;
}

static void random_bytes(struct cluster *cluster, uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++)
        bytes[at] = (uint8_t)spotnik_prng_next(&cluster->prng);
}

/* ---- idle ---- */

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) >= step_wanted;
}

/* But for what members open among themselves now and then. */
static bool files_are_closed(struct cluster *cluster)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (probe_files(cluster->worker[i].pid) > files[i] + SOME)
            return false;
    return true;
}

/* How many files are open when nobody comes: once all that members share has been set up, which may
 * be long after their first step. */
static bool files_are_steady(struct cluster *cluster)
{
    static int times;
    int now[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++)
        now[i] = probe_files(cluster->worker[i].pid);
    times = memcmp(now, files, sizeof now) ? 0 : times + 1;
    memcpy(files, now, sizeof now);
    return times >= STEADY;
}

static void expect_undisturbed(struct cluster *cluster, const char *after)
{
    step_wanted = cluster_step(cluster) + 20;
    cluster_until(cluster, is_further, after, PATIENCE_MS);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cluster->worker[i].epoch != epoch)
            cluster_fail(cluster, "%s: w%u is in view %" PRIu64 ", not %" PRIu64, after,
                         cluster->worker[i].number, cluster->worker[i].epoch, epoch);
}

static void expect_closed(struct cluster *cluster, const char *after)
{
    expect_undisturbed(cluster, after);
    cluster_until(cluster, files_are_closed,
                  "members to close what unauthenticated peers had opened", PATIENCE_MS);
}

/* The status of place 0 says whom it turned away, and why. */
static void expect_refusal(struct cluster *cluster, const char *why)
{
    struct spotnik_member member = probe_member(cluster, 0);
    char text[16384];

    probe_until(cluster, 0, &member, why, PATIENCE_MS, text, sizeof text);
}

/* ---- peers that hold no key ---- */

static void scan(struct cluster *cluster)
{
    for (int i = 0; i < SCANS; i++) {
        close(knock((uint32_t)i % MEMBERS));
        cluster_turn(cluster, 0);
    }
}

/* Random bytes, some behind a good beginning. */
static void garbage(struct cluster *cluster)
{
    static const uint8_t hello[16] = { 'S', 'P', 'O', 'T', 'N', 'I', 'K', '1',
                                       1,   0,   1,   1,   112, 0,   0,   0 };

    for (int i = 0; i < 60; i++) {
        uint8_t bytes[4096];
        int fd = knock((uint32_t)i % MEMBERS);

        random_bytes(cluster, bytes, sizeof bytes);
        if (i % 2)
            memcpy(bytes, hello, sizeof hello);
        if (i % 4 == 3)
            memset(bytes + 12, 0xff, 4); /* a length beyond all limits */
        say(fd, bytes, 1 + spotnik_prng_below(&cluster->prng, sizeof bytes));
        cluster_turn(cluster, 1);
        close(fd);
    }
}

static void be_silent(void)
{
    for (int i = 0; i < SILENT; i++) {
        silent[i] = knock((uint32_t)i % MEMBERS);
        say(silent[i], "S", 1);
    }
}

static void speak_up(void)
{
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
}

/* ---- a flood ---- */

/* Connect to the members' doors and close, as fast as it goes, from an address of our own, until
 * killed. How often is in *count. */
static void flood(uint64_t *count)
{
    struct sockaddr_in from = { .sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8) };

    for (uint32_t i = 0;; i++) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        to.sin_port = htons(port_of(i % MEMBERS));
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        /* or ports run out */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
        if (fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0
            && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
        if (fd >= 0)
            close(fd);
    }
}

static uint64_t *flooded, flooded_before;

static bool is_flooded(struct cluster *cluster)
{
    (void)cluster;
    return __atomic_load_n(flooded, __ATOMIC_RELAXED) >= flooded_before + FLOOD;
}

/* Steps per second while thousands come; nobody is lost by it. */
static double withstand_flood(struct cluster *cluster)
{
    flooded =
        mmap(NULL, sizeof *flooded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t step = cluster_step(cluster), begun_ns = cluster_now_ns();
    pid_t pid = fork();

    if (pid == 0)
        flood(flooded);
    cluster_until(cluster, is_flooded, "unauthenticated peers to have come in thousands",
                  PATIENCE_MS);
    expect_undisturbed(cluster, "in a flood");
    flooded_before = __atomic_load_n(flooded, __ATOMIC_RELAXED);
    cluster_until(cluster, is_flooded, "unauthenticated peers to have come in thousands once more",
                  PATIENCE_MS);
    double took_s = (double)(cluster_now_ns() - begun_ns) / 1e9;
    double rate = (double)(cluster_step(cluster) - step) / took_s;

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    printf("flood: %.0f peers/s, %.0f steps/s meanwhile\n", (double)*flooded / took_s, rate);
    return rate;
}

/* Run a worker that does not belong; it is told why, and the member's status says it too. */
static void expect_refused(struct cluster *cluster, const char *key, const char *job, int code,
                           const char *why)
{
    probe_fails(cluster, key, job, door[0], code, why);
    expect_refusal(cluster, why);
}

/* ---- between a caller and the door ---- */

struct wire_tap {
    pid_t pid;
    uint16_t port;
    int said; /* what the caller said, as the door heard it */
};

static void pump(int from, int to, bool *open, int copy, bool other_version)
{
    uint8_t bytes[4096];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);

    if (got <= 0) {
        *open = false;
        shutdown(to, SHUT_WR);
        return;
    }
    if (other_version && got > 9)
        bytes[8] = OTHER_VERSION;
    say(to, bytes, (size_t)got);
    if (copy >= 0 && write(copy, bytes, (size_t)got) != got)
        _exit(1);
}

/* A process that stands between one caller and the door of place 0: it listens in, and may change
 * the version of the HELLO. */
static struct wire_tap tap_new(bool other_version)
{
    struct wire_tap tap;
    int fd = listener(&tap.port), ends[2];

    if (pipe2(ends, O_CLOEXEC))
        exit(2);
    tap.pid = fork();
    if (tap.pid == 0) {
        int caller = accept(fd, NULL, NULL), member = knock(0);
        bool from_caller = true, from_member = true;

        while (from_caller || from_member) {
            struct pollfd wait[2] = { { from_caller ? caller : -1, POLLIN, 0 },
                                      { from_member ? member : -1, POLLIN, 0 } };

            if (poll(wait, 2, PATIENCE_MS) <= 0)
                _exit(1);
            if (wait[0].revents)
                pump(caller, member, &from_caller, ends[1], other_version);
            if (wait[1].revents)
                pump(member, caller, &from_member, -1, false);
            other_version = false;
        }
        _exit(0);
    }
    close(fd);
    close(ends[1]);
    tap.said = ends[0];
    return tap;
}

static size_t tap_end(struct wire_tap *tap, uint8_t *said, size_t size)
{
    size_t used = 0;
    ssize_t got;

    while (used < size && (got = read(tap->said, said + used, size - used)) > 0)
        used += (size_t)got;
    close(tap->said);
    waitpid(tap->pid, NULL, 0);
    return used;
}

/* A caller with the right key and job, as a fresh id that does not listen. */
static int call(struct cluster *cluster, uint16_t port, enum spotnik_purpose purpose, int *ret_fd)
{
    static const uint8_t loopback[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
    struct spotnik_credentials credentials;
    struct spotnik_duplex duplex;
    struct spotnik_member peer;

    probe_credentials(cluster, &credentials);
    memcpy(credentials.self.address, loopback, sizeof loopback);
    int rc = spotnik_net_dial(&credentials, loopback, port, purpose, HEAR_MS * SPOTNIK_MS, &duplex,
                              &peer);
    *ret_fd = spotnik_duplex_release(&duplex);
    return rc;
}

/* Under TLS nothing in between can change a version, or read what was said. */
static bool is_tls(void)
{
    const char *mode = getenv("SPOTNIK_TLS");
    return mode != NULL && strcmp(mode, "off") != 0;
}

static void other_version(struct cluster *cluster)
{
    if (is_tls())
        return;
    struct wire_tap tap = tap_new(true);
    uint8_t said[1024];
    int fd, rc = call(cluster, tap.port, SPOTNIK_PURPOSE_CONTROL, &fd);

    if (rc != SPOTNIK_ERR_VERSION || !strstr(spotnik_last_error(), "speaks wire version"))
        cluster_fail(cluster, "another version was told %d: %s", rc, spotnik_last_error());
    printf("told: error %d %s (%s)\n", rc, spotnik_strerror(rc), spotnik_last_error());
    tap_end(&tap, said, sizeof said);
    expect_refusal(cluster, "speaks wire version 2, and we speak 1; install the same Spotnik");
}

/* What a caller with the key once said opens nothing a second time: the door asks for the answer to
 * a new question. */
static void replay(struct cluster *cluster)
{
    struct wire_tap tap = tap_new(false);
    uint8_t said[4096], heard[SPOTNIK_HANDSHAKE_ANSWER_BYTES + 64];
    int fd, rc = call(cluster, tap.port, SPOTNIK_PURPOSE_STATUS, &fd);

    if (rc)
        cluster_fail(cluster, "a rightful caller was turned away: %s", spotnik_last_error());
    if (hear(fd, heard, sizeof heard) < 2 || heard[0] != '{')
        cluster_fail(cluster, "a rightful caller got no status");
    spotnik_tls_close(fd);
    size_t size = tap_end(&tap, said, sizeof said);

    if (size < SPOTNIK_HANDSHAKE_HELLO_BYTES + SPOTNIK_HANDSHAKE_PROOF_BYTES)
        cluster_fail(cluster, "only %zu bytes of a handshake were recorded", size);
    fd = knock(0);
    say(fd, said, size);
    size = hear(fd, heard, sizeof heard);
    close(fd);
    if (is_tls()) /* it has another key by now, and reads none of this */
        return;
    if (size != SPOTNIK_HANDSHAKE_ANSWER_BYTES + SPOTNIK_HANDSHAKE_REFUSAL_BYTES
        || heard[SPOTNIK_HANDSHAKE_ANSWER_BYTES + 10] != SPOTNIK_HANDSHAKE_REFUSAL
        || heard[SPOTNIK_HANDSHAKE_ANSWER_BYTES + 11] != 3)
        cluster_fail(cluster, "a recorded handshake was answered with %zu bytes", size);
}

/* ---- holders of the key that talk nonsense ---- */

static void talk(struct cluster *cluster, enum spotnik_purpose purpose, int kind)
{
    static const uint8_t frame[24] = { 'S', 1, 1, 0, 40 };
    uint8_t bytes[8192];
    int fd;

    if (call(cluster, port_of((uint32_t)kind % MEMBERS), purpose, &fd))
        cluster_fail(cluster, "%s", spotnik_last_error());
    random_bytes(cluster, bytes, sizeof bytes);
    if (kind % 4 != 0)
        memcpy(bytes, frame, 8); /* a good header, and a tag that is none */
    if (purpose == SPOTNIK_PURPOSE_DATA)
        bytes[2] = 3;
    if (kind % 4 == 2)
        memset(bytes + 4, 0xff, 4);                    /* a length beyond all limits */
    say(fd, bytes, kind % 4 == 3 ? 30 : sizeof bytes); /* 30: cut off in the middle */
    if (kind < TALKERS / 2) {
        shutdown(fd, SHUT_WR);
        while (hear(fd, bytes, sizeof bytes) == sizeof bytes)
            continue;
    }
    spotnik_tls_close(fd);
    cluster_turn(cluster, 1);
}

static void talkers(struct cluster *cluster)
{
    for (int purpose = SPOTNIK_PURPOSE_CONTROL; purpose <= SPOTNIK_PURPOSE_PEERS; purpose++)
        for (int kind = 0; kind < TALKERS; kind++)
            talk(cluster, (enum spotnik_purpose)purpose, kind);
}

/* ---- the job ---- */

static bool joiner_is_in(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS + 1);
}

static bool members_are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS);
}

static void found_job(struct cluster *cluster, const char *worker, uint64_t seed)
{
    cluster_new(cluster, MEMBERS + 1, seed);
    cluster_use(cluster, worker, "-c", "5000", "-n", "10000", "-b", "64", "-u", "1000", NULL);
    for (uint32_t i = 0; i <= MEMBERS; i++) {
        snprintf(door[i], sizeof door[i], "127.0.0.1:%u", reserve());
        cluster->bind[i] = door[i];
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_start(cluster, i);
    cluster_until(cluster, members_are_together, "three members in one view", PATIENCE_MS);
    epoch = cluster->worker[0].epoch;
}

/* Steps per second, undisturbed; and what is open then. */
static double measure_idle(struct cluster *cluster)
{
    expect_undisturbed(cluster, "at the start");
    uint64_t step = cluster_step(cluster), begun_ns = cluster_now_ns();

    cluster_spend(cluster, SPOTNIK_S);
    cluster_until(cluster, files_are_steady, "members to have set up what they share", PATIENCE_MS);
    return (double)(cluster_step(cluster) - step) * 1e9 / (double)(cluster_now_ns() - begun_ns);
}

static void besiege(struct cluster *cluster)
{
    char other_key[320];

    scan(cluster);
    expect_closed(cluster, "after port scans");
    garbage(cluster);
    expect_closed(cluster, "after garbage");
    snprintf(other_key, sizeof other_key, "%s/other-key", cluster->dir);
    if (spotnik_key_create(other_key))
        cluster_fail(cluster, "cannot make a key");
    expect_refused(cluster, other_key, "e2e", SPOTNIK_ERR_KEY, "has another job key");
    expect_refused(cluster, cluster->key, "another-job", SPOTNIK_ERR_JOB, "belongs to another job");
    other_version(cluster);
    expect_closed(cluster, "after a wrong key, job and version");
    replay(cluster);
    expect_closed(cluster, "after a recorded handshake");
    talkers(cluster);
    expect_closed(cluster, "after nonsense from holders of the key");
    be_silent();
    expect_undisturbed(cluster, "with connections that say nothing");
}

int main(int argc, char **argv)
{
    static struct cluster cluster;

    if (argc < 2)
        return 2;
    found_job(&cluster, argv[1], cluster_argument(argc, argv, "seed", 1));
    double idle = measure_idle(&cluster);
    uint64_t step = cluster_step(&cluster), begun_ns = cluster_now_ns();

    withstand_flood(&cluster);
    expect_closed(&cluster, "after a flood");
    besiege(&cluster);
    double besieged =
        (double)(cluster_step(&cluster) - step) * 1e9 / (double)(cluster_now_ns() - begun_ns);

    if (cluster.recoveries || besieged < idle / 10)
        cluster_fail(&cluster,
                     "%.0f steps/s and %" PRIu64
                     " recoveries among unauthenticated peers; undisturbed %.0f",
                     besieged, cluster.recoveries, idle);
    cluster_start(&cluster, MEMBERS);
    cluster_until(&cluster, joiner_is_in,
                  "a joiner with the key to enter beside many unauthenticated peers", PATIENCE_MS);
    speak_up();
    printf("%d scans, 60 times garbage, %d holders of the key talking nonsense, %d silent ones: no "
           "view "
           "change, %.0f steps/s "
           "(undisturbed %.0f), no file left open, a rightful joiner got in\n",
           SCANS, TALKERS * SPOTNIK_PURPOSE_PEERS, SILENT, besieged, idle);
    for (uint32_t i = 0; i <= MEMBERS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
