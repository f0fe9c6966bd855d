/* SPDX-License-Identifier: Apache-2.0 */
/* Where the processes of a group meet: an abstract Unix socket of the leader, which hands its
 * memory to the others. Each side looks at the user id of the other that the kernel tells: another
 * user can take the name first, and can do nothing else. */
#ifndef SPOTNIK_GROUP_RENDEZVOUS_H
#define SPOTNIK_GROUP_RENDEZVOUS_H

#include <stdint.h>

/* The leader: give `memory` (a descriptor) to the processes 1 to `size` - 1. Errors: SYSTEM;
 * PEERS: not all have come until `until_ns`, the detail names those. */
int spotnik_rendezvous_lead(const char *name, uint32_t size, int memory, uint64_t until_ns);

/* Another process: get it. The caller closes *ret_memory. Errors: SYSTEM; PEERS: there is no
 * leader until `until_ns`; ARGUMENT: the leader has another size, or this rank has come already. */
int spotnik_rendezvous_follow(const char *name, uint32_t rank, uint32_t size, uint64_t until_ns,
                              int *ret_memory);

#endif
