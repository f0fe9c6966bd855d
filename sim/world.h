/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated world and the vocabulary its files share. Private to sim: what others see is sim.h.
 *
 *   world.c    time, phases, the loop           link.c   control links: FIFO, delays, dials, ends
 *   process.c  a process drives its core        channel.c   data connections: back-pressure,
 *              half-received frames
 *   app.c      its training loop                joiner.c copying state and replaying steps
 *   memory.c   its buckets, bit for bit         fault.c  what goes wrong, and when
 *   witness.c  the file that breaks ties
 *   cost.c     processor time, in scale mode
 *   flat.c     memory that processes share              strategy.c  its strategy, and when it
 *              changes
 *   check*.c   one checker per promise          story.c  the trace */
#ifndef SPOTNIK_SIM_WORLD_H
#define SPOTNIK_SIM_WORLD_H

#include "base/prng.h"
#include "sim/queue.h"
#include "shm/flat.h"
#include "shm/shares.h"
#include "sim/sim.h"
#include "adapt/judge.h"
#include "adapt/switch.h"
#include "transfer/nearness.h"
#include "wire/control.h"

#define SIM_BUCKETS 4
#define SIM_DEAL_SHARES 64 /* more than there are members at once */
#define SIM_LANES 64       /* of a view, and those of the view before */
#define SIM_RESULTS_KEPT 64
#define SPOTNIK_DATA_BYTES_ON_WIRE 72
#define SIM_NOBODY UINT32_MAX

enum sim_kind {                /* of a happening */
                SIM_TICK,      /* process */
                SIM_APP,       /* process; number: serial of the app */
                SIM_ITEM,      /* object: struct sim_item, arrives at its host */
                SIM_DIAL_OVER, /* process; number: dial; object: NULL */
                SIM_TEARDOWN,  /* process: its kernel closes its links */
                SIM_CONTINUE,  /* process */
                SIM_FRAME,     /* object: struct sim_frame, its header arrives */
                /* object: struct sim_channel; number: frame: its payload has arrived */
                SIM_PAYLOAD,
                SIM_LANE_OPEN, /* object: struct sim_channel */
                SIM_PUMP,      /* process: its channels may take more */
                SIM_FAULT,     /* number: index of the plan */
                SIM_HEAL,      /* number: index of the plan */
                /* a path between two hosts breaks, is looked at, mends; number: drawn, process: 0,
                 * 1, 2 */
                SIM_PATH,
                SIM_FORGE,  /* links end in the name of members that live; number: drawn */
                SIM_JOINER, /* process; number: serial */
                SIM_SPAWN,  /* process: host */
                SIM_CHURN,  /* number: index of the trace's */
                SIM_SEARCH, /* process: parked: is the job elsewhere? */
                SIM_PROBE,  /* liveness: are we there yet? */
                SIM_SHARE,  /* process; number: whose memory it can read now */
                SIM_FLAT,   /* process: a slice of work on shared memory */
                /* process; number: see witness.c. SIM_NOBODY: somebody removes the file */
                SIM_WITNESS,
                /* object: struct sim_conn, number: end: a line that was cut goes on */
                SIM_FLUSH,
};

/* One thing on its way to a process, over a link or beside it. */
enum sim_item_kind {
    SIM_ITEM_SYN,
    SIM_ITEM_UP,
    SIM_ITEM_REFUSED,
    SIM_ITEM_MESSAGE,
    SIM_ITEM_GOODBYE,
    SIM_ITEM_OVER, /* goodbye of one that will never act again */
    SIM_ITEM_EOF,
    SIM_ITEM_BREAK,
    SIM_ITEM_DEATH,
    SIM_ITEM_LANE_DOWN,
};

struct sim_item {
    struct sim_item *next;
    struct sim_conn *conn; /* NULL: not of a link */
    enum sim_item_kind kind;
    uint32_t from, to;
    uint64_t number; /* of the dial; of the item in its direction */
    size_t size;
    unsigned char bytes[];
};

struct sim_direction {
    uint64_t last_ns; /* arrival of the last item: the next one is not earlier */
    uint64_t sent;
    uint64_t lost_from;                /* items from this number on are lost */
    struct sim_item *held, **held_end; /* while the network is cut: TCP sends again later */
};

/* A control link between two processes. End 0 dialled. Kept until the end of the run. */
struct sim_conn {
    struct sim_conn *all;
    uint32_t process[2];
    bool open[2];   /* this end's core has been told LINK_UP and not LINK_DOWN */
    bool coming_up; /* UP is on its way to end 0 */
    struct sim_direction to[2];
};

struct sim_frame {
    struct sim_frame *next;
    struct sim_channel *channel;
    struct spotnik_chunk_header header;
    uint64_t number;
    size_t size;
    unsigned char bytes[];
};

/* A data connection: from a member to one that its view makes it send to, or from a donor to a
 * joiner. */
struct sim_channel {
    struct sim_channel *all, *next_in; /* of the world; of the receiver */
    struct sim_channel *next_donor;    /* of the sender's that lead to joiners */
    uint32_t from, to;
    bool donor; /* fed from the results kept, not by the core */
    bool open, closed;
    /* the sender has closed it; the rest waits in the kernel of a receiver that was stopped */
    bool ended;
    bool expected; /* named by the view that is being installed */
    bool waiting;  /* the core said WAIT */
    bool placed;   /* the head's header has been placed, its payload is arriving */
    struct spotnik_placement placement;
    uint64_t placed_serial; /* view_serial of the receiver at that time */
    uint32_t in_flight;
    uint64_t last_ns, sent, arrived;
    uint64_t free_ns;   /* scale mode, within a host: when all that was sent is under way */
    uint64_t next_step; /* donor: the next result to send */
    uint32_t next_bucket;
    uint64_t next_sequence;
    struct sim_frame *head, **tail;
};

struct sim_bucket {
    uint64_t count;
    uint32_t element_bytes;
    uint8_t dtype, op;
};

struct sim_result { /* of one committed step, as a donor keeps it */
    uint64_t step;
    unsigned char *bytes;
};

enum sim_app_state {
    SIM_APP_OFF,
    SIM_APP_IDLE,
    SIM_APP_WAIT_BEGUN,
    SIM_APP_COMPUTE,
    SIM_APP_START,
    SIM_APP_WAIT_COMMIT,
    SIM_APP_LEAVING
};

#define SIM_OWN 4  /* elements of a process's own model */
#define SIM_ROWS 4 /* of measurements in a step, at most */

struct sim_strategy {
    struct spotnik_sync_judge judge;
    struct spotnik_sync_switch sw;
    float own[SIM_OWN];
    uint32_t ran; /* the step committed last: 1 + mode + 2 * act; 0: none here */
    bool equal;   /* models are to be equal after it */
};

struct sim_app {
    enum sim_app_state state;
    uint64_t serial, step, committed;
    bool leave, replay;
    uint32_t order[SIM_BUCKETS], started;
    bool declined; /* the step consumes no samples */
    uint64_t weight;
    uint32_t range_count;
    struct spotnik_range range[SPOTNIK_RANGES_MAX];
    uint64_t samples;
    float *state_vector;
    unsigned char *in[SIM_BUCKETS], *out[2][SIM_BUCKETS];
    /* of small buckets: what is sent, and the others' inputs by rank */
    unsigned char *offer[2][SIM_BUCKETS], *tray[SIM_BUCKETS];
    uint64_t tray_weight[SIM_BUCKETS][SPOTNIK_SMALL_MEMBERS_MAX];
    uint64_t told_step; /* up to here the core knows what the caller got */
    struct sim_result kept[SIM_RESULTS_KEPT];
    struct sim_strategy strategy;
};

#define SIM_MEMBERS_MAX 64

/* Where the result of a bucket lies after a flat all-reduce. */
struct sim_window {
    uint64_t step; /* 0: nowhere in memory */
    struct spotnik_shares shares;
    struct spotnik_share_place place[SIM_MEMBERS_MAX];
};

/* What a served member has taken of a result before it was whole (show.c). */
struct sim_shown {
    uint64_t sequence, chunks;
    unsigned char *bytes; /* of the whole bucket */
};

struct sim_flat {
    struct spotnik_shm_header *board; /* the segment */
    size_t bytes;
    struct spotnik_flat *work;
    struct spotnik_flat_peer *peer; /* of the view that `work` is set up for */
    struct spotnik_reduce_source *source;
    /* of that view; as in the driver, the first flat step of a view sets it up */
    uint64_t view_epoch;
    bool *told; /* per process: the core knows that we share with it */
    bool scheduled, given_up;
    uint64_t failed_step, failed_epoch; /* of a bucket that could not be started; 0: none */
    uint32_t failed_bucket;
    uint64_t epoch;
    /* the step whose result of this bucket they hold, and we are to look for; 0: none */
    uint64_t late[SIM_BUCKETS];
    uint32_t late_count;
    struct sim_window window[SIM_BUCKETS][2];
    struct sim_shown shown[SIM_BUCKETS];
};

enum sim_life { SIM_RUNNING, SIM_DEAD, SIM_EXITED };

enum sim_join_state { SIM_JOIN_NONE, SIM_JOIN_SEEK, SIM_JOIN_COPY, SIM_JOIN_REPLAY };

struct sim_cost {                /* scale mode, in processor time */
    uint64_t free_ns;            /* when all work that has come in is done */
    uint64_t all_ns, longest_ns; /* all events, and the one that took the longest */
    uint64_t event_ns;           /* the present one, so far */
};

struct sim_process {
    uint32_t index, host;
    struct spotnik_member member;
    enum sim_life life;
    bool stopped, silent_death, torn_down;
    uint64_t stopped_ns;
    uint64_t named_epoch; /* for which the witness has told it that it is named */
    bool machine_stopped; /* all of it: its kernel says nothing, either */
    bool in_core;         /* inside spotnik_core_step */
    bool deal_due;        /* the core has asked how to deal */
    bool pumped;          /* all that it had to send is under way, since something last happened */
    uint32_t events;      /* until it is reloaded */
    struct spotnik_core *core;
    uint64_t tick_at_ns, core_now_ns;
    uint32_t ticks_in_a_row;
    uint64_t view_serial; /* counts FROZEN and VIEW */
    uint64_t epoch;       /* of the installed view, 0: none */
    /* the latest it has voted for or installed: its certificate says so */
    uint64_t voted_epoch;
    struct sim_item *inbox, **inbox_end; /* while stopped */
    struct sim_channel *channel_out[SIM_LANES], *channel_in;
    uint32_t channel_top; /* places of channel_out from there on have never been used */
    struct sim_channel *donor_channels; /* to joiners, the newest first */
    uint64_t channels_epoch;            /* of the view they are for */
    uint64_t search_dial;               /* the driver's own, while parked */
    uint64_t *dial;                     /* per process: the dial under way, 0: none */
    struct sim_app app;
    struct sim_flat flat;
    /* joiner */
    enum sim_join_state join;
    uint64_t join_serial, copied_step;
    struct spotnik_nearness nearness;
    struct sim_channel *stream; /* from its donor */
    uint32_t donor;
    bool entered, ready_told, searching;
    /* facts for P6 */
    uint64_t messages, recovery_messages, last_epoch, last_waits;
    uint64_t bytes, bytes_longest; /* of those messages */
    struct sim_cost cost;
    uint64_t died_ns;
};

struct sim_fault {
    enum spotnik_sim_fault kind;
    uint64_t at_ns, until_ns;
    uint64_t group; /* a bit per host or process */
    uint32_t target, other;
    uint32_t count;
    bool active;
};

struct sim_aim { /* kill at the n-th message of a kind */
    enum spotnik_message_kind kind;
    uint32_t countdown;
    bool sender;   /* else the receiver, when it arrives */
    uint32_t also; /* more victims at the same instant */
};

/* kill in the act: when a process freezes, or is the first of all to install a view or to commit a
 * step */
struct sim_strike {
    enum spotnik_action_kind kind;
    uint32_t countdown;
};

/* a view's initiator dies when it has told one member, and that one when another has heard of the
 * view by a heartbeat */
struct sim_half_told {
    uint32_t countdown;  /* views to come */
    uint64_t seen_epoch; /* the highest that anybody was told of */
    uint64_t epoch;      /* of the view that is half told, 0: none */
    uint32_t bearer;     /* processes that were told */
    uint64_t told;       /* bit per process: those that the bearer has told */
};

/* The file in the folder that decides ties. */
struct sim_witness {
    struct spotnik_prng prng;
    uint64_t epoch; /* of the name it has now */
    bool removed;
    uint32_t *owner; /* by epoch: index + 1 of the process that had it for that epoch; 0: none */
    size_t owner_count;
};

struct sim_facts;

struct sim_world {
    struct spotnik_sim_options options;
    struct spotnik_sim_result *result;
    struct spotnik_prng net, app, fault, memory;
    uint64_t now_ns, digest;
    struct spotnik_sim_queue queue;
    struct sim_process **process;
    uint32_t process_count;
    struct sim_conn **link; /* per ordered pair: the latest link */
    struct sim_conn *conns;
    struct sim_channel *channels;
    uint32_t *blocked; /* per ordered pair of hosts: how many faults cut it */
    bool *host_dead;
    uint64_t *slow_ns;      /* per ordered pair of hosts: extra latency */
    uint64_t *latency_ns;   /* per ordered pair of hosts */
    uint64_t *card_free_ns; /* scale mode, per host: when all that was sent is on the wire */
    struct sim_bucket bucket[SIM_BUCKETS];
    uint32_t state_count; /* elements of the state vector */
    struct sim_fault *plan;
    uint32_t plan_count;
    struct sim_aim aim[4];
    uint32_t aim_count;
    struct sim_strike strike[4];
    uint32_t strike_count;
    struct sim_half_told half_told;
    struct sim_witness witness;
    uint64_t epoch_highest, step_highest; /* that anybody has installed, committed */
    uint64_t path[2];                     /* broken now: as drawn, 0: none */
    uint64_t waits;      /* how often a ballot that waits for a joiner was gathered anew */
    bool healing, clean; /* clean: nothing but deaths with proof, so P6 is exact */
    bool over;
    uint64_t dials;
    uint64_t next_probe_ns, heal_ns;
    struct spotnik_wire_storage *storage;
    struct sim_facts *facts;
    struct spotnik_sim_scale *scale; /* scale mode */
    bool founding;                   /* in it: nobody need ask for the view */
};

/* witness.c */
void spotnik_sim_witness_start(struct sim_world *world);
void spotnik_sim_witness_ask(struct sim_world *world, const struct sim_process *process,
                             uint64_t epoch);
void spotnik_sim_witness_happens(struct sim_world *world, struct sim_process *process,
                                 uint64_t number);
uint32_t spotnik_sim_witness_owner(const struct sim_world *world, uint64_t epoch);
bool spotnik_sim_witness_reaches(const struct sim_world *world, const struct sim_process *process);

/* world.c */
void spotnik_sim_world_start(struct sim_world *world, const struct spotnik_sim_options *options,
                             struct spotnik_sim_result *result);
void spotnik_sim_world_end(struct sim_world *world);
void spotnik_sim_loop(struct sim_world *world);
void spotnik_sim_happen(struct sim_world *world, const struct spotnik_sim_happening *happening);
void spotnik_sim_push(struct sim_world *world, enum sim_kind kind, uint64_t delay_ns,
                      uint32_t process, uint64_t number, void *object);
void spotnik_sim_fail(struct sim_world *world, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void spotnik_sim_mix(struct sim_world *world, uint64_t value);
void *spotnik_sim_alloc(size_t size);
struct sim_process *spotnik_sim_spawn(struct sim_world *world, uint32_t host);
void spotnik_sim_process_free(struct sim_process *process);
static inline struct sim_process *sim_process_of(struct sim_world *world,
                                                 const struct spotnik_member *member)
{
    uint32_t index = (uint32_t)member->address[12] << 24 | (uint32_t)member->address[13] << 16
                     | (uint32_t)member->address[14] << 8 | member->address[15];
    return world->process[index];
}
/* The words of a pass by a tree are those of the pass. */
static inline enum spotnik_message_kind sim_pass_of(enum spotnik_message_kind kind)
{
    if (kind == SPOTNIK_MESSAGE_ASK || kind == SPOTNIK_MESSAGE_PROMISE)
        return SPOTNIK_MESSAGE_PREPARE;
    return kind == SPOTNIK_MESSAGE_ACCEPTED ? SPOTNIK_MESSAGE_ACCEPT : kind;
}

static inline bool sim_live(const struct sim_process *process)
{
    return process->life == SIM_RUNNING;
}
bool spotnik_sim_is_blocked(const struct sim_world *world, uint32_t from_host, uint32_t to_host);

/* cost.c: nothing outside of scale mode */
uint64_t spotnik_sim_cost_begin(const struct sim_world *world);
void spotnik_sim_cost_end(const struct sim_world *world, struct sim_process *process,
                          uint64_t begun_ns);
uint64_t spotnik_sim_cost_delay(const struct sim_world *world, const struct sim_process *process);

/* link.c */
uint64_t spotnik_sim_latency(struct sim_world *world, const struct sim_process *from,
                             const struct sim_process *to);
void spotnik_sim_dial(struct sim_world *world, struct sim_process *from, struct sim_process *to);
void spotnik_sim_dial_over(struct sim_world *world, struct sim_process *process, uint64_t dial);
void spotnik_sim_link_make(struct sim_world *world, struct sim_process *a, struct sim_process *b);
bool spotnik_sim_is_linked(const struct sim_world *world, const struct sim_process *a,
                           const struct sim_process *b);
void spotnik_sim_hang_up(struct sim_world *world, struct sim_process *process,
                         struct sim_process *peer);
void spotnik_sim_send(struct sim_world *world, struct sim_process *from, struct sim_process *to,
                      const struct spotnik_message *message);
void spotnik_sim_item_arrives(struct sim_world *world, struct sim_item *item);
void spotnik_sim_item_deliver(struct sim_world *world, struct sim_item *item);
void spotnik_sim_links_torn_down(struct sim_world *world, struct sim_process *process);
void spotnik_sim_links_goodbye(struct sim_world *world, struct sim_process *process);
void spotnik_sim_link_flush(struct sim_world *world, struct sim_conn *conn, int to_end);
void spotnik_sim_links_release(struct sim_world *world);
void spotnik_sim_link_break(struct sim_world *world, struct sim_conn *conn);
void spotnik_sim_link_forge(struct sim_world *world, struct sim_conn *conn);
void spotnik_sim_note(struct sim_world *world, enum sim_item_kind kind, uint32_t from, uint32_t to,
                      uint64_t delay_ns);
void spotnik_sim_links_free(struct sim_world *world);

/* channel.c */
void spotnik_sim_channel_expect(struct sim_world *world, struct sim_process *process,
                                struct sim_process *peer);
struct sim_channel *spotnik_sim_channel_new(struct sim_world *world, uint32_t from, uint32_t to,
                                            bool donor);
void spotnik_sim_channels_doubt(struct sim_process *process);
void spotnik_sim_channels_renew(struct sim_world *world, struct sim_process *process);
void spotnik_sim_channel_opens(struct sim_world *world, struct sim_channel *channel);
void spotnik_sim_channel_close(struct sim_world *world, struct sim_channel *channel);
void spotnik_sim_channel_break(struct sim_world *world, struct sim_channel *channel);
void spotnik_sim_channel_frame(struct sim_world *world, struct sim_frame *frame);
void spotnik_sim_channel_payload(struct sim_world *world, struct sim_channel *channel,
                                 uint64_t number);
void spotnik_sim_channel_serve(struct sim_world *world, struct sim_channel *channel);
void spotnik_sim_channels_retry(struct sim_world *world, struct sim_process *process);
void spotnik_sim_pump(struct sim_world *world, struct sim_process *process);
void spotnik_sim_channels_free(struct sim_world *world);

/* process.c */
void spotnik_sim_core_step(struct sim_world *world, struct sim_process *process,
                           struct spotnik_event *event);
void spotnik_sim_core_drain(struct sim_world *world, struct sim_process *process);
void spotnik_sim_search(struct sim_world *world, struct sim_process *process);
void spotnik_sim_tick(struct sim_world *world, struct sim_process *process);
void spotnik_sim_kill(struct sim_world *world, struct sim_process *process, bool silent);
void spotnik_sim_exit(struct sim_world *world, struct sim_process *process);
void spotnik_sim_exclude(struct sim_world *world, struct sim_process *process);
void spotnik_sim_stop(struct sim_world *world, struct sim_process *process, uint64_t for_ns);
void spotnik_sim_continue(struct sim_world *world, struct sim_process *process);

/* app.c */
void spotnik_sim_app_init(struct sim_world *world, struct sim_process *process);
void spotnik_sim_app_free(struct sim_process *process);
void spotnik_sim_app_later(struct sim_world *world, struct sim_process *process, uint64_t delay_ns);
void spotnik_sim_app_happens(struct sim_world *world, struct sim_process *process);
void spotnik_sim_app_notice(struct sim_world *world, struct sim_process *process);
void spotnik_sim_app_resume(struct sim_world *world, struct sim_process *process);
void spotnik_sim_app_begun(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_action *action);
void spotnik_sim_app_deal(struct sim_world *world, struct sim_process *process);
void spotnik_sim_app_committed(struct sim_world *world, struct sim_process *process, uint64_t step);

/* memory.c */
void spotnik_sim_buckets_draw(struct sim_world *world);
size_t spotnik_sim_bucket_bytes(const struct sim_bucket *bucket);
size_t spotnik_sim_result_bytes(const struct sim_world *world);
void spotnik_sim_gradient(struct sim_world *world, struct sim_process *process, uint32_t bucket);
void spotnik_sim_memory_scale(struct sim_world *world, struct sim_process *process,
                              const struct spotnik_work *work);
void spotnik_sim_memory_own(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work);
void spotnik_sim_memory_offer(struct sim_world *world, struct sim_process *process,
                              const struct spotnik_work *work);
void spotnik_sim_memory_sum(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work);
void spotnik_sim_memory_gather(struct sim_world *world, struct sim_process *process,
                               const struct spotnik_work *work);
void spotnik_sim_memory_take(struct sim_world *world, struct sim_process *process,
                             const struct spotnik_chunk_header *header,
                             const struct spotnik_placement *placement, const void *bytes);
void spotnik_sim_memory_take_half(struct sim_world *world, struct sim_process *process,
                                  const struct spotnik_chunk_header *header,
                                  const struct spotnik_placement *placement, const void *bytes);
void spotnik_sim_memory_apply(struct sim_world *world, struct sim_process *process, uint64_t step);
uint64_t spotnik_sim_memory_digest(const struct sim_world *world, const struct sim_process *process,
                                   uint64_t step);

/* strategy.c */
void spotnik_sim_strategy_init(struct sim_process *process);
void spotnik_sim_strategy_copy(const struct sim_world *world, struct sim_process *to,
                               const struct sim_process *from);
void spotnik_sim_strategy_input(const struct sim_world *world, struct sim_process *process);
void spotnik_sim_strategy_committed(const struct sim_world *world, struct sim_process *process,
                                    uint64_t step);
uint64_t spotnik_sim_strategy_decided(const struct sim_process *process);

/* flat.c: nothing happens in worlds without shared memory */
void spotnik_sim_flat_init(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_free(struct sim_process *process);
void spotnik_sim_flat_view(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_share(struct sim_world *world, struct sim_process *process, uint32_t index);
void spotnik_sim_flat_later(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_late(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_work *work);
void spotnik_sim_flat_start(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work);
void spotnik_sim_flat_spread(struct sim_world *world, struct sim_process *process,
                             const struct spotnik_work *work);
void spotnik_sim_flat_seal(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_work(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_cut(struct sim_world *world, struct sim_process *process);
void spotnik_sim_flat_void(struct sim_process *process, uint64_t step, uint32_t number);
void spotnik_sim_flat_show(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement);
bool spotnik_sim_flat_read(const struct sim_world *world, const struct sim_process *process,
                           uint64_t step, uint32_t number, unsigned char *out);
bool spotnik_sim_flat_committed(struct sim_world *world, struct sim_process *process,
                                uint64_t step);

/* joiner.c */
void spotnik_sim_joiner_happens(struct sim_world *world, struct sim_process *process);
void spotnik_sim_joiner_committed(struct sim_world *world, struct sim_process *process);
void spotnik_sim_joiner_entered(struct sim_world *world, struct sim_process *process);
bool spotnik_sim_donor_next(struct sim_world *world, struct sim_channel *channel,
                            struct sim_frame **ret);

/* fault.c */
void spotnik_sim_faults_plan(struct sim_world *world);
void spotnik_sim_fault_happens(struct sim_world *world, uint32_t index);
/* What the trace says at this time. */
void spotnik_sim_churn_happens(struct sim_world *world, uint32_t index);
void spotnik_sim_path(struct sim_world *world, uint64_t drawn, uint32_t what);
void spotnik_sim_ends_forged(struct sim_world *world, uint64_t drawn);
void spotnik_sim_fault_heals(struct sim_world *world, uint32_t index);
void spotnik_sim_faults_heal_all(struct sim_world *world);
void spotnik_sim_aimed(struct sim_world *world, struct sim_process *process,
                       enum spotnik_message_kind kind, bool sender);
void spotnik_sim_struck(struct sim_world *world, struct sim_process *process,
                        const struct spotnik_action *action);

void spotnik_sim_said(struct sim_world *world, struct sim_process *from, struct sim_process *to,
                      enum spotnik_message_kind kind);

/* story.c: nothing is formatted unless a trace is wanted */
void spotnik_sim_story(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void spotnik_sim_story_event(struct sim_world *world, const struct sim_process *process,
                             const struct spotnik_event *event);
void spotnik_sim_story_moves(struct sim_world *world, const struct sim_process *process);
void spotnik_sim_story_action(struct sim_world *world, const struct sim_process *process,
                              const struct spotnik_action *action);

#endif
