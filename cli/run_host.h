/* SPDX-License-Identifier: Apache-2.0 */
/* What limits a run: processors, GPUs and open files of this host, and SPOTNIK_MAX. */
#ifndef SPOTNIK_CLI_RUN_HOST_H
#define SPOTNIK_CLI_RUN_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Processors that our affinity and the quotas of our control groups leave us; at least 1. `self`:
 * /proc/self/cgroup; `root`: /sys/fs/cgroup. */
uint32_t run_host_processors(const char *self, const char *root);

/* How often the kernel has killed a process of our control group for want of memory. */
uint64_t run_host_oom_kills(const char *self, const char *root);

/* GPUs of this host, as the driver lists them in `folder` (/proc/driver/nvidia/gpus). */
uint32_t run_host_gpus(const char *folder);

/* Raise our limit of open files to what this number of workers needs. False: the hard limit is
 * lower; a line on standard error gives it. */
bool run_host_files(uint32_t workers);

/* False: steps would wait for ever, since the job admits fewer members than they wait for. */
bool run_host_members(uint32_t needed);

#endif
