/* SPDX-License-Identifier: Apache-2.0 */
/* What is tried. A world is a job of some members that reach each other in some way; a cell is one
 * of its steps, with several buckets at once. Everything follows from the words that name a world
 * and from the number of the step. */
#ifndef TESTS_MATRIX_CELL_H
#define TESTS_MATRIX_CELL_H

#include <stdbool.h>

#include "limits.h"
#include "numbers.h"

#define CELL_PLAYERS_MAX 42 /* each maps the memory of all others: 64 GiB of addresses a pair */
#define CELL_BUCKETS_MAX 16
#define CELL_LOSSES_MAX 4
#define CELL_RUSH_MAX 4

enum cell_way {
    WAY_SHM,        /* one host, one memory */
    WAY_TCP,        /* one host, connections */
    WAY_FAR,        /* an address for each */
    WAY_RING,       /* nothing but the ring */
    WAY_TREE,       /* small buckets up a tree, however few the members */
    WAY_HOSTS,      /* several hosts with a memory each */
    WAY_HOSTS_FAR,  /* and an address each */
    WAY_HOSTS_TREE, /* and a tree between them, however few they are */
    CELL_WAYS
};

enum cell_call {
    CALL_ALLREDUCE,
    CALL_FROM,
    CALL_BROADCAST,
    CALL_ALLGATHER,
    CALL_REDUCE_SCATTER,
    CALL_COMPRESSED_F16,
    CALL_COMPRESSED_BF16,
    CALL_COMPRESSED_Q8,
    CELL_CALLS
};

enum cell_memory { MEMORY_PLAIN, MEMORY_OWNED, MEMORY_MIXED, CELL_MEMORIES };

/* Where a member dies. */
enum cell_death { DEATH_BEGUN, DEATH_STARTING, DEATH_STARTED, DEATH_COMMITTING, CELL_DEATHS };

struct cell_world {
    enum cell_way way;
    uint32_t members, hosts, fan, chunk_bytes;
    uint32_t channels;      /* connections for data to one member; 0: as many as pay */
    uint32_t losses, joins; /* how many steps have one */
    uint32_t steps, buckets;
    uint32_t
        /* steps that members make one after the other before they meet again; 1 where somebody
         * joins */
        rush;
    uint32_t lowest, borders; /* the lowest border, and how many there are from there */
    uint64_t heavy_bytes;     /* of all members' data in a step, at most */
    bool ordered;             /* borders one after the other, each once, instead of drawn */
    uint64_t seed;
};

struct cell_bucket {
    uint32_t number;
    enum cell_call call;
    enum cell_memory memory;
    uint32_t offset; /* of the data from a page, bytes */
    uint32_t border, near;
    uint64_t count; /* of the caller's elements */
    uint32_t root, slots;
    struct numbers numbers; /* of what is added up */
};

struct cell_step {
    uint64_t number;
    uint32_t buckets;
    struct cell_bucket bucket[CELL_BUCKETS_MAX];
    uint32_t losses;
    struct {
        uint32_t of; /* the how manieth of those that live */
        enum cell_death when;
    } loss[CELL_LOSSES_MAX];
    /* of one that is to die while it commits: as often as that is over it may */
    uint64_t patience_ns;
    bool join, weighted;
    uint64_t key;
};

const char *cell_way_name(enum cell_way way);
const char *cell_call_name(enum cell_call call);
const char *cell_memory_name(enum cell_memory memory);
const char *cell_dtype_name(enum spotnik_dtype dtype);
const char *cell_op_name(enum spotnik_op op);

/* Members that stand on host 0, and on how many hosts they stand. */
uint32_t cell_host_of(const struct cell_world *world, uint32_t player);

bool cell_is_memory(enum cell_way way);
bool cell_is_churned(const struct cell_world *world);

/* The words that name a world, and back. */
int cell_world_print(const struct cell_world *world, char *text, size_t size);
bool cell_world_parse(const char *text, struct cell_world *ret);

/* World `number` of the sample that `seed` names, of `members_max` at most; and of all worlds, or
 * false when there are no more. */
void cell_world_sample(uint64_t seed, uint32_t number, uint32_t members_max,
                       struct cell_world *ret);
bool cell_world_of_all(uint64_t seed, uint32_t rounds, uint32_t number, struct cell_world *ret);

/* The step, among `live` members. */
void cell_step_make(const struct cell_world *world, const struct limits_place *place,
                    uint64_t number, uint32_t live, struct cell_step *ret);

/* Weight of a member's contribution to MEAN in a step. */
uint64_t cell_weight(const struct cell_step *step, uint32_t player);

/* Bytes of one element as the caller holds it. */
size_t cell_element_bytes(const struct cell_bucket *bucket);

#endif
