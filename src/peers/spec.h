/* SPDX-License-Identifier: Apache-2.0 */
/* SPOTNIK_PEERS taken apart: a directory, or a list of addresses. */
#ifndef SPOTNIK_PEERS_SPEC_H
#define SPOTNIK_PEERS_SPEC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"

#define SPOTNIK_PEERS_LISTED_MAX 64

struct spotnik_peers_spec {
    bool is_directory;
    char directory[PATH_MAX - 128]; /* room for the names of files in it */
    bool majority; /* "majority:host:port,...": more than half of them may found; else all of them must be up */
    uint32_t count;
    struct spotnik_member listed[SPOTNIK_PEERS_LISTED_MAX]; /* ids are none */
};

/* Resolves names: may block. Errors: ARGUMENT, PEERS (name not resolved), LIMIT. */
int spotnik_peers_spec_parse(const char *text, struct spotnik_peers_spec *ret_spec);

#endif
