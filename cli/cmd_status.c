/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik status: find a member of the job, ask it, and show what it says. Asking joins nothing and
 * disturbs nothing. */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "dump.h"
#include "jobs.h"
#include "common/options.h"
#include "question.h"
#include "spotnik/spotnik.h"

static const char help[] =
    "Usage: spotnik status [--peers SPEC] [--key-file FILE] [--job NAME] [--json | --dump]\n\n"
    "Ask a member of a running job for its view, step, rates and recent recoveries. Any member "
    "knows. Without --peers and\n"
    "SPOTNIK_PEERS it asks each job of this host that a process of this user has in its "
    "environment.\n\n"
    "      --peers SPEC      host:port,..., file:DIR, s3://..., gs://..., az://...  "
    "[SPOTNIK_PEERS]\n"
    "      --key-file FILE   the job key                        [SPOTNIK_KEY_FILE]\n"
    "      --job NAME        name of the job                    [SPOTNIK_JOB, or spotnik]\n"
    "      --json            one JSON object a job, as the member sent it, with the paths that "
    "members tell of\n"
    "      --dump            every member writes its flight recorder: the last some thousand "
    "events "
    "of the protocol, on its\n"
    "                        own host, in SPOTNIK_DUMP, else in \"dumps\" beside the checkpoints, "
    "else in the temporary\n"
    "                        folder. It holds ids, addresses and steps; no data and no key\n"
    "Exit status: 0; 1: no member answered; 2: the command is wrong; 3: a member answered, and its "
    "checkpoints fail (one could\n"
    "not be written, or two in a row were left out).\n\n"
    "Columns of the recoveries, in ms: detect (first evidence to the ballot's return at this "
    "member), accept, restart,\n"
    "commit (new view to the first commit in it), total (first evidence to that commit).\n\n"
    "  spotnik status                      the jobs of this host\n"
    "  spotnik status --peers file:/shared/job --key-file job.key\n"
    "  watch -n1 spotnik status            with SPOTNIK_PEERS and SPOTNIK_KEY_FILE set\n";

struct question {
    const char *peers, *key_file, *job;
    bool json, dump;
};

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct question *question)
{
    static const struct option names[] = { { "peers", required_argument, NULL, 'p' },
                                           { "key-file", required_argument, NULL, 'k' },
                                           { "job", required_argument, NULL, 'j' },
                                           { "json", no_argument, NULL, 'J' },
                                           { "dump", no_argument, NULL, 'D' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'p':
            question->peers = optarg;
            break;
        case 'k':
            question->key_file = optarg;
            break;
        case 'j':
            question->job = optarg;
            break;
        case 'J':
            question->json = true;
            break;
        case 'D':
            question->dump = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("status", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (optind != argc)
        return option_refuse("status", "what is \"%s\"? Name the job with --peers", argv[optind]);
    return 0;
}

static void print_ms(const json_t *recovery, const char *from, const char *to)
{
    long long begin = json_whole(recovery, from), end = json_whole(recovery, to);
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
    json_array_foreach(list, index, recovery)
    {
        printf("  view %-5lld %4lld %7lld %5lld", json_whole(recovery, "epoch"),
               json_whole(recovery, "lost"), json_whole(recovery, "joined"),
               json_whole(recovery, "left"));
        print_ms(recovery, "detected_ns", "reconciled_ns");
        print_ms(recovery, "reconciled_ns", "accepted_ns");
        print_ms(recovery, "accepted_ns", "restarted_ns");
        print_ms(recovery, "restarted_ns", "committed_ns");
        print_ms(recovery, "detected_ns", "committed_ns");
        putchar('\n');
    }
}

static void print_sync(const json_t *sync)
{
    const char *policy = json_string_value(json_object_get(sync, "policy"));

    if (!sync)
        return;
    printf("strategy %s", json_string_value(json_object_get(sync, "strategy")));
    if (policy && *policy)
        printf(" by %s, %lld switches", policy, json_whole(sync, "switches"));
    if (json_whole(sync, "switches"))
        printf("; since step %lld, because %s (%.3f, limit %.3f)",
               json_whole(sync, "switched_step"),
               json_string_value(json_object_get(sync, "reason")), json_part(sync, "value"),
               json_part(sync, "limit"));
    if (json_part(sync, "throughput") > 0)
        printf("; throughput of a member now %.2f of one alone", json_part(sync, "throughput"));
    putchar('\n');
}

static void print_members(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "members"), *member;
    size_t index;

    printf("members\n");
    json_array_foreach(list, index, member)
        printf("  %3zu  %.8s  %s:%lld%s\n", index,
               json_string_value(json_object_get(member, "member")),
               json_string_value(json_object_get(member, "address")), json_whole(member, "port"),
               (long long)index == json_whole(answer, "rank") ? "   (answering)" : "");
}

/* What the answering member sends its data on. */
static void print_channels(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "lanes"), *channel;
    size_t index;

    if (!json_array_size(list))
        return;
    printf("sends to  connections  round trip  congestion control\n");
    json_array_foreach(list, index, channel)
    {
        printf("  %.8s  %9lld  %7.2f ms  %s%s\n",
               json_string_value(json_object_get(channel, "member")),
               json_whole(channel, "connections"), json_part(channel, "round_trip_us") / 1e3,
               json_string_value(json_object_get(channel, "congestion")),
               json_is_true(json_object_get(channel, "encrypted")) ? ", TLS" : "");
    }
}

static bool is_failing(const json_t *answer)
{
    return json_is_true(json_object_get(json_object_get(answer, "checkpoint"), "failing"));
}

static void print_checkpoints(const json_t *checkpoint)
{
    const char *message = json_string_value(json_object_get(checkpoint, "message"));
    long long complete = json_whole(checkpoint, "complete_step"),
              resumed = json_whole(checkpoint, "resumed_step");
    long long last = complete > resumed ? complete : resumed;
    bool failing = json_is_true(json_object_get(checkpoint, "failing"));

    if (!checkpoint)
        return;
    printf(failing ? "CHECKPOINTS FAIL: " : "checkpoints: ");
    if (last)
        printf("the last complete one is after step %lld", last);
    else
        printf("none is complete yet");
    printf("; %lld left out, %lld of them since then", json_whole(checkpoint, "left_out"),
           json_whole(checkpoint, "missed"));
    printf("%s%s\n", message && *message ? ": " : "", message ? message : "");
}

/* What each member has found last, and does about it: nobody finds the faults of others' paths. */
static void print_paths(const json_t *paths)
{
    const json_t *told;
    size_t index;

    json_array_foreach(paths, index, told)
    {
        printf("path: %s, by %s (%.0f s ago)\n", json_words(told, "path"),
               json_words(told, "address"), json_part(told, "path_age_ns") / 1e9);
    }
}

static void show(const json_t *answer)
{
    const char *warning = json_string_value(json_object_get(answer, "warning"));
    const char *state = json_is_true(json_object_get(answer, "parked"))
                            ? ", PARKED: cut off from the majority, waiting"
                        : json_is_true(json_object_get(answer, "noticed"))
                            ? ", told to leave: it goes after the step it is in"
                        : json_is_true(json_object_get(answer, "joining")) ? ", joining"
                                                                           : "";
    printf("job %s: step %lld committed (%lld stable), %lld members, view %lld, %.1f steps/s%s\n",
           json_string_value(json_object_get(answer, "job")), json_whole(answer, "step_committed"),
           json_whole(answer, "step_stable"), json_whole(answer, "size"),
           json_whole(answer, "view_epoch"),
           json_number_value(json_object_get(answer, "steps_per_s")), state);
    printf("since this member came: %lld lost, %lld joined, %lld left\n",
           json_whole(answer, "losses"), json_whole(answer, "joins"), json_whole(answer, "leaves"));
    if (json_whole(answer, "size") < json_whole(answer, "members_needed"))
        printf("%lld of %lld needed are here: steps wait\n", json_whole(answer, "size"),
               json_whole(answer, "members_needed"));
    print_sync(json_object_get(answer, "sync"));
    print_checkpoints(json_object_get(answer, "checkpoint"));
    if (warning && *warning)
        printf("warning: %s\n", warning);
    if (*json_words(json_object_get(answer, "lineage"), "met"))
        printf("lineage: %s\n", json_words(json_object_get(answer, "lineage"), "met"));
    print_paths(json_object_get(answer, "paths"));
    print_members(answer);
    print_channels(answer);
    print_recoveries(answer);
}

/* Ask one job, and show it. Returns the exit status. */
static int ask_job(const struct job_at *at, bool as_json)
{
    static struct spotnik_member member[QUESTION_MEMBERS_MAX];
    struct spotnik_credentials credentials;
    uint32_t count = 0;

    if (!question_credentials(at, &credentials)
        || !question_members(at, &credentials, member, &count)) {
        fprintf(stderr, "spotnik status: %s\n", spotnik_last_error());
        return 1;
    }
    json_t *answer = question_first(&credentials, member, count);
    if (!answer) {
        fprintf(stderr, "spotnik status: no member of the job answered%s%s\n",
                count ? ": " : "; none is listed at ", count ? spotnik_last_error() : at->peers);
        return 1;
    }
    json_object_set_new(answer, "paths", question_paths(&credentials, answer));
    if (as_json)
        json_dumpf(answer, stdout, JSON_COMPACT), putchar('\n');
    else
        show(answer);
    int status = is_failing(answer) ? 3 : 0;
    json_decref(answer);
    return status;
}

/* Nothing was said of where the job is: all that this host's processes tell of. */
static int ask_all(bool as_json)
{
    struct job_at *found = calloc(JOBS_MAX, sizeof(*found));
    uint32_t count = found ? jobs_find(found) : 0, answered = 0;
    bool failing = false;

    if (!count)
        option_refuse("status", "no job runs on this host as far as its processes tell. Give "
                                "--peers and --key-file, or set "
                                "SPOTNIK_PEERS and SPOTNIK_KEY_FILE");
    for (uint32_t i = 0; i < count; i++) {
        if (!as_json && count > 1)
            printf("%s--peers %s --key-file %s\n", i ? "\n" : "", found[i].peers,
                   found[i].key_file);
        fflush(stdout);
        int status = ask_job(&found[i], as_json);
        answered += status != 1;
        failing |= status == 3;
    }
    free(found);
    return failing ? 3 : answered ? 0 : count ? 1 : 2;
}

int spotnik_cmd_status(int argc, char **argv)
{
    struct question question = { .peers = NULL };
    struct job_at at;
    int refused = parse(argc, argv, &question);

    if (refused)
        return refused == 1 ? 0 : refused;
    if (question.dump)
        return jobs_choose("status --dump", question.peers, question.key_file, question.job, &at,
                           &refused)
                   ? dump_ask(&at)
                   : refused;
    if (job_at_fill(question.peers, question.key_file, question.job, &at))
        return ask_job(&at, question.json);
    if (at.peers[0])
        return option_refuse(
            "status",
            "members answer only to the job key. Give --key-file, or set SPOTNIK_KEY_FILE");
    return ask_all(question.json);
}
