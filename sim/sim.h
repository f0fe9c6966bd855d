/* SPDX-License-Identifier: Apache-2.0 */
/* The deterministic simulator: whole clusters of cores in one process, under virtual time. Its
 * network and processes fail in every way a real one does, and there is one checker per promise
 * P1..P9. One seed is one run, and the same seed is the same run on every machine.
 * docs/reference/simulation.md says what is simulated and what each checker checks.
 *
 * A run has a safety phase under faults and a liveness phase: everything heals, no new faults, and
 * the members that live must come together in one view and commit on. Drives src/core only through
 * its header, as src/runtime does. */
#ifndef SPOTNIK_SIM_SIM_H
#define SPOTNIK_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core.h"
#include "core/planted.h"

enum spotnik_sim_fault {
    SPOTNIK_SIM_KILL,       /* a process; its kernel closes its links a little later */
    SPOTNIK_SIM_KILL_GROUP, /* several at one instant */
    SPOTNIK_SIM_KILL_HOST,  /* power off: nothing is ever heard again, no EOF */
    SPOTNIK_SIM_CUT,        /* one host loses its network, and gets it back */
    SPOTNIK_SIM_PARTITION,  /* two groups of hosts lose each other */
    SPOTNIK_SIM_ONE_WAY,    /* one direction only */
    SPOTNIK_SIM_STOP,       /* SIGSTOP, later SIGCONT */
    SPOTNIK_SIM_BREAK,      /* a control link breaks, without proof of anything */
    SPOTNIK_SIM_LANE,       /* a data connection breaks */
    SPOTNIK_SIM_SLOW,       /* a link becomes slow for a while */
    SPOTNIK_SIM_LEAVE,      /* a member leaves as planned */
    SPOTNIK_SIM_JOIN,       /* a new process joins */
    SPOTNIK_SIM_FAULT_COUNT,
};

/* Everything that shapes a run. spotnik_sim_options_draw() fills it from the seed; a caller may
 * change it after. */
/* A member comes, or one of those that live goes: whom it takes is drawn. */
struct spotnik_sim_churn {
    uint64_t at_ns;
    bool add;
};

struct spotnik_sim_options {
    uint64_t seed;
    uint32_t members; /* at the start */
    uint32_t members_min;
    uint32_t hosts;
    uint32_t processes_max; /* ever started in one run */
    struct spotnik_limits limits;
    uint64_t samples, batch; /* of the ledger; 0: none */
    bool per_member;         /* batch is per member */
    uint32_t buckets;        /* per step, 0..4 */
    /* buckets of any type and operation, not only of the first five and four */
    bool all_types;
    bool blocks;       /* and some of quantised blocks */
    uint64_t elements; /* of every bucket, F32; 0: drawn */
    uint64_t latency_min_ns, latency_max_ns, jitter_ns;
    uint64_t bytes_per_ms; /* of a data connection */
    uint64_t tick_late_ns; /* how late a process may notice that time has passed */
    uint64_t compute_max_ns;
    /* replaying a step takes a joiner as long as computing it takes the slowest member */
    bool slow_replay;
    /* behind, from which a joiner asks at once; the real one asks from 1 where results are larger
     * than what lies between it and its donor */
    uint32_t near_steps;
    uint64_t copy_max_ns;     /* of a joiner copying the state */
    uint32_t respawn_percent; /* how often a killed process is replaced by a new one */
    uint32_t channel_frames;  /* frames a data connection holds before its sender must wait */
    uint64_t dial_timeout_ns;
    uint64_t teardown_max_ns; /* from the death of a process to the EOF on its links */
    bool certificates;        /* members of one host learn of a death at once */
    /* the last words of a dying process may be lost (then without proof of death) */
    bool lost_with_death;
    /* all processes share memory, and reduce in it; with limits.hierarchy, those of one host do */
    bool flat;
    size_t flat_small_bytes, flat_page_bytes, flat_slice_bytes;
    /* between two slices of work; in scale mode: between a futex word and a look, and before every
     * slice */
    uint64_t flat_slice_max_ns;
    /* scale mode: of a slice of work, and of a data connection within a host */
    uint64_t memory_bytes_per_ms;
    uint32_t flat_fails_of; /* one in N buckets cannot start for want of memory; 0: none */
    bool zero_copy;         /* copied chunks land in the result piece by piece */
    uint32_t weight[SPOTNIK_SIM_FAULT_COUNT]; /* of each kind of fault; 0: never in this run */
    uint32_t faults;                          /* planned over the safety phase */
    /* kills aimed at recovery: at the n-th message of a pass sent or received */
    uint32_t aimed;
    /* times that two hosts do not reach each other for long, and all others reach both */
    uint32_t pairs;
    /* times that something between the hosts ends links in the name of both */
    uint32_t forged;
    /* and it is known to be there: the two see other addresses than each other */
    bool between;
    bool witnessed;        /* ties are decided by the folder's witness, not by the smallest id */
    uint32_t witness_host; /* where the folder lies; hosts or more: elsewhere, and always there */
    uint64_t witness_cleaned_ns; /* somebody removes the file then; 0: never */
    /* kills at an act of the protocol, before what follows from it: see sim_strike */
    uint32_t struck;
    /* the initiator of so manieth a view dies when it has told one member: see sim_half_told; 0:
     * never */
    uint32_t half_told;
    uint64_t safety_ns;      /* length of the safety phase */
    uint64_t liveness_ns;    /* limit of the liveness phase */
    uint32_t liveness_steps; /* to be committed in one view */
    uint32_t bugs;           /* spotnik_bug: planted in every core */
    uint64_t happenings_max; /* more than that is a livelock */
    FILE *trace;             /* the story; NULL: none */
    bool trace_data;         /* with every data frame and heartbeat */
    /* comings and goings of a trace, in order of time; the caller's */
    const struct spotnik_sim_churn *churn;
    uint32_t churn_count;
    /* every N events a core is saved, and another one loaded in its place; 0: never */
    uint32_t reload;
};

/* Why the living could not go on, after everything had healed; docs/protocol.md, section 16. */
enum spotnik_sim_excuse {
    SPOTNIK_SIM_EXCUSE_NONE,
    SPOTNIK_SIM_EXCUSE_LOST,     /* no member of the newest view lives */
    SPOTNIK_SIM_EXCUSE_UNSERVED, /* no member that held its settled step lives */
    SPOTNIK_SIM_EXCUSE_FAR,      /* of one that died no survivor is a warm neighbour */
    /* it had come in with the same view as the survivors, and they had not met */
    SPOTNIK_SIM_EXCUSE_TOGETHER,
    SPOTNIK_SIM_EXCUSE_AHEAD,  /* it was in a later view already when the survivors met it */
    SPOTNIK_SIM_EXCUSE_FENCED, /* it had told the survivors that it votes without them */
    SPOTNIK_SIM_EXCUSE_UNMET,  /* no survivor had a link to it, for no other reason */
    SPOTNIK_SIM_EXCUSE_COUNT,
};

struct spotnik_sim_result {
    bool failed;
    char promise[8]; /* "P1".."P9", "driver" */
    char detail[400];
    uint64_t failed_ns;
    bool excused; /* no quorum was possible after healing, and the checker has verified it */
    enum spotnik_sim_excuse excuse;
    /* nothing but kills, joins and leaves, and no last words lost, by the options */
    bool calm;
    uint64_t digest; /* of everything that happened */
    uint64_t happenings, virtual_ns;
    uint64_t steps, views, kills, joins, exclusions, leaves, parked, orphans, messages, faults;
    uint64_t recovery_messages_max; /* control messages of one survivor in one recovery */
};

void spotnik_sim_options_draw(struct spotnik_sim_options *options, uint64_t seed, uint32_t members);
void spotnik_sim_options_print(const struct spotnik_sim_options *options, FILE *out);
const char *spotnik_sim_fault_name(enum spotnik_sim_fault fault);
const char *spotnik_sim_excuse_name(enum spotnik_sim_excuse excuse);

/* One run. Never fails by itself: what went wrong is in the result. */
void spotnik_sim_run(const struct spotnik_sim_options *options, struct spotnik_sim_result *ret);

/* Scale mode: `members` founded in one view at once, `losses` killed in one instant, no other
 * faults. */
struct spotnik_sim_scale {
    uint32_t members, losses;
    uint32_t host_members; /* members on each host; 0: 1 */
    bool scattered;        /* neighbours on different hosts; else in a row on one */
    /* round the ring of all, whatever the bucket and the hosts; else by hosts, where members share
     * one, and up a tree what is small */
    bool ring;
    uint64_t seed;
    /* of the bucket of a step, and of every link; 0: a bucket that takes no time, and members that
     * compute */
    uint64_t bytes, bytes_per_ms;
    uint64_t memory_bytes_per_ms; /* of every member, in copying and adding up; 0: 4 GB/s */
    uint32_t brief_members;       /* limits.brief_members; 0: as usual */
    bool tree;                    /* limits.tree_members is this, */
    uint32_t tree_members;        /* else as usual */
    /* the processor time that control messages take, as measured, passes in the world, too */
    bool charged;
    bool failed;
    char detail[400];
    uint32_t survivors;
    uint64_t messages,
        /* control messages of the recovery: all survivors together, and the most of one */
        messages_max;
    uint64_t bytes_sent, bytes_longest; /* of these messages: all together, and the longest */
    /* measured: all survivors, the most of one, the longest event */
    uint64_t processor_ns, processor_max_ns, event_max_ns;
    uint64_t detect_ns, reconcile_ns, accept_ns, restart_ns,
        /* each from the one before: first notice, passes back at the initiator, last survivor's
         * view and commit */
        commit_ns;
    uint64_t total_ns; /* from the loss until every survivor has committed */
    uint64_t step_ns;  /* of a step before the loss, on the average */
};
void spotnik_sim_scale_run(struct spotnik_sim_scale *scale);

#endif
