/* SPDX-License-Identifier: Apache-2.0 */
/* What a donor says about itself and the job when a joiner asks (packet VIEW). Bytes only; decides
 * nothing. */
#ifndef SPOTNIK_TRANSFER_STANDING_H
#define SPOTNIK_TRANSFER_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"
#include "transfer/registry.h"

#define SPOTNIK_STANDING_MEMBERS_MAX 1024

struct spotnik_standing {
    bool serving; /* in the view: may be a donor */
    bool waiting; /* its caller waits at the boundary after `committed` */
    uint64_t epoch, committed;
    uint64_t step_ns; /* mean time of a step */
    uint64_t bytes;   /* of the state */
    uint32_t member_count;
    struct spotnik_member member[SPOTNIK_STANDING_MEMBERS_MAX];
};

/* Bytes that spotnik_standing_write() needs. */
size_t spotnik_standing_size(const struct spotnik_standing *answer,
                             const struct spotnik_registry *registry);
void spotnik_standing_write(const struct spotnik_standing *answer,
                            const struct spotnik_registry *registry, struct spotnik_writer *writer);

/* Read the answer and, when it is serving, compare its tensors with ours. 0, SPOTNIK_ERR_PEERS
 * (unreadable), _MISMATCH. */
int spotnik_standing_read(struct spotnik_standing *ret, const struct spotnik_registry *registry,
                          struct spotnik_reader *reader);

#endif
