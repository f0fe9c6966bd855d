/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes on loopback for tests: one job, one key, which is this run's own: members find each
 * other's Unix sockets by it, and two runs at once must not meet. Test code only. */
#ifndef TESTS_UNIT_RUNTIME_CLUSTER_H
#define TESTS_UNIT_RUNTIME_CLUSTER_H

#include <string.h>
#include <unistd.h>

#include "../../key.h"
#include "runtime/runtime.h"
#include "link/address.h"

static inline void cluster_config(struct spotnik_runtime_config *config, uint32_t members_min)
{
    memset(config, 0, sizeof *config);
    spotnik_limits_init(&config->limits, 32);
    memset(config->credentials.job, 7, sizeof config->credentials.job);
    config->credentials.key = key_new(9);
    pid_t run = getpgrp(); /* the same in processes that a test forks */
    memcpy(config->credentials.key, &run, sizeof run);
    uint16_t port;
    spotnik_address_parse("127.0.0.1", config->credentials.self.address, &port);
    config->members_min = members_min;
    config->minority_wait_ns = UINT64_C(60000000000);
}

static inline struct spotnik_id cluster_id(uint64_t number)
{
    return (struct spotnik_id){ .high = 1, .low = number };
}

#endif
