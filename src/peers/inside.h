/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/peers share. Private to the folder. */
#ifndef SPOTNIK_PEERS_INSIDE_H
#define SPOTNIK_PEERS_INSIDE_H

#include <limits.h>
#include <pthread.h>

#include "peers/peers.h"
#include "peers/record.h"
#include "peers/spec.h"

#define SPOTNIK_PEERS_RECORDS_MAX 1024
#define SPOTNIK_PEERS_ASK_NS (500 * UINT64_C(1000000))   /* patience with one address */
#define SPOTNIK_PEERS_AGAIN_NS (100 * UINT64_C(1000000)) /* between two rounds */
#define SPOTNIK_PEERS_STALE_S 30 /* age at which the record of a dead process is taken away */

struct spotnik_peers {
    struct spotnik_engine *engine;
    struct spotnik_peers_spec spec;
    pthread_t keeper;
    bool keeping;
    uint64_t sweep_ns;  /* keeper: when to look again for what the dead have left */
    uint32_t look_next; /* keeper: whom to ask first when it looks for the job again */
    pthread_mutex_t writing; /* our record */
    pthread_cond_t changed;
    pthread_mutex_t lock; /* of everything below */
    struct spotnik_credentials credentials;
    bool stopping;
    uint64_t founding; /* of our lineage; 0: none */
    char warning[256];
    /* List, used by the searching thread only: */
    struct spotnik_member vote; /* ours; id none: not given */
    bool withdrawn;             /* we have voted for us once, and for another later */
    uint32_t patience;          /* rounds to wait before we count votes for us again */
};

/* One round of the search: what it came to. */
enum spotnik_peers_round {
    SPOTNIK_PEERS_AGAIN, /* not yet */
    SPOTNIK_PEERS_FOUND, /* we found the job */
    SPOTNIK_PEERS_JOIN,  /* *ret_sponsor is in it */
    SPOTNIK_PEERS_ERROR, /* *ret_error, and the detail is set */
};

struct spotnik_peers_search {
    struct spotnik_peers *peers;
    struct spotnik_credentials self; /* a copy for this search */
    bool may_found;
    uint32_t quiet; /* directory: rounds in a row in which everybody was proven dead */
    char said[512]; /* what the others said in the last round, for the error message */
    struct spotnik_member sponsor;
    int error;
};

void spotnik_peers_say(struct spotnik_peers_search *search, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Monotonic. */
uint64_t spotnik_peers_clock_ns(void);

/* Under the lock: until then, or until somebody wants us. */
void spotnik_peers_wait(struct spotnik_peers *peers, uint64_t until_ns);

/* keeper.c: with a directory, our record is in it from now on. Errors: SYSTEM. */
int spotnik_peers_keeper_start(struct spotnik_peers *peers);
void spotnik_peers_keeper_stop(struct spotnik_peers *peers);
/* Blocking. 0, or minus an errno; the warning says so, too. */
int spotnik_peers_record_refresh(struct spotnik_peers *peers);
void spotnik_peers_record_remove(const struct spotnik_peers *peers, const char *name);

/* Whom `spec` names now: at most `max`. 0, or SPOTNIK_ERR_SYSTEM for a directory that cannot be read. */
int spotnik_peers_named(const struct spotnik_peers_spec *spec, const struct spotnik_credentials *credentials,
                        struct spotnik_member *ret, uint32_t max, uint32_t *ret_count);

/* sweep.c: take away what the dead have left in the directory. Blocking, about two seconds at most. */
void spotnik_peers_sweep(struct spotnik_peers *peers, const struct spotnik_credentials *self);

enum spotnik_peers_round spotnik_peers_directory_round(struct spotnik_peers_search *search);
enum spotnik_peers_round spotnik_peers_list_round(struct spotnik_peers_search *search);

/* What became of a question to one process. */
enum spotnik_peers_reply {
    SPOTNIK_PEERS_REPLY_IN_VIEW, /* a member of the job */
    SPOTNIK_PEERS_REPLY_IDLE,    /* lives, and is in no view */
    SPOTNIK_PEERS_REPLY_GONE,    /* proven: nobody listens there, or somebody else */
    SPOTNIK_PEERS_REPLY_SILENT,
    SPOTNIK_PEERS_REPLY_REFUSES, /* wrong key, job or version: search->error */
};

/* `expected` with an id: another id at this address proves that the expected one is gone. */
enum spotnik_peers_reply spotnik_peers_ask(struct spotnik_peers_search *search,
                                           const struct spotnik_member *expected,
                                           struct spotnik_answer *ret_answer);

#endif
