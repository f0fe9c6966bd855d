/* SPDX-License-Identifier: Apache-2.0 */
/* SPOTNIK_PEERS taken apart: a store, a list of addresses, or names (dns.h). */
#ifndef SPOTNIK_DISCOVERY_SPEC_H
#define SPOTNIK_DISCOVERY_SPEC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"
#include "discovery/host_list.h"

#define SPOTNIK_DISCOVERY_LISTED_MAX 64

struct spotnik_discovery_spec {
    bool is_store;
    char location[PATH_MAX - 128]; /* of the store, see store.h */
    uint32_t count;
    struct spotnik_member listed[SPOTNIK_DISCOVERY_LISTED_MAX]; /* ids are none */
    /* dns.h; name_count 0: addresses, not names */
    uint32_t name_count, begin_with; /* begin_with: processes behind one name; 0: each has a name */
    uint16_t port;
    bool is_file; /* hosts: `location` is the path of a file with names */
    char name[SPOTNIK_DISCOVERY_LISTED_MAX][SPOTNIK_HOST_NAME];
};

/* Resolves names of a list: may block. `own`: the address that this process binds, or NULL (a
 * tool). Errors: ARGUMENT, PEERS (name not resolved), LIMIT. */
int spotnik_discovery_spec_parse(const char *text, const uint8_t *own,
                                 struct spotnik_discovery_spec *ret_spec);

#endif
