/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a bag: what each says of itself, and whether it still lives. The rule is that of a
 * peers folder (base/still.h, base/process.h): a kernel proves the death of its own processes;
 * for the rest there is only time, by our own clock. */
#ifndef BAG_WORKERS_H
#define BAG_WORKERS_H

#include "bag/bag.h"
#include "base/process.h"

#define BAG_SLOTS_MAX 256

/* One job that a worker runs. */
struct bag_run {
    char job[BAG_JOB_NAME_MAX];
    uint32_t attempt;
    uint64_t ran_ms, base_ms, saved_ms;
};

struct bag_worker {
    uint64_t id;
    struct spotnik_process process;
    char host[64];
    uint64_t counter;      /* another one with every refresh */
    uint64_t up_ms;        /* how long it has been a worker of this bag */
    uint64_t machine_ms;   /* age of its machine */
    uint64_t busy_ms;      /* of all its slots together */
    uint64_t write_ms;     /* what a save stops a program for; 0: not known */
    uint32_t slots, cores; /* cores of each */
    double usd_per_h;      /* of the machine; 0: not known */
    bool left;             /* it has ended in good order */
    uint32_t run_count;
    struct bag_run run[BAG_SLOTS_MAX];
};

/* Put our record into the bag. 0 or -errno. */
int bag_worker_put(const struct bag *bag, const struct bag_worker *worker);
/* False: there is none, or no whole one. *ret_print differs with every refresh; 0: not even that is
 * known. */
bool bag_worker_read(const struct bag *bag, uint64_t id, struct bag_worker *ret,
                     uint64_t *ret_print);
/* All of them. The caller frees *ret. 0 or -errno. */
int bag_workers_list(const struct bag *bag, struct bag_worker **ret, size_t *ret_count);

struct bag_watched {
    uint64_t id, print, unchanged_ns;
    bool known, wanted;
    struct bag_worker worker; /* as last read */
};

struct bag_watch {
    struct bag_watched *entry;
    size_t count, capacity;
    uint64_t looked_ns; /* our last look; 0: none */
};

/* Look at the records of all workers that hold a job, except `own`. At most gap_max_ns count as
 * time since the look before; 0 while we cannot write our own record. 0 or -errno. */
int bag_watch_look(struct bag_watch *watch, struct bag *bag, uint64_t own, uint64_t now_ns,
                   uint64_t gap_max_ns);

/* May its jobs be taken? */
bool bag_watch_is_dead(const struct bag_watch *watch, uint64_t id, uint64_t stale_ns);

/* What it said of this attempt before it fell silent. False: nothing. */
bool bag_watch_figures(const struct bag_watch *watch, uint64_t id, const char *job,
                       uint32_t attempt, struct bag_figures *ret);

void bag_watch_done(struct bag_watch *watch);

#endif
