/* SPDX-License-Identifier: Apache-2.0 */
/* A world in which jobs are founded: machines, a shared folder, processes that run src/discovery as
 * it is, and faults of all of them. An oracle (lineage.c) decides membership, since that protocol
 * has a simulator of its own. This world tries founding and waiting. */
#ifndef SPOTNIK_SIM_FOUNDING_WORLD_H
#define SPOTNIK_SIM_FOUNDING_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "discovery/discovery.h"
#include "base/process.h"

#define HOSTS 5
#define PROCESSES_MAX 256
#define PROCESSES_CALM 32 /* of them, for the time after everything has healed */
#define TORN_BYTES 40     /* of a torn file; a whole one has more */
#define LINEAGES_MAX 32
#define VIEW_MAX 16

#define TICK_NS (50 * SPOTNIK_MS)

enum folder {
    FOLDER_GOOD,
    FOLDER_FAILS, /* EIO, after a while */
    FOLDER_HANGS, /* a hard mount: calls wait until it heals */
};

struct host {
    uint64_t boot; /* 0: it has no power */
    enum folder folder;
    uint64_t clock_ns;   /* of its clocks, at the beginning */
    bool cut[HOSTS];     /* packets from here to there are lost */
    bool rejects[HOSTS]; /* connections from here to there are refused by a firewall */
};

/* Views of one founding, as the protocol would make them. */
struct lineage {
    struct spotnik_founding founding;
    struct spotnik_runtime *member[VIEW_MAX];
    uint32_t size;
    uint64_t epoch, step;
    uint64_t founded_ns, begun_step; /* world time; the step that it was founded after */
    bool goes;                       /* it committed a step in the last tick */
    bool done;                       /* all its steps are committed: its members leave */
    bool stopped; /* all of its last view left because they were told to go, before that */
    /* a bit for each older lineage: when this one was founded, all of its members had been cut off
     * from the folder for T */
    uint64_t excuses;
    /* since when it goes on beside another, both with the folder in sight; 0: it does not */
    uint64_t beside_ns;
    uint64_t changing_ns; /* since when those that reach each other are not the view; 0: they are */
};

/* A process. The peers folder takes it for its runtime. */
struct spotnik_runtime {
    uint32_t number, host;
    struct spotnik_process kernel;
    struct spotnik_credentials credentials;
    struct spotnik_discovery *peers;
    bool alive;
    uint64_t paused_until_ns; /* SIGSTOP */
    uint64_t clock_ns;        /* its host's */
    struct lineage *lineage;  /* that it is a member of; NULL: none */
    uint64_t epoch, step;
    bool parked, joining;
    bool out;            /* it was told that its view goes on, or has ended, without it */
    int ended;           /* SPOTNIK_ERR_*: it must not go on */
    uint64_t noticed_ns; /* when it was told to go; 0: it was not */
    /* the lineage that it left with the last of its members; NULL: it did not */
    const struct lineage *left;
    struct spotnik_founding past;
    uint64_t parted_ns;    /* since when it is in no majority; 0: it is */
    uint64_t refreshed_ns; /* world time: when its last good refresh of its record began */
    uint64_t stale_ns;     /* T, or what it takes until that record is stale */
    uint64_t every_ns;     /* a bucket: until it refreshes that record, and looks, again */
    /* when it ran last; when its last look at the folder began; since when it must look again
     * before it commits (0: it need not) */
    uint64_t event_ns, looked_ns, barred_ns;
    struct spotnik_tie tie;
    bool tie_asked, tie_closed;
    uint64_t tie_named; /* the epoch that the witness named it for last; 0: none */
    uint64_t tie_asked_ns;
};

struct world {
    uint64_t seed;
    bool trace, healing;
    bool bucket;      /* and no folder: its objects are files there (bucket.c) */
    bool leaves;      /* members are told to go, and jobs end */
    bool damages;     /* somebody removes and tears files in the folder */
    bool fixed_ports; /* the next process of a host listens where one that died did */
    uint64_t slow_ns; /* the folder takes up to so long for anything; 0: as folders do */
    uint64_t stale_ns;
    char folder[64];
    struct host host[HOSTS];
    struct spotnik_runtime process[PROCESSES_MAX];
    uint32_t process_count;
    struct lineage lineage[LINEAGES_MAX];
    uint32_t lineage_count;
    bool healed;
    bool founding_record_gone; /* somebody removed one: whoever is left founds no more */
    /* what happened */
    uint32_t foundings, parkings, refoundings, replaced, totals, stops, survivors, excused, refused;
    char broken[200]; /* the promise that was broken; "" none */
};

extern struct world world;

void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_break(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* runtime.c: do these two reach each other, both ways, now? Both alive, and not stopped. */
bool world_reach(const struct spotnik_runtime *a, const struct spotnik_runtime *b);
bool world_runs(const struct spotnik_runtime *process);

/* process.c */
struct spotnik_runtime *process_start(uint32_t host);
void process_kill(struct spotnik_runtime *process);

/* lineage.c */
struct lineage *lineage_found(struct spotnik_runtime *founder,
                              const struct spotnik_founding *founding, uint64_t step);
bool lineage_enter(struct lineage *lineage, struct spotnik_runtime *joiner,
                   const struct spotnik_runtime *sponsor);
void lineage_leave(struct spotnik_runtime *process);
void lineage_survivors_check(const struct lineage *newer);
void lineages_tick(void);
bool lineages_are_hidden(void);

/* fault.c */
void *fault_main(void *unused);
void fault_heal_all(void);

#endif
