/* SPDX-License-Identifier: Apache-2.0 */
/* What this host gives to a run: processors, GPUs and open files. */
#ifndef SPOTNIK_CLI_RUN_HOST_H
#define SPOTNIK_CLI_RUN_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Processors that our affinity and the quotas of our control groups leave us; at least 1. `self`:
 * /proc/self/cgroup; `root`: /sys/fs/cgroup. */
uint32_t run_host_processors(const char *self, const char *root);

/* GPUs of this host, as the driver lists them in `folder` (/proc/driver/nvidia/gpus). */
uint32_t run_host_gpus(const char *folder);

/* Raise our limit of open files to what this number of workers needs. False: the hard limit is
 * lower; a line on standard error gives it. */
bool run_host_files(uint32_t workers);

#endif
