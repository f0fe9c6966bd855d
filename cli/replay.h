/* SPDX-License-Identifier: Apache-2.0 */
/* A dump of the flight recorder, read and run through the core again. For cmd_replay.c. */
#ifndef SPOTNIK_CLI_REPLAY_H
#define SPOTNIK_CLI_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "record/dump.h"

struct dump {
    unsigned char *bytes;
    size_t size;
    struct spotnik_dump_head head;
};

/* False with why it cannot be read in `ret_why`. Free with dump_done(). */
bool dump_read(const char *path, struct dump *ret, char *ret_why, size_t size);
void dump_done(struct dump *dump);

struct replay {
    FILE *out;
    bool data;         /* every chunk, tick and heartbeat, too */
    bool quiet;        /* tell nothing */
    uint64_t events;   /* that were run, */
    uint64_t checked;  /* and actions that came out as they had */
    bool torn;         /* records are missing */
    char differs[256]; /* "": nothing came out otherwise */
};

/* Runs both parts and fills the rest of `replay`. False: the core went another way than it had;
 * `differs` says where. */
bool dump_replay(const struct dump *dump, struct replay *replay);

#endif
