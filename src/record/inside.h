/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder as its own two files see it: recorder.c records, dump.c writes. */
#ifndef SPOTNIK_RECORD_INSIDE_H
#define SPOTNIK_RECORD_INSIDE_H

#include <pthread.h>
#include <stdbool.h>

#include "record/dump.h"
#include "record/recorder.h"

#define SPOTNIK_DUMP_DIR_MAX 3072

struct spotnik_half {
    uint8_t *saved, *records; /* records == saved + saved_bytes */
    size_t used;
    bool torn; /* there was no room */
};

struct spotnik_recorder {
    struct spotnik_half half[SPOTNIK_DUMP_PARTS];
    uint32_t at; /* the half that is written */
    bool older;  /* the other one holds what was before */
    /* of records in a half: more than is used, for what one event brings */
    size_t saved_bytes, room;
    struct spotnik_limits limits;
    uint32_t choice;
    struct spotnik_member self;
    uint64_t now_ns; /* of the last event */
    uint32_t members_min;
    /* the running step was sealed then; 0: it is not, or has been told */
    uint64_t stall_ns, sealed_ns;
    uint64_t stalls;
    uint32_t dumps;
    char dir[SPOTNIK_DUMP_DIR_MAX]; /* "": none was named */
    pthread_t writer;
    bool writing;                  /* the thread is to be joined */
    struct spotnik_recorder *next; /* of all of this process: for an assertion */
};

/* A dump whole in memory, or straight from the halves: dump.c. */
void spotnik_recorder_enlist(struct spotnik_recorder *recorder);
void spotnik_recorder_delist(struct spotnik_recorder *recorder);
void spotnik_recorder_join(struct spotnik_recorder *recorder);

#endif
