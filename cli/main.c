/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik: one table of commands; each has a file of its own. Any other NAME is the executable
 * spotnik-NAME. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "common/sibling.h"
#include "spotnik/spotnik.h"

static const struct {
    const char *name, *purpose;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "run", "start workers here; they survive each other", spotnik_cmd_run },
    { "status", "ask a running job how it is", spotnik_cmd_status },
    { "top", "watch a running job in the terminal", spotnik_cmd_top },
    { "report", "a page on what a job has done, lost and cost", spotnik_cmd_report },
    { "trace", "spans of all members on one clock; why a step was slow", spotnik_cmd_trace },
    { "checkpoint", "list and verify the checkpoints of a job", spotnik_cmd_checkpoint },
    { "key", "make a job key", spotnik_cmd_key },
    { "doctor", "is everything ready, here and between two hosts?", spotnik_cmd_doctor },
    { "bench", "measure: recovery after revocations, all-reduce", spotnik_cmd_bench },
    /* Executables of their own, which users have. */
    { "plan", NULL, NULL },
    { "prices", NULL, NULL },
    { "profile", NULL, NULL },
    { "fleet", NULL, NULL },
    { "bag", NULL, NULL },
    { "notice", NULL, NULL },
    { "slurm", NULL, NULL },
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))
#define NAME_MAX_LENGTH 32

static int help(FILE *out)
{
    fprintf(out, "spotnik " SPOTNIK_VERSION ": training that goes on when machines vanish\n\n"
                 "Usage: spotnik COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < COMMANDS && commands[i].run; i++)
        fprintf(out, "  %-10s  %s\n", commands[i].name, commands[i].purpose);
    fprintf(out, "\nFirst steps:\n"
                 "  spotnik run -n 2:4 --respawn --kill-every 5s -- ./train\n"
                 "                                four workers, one killed every 5 s and replaced\n"
                 "  spotnik COMMAND --help        what a command does, with examples\n"
                 "  man spotnik                   everything\n\n"
                 "Beside these, with help and a manual of their own:\n"
                 "  plan, prices, profile, fleet  what to rent, and keeping it\n"
                 "  bag                           many simulations, any program, each done once\n"
                 "  slurm, kubernetes             jobs there\n"
                 "  notice                        warnings of revocation\n");
    return out == stdout ? 0 : 2;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, remove or replace to make the one of the other. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1], length = strlen(b);

    if (length > NAME_MAX_LENGTH)
        return length;
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (; *a; a++) {
        size_t before = row[0]++;
        for (size_t i = 0; i < length; i++) {
            size_t replaced = before + (*a != b[i]);
            before = row[i + 1];
            row[i + 1] = least(replaced, least(row[i], before) + 1);
        }
    }
    return row[length];
}

static int unknown(const char *name)
{
    const char *before = "; did you mean ";

    fprintf(stderr, "spotnik: there is no command \"%s\"", name);
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) {
            fprintf(stderr, " here: spotnik-%s is not installed\n", name);
            return 2;
        }
    for (size_t i = 0; i < COMMANDS; i++)
        if (distance(commands[i].name, name) <= 2) {
            fprintf(stderr, "%s\"%s\"", before, commands[i].name);
            before = " or ";
        }
    fprintf(stderr, "%s\nTry: spotnik --help\n", *before == ' ' ? "?" : "");
    return 2;
}

/* Becomes spotnik-NAME. Returns the exit status when there is none. */
static int become(const char *name, char **argv)
{
    char command[NAME_MAX_LENGTH + 16], path[PATH_MAX];

    if (strlen(name) > NAME_MAX_LENGTH || strchr(name, '/'))
        return unknown(name);
    snprintf(command, sizeof(command), "spotnik-%s", name);
    sibling_command(command, path);
    argv[0] = command;
    execvp(path, argv);
    if (errno == ENOENT || errno == EACCES)
        return unknown(name);
    fprintf(stderr, "spotnik: cannot run %s: %s\n", path, strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return help(stderr);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(stdout);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("spotnik " SPOTNIK_VERSION);
        return 0;
    }
    for (size_t i = 0; i < COMMANDS && commands[i].run; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return become(argv[1], argv + 1);
}
