/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik mock-imds: the sockets and the clock of a metadata service. What it answers is in
 * mock_cloud.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "commands.h"
#include "mock_cloud.h"
#include "options.h"

#define CALLS 128
#define ORDERS 1024

static const char help[] =
    "Usage: spotnik mock-imds [--listen ADDRESS:PORT] [--clouds LIST] [--name NAME] [--script "
    "FILE]\n\n"
    "Play the metadata service of AWS, Google Cloud and Azure, so that what follows a notice can "
    "be tried at "
    "home.\n\n"
    "      --listen ADDRESS:PORT   port 0 takes a free one; the first line printed says which    "
    "[127.0.0.1:1338]\n"
    "      --clouds LIST           which of them answer                                          "
    "[aws,gcp,azure]\n"
    "      --name NAME             of this machine, for Azure                                    "
    "[vm-0]\n"
    "      --script FILE           what happens when; - reads it from standard input as it comes, "
    "and ends "
    "with it\n\n"
    "A line of the script: [SECONDS since the start] WHOSE WHAT. Without a time it happens at "
    "once.\n\n"
    "  aws action terminate|stop|hibernate [WHEN]    aws rebalance [WHEN]   aws expire-tokens    "
    "aws clear\n"
    "  gcp preempted                                 gcp maintenance TERMINATE_ON_HOST_MAINTENANCE "
    "  gcp "
    "clear\n"
    "  azure event TYPE MACHINE [WHEN] [STATUS]      TYPE: Preempt, Terminate, Reboot, Redeploy, "
    "Freeze   "
    "azure clear\n"
    "  all fail 503           all hang               all well\n\n"
    "WHEN: +120 seconds from then. Another word is passed on as it is: what does a client do with "
    "a bad "
    "date?\n\n"
    "  spotnik mock-imds --script night.txt &\n"
    "  SPOTNIK_IMDS_ENDPOINT=http://127.0.0.1:1338 spotnik run -n 4 -- ./train\n";

struct call {
    int fd; /* -1: free */
    char text[4096];
    size_t used;
    bool whole;
    uint64_t asked_ns, wait_until_ns;
    struct mock_question question;
};

struct order {
    uint64_t at_ns;
    char line[256];
};

struct server {
    struct mock_cloud cloud;
    int listener, script; /* script: standard input, or -1 */
    struct call call[CALLS];
    struct order order[ORDERS];
    uint32_t orders;
    uint64_t begun_ns;
    char rest[512];
    size_t rest_used;
    bool ended;
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SPOTNIK_S + (uint64_t)time.tv_nsec;
}

static void set_clock(struct server *server)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    server->cloud.now_ns = now_ns();
    server->cloud.now_ms = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* ---- the script ---- */

static void obey(struct server *server, const char *line)
{
    set_clock(server);
    const char *wrong = mock_cloud_order(&server->cloud, line);

    if (wrong)
        fprintf(stderr, "spotnik mock-imds: \"%s\": %s\n", line, wrong);
    else if (line[strspn(line, " \t#")])
        printf("%.3f %s\n", (double)(server->cloud.now_ns - server->begun_ns) / 1e9, line);
    fflush(stdout);
}

/* Now, or kept for its time. False: too many. */
static bool take_line(struct server *server, char *line)
{
    char *end;
    double at_s = strtod(line, &end);

    line[strcspn(line, "\r\n")] = 0;
    if (end == line || (*end != ' ' && *end != '\t')) {
        obey(server, line);
        return true;
    }
    if (server->orders == ORDERS)
        return false;
    struct order *order = &server->order[server->orders++];
    order->at_ns = server->begun_ns + (uint64_t)(at_s * 1e9);
    snprintf(order->line, sizeof(order->line), "%s", end + strspn(end, " \t"));
    return true;
}

static void do_due(struct server *server)
{
    for (uint32_t i = 0; i < server->orders;) {
        if (server->order[i].at_ns > now_ns()) {
            i++;
            continue;
        }
        obey(server, server->order[i].line);
        memmove(&server->order[i], &server->order[i + 1],
                (--server->orders - i) * sizeof(*server->order));
    }
}

static bool read_script(struct server *server, const char *path)
{
    char line[512];
    FILE *file = fopen(path, "re");
    bool fine = file != NULL;

    while (fine && fgets(line, sizeof(line), file))
        fine = take_line(server, line);
    if (!fine)
        fprintf(stderr, "spotnik mock-imds: %s: %s\n", path,
                file ? "more than 1024 lines" : strerror(errno));
    if (file)
        fclose(file);
    return fine;
}

static void read_orders(struct server *server)
{
    ssize_t got = read(server->script, server->rest + server->rest_used,
                       sizeof(server->rest) - 1 - server->rest_used);
    char *newline;

    if (got <= 0) {
        server->ended = true;
        return;
    }
    server->rest_used += (size_t)got;
    server->rest[server->rest_used] = 0;
    while ((newline = strchr(server->rest, '\n'))) {
        *newline = 0;
        take_line(server, server->rest);
        server->rest_used -= (size_t)(newline + 1 - server->rest);
        memmove(server->rest, newline + 1, server->rest_used + 1);
    }
}

/* ---- questions ---- */

static void header(const char *line, const char *name, char *ret, size_t size)
{
    size_t length = strlen(name);

    if (strncasecmp(line, name, length) || line[length] != ':')
        return;
    line += length + 1;
    line += strspn(line, " ");
    snprintf(ret, size, "%.*s", (int)strcspn(line, "\r\n"), line);
}

/* Headers are all we need: what a POST brings is not looked at. */
static void understand(struct call *call)
{
    struct mock_question *question = &call->question;

    *question = (struct mock_question){ 0 };
    sscanf(call->text, "%7s %511s", question->method, question->path);
    for (const char *line = strchr(call->text, '\n'); line; line = strchr(line, '\n')) {
        line++;
        header(line, "X-aws-ec2-metadata-token", question->token, sizeof(question->token));
        header(line, "X-aws-ec2-metadata-token-ttl-seconds", question->ttl, sizeof(question->ttl));
        header(line, "X-Forwarded-For", question->forwarded, sizeof(question->forwarded));
        header(line, "Metadata-Flavor", question->flavor, sizeof(question->flavor));
        header(line, "Metadata", question->metadata, sizeof(question->metadata));
    }
}

static void hang_up(struct call *call)
{
    close(call->fd);
    call->fd = -1;
}

static void answer(struct server *server, struct call *call)
{
    struct mock_answer reply;
    char text[10000];

    set_clock(server);
    mock_cloud_answer(&server->cloud, &call->question, call->asked_ns, &reply);
    call->wait_until_ns = reply.wait_ns == SPOTNIK_NEVER ? SPOTNIK_NEVER : now_ns() + reply.wait_ns;
    if (reply.status == 0)
        return;
    int length = snprintf(text, sizeof(text),
                          "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%sContent-Length: "
                          "%zu\r\nConnection: close\r\n\r\n%s",
                          reply.status, reply.status == 200 ? "OK" : "Error", reply.type,
                          reply.headers, strlen(reply.body), reply.body);
    (void)!write(call->fd, text, (size_t)length);
    shutdown(call->fd, SHUT_WR);
    hang_up(call);
}

static void hear(struct server *server, struct call *call)
{
    ssize_t got = read(call->fd, call->text + call->used, sizeof(call->text) - 1 - call->used);

    if (got <= 0) {
        hang_up(call);
        return;
    }
    call->used += (size_t)got;
    call->text[call->used] = 0;
    if (!call->whole && strstr(call->text, "\r\n\r\n")) {
        call->whole = true;
        call->asked_ns = now_ns();
        understand(call);
        server->cloud.asked += strncmp(call->question.path, "/mock/", 6) != 0;
        answer(server, call);
    } else if (call->used == sizeof(call->text) - 1) {
        hang_up(call);
    }
}

static void take_call(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

    for (int i = 0; fd >= 0 && i < CALLS; i++)
        if (server->call[i].fd < 0) {
            server->call[i] = (struct call){ .fd = fd, .wait_until_ns = SPOTNIK_NEVER };
            return;
        }
    if (fd >= 0)
        close(fd);
}

/* A client that waits for a change may have it now. */
static void answer_waiting(struct server *server)
{
    for (int i = 0; i < CALLS; i++)
        if (server->call[i].fd >= 0 && server->call[i].whole)
            answer(server, &server->call[i]);
}

static int wait_ms(const struct server *server)
{
    uint64_t until_ns = SPOTNIK_NEVER, now = now_ns();

    for (uint32_t i = 0; i < server->orders; i++)
        until_ns = spotnik_time_min(until_ns, server->order[i].at_ns);
    for (int i = 0; i < CALLS; i++)
        if (server->call[i].fd >= 0)
            until_ns = spotnik_time_min(until_ns, server->call[i].wait_until_ns);
    return until_ns == SPOTNIK_NEVER ? -1
           : until_ns <= now         ? 0
                                     : (int)((until_ns - now) / SPOTNIK_MS + 1);
}

static void turn(struct server *server)
{
    struct pollfd fds[CALLS + 2] = { { .fd = server->listener, .events = POLLIN },
                                     { .fd = server->script, .events = POLLIN } };

    for (int i = 0; i < CALLS; i++)
        fds[i + 2] = (struct pollfd){ .fd = server->call[i].fd, .events = POLLIN };
    if (poll(fds, CALLS + 2, wait_ms(server)) < 0)
        return;
    if (fds[1].revents)
        read_orders(server);
    do_due(server);
    for (int i = 0; i < CALLS; i++)
        if (fds[i + 2].revents && server->call[i].fd >= 0)
            hear(server, &server->call[i]);
    answer_waiting(server);
    if (fds[0].revents)
        take_call(server);
}

/* ---- beginning ---- */

static bool listen_on(struct server *server, const char *where)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof(address);
    const char *colon = strrchr(where, ':');
    char host[64];
    uint64_t port;
    int one = 1;

    snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - where) : 0, where);
    if (!colon || !option_u64(colon + 1, 0, 65535, &port)
        || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        option_refuse("mock-imds", "\"%s\" is no ADDRESS:PORT", where);
        return false;
    }
    address.sin_port = htons((uint16_t)port);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(server->listener, (struct sockaddr *)&address, size) || listen(server->listener, 64)
        || getsockname(server->listener, (struct sockaddr *)&address, &size)) {
        fprintf(stderr, "spotnik mock-imds: cannot listen on %s: %s\n", where, strerror(errno));
        return false;
    }
    printf("http://%s:%u\n", host, (unsigned)ntohs(address.sin_port));
    fflush(stdout);
    return true;
}

static bool clouds_set(struct mock_cloud *cloud, const char *list)
{
    char copy[64], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", list);
    cloud->aws = cloud->gcp = cloud->azure = false;
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        bool *which = !strcmp(word, "aws")     ? &cloud->aws
                      : !strcmp(word, "gcp")   ? &cloud->gcp
                      : !strcmp(word, "azure") ? &cloud->azure
                                               : NULL;
        if (!which)
            return false;
        *which = true;
    }
    return true;
}

int spotnik_cmd_mock_imds(int argc, char **argv)
{
    static const struct option names[] = {
        { "listen", required_argument, NULL, 'l' }, { "clouds", required_argument, NULL, 'c' },
        { "name", required_argument, NULL, 'n' },   { "script", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 }
    };
    static struct server server = { .script = -1 };
    const char *where = "127.0.0.1:1338", *script = NULL;
    int option;

    mock_cloud_init(&server.cloud);
    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'l':
            where = optarg;
            break;
        case 's':
            script = optarg;
            break;
        case 'n':
            snprintf(server.cloud.name, sizeof(server.cloud.name), "%s", optarg);
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        case 'c':
            if (clouds_set(&server.cloud, optarg))
                break;
            return option_refuse("mock-imds", "\"%s\" is no list of aws, gcp and azure", optarg);
        default:
            return option_refuse("mock-imds", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (optind != argc)
        return option_refuse("mock-imds", "what is \"%s\"?", argv[optind]);
    for (int i = 0; i < CALLS; i++)
        server.call[i].fd = -1;
    srandom((unsigned)getpid());
    if (!listen_on(&server, where))
        return 2;
    server.begun_ns = now_ns();
    if (script && !strcmp(script, "-"))
        server.script = STDIN_FILENO;
    else if (script && !read_script(&server, script))
        return 2;
    while (!server.ended)
        turn(&server);
    return 0;
}
