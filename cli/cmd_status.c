/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik status: find a member of the job, ask it, and show what it says. Asking joins nothing and disturbs nothing. */
#include <arpa/inet.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "commands.h"
#include "net/engine.h"
#include "options.h"
#include "peers/peers.h"
#include "spotnik/spotnik.h"

#define MEMBERS_MAX 1024
#define TEXT_MAX (1 << 20)

static const char help[] =
    "Usage: spotnik status [--peers SPEC] [--key-file FILE] [--job NAME] [--json]\n\n"
    "Ask a member of a running job for its view, step, rates and recent recoveries. Any member knows.\n\n"
    "      --peers SPEC      host:port,... or file:DIR          [SPOTNIK_PEERS]\n"
    "      --key-file FILE   the job key                        [SPOTNIK_KEY_FILE]\n"
    "      --job NAME        name of the job                    [SPOTNIK_JOB, or spotnik]\n"
    "      --json            one JSON object, as the member sent it\n\n"
    "Columns of the recoveries, in ms: detect (first evidence to the ballot's return at this member), accept, restart,\n"
    "commit (new view to the first commit in it), total (first evidence to that commit).\n\n"
    "  spotnik status --peers file:/shared/job --key-file job.key\n"
    "  watch -n1 spotnik status            with SPOTNIK_PEERS and SPOTNIK_KEY_FILE set\n";

struct question {
    const char *peers, *key_file, *job;
    bool json;
};

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct question *question)
{
    static const struct option names[] = {{"peers", required_argument, NULL, 'p'}, {"key-file", required_argument, NULL, 'k'},
                                          {"job", required_argument, NULL, 'j'},   {"json", no_argument, NULL, 'J'},
                                          {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'p': question->peers = optarg; break;
        case 'k': question->key_file = optarg; break;
        case 'j': question->job = optarg; break;
        case 'J': question->json = true; break;
        case 'h': fputs(help, stdout); return 1;
        default: return option_refuse("status", "unknown option, or a value is missing: %s", argv[optind - 1]);
        }
    if (optind != argc)
        return option_refuse("status", "what is \"%s\"? Name the job with --peers", argv[optind]);
    if (!question->peers)
        return option_refuse("status", "where is the job? Give --peers, or set SPOTNIK_PEERS");
    if (!question->key_file)
        return option_refuse("status", "members answer only to the job key. Give --key-file, or set SPOTNIK_KEY_FILE");
    return 0;
}

static bool credentials_make(const struct question *question, struct spotnik_credentials *ret)
{
    *ret = (struct spotnik_credentials){.self = {.port = 1}};
    spotnik_job_hash(question->job, ret->job);
    return spotnik_key_read(question->key_file, ret->key) == 0 &&
           spotnik_key_random(&ret->self.id, sizeof(ret->self.id)) == 0;
}

static char *read_all(int fd)
{
    char *text = malloc(TEXT_MAX + 1);
    size_t used = 0;
    ssize_t got;

    while (text && used < TEXT_MAX && (got = read(fd, text + used, TEXT_MAX - used)) > 0)
        used += (size_t)got;
    if (text)
        text[used] = 0;
    return text;
}

/* The answer of the first member that gives one; NULL with spotnik_last_error() of the last that did not. */
static json_t *ask(const struct spotnik_credentials *credentials, const struct spotnik_member *member, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct spotnik_member peer;
        json_error_t error;
        int fd;

        if (spotnik_net_dial(credentials, member[i].address, member[i].port, SPOTNIK_PURPOSE_STATUS, 2 * SPOTNIK_S, &fd,
                             &peer))
            continue;
        char *text = read_all(fd);
        close(fd);
        json_t *answer = text ? json_loads(text, 0, &error) : NULL;
        free(text);
        if (answer)
            return answer;
    }
    return NULL;
}

static long long number(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

static void print_ms(const json_t *recovery, const char *from, const char *to)
{
    long long begin = number(recovery, from), end = number(recovery, to);
    if (begin && end >= begin)
        printf("%9.2f", (double)(end - begin) / 1e6);
    else
        printf("%9s", "-");
}

static void print_recoveries(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "recoveries"), *recovery;
    size_t index;

    if (!json_array_size(list))
        return;
    printf("\nrecoveries   lost  joined  left   detect   accept  restart   commit    total (ms)\n");
    json_array_foreach(list, index, recovery) {
        printf("  view %-5lld %4lld %7lld %5lld", number(recovery, "epoch"), number(recovery, "lost"),
               number(recovery, "joined"), number(recovery, "left"));
        print_ms(recovery, "detected_ns", "reconciled_ns");
        print_ms(recovery, "reconciled_ns", "accepted_ns");
        print_ms(recovery, "accepted_ns", "restarted_ns");
        print_ms(recovery, "restarted_ns", "committed_ns");
        print_ms(recovery, "detected_ns", "committed_ns");
        putchar('\n');
    }
}

static double real(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void print_sync(const json_t *sync)
{
    const char *policy = json_string_value(json_object_get(sync, "policy"));

    if (!sync)
        return;
    printf("strategy %s", json_string_value(json_object_get(sync, "strategy")));
    if (policy && *policy)
        printf(" by %s, %lld switches", policy, number(sync, "switches"));
    if (number(sync, "switches"))
        printf("; since step %lld, because %s (%.3f, limit %.3f)", number(sync, "switched_step"),
               json_string_value(json_object_get(sync, "reason")), real(sync, "value"), real(sync, "limit"));
    if (real(sync, "throughput") > 0)
        printf("; throughput of a member now %.2f of one alone", real(sync, "throughput"));
    putchar('\n');
}

static void print_members(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "members"), *member;
    size_t index;

    printf("members\n");
    json_array_foreach(list, index, member)
        printf("  %3zu  %.8s  %s:%lld%s\n", index, json_string_value(json_object_get(member, "member")),
               json_string_value(json_object_get(member, "address")), number(member, "port"),
               (long long)index == number(answer, "rank") ? "   (answering)" : "");
}

/* What the answering member sends its data on. */
static void print_lanes(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "lanes"), *lane;
    size_t index;

    if (!json_array_size(list))
        return;
    printf("sends to  connections (carrying)    bytes/s  round trip  congestion control\n");
    json_array_foreach(list, index, lane) {
        printf("  %.8s  %11lld (%lld)", json_string_value(json_object_get(lane, "member")), number(lane, "connections"),
               number(lane, "carrying"));
        if (number(lane, "bytes_per_s"))
            printf("  %12.1f M", real(lane, "bytes_per_s") / 1e6);
        else
            printf("  %14s", "-");
        printf("  %7.2f ms  %s\n", real(lane, "round_trip_us") / 1e3, json_string_value(json_object_get(lane, "congestion")));
    }
}

static void show(const json_t *answer)
{
    const char *warning = json_string_value(json_object_get(answer, "warning"));
    const char *path = json_string_value(json_object_get(answer, "path"));
    const char *state = json_is_true(json_object_get(answer, "parked"))    ? ", PARKED: cut off from the majority, waiting"
                        : json_is_true(json_object_get(answer, "joining")) ? ", joining"
                                                                           : "";
    printf("job %s: step %lld committed (%lld stable), %lld members, view %lld, %.1f steps/s%s\n",
           json_string_value(json_object_get(answer, "job")), number(answer, "step_committed"), number(answer, "step_stable"),
           number(answer, "size"), number(answer, "view_epoch"), json_number_value(json_object_get(answer, "steps_per_s")),
           state);
    printf("since this member came: %lld lost, %lld joined, %lld left\n", number(answer, "losses"), number(answer, "joins"),
           number(answer, "leaves"));
    print_sync(json_object_get(answer, "sync"));
    if (warning && *warning)
        printf("warning: %s\n", warning);
    if (path)
        printf("path: %s (%.0f s ago)\n", path, real(answer, "path_age_ns") / 1e9);
    print_members(answer);
    print_lanes(answer);
    print_recoveries(answer);
}

int spotnik_cmd_status(int argc, char **argv)
{
    struct question question = {.peers = environment("SPOTNIK_PEERS", NULL), .key_file = environment("SPOTNIK_KEY_FILE", NULL),
                                .job = environment("SPOTNIK_JOB", "spotnik")};
    static struct spotnik_member member[MEMBERS_MAX];
    struct spotnik_credentials credentials;
    uint32_t count = 0;
    int refused = parse(argc, argv, &question);

    if (refused)
        return refused == 1 ? 0 : refused;
    if (!credentials_make(&question, &credentials) ||
        spotnik_peers_list(question.peers, &credentials, member, MEMBERS_MAX, &count)) {
        fprintf(stderr, "spotnik status: %s\n", spotnik_last_error());
        return 1;
    }
    json_t *answer = ask(&credentials, member, count);
    if (!answer) {
        fprintf(stderr, "spotnik status: no member of the job answered%s%s\n", count ? ": " : "; none is listed at ",
                count ? spotnik_last_error() : question.peers);
        return 1;
    }
    if (question.json)
        json_dumpf(answer, stdout, JSON_COMPACT), putchar('\n');
    else
        show(answer);
    json_decref(answer);
    return 0;
}
