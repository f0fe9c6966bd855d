/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this host, dealt to its workers by CUDA_VISIBLE_DEVICES. Without it every worker
 * computes on the first one, and it runs out of memory. */
#ifndef SPOTNIK_CLI_AGENT_GPUS_H
#define SPOTNIK_CLI_AGENT_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_GPUS_MAX 64
#define AGENT_GPU_NAME 64
#define AGENT_GPUS_UNSAID UINT64_MAX

struct agent_gpus {
    uint32_t count;
    uint64_t per_worker; /* 0: CUDA_VISIBLE_DEVICES stays as it is */
    char name[AGENT_GPUS_MAX][AGENT_GPU_NAME];
};

/* Fill in count and names. `visible`, the value of CUDA_VISIBLE_DEVICES, names them. Where it is
 * NULL, the `here` GPUs of the host are numbered. */
void agent_gpus_find(struct agent_gpus *ret, uint32_t here, const char *visible);

/* CUDA_VISIBLE_DEVICES of the worker in `place`; its replacement gets the same. Where there are too
 * few, workers share. False: the variable is to stay as it is. */
bool agent_gpus_of(const struct agent_gpus *gpus, uint32_t place, char *ret, size_t size);

#endif
