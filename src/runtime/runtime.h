/* SPDX-License-Identifier: Apache-2.0 */
/* The network driver as the rest of the library sees it. One progress thread runs the core over
 * TCP; the caller's thread talks to it by these functions. Does no thinking: every decision is the
 * core's.
 *
 * Threads: functions marked [caller] from the one thread that owns the job; [any] from any thread.
 * Hooks run on the thread named beside them and must not call back into the runtime unless said
 * so. */
#ifndef SPOTNIK_RUNTIME_RUNTIME_H
#define SPOTNIK_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"
#include "core/core.h"
#include "link/dial.h"
#include "spotnik/spotnik.h"

/* [any] spotnik_net_dial() to a member, for an EXCHANGE connection: through a Unix socket where it
 * shares memory with us. Ends with SPOTNIK_ERR_PEERS as soon as `stop_fd` is readable (-1: never),
 * or when another member answers. Where the network has priorities, data of steps go first. */
struct spotnik_runtime;
int spotnik_runtime_dial(struct spotnik_runtime *runtime, const struct spotnik_member *peer,
                         uint64_t timeout_ns, int stop_fd, struct spotnik_duplex *ret);

/* [any] Do members of one host reach each other's memory at all? */
bool spotnik_runtime_is_sharing(const struct spotnik_runtime *runtime);

/* An exact tie, put to the witness of a lineage: does it name this member for this epoch? */
struct spotnik_tie {
    struct spotnik_id self;
    uint64_t founding, epoch;
};

struct spotnik_runtime_hooks {
    void *context;
    /* progress thread: an authenticated STATE connection; the hook owns what is in it
     * (a blocking socket) from now on. Must not block: start a thread. */
    void (*state_connection)(void *context, struct spotnik_duplex *duplex,
                             const struct spotnik_member *peer);
    /* progress thread: an authenticated EXCHANGE connection; as state_connection. */
    void (*exchange_connection)(void *context, struct spotnik_duplex *duplex,
                                const struct spotnik_member *peer);
    /* any thread, under the runtime's lock: there is a new view. Must not wait. */
    void (*view_installed)(void *context);
    /* any thread, under the runtime's lock, while a view is being made: no later view can commit
     * the steps up to this one differently. The caller may be anywhere. Must not wait. */
    void (*step_stable)(void *context, uint64_t step);
    /* progress thread: write the status JSON of this member; returns its length. */
    size_t (*status_text)(void *context, char *text, size_t size);
    /* caller's thread, inside step_begin at the boundary after `committed`: take due snapshots.
     * Again and again while step_begin waits, at least every 5 ms, and at once after
     * spotnik_runtime_wake(). The registered state is constant. */
    void (*boundary)(void *context, uint64_t committed, bool waiting);
    /* any thread, with the runtime's lock, before the commit of a step that was reduced here. Set
     * *ret_weight to the weights of the shares of the next steps; return their number (0: even). A
     * function of the results alone. NULL: always even; the same on every member. */
    uint32_t (*deal)(void *context, uint64_t step, uint32_t bucket_count,
                     const struct spotnik_bucket_result *result, const uint32_t **ret_weight);
    /* caller's thread, inside step_commit before results are copied out. The result of bucket i is
     * result[i] (bytes[i] bytes; NULL: not used in this step). src/transfer keeps a copy while
     * joiners are attached. */
    void (*committed)(void *context, uint64_t step, uint32_t bucket_count,
                      const struct spotnik_bucket_result *result);
};

struct spotnik_runtime_config {
    struct spotnik_credentials credentials; /* self.port 0: any port; filled in */
    struct spotnik_limits limits;
    uint32_t members_min;
    uint64_t samples, batch;
    enum spotnik_minority on_minority;
    uint64_t minority_wait_ns;
    struct spotnik_runtime_hooks hooks;
    const char
        *transport; /* "auto" (also NULL), "shm", "tcp"; borrowed for spotnik_runtime_new() */
    /* connections that carry data to one member: "1" to "8"; NULL: the default
     * (transport/add_connection.c); borrowed as well */
    const char *channels;
    /* the folder for dumps of the flight recorder (recorder.h); "off": record nothing; NULL: dump
     * only on request; borrowed as well */
    const char *dumps;
    /* the folder for a trace (tracer.h); NULL: none is written; borrowed as well */
    const char *trace;
    /* the date at clock 0, in microseconds since 1970; for the trace alone */
    uint64_t trace_epoch_us;
    uint64_t stall_ns; /* dump a step that takes this long to commit; 0: never */
};

struct spotnik_runtime;

/* [caller] Bind, listen, start the progress thread (role IDLE). */
int spotnik_runtime_new(const struct spotnik_runtime_config *config,
                        struct spotnik_runtime **ret_runtime);
const struct spotnik_credentials *
spotnik_runtime_credentials(const struct spotnik_runtime *runtime);

/* [caller] Become the only member of epoch 1, with the data as `ledger` says (NULL: as the config
 * does). `founding`: the name of the lineage that begins so; NULL: it has none, as in tests. */
int spotnik_runtime_found(struct spotnik_runtime *runtime, const struct spotnik_ledger *ledger,
                          const struct spotnik_founding *founding);

/* [any] Our place in our founding. */
void spotnik_runtime_presence(struct spotnik_runtime *runtime, struct spotnik_presence *ret);

/* [any] The lineage of the last view that this process was in, whatever became of it; id 0: of
 * none. */
struct spotnik_founding spotnik_runtime_past(struct spotnik_runtime *runtime);

/* [any] An answer that we asked for: does it belong to another job of our name? Then status and log
 * report it, once. */
bool spotnik_runtime_is_foreign(struct spotnik_runtime *runtime,
                                const struct spotnik_answer *answer);

/* A founding for people: its id, date, members and step. */
void spotnik_presence_describe(const struct spotnik_presence *presence, char *text, size_t size);

/* [any] For status and log: that another founding was met, or has taken our place. _told() returns
 * the number of such texts and the last one. */
void spotnik_runtime_lineage_tell(struct spotnik_runtime *runtime, const char *text);
uint64_t spotnik_runtime_lineage_told(struct spotnik_runtime *runtime, char *text, size_t size);

/* [caller] The founder, before its first step: go on after step `committed`, with the data at
 * `ledger`. */
void spotnik_runtime_resume(struct spotnik_runtime *runtime, uint64_t committed,
                            const struct spotnik_ledger *ledger);

/* [caller] The ledger after step `committed`. False: this member does not know it, or is at another
 * step. */
bool spotnik_runtime_ledger(struct spotnik_runtime *runtime, uint64_t committed,
                            struct spotnik_ledger *ret);

/* [caller] Become a joiner that holds the state after step `committed`. Resets the core (fresh
 * memory) if it was in another role, so it also serves rejoining after EXCLUDED. Pass a new id to
 * renew `self.id`: a restarted member is a new member. */
int spotnik_runtime_join(struct spotnik_runtime *runtime, struct spotnik_id id, uint64_t committed);

/* Wait for the next tie, on one thread of its own, since a file server may be slow. False:
 * closed. */
bool spotnik_runtime_tie_wait(struct spotnik_runtime *runtime, struct spotnik_tie *ret);
/* The answer. No effect if the runtime is by now in another lineage, or another member. Any
 * thread. */
void spotnik_runtime_tie_tell(struct spotnik_runtime *runtime, const struct spotnik_tie *tie,
                              bool named);
void spotnik_runtime_tie_close(struct spotnik_runtime *runtime, bool closed);

/* [any] Joiner: start asking `sponsor` for admission. Call again with another sponsor if that one
 * dies. */
void spotnik_runtime_enter(struct spotnik_runtime *runtime, const struct spotnik_member *sponsor);

/* [any] A frame of a committed result for a joiner, read by src/transfer from a donor. Blocks while
 * the core says WAIT, until the caller starts the bucket. Returns 0 when taken or not needed,
 * SPOTNIK_ERR_* if the runtime is stopping or the frame is bad. */
int spotnik_runtime_handover(struct spotnik_runtime *runtime,
                             const struct spotnik_chunk_header *header, const void *payload,
                             size_t bytes);

/* [caller] The step. step_begin fills number, epoch, rank, size, share, replay. Returns 0, or
 * SPOTNIK_ERR_PARKED, _MISMATCH, _LEAVING (notice; not where the step `continues` a batch), or
 * SPOTNIK_ERR_PEERS if the others excluded us (the API rejoins and calls again). step_commit
 * likewise. */
int spotnik_runtime_step_begin(struct spotnik_runtime *runtime, bool continues,
                               spotnik_step *ret_step);
int spotnik_runtime_weight_set(struct spotnik_runtime *runtime, uint64_t weight);
int spotnik_runtime_samples_decline(struct spotnik_runtime *runtime);
int spotnik_runtime_allreduce(struct spotnik_runtime *runtime, uint32_t bucket, void *data,
                              size_t count, enum spotnik_dtype dtype, enum spotnik_op op);
/* Does not change the caller's data; spotnik_runtime_result() reads the result. */
int spotnik_runtime_allreduce_from(struct spotnik_runtime *runtime, uint32_t bucket,
                                   const void *data, size_t count, enum spotnik_dtype dtype,
                                   enum spotnik_op op);
/* All results of the last committed step, buckets below `max`; returns the number of the last used
 * one + 1. As long as a result stands. */
uint32_t spotnik_runtime_results_get(struct spotnik_runtime *runtime, uint64_t step, uint32_t max,
                                     struct spotnik_bucket_result *result);
const void *spotnik_runtime_result(struct spotnik_runtime *runtime, uint32_t bucket);
void *spotnik_runtime_alloc(struct spotnik_runtime *runtime, size_t bytes);
void spotnik_runtime_unalloc(struct spotnik_runtime *runtime, void *memory);
int spotnik_runtime_step_commit(struct spotnik_runtime *runtime);

/* [caller] step_begin and step_commit return SPOTNIK_ERR_AGAIN after this wait; 0: never. */
void spotnik_runtime_patience_set(struct spotnik_runtime *runtime, uint64_t patience_ns);

/* [any; async-signal-safe] */
void spotnik_runtime_notice(struct spotnik_runtime *runtime);

/* [any] A notice has come, by spotnik_runtime_notice() or from the agent. */
bool spotnik_runtime_is_noticed(const struct spotnik_runtime *runtime);

/* [any] The vote this process gives to clients of SPOTNIK_PURPOSE_PEERS. */
void spotnik_runtime_vote_set(struct spotnik_runtime *runtime, const struct spotnik_member *vote);

#define SPOTNIK_CALLERS_KEPT 8

/* [any] The recent clients of SPOTNIK_PURPOSE_PEERS, which look for the job. Returns their number
 * (at most max). */
uint32_t spotnik_runtime_callers(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max);

/* [any] Open a control link to a process that is no member of our view, as far as we know. It tells
 * us if the job has gone on without us. */
void spotnik_runtime_greet(struct spotnik_runtime *runtime, const struct spotnik_member *peer);

/* [any] The last refusal at our acceptor (wrong key, job, version), and the number of refusals: ""
 * and 0 if none. */
uint64_t spotnik_runtime_refusals(struct spotnik_runtime *runtime, char *text, size_t size);

/* [any] The last broken path between two members that live, as far as this one knows. "": none.
 * Returns for how long it was not seen broken. */
uint64_t spotnik_runtime_path(struct spotnik_runtime *runtime, char *text, size_t size);

/* [any] A joiner gives up: calls that wait in step_begin, step_commit or handover return
 * SPOTNIK_ERR_PEERS or _STATE, until spotnik_runtime_join(). No effect on a member of the view. For
 * a joiner whose donors are lost, and before the threads that feed the runtime end. */
void spotnik_runtime_interrupt(struct spotnik_runtime *runtime);

/* [caller] Tell the others that the member we were, or asked to be, is dead. Without it a joiner
 * that has lost its donors would go on asking, and enter a view in which no thread steps for it. */
void spotnik_runtime_forget(struct spotnik_runtime *runtime);

/* [any] The caller has proof from elsewhere that the view of a parked member will not go on.
 * Exclude this member, as if another had told it: it commits nothing more. No effect on a member
 * that is not parked. */
void spotnik_runtime_over(struct spotnik_runtime *runtime);

/* [any] End this member: it commits nothing more, and its caller gets `error` with `why`. */
void spotnik_runtime_end(struct spotnik_runtime *runtime, int error, const char *why);

/* [any] A look into the folder that began then, by CLOCK_BOOTTIME, found no younger founding, or
 * failed. Others take us for gone after `stale_ns`. So a process that was
 * stopped for about as long commits nothing before the next look. */
void spotnik_runtime_looked(struct spotnik_runtime *runtime, uint64_t begun_boot_ns,
                            uint64_t stale_ns);
/* [any] Do commits wait for that look? */
bool spotnik_runtime_is_barred(struct spotnik_runtime *runtime);

/* [caller] In no view, after _forget(): be another member from now on, before _found(). */
void spotnik_runtime_rename(struct spotnik_runtime *runtime, struct spotnik_id id);

/* [any] For the log of the agent that started us, if there is one: a change of strategy
 * (slots.h). */
void spotnik_runtime_tell_agent(struct spotnik_runtime *runtime, uint64_t step, uint64_t what,
                                double value, double limit);

/* [any] For that agent: the job is over; late: it was before we came. */
void spotnik_runtime_tell_over(struct spotnik_runtime *runtime, bool late);
/* All have left in good order, this member with the last of them. */
void spotnik_runtime_tell_last(struct spotnik_runtime *runtime);

/* [any] For that agent: the state after `step` was written as that of a minority, with this digest
 * in its name. */
void spotnik_runtime_tell_minority(struct spotnik_runtime *runtime, uint64_t step, uint64_t digest);

/* [any] For that agent: how our checkpoints fare, as spotnik_death_checkpoint() has it. */
void spotnik_runtime_tell_checkpoint(struct spotnik_runtime *runtime, bool failed,
                                     uint64_t completed);

/* [any] Does that agent want our messages? One of them, of enum spotnik_said, one thread at a
 * time. */
bool spotnik_runtime_is_heard(const struct spotnik_runtime *runtime);
void spotnik_runtime_say(struct spotnik_runtime *runtime, uint32_t kind, uint64_t epoch,
                         const char *text);

/* [any] It is cut off, and has waited for as long as it is to wait: calls return PARKED. */
bool spotnik_runtime_gives_up(struct spotnik_runtime *runtime);

/* [any] Members that the next step needs: members_min, or for the first one the agent's number. */
uint32_t spotnik_runtime_members_needed(struct spotnik_runtime *runtime);
/* [any] For the same log: the search for the job waits for a member that may be alive: time waited,
 * time limit; 0, 0: no more. */
void spotnik_runtime_tell_waiting(struct spotnik_runtime *runtime, uint64_t ns, uint64_t of_ns);

/* [any] Make a waiting step_begin call the boundary hook now. */
void spotnik_runtime_wake(struct spotnik_runtime *runtime);

/* [any] */
void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret);
/* [any] The job's view as this runtime knows it. Returns the number of members written (at most
 * max). */
uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch);

/* Troubles, and bytes reduced in shared memory, since this process began. */
struct spotnik_troubles {
    /* members lost, by what was known of them (core.h) */
    uint64_t lost_ended, lost_silent, lost_told;
    uint64_t steps_stalled; /* that took longer than stall_ns */
    uint64_t paths_broken;  /* between two members that live */
    uint64_t altered;       /* what came with a wrong tag, on any connection of this process */
    uint64_t bytes_shared;  /* of buckets reduced in shared memory */
};

/* [any] */
void spotnik_runtime_troubles(struct spotnik_runtime *runtime, struct spotnik_troubles *ret);

/* [any] Our data connections, by member; returns their number (at most max). */
uint32_t spotnik_runtime_channels(struct spotnik_runtime *runtime,
                                  struct spotnik_channel_status *ret, uint32_t max);

/* [any] Our identity: another member after spotnik_runtime_join(). */
struct spotnik_id spotnik_runtime_id(struct spotnik_runtime *runtime);

/* [caller] Before a leave: wait until another member is in the view, which can take the state, or
 * until_ns. */
void spotnik_runtime_company_wait(struct spotnik_runtime *runtime, uint64_t until_ns);

/* [caller] Planned leave: returns 0 when LEFT, SPOTNIK_ERR_PARKED when no agreement was reached in
 * timeout_ns, SPOTNIK_ERR_MISMATCH when another member found that our programs differ. */
int spotnik_runtime_leave(struct spotnik_runtime *runtime, uint64_t timeout_ns);

/* [caller] For the trace: a part of the loop ends, of step `step`, and `part` (enum
 * spotnik_tracer_part) begins. */
void spotnik_runtime_turn(struct spotnik_runtime *runtime, int part, uint64_t step,
                          uint64_t now_ns);

/* [caller] Stop the thread, close everything (with GOODBYE, or abruptly as if killed), free.
 * Accepts NULL. */
void spotnik_runtime_free(struct spotnik_runtime *runtime, bool goodbye);

#endif
