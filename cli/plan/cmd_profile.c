/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik profile`: checks a description of a job, shows what the planner makes of it, and keeps it in
 * the store. */
#include "cmd_plan.h"
#include "plan/store.h"
#include "plan_args.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: spotnik profile --describe FILE.json [--store run.db]\n"
    "\n"
    "The description: {\"name\", \"devices\": {\"V100\": {\"samples_per_s\": 750} or {\"steps\": [[batch, "
    "seconds], ...]}},\n"
    "\"batches\": [256, 512], \"samples_per_epoch\", \"gradient_mb\"} and, optionally, state_mb, "
    "reference_batch,\n"
    "critical_batch, link_gbps, hop_us, overlap, startup_s, recover_s, join_s, checkpoint_every_s, error.\n"
    "The device \"cpu\" is one vCPU. The profile as the planner will use it is printed as JSON.\n";

static int keep(const char *path, const struct spotnik_profile *profile, struct spotnik_fault *fault)
{
    struct spotnik_store *store;

    if (spotnik_store_open(path, &store, fault))
        return -1;
    int rc = spotnik_store_profile_put(store, profile, fault);
    spotnik_store_close(store);
    return rc;
}

int spotnik_cmd_profile(int argc, char **argv)
{
    static const struct option options[] = {
        { "describe", 1, 0, 'd' }, { "store", 1, 0, 's' }, { "help", 0, 0, 'h' }, { 0, 0, 0, 0 }
    };
    const char *describe = NULL, *store = NULL;
    struct spotnik_profile profile;
    struct spotnik_fault fault;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'd')
            describe = optarg;
        else if (option == 's')
            store = optarg;
        else {
            fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? SPOTNIK_EXIT_OK : SPOTNIK_EXIT_USAGE;
        }
    }
    if (!describe || optind < argc) {
        fputs(usage, stderr);
        return SPOTNIK_EXIT_USAGE;
    }
    if (spotnik_profile_read(describe, &profile, &fault) || (store && keep(store, &profile, &fault)))
        return spotnik_cli_refuse("profile", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    return spotnik_cli_json(spotnik_profile_json(&profile));
}
