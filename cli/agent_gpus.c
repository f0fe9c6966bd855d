/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a worker gets. */
#include "agent_gpus.h"

#include <stdio.h>
#include <string.h>

/* A name that does not fit is none that CUDA knows: the variable stays as it is. */
static void take_named(struct agent_gpus *ret, const char *visible)
{
    while (*visible && ret->count < AGENT_GPUS_MAX) {
        size_t length = strcspn(visible, ",");

        if (length == 0 || length >= AGENT_GPU_NAME || *visible == '-') {
            ret->count = 0;
            return;
        }
        memcpy(ret->name[ret->count], visible, length);
        ret->name[ret->count++][length] = 0;
        visible += length + (visible[length] == ',');
    }
}

void agent_gpus_find(struct agent_gpus *ret, uint32_t here, const char *visible)
{
    ret->count = 0;
    if (visible)
        take_named(ret, visible);
    for (; !visible && ret->count < here && ret->count < AGENT_GPUS_MAX; ret->count++)
        snprintf(ret->name[ret->count], AGENT_GPU_NAME, "%u", (unsigned)ret->count);
}

bool agent_gpus_of(const struct agent_gpus *gpus, uint32_t place, char *ret, size_t size)
{
    size_t used = 0;
    uint64_t each = gpus->per_worker < gpus->count ? gpus->per_worker : gpus->count;

    if (gpus->count < 2 || each == 0)
        return false;
    for (uint64_t i = 0; i < each && used < size; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s%s", i ? "," : "",
                                 gpus->name[(place * each + i) % gpus->count]);
    return used < size;
}
