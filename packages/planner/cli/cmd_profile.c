/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik profile`: measures a job, or checks a description of one; shows what the planner makes
 * of it. */
#include "plan_args.h"
#include "profile_measure.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: spotnik profile --batches 256,512 [--workers 1,2,4] [--seconds 3] [--rounds 3] "
    "[--device cpu]\n"
    "                       [--name NAME] [--samples-per-epoch N] -- command "
    "[argument]...\n"
    "       spotnik profile --describe FILE.json\n"
    "\n"
    "The first form runs the command here, with each number of workers and each global batch, and "
    "reads from "
    "the job's own\n"
    "status how long a step computes and waits, and what it reduces; at the end it kills a worker "
    "to see "
    "what "
    "a loss costs.\n"
    "It repeats this --rounds times; medians count, and their spread becomes the error of "
    "the "
    "profile. On a busy\n"
    "host it waits for a while, then reports the load.\n"
    "\"{batch}\" in the command becomes the batch, which is also in SPOTNIK_BATCH. The job must "
    "last longer "
    "than "
    "--seconds.\n"
    "The second form reads a description: {\"name\", \"devices\": {\"V100\": {\"samples_per_s\": "
    "750} or "
    "{\"steps\":\n"
    "[[batch, seconds], ...]}}, \"batches\": [256, 512], \"samples_per_epoch\", \"gradient_mb\"} "
    "and, "
    "optionally, state_mb,\n"
    "reference_batch, critical_batch, link_gbps, hop_us, overlap, startup_s, recover_s, join_s, "
    "checkpoint_every_s, error,\n"
    "measured ([[device, how many, batch, step seconds], ...]). The device \"cpu\" is one vCPU.\n"
    "It prints the profile that the planner will use, as JSON.\n"
    "\n"
    "  spotnik profile --batches 256,512 -- charlm --batch {batch} --steps 0 --quiet > run.json\n";

struct call {
    struct spotnik_profile_order order;
    const char *describe;
};

static bool read_list(const char *option, double least, double *values, size_t *count)
{
    bool good = spotnik_cli_list(optarg, least, values, SPOTNIK_GRID_MAX, count) && *count;

    for (size_t i = 1; good && i < *count; i++)
        good = values[i] > values[i - 1];
    if (!good)
        spotnik_cli_refuse("profile", 0, "%s '%s' is not a list of 1 to %d numbers, growing",
                           option, optarg, SPOTNIK_GRID_MAX);
    return good;
}

static bool read_option(void *context, int option)
{
    struct call *call = context;

    switch (option) {
    case 'd':
        call->describe = optarg;
        return true;
    case 'b':
        return read_list("--batches", 1, call->order.batches, &call->order.batch_count);
    case 'w':
        return read_list("--workers", 1, call->order.workers, &call->order.worker_count);
    case 't':
        return spotnik_cli_number("profile", "--seconds", optarg, 0.1, 3600, &call->order.seconds);
    case 'r':
        return spotnik_cli_count("profile", "--rounds", optarg, 1, SPOTNIK_ROUNDS_MAX,
                                 &call->order.rounds);
    case 'e':
        return spotnik_cli_number("profile", "--samples-per-epoch", optarg, 1, 1e15,
                                  &call->order.samples_per_epoch);
    case 'D':
        call->order.device = optarg;
        return true;
    case 'n':
        call->order.name = optarg;
        return true;
    default:
        return false;
    }
}

/* What was not said: one and two workers, an epoch as long as the job counts samples for one
 * step. */
static void complete(struct call *call, char **command)
{
    const char *slash = strrchr(command[0], '/');

    call->order.command = command;
    if (!call->order.worker_count) {
        call->order.worker_count = 2;
        call->order.workers[0] = 1;
        call->order.workers[1] = 2;
    }
    if (!call->order.name)
        call->order.name = slash ? slash + 1 : command[0];
    if (!(call->order.samples_per_epoch > 0)) {
        call->order.samples_per_epoch = call->order.batches[0];
        fprintf(stderr,
                "an epoch is taken as one step of %.0f samples; plan with --target steps=N or "
                "samples=N, "
                "or give --samples-per-epoch\n",
                call->order.batches[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "describe", 1, 0, 'd' }, { "batches", 1, 0, 'b' },
        { "workers", 1, 0, 'w' },  { "seconds", 1, 0, 't' },
        { "rounds", 1, 0, 'r' },   { "samples-per-epoch", 1, 0, 'e' },
        { "device", 1, 0, 'D' },   { "name", 1, 0, 'n' },
        { "help", 0, 0, 'h' },     { 0, 0, 0, 0 }
    };
    struct call call = { .order = { .device = "cpu", .seconds = 3, .rounds = 3 } };
    struct spotnik_profile profile;
    struct spotnik_fault fault;
    int done = spotnik_cli_options(argc, argv, "+h", options, usage, read_option, &call);
    if (done >= 0)
        return done;
    if ((call.describe != NULL) == (optind < argc) || (!call.describe && !call.order.batch_count)) {
        fputs(usage, stderr);
        return SPOTNIK_EXIT_USAGE;
    }
    if (!call.describe)
        complete(&call, argv + optind);
    if (call.describe ? spotnik_profile_read(call.describe, &profile, &fault)
                      : spotnik_profile_measure(&call.order, &profile, &fault))
        return spotnik_cli_refuse("profile", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    return spotnik_cli_json(spotnik_profile_json(&profile));
}
