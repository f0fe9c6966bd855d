/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/discovery share. Private to the folder. */
#ifndef SPOTNIK_DISCOVERY_INSIDE_H
#define SPOTNIK_DISCOVERY_INSIDE_H

#include <limits.h>
#include <pthread.h>

#include "base/time.h"
#include "discovery/discovery.h"
#include "discovery/record.h"
#include "discovery/spec.h"
#include "discovery/watcher.h"

#define SPOTNIK_DISCOVERY_ASK_NS (500 * SPOTNIK_MS)   /* patience with one address */
#define SPOTNIK_DISCOVERY_AGAIN_NS (100 * SPOTNIK_MS) /* between two rounds */
/* Files about the end of one life of the job, by its founding. */
#define SPOTNIK_OVER_NAME "over-%016llx"
#define SPOTNIK_STOPPED_NAME "stopped-%016llx"

/* a user who makes a directory for one job may leave this file in it */
#define SPOTNIK_DISCOVERY_FRESH "fresh"

/* The one time that the search for a founder rests on (docs/design/0002-finding-the-job.md). */
struct spotnik_discovery_times {
    uint64_t stale_ns;   /* T: a record that stays the same for this long has no live writer */
    uint64_t refresh_ns; /* between two refreshes of our own */
    uint64_t gap_max_ns; /* between two looks, so much counts at most */
};

/* One round of the search: what it came to. */
enum spotnik_discovery_round {
    SPOTNIK_DISCOVERY_AGAIN, /* not yet */
    SPOTNIK_DISCOVERY_FOUND, /* we found the job */
    SPOTNIK_DISCOVERY_JOIN,  /* *ret_sponsor is in it */
    SPOTNIK_DISCOVERY_ERROR, /* *ret_error, and the detail is set */
};

/* The search of a process in no view or, in a directory, of a member cut off from its majority. */
struct spotnik_discovery_search {
    struct spotnik_discovery *discovery;
    struct spotnik_credentials self; /* a copy for this search */
    bool may_found;
    const spotnik_job_status *status; /* cut off: ours; NULL: in no view */
    struct spotnik_founding ours;     /* cut off: of our view */
    /* directory: we took the mark of a fresh one, so we are the first */
    bool claimant;
    bool opened; /* directory: it could be read once */
    struct spotnik_watcher watch;
    struct spotnik_question *question; /* of this round: one for each record, and the founder's */
    bool free;                         /* in this round nothing prevents founding */
    uint64_t busy_ns;                  /* watched when somebody did last */
    uint64_t begun_ns;
    uint64_t time_left_ns; /* until then it is known what we wait for; 0: nothing */
    /* more or less, of the wait that takes longest; 0: no known time is waited for */
    uint64_t remaining_ns;
    uint64_t whole_ns;  /* that wait, from its beginning to its end */
    uint32_t undecided; /* processes that may yet be the job, beside those that refuse us */
    /* by a process that has not proved the key: reported when the patience ends */
    int refusal;
    char said[512];    /* what the others said in the last round, for the error message */
    char refused[200]; /* what the refusal said, and by which record we came to it */
    struct spotnik_member sponsor;
    int error;
};

struct spotnik_discovery {
    struct spotnik_discovery *next; /* of this process */
    struct spotnik_runtime *runtime;
    struct spotnik_discovery_spec spec;
    struct spotnik_objects *store; /* NULL: SPOTNIK_PEERS is a list */
    struct spotnik_discovery_times times;
    char done_folder[PATH_MAX]; /* list: where the end of the job is on record; "": nowhere */
    uint64_t steps_max;         /* the program's; 0: it does not say */
    struct spotnik_process process;
    bool witness; /* the operator vouches for registers in this store */
    pthread_t witness_thread;
    bool witnessing;
    pthread_t keeper;
    bool keeping;
    /* keeper, list: when to look again for listed processes outside of the view */
    uint64_t absent_ns;
    uint32_t look_next; /* keeper: the member to ask first when it looks for the job again */
    struct spotnik_discovery_search parked; /* keeper, directory: while we are cut off */
    pthread_mutex_t writing;                /* our record, and the next two lines */
    uint64_t counter;
    char written[64]; /* the name of the record that we wrote last; "": it failed */
    pthread_cond_t changed;
    pthread_mutex_t lock; /* of everything below */
    struct spotnik_credentials credentials;
    bool stopping;
    /* we have asked to enter, or have founded, and our record shows it */
    bool entered;
    bool entered_is_told; /* a record that says it lies in the directory */
    /* the keeper has founded the next generation from our memory; the API follows */
    bool refounds;
    bool followed;                /* others answered as we founded it: they live, and may come */
    uint64_t followers_ns;        /* until then; 0: no member is waited for */
    bool superseded;              /* our lineage has been replaced by a younger one */
    struct spotnik_founding ours; /* our lineage; id 0: none; generation 0: not known */
    struct spotnik_founding sponsors; /* of the member that we join by */
    uint64_t refreshed_ns;            /* when our last successful refresh began; 0: none yet */
    uint64_t due_ns;                  /* when our record promises the next one */
    char warning[256];                /* what is wrong with the directory */
    char missing[320];                /* the founding that has vanished from it */
    char advice[256];                 /* what should be better about it */
    char waiting[320];                /* what a search waits for */
    /* List, used by the searching thread only: */
    struct spotnik_member vote; /* ours; id none: not given */
    bool withdrawn;             /* we have voted for us once, and for another later */
    uint32_t patience;          /* rounds to wait before we count votes for us again */
};

/* own_record.c. Monotonic. */
uint64_t spotnik_discovery_clock_ns(void);

/* Under the lock: until then, or until somebody wants us. */
void spotnik_discovery_wait(struct spotnik_discovery *discovery, uint64_t until_ns);

/* Does looking at the directory tell us anything just now? Not while we cannot write to it. */
uint64_t spotnik_discovery_gap_max(struct spotnik_discovery *discovery);

/* Blocking. 0, or minus an errno, which the warning names, too. */
int spotnik_discovery_record_refresh(struct spotnik_discovery *discovery);
void spotnik_discovery_record_remove(const struct spotnik_discovery *discovery, const char *name);
/* From now on our record says that we may be in a view. 0 when it lies there, or minus an errno. */
int spotnik_discovery_entered_set(struct spotnik_discovery *discovery, bool entered);
/* Known in this process from now on; no longer, and its record is gone. */
void spotnik_discovery_here_add(struct spotnik_discovery *discovery);
void spotnik_discovery_here_remove(struct spotnik_discovery *discovery);
/* Was it a member of this very process, which has no such member any more? */
bool spotnik_discovery_was_here(const struct spotnik_record *record);
struct spotnik_credentials spotnik_discovery_credentials(struct spotnik_discovery *discovery);
/* Credentials that say of which lineage we are. */
struct spotnik_credentials spotnik_discovery_introduction(struct spotnik_discovery *discovery);

/* keeper.c: with a directory, our record is in it from now on. Errors: SYSTEM. */
int spotnik_discovery_keeper_start(struct spotnik_discovery *discovery);
void spotnik_discovery_keeper_stop(struct spotnik_discovery *discovery);

/* The processes that `spec` names now. The caller frees *ret. 0, SPOTNIK_ERR_SYSTEM for a directory
 * that cannot be read, MEMORY. */
int spotnik_discovery_named(const struct spotnik_discovery_spec *spec,
                            const struct spotnik_credentials *credentials,
                            struct spotnik_member **ret, uint32_t *ret_count);

/* founding_record.c: the founder. */
/* Make the file of this generation: 0, -EEXIST when another process did, -ERANGE when there is no
 * such number, or minus an errno. Blocking. */
int spotnik_founding_record_make(struct spotnik_discovery *discovery,
                                 const struct spotnik_founding *founding, uint64_t step);
/* Take it back: somebody turned out to be alive. */
void spotnik_founding_record_take_back(struct spotnik_discovery *discovery,
                                       const struct spotnik_founding *founding);
/* Is it there, and the last one? The request that made it may have taken so long that another
 * process has founded since. Blocking. */
bool spotnik_founding_record_stands(struct spotnik_discovery *discovery,
                                    const struct spotnik_founding *founding);
/* founded_at.c: now, as the date of a founding; SPOTNIK_BORN_UNKNOWN where the clock has never been
 * set. */
uint64_t spotnik_discovery_founded_at_ms(void);

/* What a founding record says of its lineage; id 0: it is none. */
struct spotnik_founding
spotnik_founding_record_lineage(const struct spotnik_watcher_entry *founding_record,
                                uint64_t generation);
/* A member: is ours the youngest lineage that the directory knows? 0; SPOTNIK_ERR_LINEAGE when a
 * younger one has taken our place (*ret says which); or SPOTNIK_ERR_SYSTEM: our founding has
 * vanished, or cannot be read. */
int spotnik_founding_record_guard(struct spotnik_discovery *discovery, struct spotnik_record *ret);

/* witness.c. All blocking. */
/* Give our new founding a witness if the directory is fit for one, and mark its id so. Call it
 * before any other process knows the founding. */
bool spotnik_witness_offer(struct spotnik_discovery *discovery, struct spotnik_founding *founding);
/* Does the witness name `self` for this epoch? If it named a member for an earlier epoch, it names
 * `self` from now on. False: it does not, or it cannot be read. */
bool spotnik_witness_take(struct spotnik_objects *store, uint64_t founding, uint64_t epoch,
                          struct spotnik_id self);
/* Remove the witness of a founding that was taken back or followed by another. */
void spotnik_witness_remove(struct spotnik_objects *store, uint64_t founding);
/* The thread that answers the runtime. 0 or an errno. */
int spotnik_witness_start(struct spotnik_discovery *discovery);
void spotnik_witness_stop(struct spotnik_discovery *discovery);

/* directory.c: ask those whose records lie there. False: no memory, and the error is set. */
bool spotnik_directory_ask(struct spotnik_discovery_search *search);
/* Is every other process of the job dead, and have we watched for long enough? */
bool spotnik_directory_liveness_check(struct spotnik_discovery_search *search);
/* Found the next generation. 0; -EEXIST: another process did; -EAGAIN: somebody turned out to be
 * alive; -ERANGE: there is no number left; or minus an errno. Blocking. */
int spotnik_directory_found(struct spotnik_discovery_search *search, uint64_t step);

/* done.c: the job is empty. SPOTNIK_ERR_DONE: its end is on record, and our program wants no
 * further step. 0: go on. */
int spotnik_discovery_done_check(const struct spotnik_discovery_search *search);

/* partition_scan.c: look where new members look, and go on alone when no other can be alive.
 * Blocking. */
void spotnik_discovery_parked(struct spotnik_discovery *discovery,
                              const spotnik_job_status *status);
void spotnik_discovery_unparked(struct spotnik_discovery *discovery);

/* May the searching process join by this answer? A process that was in a founding only goes over to
 * one that follows it. */
bool spotnik_discovery_may_follow(struct spotnik_discovery *discovery,
                                  const struct spotnik_answer *answer);
enum spotnik_discovery_round
spotnik_discovery_directory_round(struct spotnik_discovery_search *search);
enum spotnik_discovery_round spotnik_discovery_list_round(struct spotnik_discovery_search *search);
/* keeper, list: a process that listens at a listed address and is in no view learns of the job by
 * our question. */
void spotnik_discovery_announce(struct spotnik_discovery *discovery,
                                const spotnik_job_status *status);

/* ---- ask.c: what becomes of a question to one process ---- */

enum spotnik_discovery_reply {
    SPOTNIK_DISCOVERY_REPLY_NONE,    /* not asked */
    SPOTNIK_DISCOVERY_REPLY_IN_VIEW, /* any member of the job */
    SPOTNIK_DISCOVERY_REPLY_PARKED,  /* a member that is cut off from its majority */
    SPOTNIK_DISCOVERY_REPLY_IDLE,    /* the expected one lives, and is in no view */
    SPOTNIK_DISCOVERY_REPLY_GONE,    /* another process of the same host has its address */
    SPOTNIK_DISCOVERY_REPLY_OTHER,   /* another process answers: it proves nothing */
    SPOTNIK_DISCOVERY_REPLY_ECHO,    /* the address leads back to us */
    SPOTNIK_DISCOVERY_REPLY_SILENT,  /* no answer, or a kernel refuses: neither proves anything */
    SPOTNIK_DISCOVERY_REPLY_REFUSES, /* somebody says that key, job or version are wrong */
};

struct spotnik_question {
    const struct spotnik_member *expected; /* id none: the process that listens there */
    const char *name;                      /* of the record, for messages; NULL: none */
    bool skipped;                          /* not to be asked */
    enum spotnik_discovery_reply reply;
    struct spotnik_answer answer;
    int refusal;    /* SPOTNIK_ERR_KEY, _JOB, _VERSION */
    char text[160]; /* what went wrong */
};

/* Ask all of them, many at a time. As soon as `enough` members in a view have answered, the rest
 * may stay NONE. A member of another job than `ours` (NULL: of any) is OTHER. */
void spotnik_discovery_ask(const struct spotnik_credentials *self,
                           struct spotnik_question *question, uint32_t count, bool enough,
                           const struct spotnik_founding *ours);

/* What somebody said in this round, behind what others did. */
void spotnik_discovery_say(struct spotnik_discovery_search *search, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- liveness.c: may this record belong to a live process? ---- */

enum spotnik_discovery_liveness {
    SPOTNIK_DISCOVERY_LIVENESS_FREE,   /* lives, and cannot be in a view */
    SPOTNIK_DISCOVERY_LIVENESS_ENDED,  /* proven */
    SPOTNIK_DISCOVERY_LIVENESS_STALE,  /* silent, and has not written for T */
    SPOTNIK_DISCOVERY_LIVENESS_PARKED, /* lives in a view, cut off */
    SPOTNIK_DISCOVERY_LIVENESS_WAIT,   /* may live */
};

/* `why` (may be NULL): what to say where the liveness is WAIT or PARKED. *ret_time_left_ns: 0, or
 * how long it takes until the record is stale, if it stays as it is. */
enum spotnik_discovery_liveness
spotnik_discovery_liveness_check(const struct spotnik_watcher_entry *entry,
                                 const struct spotnik_question *question,
                                 const struct spotnik_discovery_times *times, char *why,
                                 size_t size, uint64_t *ret_time_left_ns);

#endif
