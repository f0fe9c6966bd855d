/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik lineage: which lineages of a job there are, by its members, its folder and its
 * checkpoints; and the operator's words on them. What a lineage is, and which of two stands:
 * docs/design/0028-lineages.md. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "commands.h"
#include "lineages.h"
#include "link/address.h"
#include "options.h"
#include "spotnik/spotnik.h"

static const char help[] =
    "Usage: spotnik lineage [OPTION]...\n"
    "       spotnik lineage [OPTION]... choose ID\n"
    "       spotnik lineage [OPTION]... force ADDRESS --yes\n\n"
    "A lineage is one life of a job: all members that go back to one founding, and what they have "
    "written. There should be one.\n"
    "Two can come about when a job is started twice in different folders, or by "
    "force. When they meet, the\n"
    "younger one stops by itself with SPOTNIK_ERR_LINEAGE, and spotnik run with status 76. A "
    "parked lineage that is behind the\n"
    "younger one does not end it: then a person decides, here.\n\n"
    "Without a command: show the lineages that the folder, the addresses and the checkpoints know "
    "of.\n\n"
    "  choose ID         this lineage is the job. Members of all others stop, with "
    "SPOTNIK_ERR_LINEAGE; in a folder it becomes\n"
    "                    the youngest founding; checkpoints of the others are kept, and not "
    "resumed until they are chosen\n"
    "  force ADDRESS     the member there is parked, and its majority will never come back: it "
    "goes on alone, from its memory,\n"
    "                    as the next generation of its lineage. With --yes you answer for this: no "
    "other member of the job is\n"
    "                    alive and goes on elsewhere. Where one is, there are two lineages from "
    "then on, steps that both have\n"
    "                    taken differ, and one of them will be thrown away\n\n"
    "      --peers SPEC        host:port,... or file:DIR           [SPOTNIK_PEERS]\n"
    "      --key-file FILE     the job key                         [SPOTNIK_KEY_FILE]\n"
    "      --job NAME          name of the job                     [SPOTNIK_JOB, or spotnik]\n"
    "      --checkpoint DIR    its checkpoints                     [SPOTNIK_CHECKPOINT]\n"
    "      --yes               of force: I have read what I answer for\n"
    "Exit status: 0: one lineage, or the command was carried out; 1: it was not; 2: the command is "
    "wrong; 3: there are two or\n"
    "more lineages with members, or with checkpoints that are not set aside.\n\n"
    "  spotnik lineage --peers file:/shared/job --key-file job.key --checkpoint "
    "/shared/job/checkpoints\n"
    "  spotnik lineage choose 9f86d081884c7d65\n"
    "  spotnik lineage force 10.0.0.7:21210 --yes\n";

struct request {
    struct job_at at;
    const char *peers, *key_file, *job, *checkpoint, *verb, *object;
    bool yes;
};

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = { { "peers", required_argument, NULL, 'p' },
                                           { "key-file", required_argument, NULL, 'k' },
                                           { "job", required_argument, NULL, 'j' },
                                           { "checkpoint", required_argument, NULL, 'c' },
                                           { "yes", no_argument, NULL, 'y' },
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
        case 'c':
            request->checkpoint = optarg;
            break;
        case 'y':
            request->yes = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("lineage", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (argc - optind == 2) {
        request->verb = argv[optind];
        request->object = argv[optind + 1];
        return 0;
    }
    return argc == optind ? 0
                          : option_refuse("lineage", "takes nothing, choose ID, or force ADDRESS");
}

static int complain(void)
{
    fprintf(stderr, "spotnik lineage: %s\n", spotnik_last_error());
    return 1;
}

/* ---- show ---- */

static const char *founded(const struct lineage_row *row, char text[32])
{
    time_t seconds = (time_t)(row->founding.born_ms / 1000);
    struct tm local;

    if (row->founding.born_ms == 0 || row->founding.born_ms == SPOTNIK_BORN_UNKNOWN
        || !localtime_r(&seconds, &local))
        return "not known";
    strftime(text, 32, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

static void show_row(const struct lineage_row *row)
{
    char when[32], where[SPOTNIK_ADDRESS_TEXT];

    printf("%016" PRIx64 "  founded %s, generation %" PRIu64 "%s\n", row->founding.id,
           founded(row, when), row->founding.generation,
           row->is_genesis ? ", the youngest founding in the folder" : "");
    if (row->founding.root && row->founding.root != row->founding.id)
        printf("    goes back to    %016" PRIx64 "\n", row->founding.root);
    if (row->members)
        printf("    members         %u answer%s, at step %" PRIu64 "; one at %s\n", row->members,
               row->members == row->parked ? ", all parked" : "", row->step,
               spotnik_address_format(where, row->at.address, row->at.port));
    else if (row->records)
        printf("    members         none answers; %u record%s, at step %" PRIu64 "\n", row->records,
               row->records == 1 ? "" : "s", row->step);
    if (row->checkpoints)
        printf("    checkpoints     %u, the newest after step %" PRIu64 "%s\n", row->checkpoints,
               row->checkpoint_step, row->yielded ? "; set aside, since it yielded" : "");
}

static int show(const struct lineages *found)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        show_row(&found->row[i]);
        alive += found->row[i].members != 0;
    }
    if (!found->count)
        puts("no lineage: no member answers, and there are no records and no checkpoints");
    if (alive > 1)
        puts("\nThere are two lineages of one job. Decide which one is the job: spotnik lineage "
             "choose ID");
    return alive > 1 ? 3 : 0;
}

/* ---- choose ---- */

static int choose(const struct request *request, const struct spotnik_credentials *credentials,
                  struct lineages *found)
{
    uint64_t id = 0;
    int length = 0;
    char line[80];

    if (sscanf(request->object, "%16" SCNx64 "%n", &id, &length) != 1 || request->object[length])
        return option_refuse("lineage", "\"%s\" is no id of a lineage", request->object);
    const struct lineage_row *chosen = lineage_find(found, id);
    if (!chosen) {
        fprintf(stderr,
                "spotnik lineage: there is no lineage %016" PRIx64
                "; \"spotnik lineage\" shows those that are known\n",
                id);
        return 1;
    }
    for (uint32_t i = 0; i < found->answer_count; i++) {
        const struct spotnik_answer *answer = &found->answer[i];
        char where[SPOTNIK_ADDRESS_TEXT];
        if (answer->presence.founding.id == 0 || answer->presence.founding.id == id)
            continue;
        int rc = spotnik_net_say(credentials, answer->self.address, answer->self.port,
                                 SPOTNIK_WORD_STANDS, id, 2 * SPOTNIK_S, line, sizeof line);
        printf("%s %s\n", spotnik_address_format(where, answer->self.address, answer->self.port),
               rc ? spotnik_last_error() : line);
    }
    if (lineages_choose(found, credentials, request->at.peers, request->checkpoint, chosen))
        return complain();
    printf("%016" PRIx64 " is the job now\n", id);
    return 0;
}

/* ---- force ---- */

static int force(const struct request *request, const struct spotnik_credentials *credentials)
{
    uint8_t address[16];
    uint16_t port = 0;
    char line[80];

    if (!request->yes)
        return option_refuse("lineage", "with force you answer for this: no other member of the "
                                        "job is alive and goes on elsewhere. Where one "
                                        "is, there are two lineages from then on, and one of them "
                                        "will be thrown away. If you do, add --yes");
    if (spotnik_address_parse(request->object, address, &port) || port == 0)
        return option_refuse("lineage", "\"%s\" is no address with a port", request->object);
    if (spotnik_net_say(credentials, address, port, SPOTNIK_WORD_FORCE, 0, 2 * SPOTNIK_S, line,
                        sizeof line))
        return complain();
    printf("%s %s\n", request->object, line);
    return strcmp(line, "goes on alone") != 0;
}

static int obey(const struct request *request, const struct spotnik_credentials *credentials)
{
    struct lineages found;

    if (request->verb && !strcmp(request->verb, "force"))
        return force(request, credentials);
    if (request->verb && strcmp(request->verb, "choose"))
        return option_refuse("lineage", "\"%s\": takes nothing, choose ID, or force ADDRESS",
                             request->verb);
    if (lineages_find(&request->at, credentials, request->checkpoint, &found))
        return complain();
    int status = request->verb ? choose(request, credentials, &found) : show(&found);
    lineages_done(&found);
    return status;
}

int spotnik_cmd_lineage(int argc, char **argv)
{
    struct request request = { .checkpoint = getenv("SPOTNIK_CHECKPOINT") };
    struct spotnik_credentials credentials;
    int rc = parse(argc, argv, &request);

    if (rc)
        return rc == 1 ? 0 : rc;
    if (!job_at_fill(request.peers, request.key_file, request.job, &request.at))
        return option_refuse(
            "lineage",
            "name the job with --peers and --key-file, or SPOTNIK_PEERS and SPOTNIK_KEY_FILE");
    if (!question_credentials(&request.at, &credentials))
        return complain();
    int status = obey(&request, &credentials);
    explicit_bzero(&credentials, sizeof credentials);
    return status;
}
