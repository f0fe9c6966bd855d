/* SPDX-License-Identifier: Apache-2.0 */
/* What the step transaction costs: spotnik's all-reduce beside the same transfer without it, in the
 * same processes, in turn.
 *
 * tcp: a plain ring over the same kind of sockets. The plain ring has no headers, no steps, no
 * commit, no membership. Each member sends a segment to its successor while it receives one from
 * its predecessor, and adds up what arrives chunk by chunk with the same kernels. It keeps its
 * input intact, as we do. shm: the plain flat all-reduce: copy in what others read, barrier, add up
 * our share, barrier, copy out. Prints tables of medians and the ratio spotnik / plain. With
 * MEMBERS and BYTES: one JSON object for each BYTES, with all times. Usage: atomicity [ITERATIONS
 * [tcp|shm [MEMBERS BYTES...]]]. Let nothing else run. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "reduce/reduce.h"
#include "spotnik/spotnik.h"
#include "discovery/discovery.h"

enum {
    SIZE_MAX_MEMBERS = 8,
    CHUNK = 256 * 1024 / sizeof(float),
    SLICE = 128 * 1024 / sizeof(float),
    ROUNDS_MAX = 1000
};

struct member {
    uint32_t rank, size;
    int to, from; /* ring neighbours of the plain ring */
    size_t count;
    float *in, *out, *chunk;
    bool shared;
    pthread_barrier_t *barrier; /* of the plain flat all-reduce, and its memory */
    float *input[SIZE_MAX_MEMBERS], *result;
};

struct board { /* shared with the parent, filled by rank 0 */
    double plain_ms[ROUNDS_MAX], spotnik_ms[ROUNDS_MAX];
};

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void die(const char *what)
{
    fprintf(stderr, "atomicity: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static size_t begin_of(const struct member *member, uint32_t segment)
{
    return member->count * segment / member->size;
}

/* One hop: send a segment, receive another; `add`: out = received + in, else out = received. */
static void hop(struct member *member, const float *send_from, uint32_t send_segment,
                uint32_t segment, int add)
{
    size_t begin = begin_of(member, segment),
           left = (begin_of(member, segment + 1) - begin) * sizeof(float), have = 0;
    const char *out = (const char *)(send_from + begin_of(member, send_segment));
    size_t unsent =
        (begin_of(member, send_segment + 1) - begin_of(member, send_segment)) * sizeof(float);
    float *place = member->out + begin, *input = member->in + begin;

    while (unsent || left) {
        struct pollfd fds[2] = { { .fd = unsent ? member->to : -1, .events = POLLOUT },
                                 { .fd = left ? member->from : -1, .events = POLLIN } };
        if (poll(fds, 2, -1) < 0)
            die("poll");
        if (fds[0].revents) {
            ssize_t sent = send(member->to, out, unsent, MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN)
                die("send");
            out += sent > 0 ? sent : 0;
            unsent -= sent > 0 ? (size_t)sent : 0;
        }
        if (!fds[1].revents)
            continue;
        size_t want = CHUNK * sizeof(float) < left + have ? CHUNK * sizeof(float) : left + have;
        char *to = add ? (char *)member->chunk : (char *)place;
        ssize_t got = recv(member->from, to + have, want - have, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            die("recv");
        have += got > 0 ? (size_t)got : 0;
        left -= got > 0 ? (size_t)got : 0;
        if (have < want)
            continue;
        if (add)
            spotnik_reduce_combine(place, member->chunk, input, want / sizeof(float), SPOTNIK_F32,
                                   SPOTNIK_MEAN, 1, 1);
        place += want / sizeof(float);
        input += want / sizeof(float);
        have = 0;
    }
}

static void plain_allreduce(struct member *member)
{
    uint32_t size = member->size, rank = member->rank;

    for (uint32_t t = 0; t < size - 1; t++)
        hop(member, t ? member->out : member->in, (rank + size - t) % size,
            (rank + 2 * size - t - 1) % size, 1);
    uint32_t own = (rank + 1) % size;
    spotnik_reduce_divide(member->out + begin_of(member, own),
                          begin_of(member, own + 1) - begin_of(member, own), SPOTNIK_F32, size);
    for (uint32_t t = 0; t < size - 1; t++)
        hop(member, member->out, (rank + 1 + size - t) % size, (rank + 2 * size - t) % size, 0);
    /* in place, as our API has it */
    memcpy(member->in, member->out, member->count * sizeof(float));
}

static void plain_flat(struct member *member)
{
    size_t begin = begin_of(member, member->rank), end = begin_of(member, member->rank + 1);
    struct spotnik_reduce_source source[SIZE_MAX_MEMBERS];
    float *own = member->input[member->rank];

    memcpy(own, member->in, begin * sizeof(float));
    memcpy(own + end, member->in + end, (member->count - end) * sizeof(float));
    pthread_barrier_wait(member->barrier);
    for (size_t at = begin; at < end; at += SLICE) {
        for (uint32_t i = 0; i < member->size; i++)
            source[i] = (struct spotnik_reduce_source){
                (i == member->rank ? member->in : member->input[i]) + at, 1
            };
        spotnik_reduce_flat(member->result + at, source, member->size,
                            end - at < SLICE ? end - at : SLICE, SPOTNIK_F32, SPOTNIK_MEAN, 0);
    }
    pthread_barrier_wait(member->barrier);
    memcpy(member->in, member->result, member->count * sizeof(float));
}

static void spotnik_allreduce_once(spotnik_job *job, struct member *member)
{
    spotnik_step step;
    if (spotnik_step_begin(job, &step)
        || spotnik_allreduce(job, 0, member->in, member->count, SPOTNIK_F32, SPOTNIK_MEAN)
        || spotnik_step_commit(job)) {
        fprintf(stderr, "atomicity: %s\n", spotnik_last_error());
        _exit(1);
    }
}

static void tune(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void member_main(struct member *member, struct board *board, int rounds)
{
    spotnik_config config;
    spotnik_job *job;

    tune(member->to);
    tune(member->from);
    member->in = calloc(member->count, sizeof(float));
    member->out = calloc(member->count, sizeof(float));
    member->chunk = malloc(CHUNK * sizeof(float));
    spotnik_config_init(&config);
    config.members_min = member->size;
    if (!member->in || !member->out || !member->chunk || spotnik_join(&config, &job))
        die(spotnik_last_error());
    for (int i = -3; i < rounds; i++) { /* three to warm up */
        double begun = now_ms();
        member->shared ? plain_flat(member) : plain_allreduce(member);
        double middle = now_ms();
        spotnik_allreduce_once(job, member);
        double end = now_ms();
        if (i >= 0 && member->rank == 0) {
            board->plain_ms[i] = middle - begun;
            board->spotnik_ms[i] = end - middle;
        }
    }
    spotnik_leave(job);
    _exit(0);
}

/* A loopback TCP connection: pair[0] writes, pair[1] reads. */
static void connect_pair(int pair[2])
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1)
        || getsockname(listener, (struct sockaddr *)&address, &size)
        || connect(pair[0], (struct sockaddr *)&address, size)
        || (pair[1] = accept(listener, NULL, NULL)) < 0)
        die("loopback connection");
    close(listener);
}

static void *share(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        die("shared memory");
    return memory;
}

static void share_all(struct member *member, size_t bytes)
{
    pthread_barrierattr_t attributes;

    member->barrier = share(sizeof(*member->barrier));
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(member->barrier, &attributes, member->size);
    member->result = share(bytes);
    for (uint32_t i = 0; i < member->size; i++)
        member->input[i] = share(bytes);
}

static void unshare_all(const struct member *member, size_t bytes)
{
    munmap(member->barrier, sizeof(*member->barrier));
    munmap(member->result, bytes);
    for (uint32_t i = 0; i < member->size; i++)
        munmap(member->input[i], bytes);
}

static void run(uint32_t size, size_t bytes, int rounds, bool shared, struct board *board)
{
    struct member member = { .size = size, .count = bytes / sizeof(float), .shared = shared };
    int pair[SIZE_MAX_MEMBERS][2], status;
    pid_t pid[SIZE_MAX_MEMBERS];

    share_all(&member, bytes);
    for (uint32_t i = 0; i < size; i++)
        connect_pair(pair[i]); /* from rank i to i + 1 */
    for (uint32_t i = 0; i < size; i++) {
        member.rank = i;
        member.to = pair[i][0];
        member.from = pair[(i + size - 1) % size][1];
        fflush(NULL);
        if (!(pid[i] = fork()))
            member_main(&member, board, rounds);
    }
    for (uint32_t i = 0; i < size; i++) {
        close(pair[i][0]);
        close(pair[i][1]);
        if (waitpid(pid[i], &status, 0) < 0 || status)
            exit(1);
    }
    unshare_all(&member, bytes);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void make_job(char *folder)
{
    char text[128];

    if (!mkdtemp(folder))
        die(folder);
    snprintf(text, sizeof(text), "%s/peers", folder);
    if (spotnik_discovery_fresh(text))
        die(text);
    snprintf(text, sizeof(text), "file:%s/peers", folder);
    setenv("SPOTNIK_PEERS", text, 1);
    snprintf(text, sizeof(text), "%s/key", folder);
    setenv("SPOTNIK_KEY_FILE", text, 1);
    if (spotnik_key_create(text))
        die("key");
}

static void measure(uint32_t size, size_t bytes, int rounds, bool shared, struct board *board)
{
    char folder[] = "/tmp/spotnik-atomicity-XXXXXX", command[64];

    setenv("SPOTNIK_TRANSPORT", shared ? "shm" : "tcp", 1);
    make_job(folder);
    run(size, bytes, rounds, shared, board);
    snprintf(command, sizeof(command), "rm -rf -- %s", folder);
    if (system(command))
        exit(1);
}

static void table(bool shared, int rounds, struct board *board)
{
    static const uint32_t sizes[] = { 2, 4 };
    static const size_t bytes[] = { 4096, 256 << 10, 4 << 20, 25 << 20 };

    printf("all-reduce of float32, %s, medians of %d in turn (ms)\n",
           shared ? "shared memory" : "loopback TCP", rounds);
    printf("members      bytes     plain   spotnik   spotnik/plain\n");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t j = 0; j < sizeof(bytes) / sizeof(*bytes); j++) {
            measure(sizes[i], bytes[j], rounds, shared, board);
            qsort(board->plain_ms, (size_t)rounds, sizeof(double), ascending);
            qsort(board->spotnik_ms, (size_t)rounds, sizeof(double), ascending);
            double plain = board->plain_ms[rounds / 2], ours = board->spotnik_ms[rounds / 2];
            printf("%7u %10zu %9.3f %9.3f %15.3f\n", sizes[i], bytes[j], plain, ours, ours / plain);
            fflush(stdout);
        }
}

static void print_times(const char *name, const double *ms, int rounds)
{
    printf("\"%s\":[", name);
    for (int i = 0; i < rounds; i++)
        printf("%s%.3f", i ? "," : "", ms[i]);
    printf("]");
}

/* One size that was asked for, as JSON. False: it is none. */
static bool asked(const char *members, const char *bytes, int rounds, bool shared,
                  struct board *board)
{
    unsigned long size = strtoul(members, NULL, 10), count = strtoul(bytes, NULL, 10);

    if (size < 2 || size > SIZE_MAX_MEMBERS || count < SIZE_MAX_MEMBERS * sizeof(float))
        return false;
    measure((uint32_t)size, count, rounds, shared, board);
    printf("{\"members\":%lu,\"bytes\":%lu,\"transport\":\"%s\",", size, count,
           shared ? "shm" : "tcp");
    print_times("plain_ms", board->plain_ms, rounds);
    printf(",");
    print_times("spotnik_ms", board->spotnik_ms, rounds);
    printf("}\n");
    fflush(stdout);
    return true;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: atomicity [ITERATIONS from 1 to %d [tcp|shm [MEMBERS from 2 to %d BYTES...]]]\n",
        ROUNDS_MAX, SIZE_MAX_MEMBERS);
    return 2;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    const char *only = argc > 2 ? argv[2] : "";
    bool known = !*only || !strcmp(only, "tcp") || !strcmp(only, "shm");

    if (rounds < 1 || rounds > ROUNDS_MAX || !known || argc == 4)
        return usage();
    struct board *board = share(sizeof(*board));
    for (int i = 4; i < argc; i++)
        if (!asked(argv[3], argv[i], rounds, !strcmp(only, "shm"), board))
            return usage();
    if (argc > 4)
        return 0;
    if (strcmp(only, "shm"))
        table(false, rounds, board);
    if (strcmp(only, "tcp"))
        table(true, rounds, board);
    return 0;
}
