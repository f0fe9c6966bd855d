/* SPDX-License-Identifier: Apache-2.0 */
/* The job as the public API keeps it: settings, the runtime, the registered state, and where we
 * stand. Glue: protocol decisions are the core's, moving bytes the runtime's, copying state that of
 * src/transfer.
 *
 * Fields belong to the caller's thread, except those marked otherwise. */
#ifndef SPOTNIK_API_JOB_H
#define SPOTNIK_API_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/step_stats.h"
#include "api/batching.h"
#include "api/collective.h"
#include "api/noise.h"
#include "api/watch.h"
#include "checkpoint/checkpoint.h"
#include "runtime/runtime.h"
#include "p2p/p2p.h"
#include "metrics/pace.h"
#include "discovery/discovery.h"
#include "spotnik/p2p.h"
#include "spotnik/spotnik.h"
#include "transfer/donor.h"
#include "transfer/joiner.h"
#include "transfer/registry.h"

struct spotnik_checkpoint_store_entry;

#define SPOTNIK_CALLER_BUCKETS 256
#define SPOTNIK_MEMBERS_KNOWN 64
#define SPOTNIK_CHECKPOINT_DIR_MAX 3000
#define SPOTNIK_ANCHORED_MAX 4096 /* of a path, as PATH_MAX */

/* Steps per second over the last second or so. */
struct spotnik_rate {
    pthread_mutex_t lock;
    uint64_t from_ns, from_step, to_ns, to_step; /* the last complete window */
    uint64_t begun_ns, begun_step;               /* the running one */
};

/* The strategy as others see it, under rate.lock; written by the caller's thread alone. */
struct spotnik_sync_shown {
    char strategy[32]; /* that runs; "": there is none */
    char policy[128];  /* as it was named; "": none */
    uint32_t mode, reason, switches;
    uint64_t switched_step;
    double value, limit;        /* of the last change of mind */
    double throughput, waiting; /* as measured last; 0: not yet */
};

/* SPOTNIK_FROM. */
struct spotnik_from {
    char path[SPOTNIK_ANCHORED_MAX]; /* of a checkpoint, absolute; "": none was named */
    bool due;                        /* not loaded yet, and no state of others copied */
};

struct spotnik_job {
    spotnik_config config; /* strings replaced by NULL: they were borrowed */
    char name[256];
    uint32_t generation; /* of the process that joined: fork.h */
    struct spotnik_runtime *runtime;
    struct spotnik_discovery
        *peers;    /* NULL: a job of one, or one that ends; changed under rate.lock */
    bool is_alone; /* a job of one; fixed when it is opened */
    struct spotnik_registry registry;
    struct spotnik_donor *donor;
    struct spotnik_p2p *p2p;
    struct spotnik_checkpoint *checkpoint; /* NULL: no checkpoint_dir; changed under rate.lock */
    char checkpoint_dir[SPOTNIK_CHECKPOINT_DIR_MAX + 1];
    struct spotnik_signer signer[2]; /* of its checkpoints: its key, and the one before */
    uint8_t *key;                    /* the job key; wiped when all that uses it has ended */
    struct spotnik_from from;
    int checkpoint_hold; /* the lock of those that write to it; 0 or less: not held */
    char advice[256];    /* what should be better about it; "": nothing; under rate.lock */
    char pausing[160];   /* why the job has to wait for it; "": it does not; under rate.lock */
    uint32_t strikes;    /* exclusions in a row, each soon after the return from the one before */
    bool was_in;         /* has been let in, or has founded */
    /* the state of others may be in the registered memory: this process founds nothing */
    bool has_copied;
    uint64_t returned_ns;          /* when it was let in again last; 0: never */
    bool founder;                  /* founded the job: it is this member that loads a checkpoint */
    struct spotnik_joiner *joiner; /* while we follow the job into its view */
    struct spotnik_member sponsor; /* a live member to ask first; valid when has_sponsor */
    bool has_sponsor;
    struct spotnik_member known
        /* of the last view we heard of: to be asked before the peers are searched */
        [SPOTNIK_MEMBERS_KNOWN];
    uint32_t known_count, known_at;
    /* kept_ledger: where the data stand after step `committed`, in the view that we were excluded
     * from */
    bool has_ledger;
    struct spotnik_ledger kept_ledger;
    bool outside;             /* the state must be copied before the next step */
    bool sealed;              /* step_begin was called: no more tensors */
    bool begun;               /* between step_begin and step_commit */
    bool excluded;            /* found out in the running step */
    uint64_t step, committed; /* the begun step; the last one whose result the caller has */
    uint32_t share, shares;   /* of the begun step */
    uint64_t samples;         /* of our share of it */
    bool started[SPOTNIK_CALLER_BUCKETS];
    struct spotnik_collectives *collectives; /* NULL: none yet */
    struct spotnik_batching *batching;       /* NULL: shares are even */
    struct spotnik_noise_watch *noise;       /* NULL: not watched */
    struct spotnik_step_stats_table *agreed; /* NULL: no decision uses it */
    bool barrier;                            /* the begun step is that of spotnik_barrier() */
    bool continues; /* the step to be begun goes on with the batch of the last one */
    bool noticed;   /* any thread, signal handlers: __atomic builtins only */
    uint64_t born_ns;
    struct spotnik_sync_shown sync_shown;
    struct spotnik_rate rate;
    spotnik_batch_info batch_info; /* under rate.lock */
    struct spotnik_pace pace;
    void (*refresh)(void *context); /* the program's, of spotnik_state_refresh_set() */
    void *refresh_context;
    uint64_t state_loads;      /* how often the registered state was replaced from outside */
    struct spotnik_sync *sync; /* NULL: the program averages gradients itself */
    struct spotnik_job_shown shown;
    struct spotnik_watch *watch; /* atomic; NULL: not watched */
};

/* Was `job` joined by this process, and not by one that it was forked from? 0, ARGUMENT or STATE.
 * Every call of the API asks before it touches a lock. */
int spotnik_job_handle_check(const struct spotnik_job *job);

/* A caller's config, perhaps of an older header, as a whole one. 0 or ARGUMENT. */
int spotnik_config_complete(const spotnik_config *config, spotnik_config *ret);

/* Up to which the limit of silence adapts to jitter. */
uint64_t spotnik_config_silence_ceiling(const spotnik_config *config);

/* Check `config` (and the environment it came from). 0 or ARGUMENT, with the name of the
 * setting. */
int spotnik_config_check(const spotnik_config *config);

/* Into the warnings of a status: no step is committed before a look into the folder. */
void spotnik_job_warn_barred(const struct spotnik_job *job, char *text, size_t size);

/* What the status warns of while this member keeps the job waiting; "": nothing. Any thread. */
void spotnik_job_pausing_set(struct spotnik_job *job, const char *text);

/* Where absolute paths stand, for as long as the config names them. */
struct spotnik_path_resolved {
    char peers[SPOTNIK_ANCHORED_MAX], checkpoint_dir[SPOTNIK_ANCHORED_MAX];
    char from_room[SPOTNIK_ANCHORED_MAX];
    const char *from; /* SPOTNIK_FROM; "": none */
};

/* Relative paths become absolute ones: a program may change its directory later. ARGUMENT: too
 * long. */
int spotnik_config_paths_resolve(spotnik_config *config, struct spotnik_path_resolved *place);

/* Does `name` (of SPOTNIK_SYNC) stand for a strategy or a policy? 0 or ARGUMENT. */
int spotnik_sync_name_check(const char *name);

/* Runtime, door and name of a new job; the key is read here. */
int spotnik_job_open(struct spotnik_job *job, const spotnik_config *config);

/* Begin the job, as its founder: one member, the data at their beginning. Errors as
 * spotnik_runtime_found(). */
int spotnik_job_found(struct spotnik_job *job);

/* SIGTERM as a notice where spotnik run started this process (signal.c): from now on; no longer. */
void spotnik_job_signal_open(struct spotnik_job *job);
void spotnik_job_signal_close(struct spotnik_job *job);

/* Call it in the founder of a new job, or of a new life from memory. It loads the newest whole
 * checkpoint if that is further. Errors as spotnik_job_seal(). */
int spotnik_job_resume_newer(struct spotnik_job *job, bool *ret_resumed);

bool spotnik_job_is_noticed(const struct spotnik_job *job);

/* The registry asks us to bring it up to date, and we the program. */
void spotnik_job_refresh_open(struct spotnik_job *job);

/* Where the data stand when this job begins. */
void spotnik_job_ledger(const spotnik_config *config, struct spotnik_ledger *ret);

/* With checkpoint_dir. Errors: SYSTEM, MEMORY. */
int spotnik_job_checkpoint_open(struct spotnik_job *job);

/* Shown with our status. Returns the previous value. */
struct spotnik_checkpoint *spotnik_job_checkpoint_set(struct spotnik_job *job,
                                                      struct spotnik_checkpoint *checkpoint);

/* The checkpoint to begin from, an absolute path; "": none. */
void spotnik_job_from_open(struct spotnik_job *job, const char *path);
/* Its name; "": none. Any thread. */
const char *spotnik_job_from_name(const struct spotnik_job *job);
/* This process is about to found the job. CHECKPOINT: what it shall begin from is none, or the
 * job's folder has a later one. */
int spotnik_job_from_check(const struct spotnik_job *job);
/* This process has found the job, at job->sponsor. LINEAGE: it lives, and has not begun from that
 * checkpoint. Blocking. */
int spotnik_job_from_compare(const struct spotnik_job *job);
/* The newest whole checkpoint of the job's folder that is later than `step`; false: none. */
bool spotnik_job_newer(const struct spotnik_job *job, uint64_t step,
                       struct spotnik_checkpoint_store_entry *ret);

/* Cut off, and on_minority is stop: write the state. Returns PARKED, whose detail says where it is,
 * or why it is nowhere. */
int spotnik_job_minority(struct spotnik_job *job);

/* Before the first step: the registry is complete. The founder loads the newest checkpoint; writing
 * begins. Errors: CHECKPOINT, SYSTEM, MEMORY, ARGUMENT. Blocking. */
int spotnik_job_seal(struct spotnik_job *job);

/* Memory of the runtime in which at least `bytes` fit: `have`, or more, zeroed, written to
 * *have_bytes. It lives as long as the job, so smaller ones, which may be in use, are left to the
 * runtime. NULL: no memory. */
void *spotnik_job_grow(spotnik_job *job, const void *have, size_t *have_bytes, size_t bytes);

/* Start to all-reduce in the begun step, as the caller's; what the first one refuses has changed
 * nothing. */
int spotnik_job_reduce_check(const struct spotnik_job *job, uint32_t bucket, const void *data,
                             size_t count, enum spotnik_dtype dtype, enum spotnik_op op);
int spotnik_job_reduce(struct spotnik_job *job, uint32_t bucket, void *data, size_t count,
                       enum spotnik_dtype dtype, enum spotnik_op op, bool from);

/* Copy the state and become a joiner of the runtime. Blocking. */
int spotnik_job_rejoin(struct spotnik_job *job);

/* From now on this member writes to the folder of checkpoints. Errors: CHECKPOINT (a founder: a
 * living job of another root does). */
int spotnik_job_hold(struct spotnik_job *job, bool founds);

/* The search said that the job is done. Returns SPOTNIK_ERR_LEAVING with the same words. */
int spotnik_job_late(struct spotnik_job *job);

/* The wait after N exclusions in a row, each within a minute of the member's return: 0 s, 1, 2, 4
 * ... 32. */
uint64_t spotnik_rejoin_pause_ns(uint32_t strikes);

/* A model under a strategy gives up what it has asked of others; then its end. NULL is allowed. */
void spotnik_sync_use_end(struct spotnik_sync *sync);
void spotnik_sync_free(struct spotnik_sync *sync);
void spotnik_sync_resumed(struct spotnik_sync *sync); /* from a checkpoint, as founder */

/* Copies of the state beside the program: it has not changed it since the last boundary; it may
 * from now on. */
void spotnik_job_copies_confirm(struct spotnik_job *job);
void spotnik_job_copies_settle(struct spotnik_job *job);

/* The others went on without us: stand outside, as a new member. */
void spotnik_job_exclude(struct spotnik_job *job);

/* What spotnik_batch_status() and the status text say, as it stands after a commit. */
void spotnik_batch_publish(struct spotnik_job *job);

void spotnik_rate_count(struct spotnik_rate *rate, uint64_t step, uint64_t now_ns);
double spotnik_rate_per_s(struct spotnik_rate *rate);

/* Status as JSON. The hook of the runtime says also what the watcher knows. */
size_t spotnik_job_status_text(void *job, char *text, size_t size);
size_t spotnik_job_status_plain(void *job, char *text, size_t size);

#endif
