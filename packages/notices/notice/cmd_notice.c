/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik notice: ask by hand whether this machine is about to be taken away, or watch; the agent
 * of `spotnik run` runs it as its watcher. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "notice_watch.h"
#include "common/options.h"

#define TURN_MS 1000

static const char help[] =
    "Usage: spotnik notice [--watch] [--json] [--from SOURCE]... [--interval TIME]\n\n"
    "Ask whether this machine is about to be taken away. spotnik run asks by itself, once for all "
    "of its "
    "workers.\n\n"
    "      --from SOURCE     where to ask; may be repeated                             [auto]\n"
    "                          auto          AWS, Google Cloud or Azure, whichever this machine is "
    "in\n"
    "                          aws, gcp, azure   this one, for ever, even when it does not answer "
    "at first\n"
    "                          exec:COMMAND  run it again and again; each line that it prints is a "
    "notice: "
    "[WHEN] [words],\n"
    "                                        WHEN as +90, seconds since 1970 or "
    "2026-04-24T17:11:44Z\n"
    "                          file:PATH     a notice stands while the file exists; its first line "
    "as above\n"
    "      --watch           do not end; print every change\n"
    "      --json            one object a line: kind (leave, risk, over), source, deadline_ms, "
    "text\n"
    "      --interval TIME   between two looks         [aws, exec: 5s; azure: 1s; file: 250ms; gcp "
    "waits for "
    "the change]\n\n"
    "Exit status: 0 there is no notice, 3 there is one, 1 something is wrong.\n\n"
    "  spotnik notice                       in no cloud: says so\n"
    "  spotnik notice --watch --from file:/run/going-down\n";

struct request {
    const char *from[NOTICE_SOURCES_MAX];
    uint32_t count;
    uint64_t interval_ns;
    bool watch, json;
    uint32_t leaving; /* sources whose notice stands */
};

static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = {
        { "from", required_argument, NULL, 'f' }, { "watch", no_argument, NULL, 'w' },
        { "json", no_argument, NULL, 'j' },       { "interval", required_argument, NULL, 'i' },
        { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 }
    };
    const char *interval = getenv("SPOTNIK_NOTICE_INTERVAL"); /* of the tests */
    int option;

    if (interval && *interval && !option_duration(interval, &request->interval_ns))
        return option_refuse("notice", "SPOTNIK_NOTICE_INTERVAL is \"%s\", no time such as 5s",
                             interval);
    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'f':
            if (request->count == NOTICE_SOURCES_MAX)
                return option_refuse("notice", "more than %d sources", NOTICE_SOURCES_MAX);
            request->from[request->count++] = optarg;
            break;
        case 'w':
            request->watch = true;
            break;
        case 'j':
            request->json = true;
            break;
        case 'i':
            if (!option_duration(optarg, &request->interval_ns))
                return option_refuse("notice", "\"%s\" is no time such as 5s", optarg);
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("notice", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (optind != argc)
        return option_refuse("notice", "what is \"%s\"? Name a source with --from", argv[optind]);
    if (!request->count)
        request->from[request->count++] = "auto";
    return 0;
}

static void say(const struct notice *notice)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double left_s =
        (double)notice->deadline_ms / 1e3 - ((double)now.tv_sec + (double)now.tv_nsec / 1e9);

    if (notice->kind == NOTICE_LEAVE)
        printf("%s: this machine goes in %.0f s: %s\n", notice->source, left_s > 0 ? left_s : 0,
               notice->text);
    else
        printf("%s: %s: %s\n", notice->source,
               notice->kind == NOTICE_RISK ? "at risk" : "no longer", notice->text);
}

static void tell(void *context, const struct notice *notice)
{
    struct request *request = context;
    char line[1024];

    if (notice->kind == NOTICE_LEAVE)
        request->leaving++;
    if (!request->json)
        say(notice);
    else if (notice_format(notice, line, sizeof(line)))
        puts(line);
    fflush(stdout);
}

/* A command of exec: that hangs would outlive us, with all that it has started. */
static void on_end(int number)
{
    notice_commands_kill();
    signal(number, SIG_DFL);
    raise(number);
}

static void end_commands_too(void)
{
    static const int ends[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction action = { .sa_handler = on_end };

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        sigaction(ends[i], &action, NULL);
}

int main(int argc, char **argv)
{
    struct request request = { 0 };
    const char *error;
    char present[64];
    bool any = true;
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    struct notice_watch *watch =
        notice_watch_new(request.from, request.count, request.interval_ns, tell, &request, &error);
    if (!watch)
        return option_refuse("notice", "%s", error);
    end_commands_too();
    while (any && !ferror(stdout) && (request.watch || !notice_watch_has_looked(watch)))
        any = notice_watch_turn(watch, TURN_MS);
    notice_watch_present(watch, present, sizeof(present));
    if (!request.watch && !request.json && !request.leaving)
        printf("%s%s\n",
               *present ? "no notice from: "
                        : "no cloud's metadata service answers here, so there is no notice",
               present);
    notice_watch_free(watch);
    return request.leaving ? 3 : 0;
}
