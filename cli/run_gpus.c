/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this host for the workers of a run. */
#include <stdio.h>
#include <stdlib.h>

#include "run.h"
#include "run_host.h"
#include "run_line.h"

/* Programs that want torchrun's variables choose a GPU by LOCAL_RANK, among all of the host. The
 * processes of a group do so among those of their worker. */
static uint32_t gpus_by_default(const struct run_options *run)
{
    if (run->torchrun)
        return 0;
    return run->group ? run->group : 1;
}

void run_gpus_deal(struct run_options *run)
{
    struct agent_gpus *gpus = &run->gpus;
    char first[AGENT_GPUS_MAX * AGENT_GPU_NAME], text[sizeof(first) + 160];

    if (gpus->per_worker == AGENT_GPUS_UNSAID)
        gpus->per_worker = gpus_by_default(run);
    agent_gpus_find(gpus, run_host_gpus("/proc/driver/nvidia/gpus"),
                    getenv("CUDA_VISIBLE_DEVICES"));
    if (run->quiet || !agent_gpus_of(gpus, 0, first, sizeof(first)))
        return;
    snprintf(text, sizeof(text),
             "%u GPUs here: the first worker has CUDA_VISIBLE_DEVICES=%s, the next the ones behind "
             "(--gpus-per-worker %u; 0 leaves the variable alone)",
             (unsigned)gpus->count, first, (unsigned)gpus->per_worker);
    run_line_say(NULL, text);
}
