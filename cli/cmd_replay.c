/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik replay: run again what flight recorders have kept (docs/design/0023-observability.md). */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/options.h"
#include "replay.h"

static const char help[] =
    "Usage: spotnik replay [--data] [--check] DUMP...\n\n"
    "Runs what a flight recorder has kept through the core again, and tells it as \"spotnik sim "
    "--trace\" does: a line for each\n"
    "event, an indented one for each action that followed. Every action is compared with the one "
    "that was recorded: a core that\n"
    "was changed since shows where it goes another way. A dump can be replayed by the build of "
    "Spotnik that wrote it.\nThe core is loaded as it lies in the dump: replay only what somebody "
    "whom you trust has sent.\n\n"
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

int main(int argc, char **argv)
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
            fputs(help, stdout);
            return 0;
        default:
            return option_refuse("replay", "unknown option: %s", argv[optind - 1]);
        }
    if (optind == argc)
        return option_refuse("replay", "name a dump; \"spotnik status --dump\" has one written");
    for (; optind < argc; optind++) {
        int status = replay_one(argv[optind], replay);
        worst = status > worst ? status : worst;
    }
    return worst;
}
