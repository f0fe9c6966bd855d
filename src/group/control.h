/* SPDX-License-Identifier: Apache-2.0 */
/* The first pages of the group's memory: what its processes tell each other. All of it belongs to
 * processes of one user that are one member; what is in it is believed.
 *
 * A collective call is one round: each process writes `call` and counts up `asked`. The last one
 * rings `bell`, and the leader's thread compares the calls, makes the call on the job, writes
 * `answer`, counts up `answered` and rings `told`. No process can begin the next round before it
 * has read the answer, so there is one answer at a time. Fields that several processes write, and
 * words to sleep on, are accessed with __atomic builtins only. */
#ifndef SPOTNIK_GROUP_CONTROL_H
#define SPOTNIK_GROUP_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "spotnik/group.h"

#define SPOTNIK_GROUP_BUCKETS 256
#define SPOTNIK_GROUP_AREAS_MAX 1024
#define SPOTNIK_GROUP_BYTES_MAX ((size_t)1 << 38) /* of address space, in every process */
#define SPOTNIK_GROUP_NAME_MAX 255                /* as in transfer/registry.h */

/* A piece of the memory that processes take without a word: the first one makes it, the others find
 * it. */
struct spotnik_group_piece {
    uint32_t state; /* futex; memory_area.c */
    int32_t code;   /* 0, or why it could not be made */
    uint64_t offset, bytes;
};

enum spotnik_group_kind {
    SPOTNIK_GROUP_JOIN = 1,
    SPOTNIK_GROUP_STATE_ADD,
    SPOTNIK_GROUP_STEP_BEGIN,
    SPOTNIK_GROUP_STEP_COMMIT,
    SPOTNIK_GROUP_DIGEST,
    SPOTNIK_GROUP_LEAVE,
    SPOTNIK_GROUP_ABANDON,
};

/* A bucket, or registered memory: bytes from the start of the group's memory. Compared as bytes, so
 * without padding. */
struct spotnik_group_area {
    uint64_t offset, count;
    /* each process has a row of its own, so many bytes behind that of the rank before; 0: all have
     * parts of the same data */
    uint64_t row_bytes;
    uint32_t dtype, op;
};

struct spotnik_group_call {
    uint64_t kind;
    struct spotnik_group_area area;
    char name[SPOTNIK_GROUP_NAME_MAX + 1];
};

/* Written by one process. */
struct spotnik_group_process {
    uint32_t word;             /* robust futex of its watch thread; 0: not there yet, or left */
    uint32_t declines, weighs; /* 1: it consumes no samples in this step; it has set `weight` */
    uint64_t weight;           /* of its rows */
    uint64_t rounds;           /* calls that it has made; atomic */
    _Alignas(64) struct spotnik_group_call call;
    struct spotnik_group_area bucket[SPOTNIK_GROUP_BUCKETS];
};

struct spotnik_group_answer {
    int32_t code;
    uint64_t loads, digest;
    spotnik_step step;
    spotnik_job_status status;
    char detail[512];
};

struct spotnik_group_control {
    uint32_t size;
    uint32_t here;            /* futex: processes that have mapped this and can be watched */
    uint32_t bell;            /* futex: the leader's thread has something to do */
    uint32_t told;            /* futex: an answer is there, or a refresh is due */
    uint32_t noticed;         /* futex: 1: the group has a notice */
    uint32_t refresh;         /* number of refreshes asked for; changes while all wait */
    uint32_t refreshed;       /* processes that have done the last one */
    uint64_t asked, answered; /* calls of all processes; rounds */
    struct spotnik_group_answer answer;
    uint32_t handed[SPOTNIK_GROUP_BUCKETS]; /* parts that lie there, in the running step */
    uint64_t used;                          /* bytes of the memory that are taken */
    struct spotnik_group_piece piece[SPOTNIK_GROUP_AREAS_MAX]; /* of spotnik_group_memory() */
    struct spotnik_group_piece rows[SPOTNIK_GROUP_BUCKETS];
    struct spotnik_group_process process[SPOTNIK_GROUP_PROCESSES_MAX];
};

#endif
