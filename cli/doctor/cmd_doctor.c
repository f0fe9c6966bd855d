/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik doctor: is everything ready for a job, on this host and between two of them? Options and
 * report. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/key.h"
#include "base/secret.h"
#include "commands.h"
#include "doctor.h"
#include "common/options.h"

static const char help[] =
    "Usage: spotnik doctor [OPTION]... [HOST[:PORT]]...\n\n"
    "Check whether everything is ready for a job: on this host, and on the way to others that run "
    "spotnik "
    "doctor --serve.\n"
    "Each line gives the check, the finding, and the remedy. The doctor changes nothing and joins "
    "no "
    "job.\n\n"
    "      --serve             act as the other host, until Ctrl-C; port 21299, or that of --bind\n"
    "      --peers SPEC        as for spotnik run: looks up names, tries out a folder              "
    " "
    "[SPOTNIK_PEERS]\n"
    "      --key-file FILE     the job key                                                         "
    "[SPOTNIK_KEY_FILE]\n"
    "      --job NAME          name of the job                                                     "
    "[SPOTNIK_JOB, or spotnik]\n"
    "      --checkpoint DIR    folder for checkpoints                                              "
    "[SPOTNIK_CHECKPOINT]\n"
    "      --bind ADDRESS      address for workers to listen on                                    "
    "[SPOTNIK_BIND]\n\n"
    "Exit status: 0 fine, warnings included; 1 something will not work.\n\n"
    "  host1$ spotnik doctor --serve --bind 10.0.0.1 --peers file:/shared/job --key-file job.key\n"
    "  host2$ spotnik doctor 10.0.0.1 --peers file:/shared/job --key-file job.key\n";

void doctor_say(struct doctor *doctor, enum doctor_verdict verdict, const char *about,
                const char *format, ...)
{
    static const char *const words[] = { "fine", "WARNING", "BAD" };
    va_list arguments;

    doctor->bad += verdict == DOCTOR_BAD;
    printf("%-8s %-14s ", words[verdict], about);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int parse(int argc, char **argv, struct doctor *doctor, bool *ret_serve)
{
    static const struct option names[] = {
        { "peers", required_argument, NULL, 'p' }, { "key-file", required_argument, NULL, 'k' },
        { "job", required_argument, NULL, 'j' },   { "checkpoint", required_argument, NULL, 'c' },
        { "bind", required_argument, NULL, 'b' },  { "serve", no_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },        { NULL, 0, NULL, 0 }
    };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'p':
            doctor->peers = optarg;
            break;
        case 'k':
            doctor->key_file = optarg;
            break;
        case 'j':
            doctor->job = optarg;
            break;
        case 'c':
            doctor->checkpoint = optarg;
            break;
        case 'b':
            doctor->bind = optarg;
            break;
        case 's':
            *ret_serve = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("doctor", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (*ret_serve && (!doctor->bind || !doctor->key_file))
        return option_refuse(
            "doctor",
            "--serve needs --bind, an address that the other host reaches, and --key-file");
    if (*ret_serve && optind != argc)
        return option_refuse("doctor", "--serve waits for others; it asks nobody");
    return 0;
}

int spotnik_cmd_doctor(int argc, char **argv)
{
    static struct doctor doctor;
    bool serve = false;

    doctor = (struct doctor){ .peers = environment("SPOTNIK_PEERS", NULL),
                              .key_file = environment("SPOTNIK_KEY_FILE", NULL),
                              .job = environment("SPOTNIK_JOB", "spotnik"),
                              .checkpoint = environment("SPOTNIK_CHECKPOINT", NULL),
                              .bind = environment("SPOTNIK_BIND", NULL) };
    int refused = parse(argc, argv, &doctor, &serve);

    if (refused)
        return refused == 1 ? 0 : refused;
    doctor.credentials.self.port = 1;
    doctor.credentials.key = spotnik_secret_new(SPOTNIK_KEY_BYTES);
    if (!doctor.credentials.key)
        return 1;
    spotnik_job_hash(doctor.job, doctor.credentials.job);
    spotnik_key_random(&doctor.credentials.self.id, sizeof(doctor.credentials.self.id));
    doctor_look_here(&doctor);
    if (serve && doctor.has_key)
        return doctor_serve(&doctor);
    for (int i = optind; i < argc; i++)
        doctor_look_there(&doctor, argv[i]);
    if (doctor.bad)
        printf("%u thing%s will not work\n", doctor.bad, doctor.bad > 1 ? "s" : "");
    return doctor.bad > 0;
}
