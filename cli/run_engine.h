/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine that started us says about the other hosts of the job, as --peers and --bind of
 * the workers. Decides where workers listen, so that the others can name them before they live.
 * The library decides which of them founds the job. */
#ifndef SPOTNIK_CLI_RUN_ENGINE_H
#define SPOTNIK_CLI_RUN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_ENGINE_PLACES 32 /* ports of one host: workers that can be reached by name */

struct run_engine {
    char peers[8192]; /* SPOTNIK_PEERS; "": as if none had been named */
    char bind[64];    /* address that workers listen on; "": as always */
    uint16_t port;    /* of this agent's worker in place 0; the next ones follow. 0: any */
    char said[300];   /* in one line, what was found; "": nothing to say */
};

/* `word`: slurm, slurm:JOB, slurm:JOB.STEP, slurm:step, skypilot, dns://..., hosts:FILE,
 * exec:COMMAND, auto, or a spec of the library, which stays as it is. `bind`: the user's, or NULL.
 * `workers`: of each agent. False: it was said on standard error why not. */
bool run_engine_find(const char *word, const char *bind, uint32_t workers, struct run_engine *ret);

#endif
