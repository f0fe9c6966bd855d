/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik dump and spotnik replay: have members write what their flight recorders hold, and run it
 * again (docs/design/0023-seeing.md). */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "commands.h"
#include "jobs.h"
#include "link/address.h"
#include "options.h"
#include "question.h"
#include "replay.h"
#include "spotnik/spotnik.h"

/* ---- dump ---- */

static const char dump_help[] =
    "Usage: spotnik dump [OPTION]...\n\n"
    "Has every member of a running job write what its flight recorder holds: the last some "
    "thousand events of the protocol. Each\n"
    "writes a file on its own host, in the folder SPOTNIK_DUMP, else in \"dumps\" beside the "
    "checkpoints, else in the temporary\n"
    "folder. The job is not disturbed. Members do so by themselves when a step stalls "
    "(60 s), when the others go on\n"
    "without them, and when an internal rule is broken. A dump holds ids, addresses and numbers of "
    "steps; no data and no key.\n\n"
    "      --peers SPEC        host:port,... or file:DIR           [SPOTNIK_PEERS]\n"
    "      --key-file FILE     the job key                         [SPOTNIK_KEY_FILE]\n"
    "      --job NAME          name of the job                     [SPOTNIK_JOB, or spotnik]\n"
    "Exit status: 0: every member that was found writes; 1: one does not, or none was found; 2: "
    "the command is wrong.\n\n"
    "  spotnik dump                       the one job of this host\n"
    "  spotnik replay /tmp/spotnik-1b2c3d4e-4711-0.dump\n";

struct request {
    const char *peers, *key_file, *job;
};

static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = { { "peers", required_argument, NULL, 'p' },
                                           { "key-file", required_argument, NULL, 'k' },
                                           { "job", required_argument, NULL, 'j' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'p':
            request->peers = optarg;
            break;
        case 'k':
            request->key_file = optarg;
            break;
        case 'j':
            request->job = optarg;
            break;
        case 'h':
            fputs(dump_help, stdout);
            return 1;
        default:
            return option_refuse("dump", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    return optind == argc ? 0 : option_refuse("dump", "\"%s\" means nothing here", argv[optind]);
}

/* The member answers when it begins to write. On its own host we wait for the end. */
static bool is_there(const char *path)
{
    for (int i = 0; i < 100 && access(path, F_OK); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return access(path, F_OK) == 0;
}

static bool ask(const struct spotnik_credentials *credentials, const struct spotnik_member *member)
{
    char line[4096], where[SPOTNIK_ADDRESS_TEXT];
    int rc = spotnik_net_say(credentials, member->address, member->port, SPOTNIK_WORD_DUMP, 0,
                             2 * SPOTNIK_S, line, sizeof line);

    bool wrote = !rc && line[0] == '/';
    const char *note = wrote && !is_there(line) ? "   (not seen from here: it is on that member's "
                                                  "host, or the folder cannot be written)"
                                                : "";
    printf("%s %s%s\n", spotnik_address_format(where, member->address, member->port),
           rc ? spotnik_last_error() : line, note);
    return wrote;
}

static int complain(void)
{
    fprintf(stderr, "spotnik dump: %s\n", spotnik_last_error());
    return 1;
}

static int dump(const struct job_at *at, struct spotnik_credentials *credentials)
{
    static struct spotnik_member member[QUESTION_MEMBERS_MAX], all[QUESTION_MEMBERS_MAX];
    uint32_t count = 0, failed = 0;

    if (!question_members(at, credentials, member, &count))
        return complain();
    json_t *answer = question_first(credentials, member, count);
    if (!answer) {
        fprintf(stderr, "spotnik dump: no member of the job answered\n");
        return 1;
    }
    count = question_named(answer, all, QUESTION_MEMBERS_MAX);
    json_decref(answer);
    for (uint32_t i = 0; i < count; i++)
        failed += !ask(credentials, &all[i]);
    return failed || !count;
}

int spotnik_cmd_dump(int argc, char **argv)
{
    struct request request = { .peers = NULL };
    struct spotnik_credentials credentials;
    struct job_at at;
    int status = parse(argc, argv, &request);

    if (status)
        return status == 1 ? 0 : status;
    if (!jobs_choose("dump", request.peers, request.key_file, request.job, &at, &status))
        return status;
    if (!question_credentials(&at, &credentials))
        return complain();
    status = dump(&at, &credentials);
    explicit_bzero(&credentials, sizeof credentials);
    return status;
}

/* ---- replay ---- */

static const char replay_help[] =
    "Usage: spotnik replay [--data] [--check] DUMP...\n\n"
    "Runs what a flight recorder has kept through the core again, and tells it as \"spotnik sim "
    "--trace\" does: a line for each\n"
    "event, an indented one for each action that followed. Every action is compared with the one "
    "that was recorded: a core that\n"
    "was changed since shows where it goes another way. A dump can be replayed by the build of "
    "Spotnik that wrote it.\n\n"
    "      --data      tell of every chunk, tick and heartbeat, too\n"
    "      --check     tell nothing but whether it came out the same\n"
    "Exit status: 0: it came out the same; 1: it did not; 2: the command or the file is wrong.\n\n"
    "  spotnik replay spotnik-1b2c3d4e-4711-0.dump | less\n";

static int replay_one(const char *path, struct replay replay)
{
    struct dump dump;
    char why[256];

    if (!dump_read(path, &dump, why, sizeof why)) {
        fprintf(stderr, "spotnik replay: %s %s\n", path, why);
        dump_done(&dump);
        return 2;
    }
    if (!replay.quiet)
        printf("%s: Spotnik %s, written because: %s\n", path, dump.head.version, dump.head.reason);
    bool same = dump_replay(&dump, &replay);
    dump_done(&dump);
    printf("%s: %" PRIu64 " events, %" PRIu64 " actions as recorded%s\n", path, replay.events,
           replay.checked, replay.torn ? "; records are missing: too much happened at once" : "");
    if (!same)
        printf("this core goes another way %s\n", replay.differs);
    return !same;
}

int spotnik_cmd_replay(int argc, char **argv)
{
    static const struct option names[] = { { "data", no_argument, NULL, 'd' },
                                           { "check", no_argument, NULL, 'c' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    struct replay replay = { .out = stdout };
    int option, worst = 0;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'd':
            replay.data = true;
            break;
        case 'c':
            replay.quiet = true;
            break;
        case 'h':
            fputs(replay_help, stdout);
            return 0;
        default:
            return option_refuse("replay", "unknown option: %s", argv[optind - 1]);
        }
    if (optind == argc)
        return option_refuse("replay", "name a dump; \"spotnik dump\" has one written");
    for (; optind < argc; optind++) {
        int status = replay_one(argv[optind], replay);
        worst = status > worst ? status : worst;
    }
    return worst;
}
