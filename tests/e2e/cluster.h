/* SPDX-License-Identifier: Apache-2.0 */
/* A job of real processes for the end-to-end tests: starts workers, kills them, reads what they
 * report, and checks it:
 *
 *   - every commit that became stable has one digest on all members (P3, P4)
 *   - each member commits steps without a gap (P3), save where it was excluded or has joined
 *   - no member reports an error (each checks the ledger itself, P8)
 *
 * A member's last commit before it was killed is not compared: nobody may have learnt of it.
 * Nothing here sleeps: tests wait for events, and every wait has a limit after which the test
 * fails. */
#ifndef SPOTNIK_TESTS_CLUSTER_H
#define SPOTNIK_TESTS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "armed.h"
#include "base/prng.h"
#include "link/slots.h"

/* How much slower a build with a sanitizer is: limits on time that are no promise of Spotnik's grow
 * with it. */
#if defined __SANITIZE_THREAD__
#define CLUSTER_SLOWNESS 5
#elif defined __SANITIZE_ADDRESS__
#define CLUSTER_SLOWNESS 3
#else
#define CLUSTER_SLOWNESS 1
#endif

enum { CLUSTER_PLACES = 64, CLUSTER_STEPS = 1 << 20 };

struct worker {
    pid_t pid;       /* 0: nobody */
    int events;      /* read end; -1: closed */
    uint32_t number; /* counts starts */
    bool killed, stopped, ended;
    int aim_wanted, aim; /* where to die (armed.h): asked for, and obeyed */
    int status;          /* exit status when ended */
    char line[1024];
    size_t used;
    /* what it reported */
    char member[40];
    uint64_t step, epoch, digest; /* last commit; step 0: none yet */
    uint32_t size;
    bool replay, over; /* over: done or leaving was told */
    uint64_t commits, exclusions, joined_ns, entered_ns, last_commit_ns, longest_step_ns;
    uint64_t starved_ns;  /* when it last told that it was not let run */
    uint64_t accusing_ns; /* since when it stands excluded for no reason known so far; 0: not */
    uint64_t view_ns;     /* of the first commit in the view of `epoch` */
};

struct cluster {
    char dir[256], key[300], peers[300], spec[320];
    const char *command[32];           /* of the worker; NULL-terminated */
    char words[2048];                  /* of it */
    const char *bind[CLUSTER_PLACES];  /* SPOTNIK_BIND of a place; NULL: default */
    const char *netns[CLUSTER_PLACES]; /* network namespace of a place; NULL: ours */
    /* number of hosts that places stand on in turn, which share no memory; 0: one */
    uint32_t hosts;
    uint32_t min; /* SPOTNIK_MIN */
    struct spotnik_slots *slots;
    int slots_fd;
    bool without_slots; /* members learn of deaths by EOF alone */
    struct worker worker[CLUSTER_PLACES];
    uint32_t places, started, kills, starvations;
    struct spotnik_prng prng;
    uint32_t died_at[ARMED_AIMS]; /* kills at points of the protocol, among `kills` */
    /* the lineage */
    uint64_t *digest_of;   /* [step & (CLUSTER_STEPS - 1)], 0: none yet */
    uint64_t step_highest; /* stable */
    uint64_t commits;
    uint64_t last_recovery_ns, recoveries, recovery_max_ns; /* detected to committed */
    uint64_t calm_ns; /* the longest step while nothing was wrong */
    bool tolerant;    /* exclusions are expected */
};

/* Directory, key, slots. Exits the test on failure. */
void cluster_new(struct cluster *cluster, uint32_t places, uint64_t seed);
/* Kill what is left, remove the directory. */
void cluster_free(struct cluster *cluster);

/* A member at a place that is free, or about to be: where the member before was killed. */
void cluster_start(struct cluster *cluster, uint32_t place);
void cluster_kill(struct cluster *cluster, uint32_t place, int signal);

/* Have a member die at a point of the protocol (armed.h), or no more: 0. Returns when it is so
 * armed, or dead. The worker must be one that is built to obey, and have committed a step. */
void cluster_aim(struct cluster *cluster, uint32_t place, int aim);

/* Read events and reap for at most timeout_ms, or until one was handled. True: something
 * happened. */
bool cluster_turn(struct cluster *cluster, int timeout_ms);

/* Turn until `is_true`; fails the test with `what` after limit_ms, times
 * CLUSTER_SLOWNESS. */
void cluster_until(struct cluster *cluster, bool (*is_true)(struct cluster *), const char *what,
                   uint64_t limit_ms);

/* Turn for so long: the only use of time alone, for instants of kills. */
void cluster_spend(struct cluster *cluster, uint64_t ns);

uint32_t cluster_alive(const struct cluster *cluster);
uint64_t cluster_step(const struct cluster *cluster); /* highest of living members */
/* Of all members since the last call: the time between two commits. */
uint64_t cluster_longest_step_anew(struct cluster *cluster);
/* Nothing has been wrong since the last cluster_longest_step_anew(). */
void cluster_was_undisturbed(struct cluster *cluster);
/* A limit is a promise for a machine that lets processes run when they have something to do. Half
 * of it goes for the silence that counts as loss, and half for the new view and its first step: ten
 * times the longest step that this machine made while nothing was wrong, where that is more. */
uint64_t cluster_allowed_ms(const struct cluster *cluster, uint64_t limit_ms);
uint64_t cluster_now_ns(void);

/* All living members are in one view of `size`. */
bool cluster_is_together(const struct cluster *cluster, uint32_t size);

/* Predicates for cluster_until(). */
bool cluster_is_over(struct cluster *cluster); /* nobody runs */
bool cluster_is_whole(
    /* all places have a living member, all in one view; frees are not refilled */
    struct cluster *cluster);

/* The command line of the workers: words up to NULL. */
void cluster_use(struct cluster *cluster, const char *worker, ...) __attribute__((sentinel));

/* Everybody has ended; statuses must be `status`, and where that is 0 (done) all end with one step
 * and digest. */
void cluster_expect_end(struct cluster *cluster, int status);

void cluster_fail(struct cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Arguments "name=value" of a test's command line. */
uint64_t cluster_argument(int argc, char **argv, const char *name, uint64_t otherwise);

#endif
