/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a directory over time. For machines that are gone for good there is no proof, only
 * time. A record whose content stays the same while we watch, by our own clock, belongs to a
 * process that no longer writes. Time counts only between two good looks that follow each other
 * closely: not while we were stopped, nor while the directory did not answer. Decides nothing about
 * what follows from it. */
#ifndef SPOTNIK_DISCOVERY_WATCHER_H
#define SPOTNIK_DISCOVERY_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "discovery/record.h"

struct spotnik_watcher_entry {
    char name[SPOTNIK_OBJECTS_NAME_MAX + 1];
    enum spotnik_reading reading;
    int error;
    struct spotnik_record record;
    uint64_t print;        /* 0: the directory does not even say whether the file is another one */
    uint64_t unchanged_ns; /* watched, and the same all the time */
    uint64_t before_ns;    /* that, in the look before */
    uint64_t stood_for;    /* the founding that it stood for in the look before; 0: none */
};

struct spotnik_watcher {
    struct spotnik_watcher_entry *entry; /* by name */
    uint32_t count, capacity;
    uint64_t generation; /* the highest genesis-<n>, 0: none */
    struct spotnik_watcher_entry founding_record;
    uint64_t looked_ns;  /* our last good look, 0: none */
    uint64_t spent_ns;   /* what counts between the two last ones */
    uint64_t watched_ns; /* in all */
};

/* Read everything again. Between this look and the one before, at most gap_max_ns count. 0 or
 * -errno: the directory cannot be read as a whole, nothing has changed, and the time until the next
 * look does not count. Blocking. */
int spotnik_watcher_look(struct spotnik_watcher *watch, const struct spotnik_credentials *self,
                         struct spotnik_objects *store, uint64_t gap_max_ns);

void spotnik_watcher_done(struct spotnik_watcher *watch);

/* The record of this member; NULL: there is none. */
const struct spotnik_watcher_entry *spotnik_watcher_find(const struct spotnik_watcher *watch,
                                                         struct spotnik_id id);

/* After our founding of generation `own`, look once more. Has a member that we took for stale
 * written since? Has one that we took for dead entered the job? It may not have seen our founding
 * record, though it looks for one after each write; then one of the two sees the other. Has another
 * process founded, under a higher number? Blocking. */
bool spotnik_watcher_has_woken(struct spotnik_watcher *watch,
                               const struct spotnik_credentials *self,
                               struct spotnik_objects *store, uint64_t stale_ns, uint64_t own);

/* "genesis-<n>": n, 0 for another name. */
uint64_t spotnik_founding_record_parse(const char *name);
void spotnik_founding_record_name(uint64_t generation, char name[64]);

/* The names alone: the highest generation. 0 or -errno. */
int spotnik_founding_record_highest(struct spotnik_objects *store, uint64_t *ret_generation);

#endif
