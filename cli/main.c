/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik: one table of subcommands; each has a file of its own. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
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
    { "dump", "make members write their recent records", spotnik_cmd_dump },
    { "replay", "replay a dump, and show what happened", spotnik_cmd_replay },
    { "sim", "simulate a whole cluster with faults, from a seed", spotnik_cmd_sim },
    { "bench", "measure: recovery after revocations, all-reduce", spotnik_cmd_bench },
    { "key", "make a job key", spotnik_cmd_key },
    { "checkpoint", "list and verify the checkpoints of a job", spotnik_cmd_checkpoint },
    { "lineage", "two jobs of one name? see them, choose, force", spotnik_cmd_lineage },
    { "notice", "is this machine about to be taken away?", spotnik_cmd_notice },
    { "slurm", "submit a job whose elements come and go", spotnik_cmd_slurm },
    { "doctor", "is everything ready, here and between two hosts?", spotnik_cmd_doctor },
    { "fleet", "keep the number of machines that the plan wants", spotnik_cmd_fleet },
    { "bag", "run many simulations, any program, each done once", spotnik_cmd_bag },
    { "plan", "what to rent: machines, how many, which batch", spotnik_cmd_plan },
    { "prices", "get today's prices for the planner", spotnik_cmd_prices },
    { "profile", "measure a job for the planner", spotnik_cmd_profile },
    { "model", "the planner's models, one by one, on CSV", spotnik_cmd_model },
    { "backtest", "replay spot windows under a policy", spotnik_cmd_backtest },
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static int help(FILE *out)
{
    fprintf(out, "spotnik " SPOTNIK_VERSION ": training that goes on when machines vanish\n\n"
                 "Usage: spotnik COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].purpose);
    fprintf(out, "\nFirst steps:\n"
                 "  spotnik run -n 2:4 --respawn --kill-every 5s -- ./train\n"
                 "                                four workers, one killed every 5 s and replaced\n"
                 "  spotnik COMMAND --help        what a command does, with examples\n"
                 "  man spotnik                   everything\n");
    return out == stdout ? 0 : 2;
}

/* How many letters differ, roughly: enough to guess what was meant. */
static unsigned distance(const char *a, const char *b)
{
    size_t length_a = strlen(a), length_b = strlen(b);
    unsigned different =
        (unsigned)(length_a > length_b ? length_a - length_b : length_b - length_a);
    for (size_t i = 0; a[i] && b[i]; i++)
        different += a[i] != b[i];
    return different;
}

static int unknown(const char *name)
{
    size_t best = 0;
    for (size_t i = 1; i < COMMANDS; i++)
        if (distance(name, commands[i].name) < distance(name, commands[best].name))
            best = i;
    fprintf(stderr, "spotnik: there is no command \"%s\"", name);
    if (distance(name, commands[best].name) <= 2)
        fprintf(stderr, "; did you mean \"%s\"?", commands[best].name);
    fprintf(stderr, "\nTry: spotnik --help\n");
    return 2;
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
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return unknown(argv[1]);
}
