/* SPDX-License-Identifier: Apache-2.0 */
/* One checker per promise. The simulated world tells them facts; they keep their own books, know
 * nothing of the core's insides, and say what is broken by spotnik_sim_fail(). In words:
 * docs/reference/simulation.md. Private to sim.
 *
 *   check.c          the book of facts               check_work.c      P5 a survivor's gradient is
 *                    used
 *   check_lineage.c  P1 one lineage                  check_recovery.c  P6 few messages, nothing
 *                    blocks
 *   check_view.c     P2 same view                    check_join.c      P7 joining costs nothing
 *   check_step.c     P3 atomic step                  check_ledger.c    P8 every sample once
 *   check_bits.c     P4 same bits                    check_progress.c  P9 progress
 *   check_strategy.c one strategy */
#ifndef SPOTNIK_SIM_CHECK_H
#define SPOTNIK_SIM_CHECK_H

#include "sim/world.h"

struct fact_view {
    bool known;
    uint64_t epoch, settled;
    uint64_t flat_from; /* the first step it reduces in shared memory; 0: none */
    uint32_t size, share_count;
    uint32_t *member; /* process */
    uint32_t *share, *flags;
    uint64_t first_ns;
    uint32_t losses; /* members of the view before that are not in it */
};

/* A process has committed a step, or copied the state after one. */
struct fact_commit {
    uint64_t step, epoch; /* of the view it was in; 0: outside, as a joiner */
    uint32_t process;
    bool reduced; /* in that view; else handed over or copied */
    bool copied;
    uint64_t result, state;
    uint32_t ran;          /* which strategy, see strategy.c; 0: copied */
    uint64_t decided, own; /* digests; own 0: models may differ */
};

/* What a process put into a step. */
struct fact_input {
    uint64_t step, epoch;
    uint32_t process;
    bool has_share, replay, filled;
    uint64_t weight; /* of MEAN */
    uint32_t runs;   /* as struct fact_commit.ran */
    uint64_t samples, data_epoch;
    uint32_t range_count;
    struct spotnik_range *range;
    unsigned char *bytes; /* all buckets, in order */
};

/* What the members of one view should have made of one step. */
struct fact_result {
    uint64_t step, epoch, digest;
};

struct fact_process {
    struct fact_input **input; /* by step */
    size_t input_count, input_capacity;
    uint64_t committed; /* last, 0: none */
    uint64_t messages_at_view;
    uint64_t entered_epoch;
    bool served;      /* has held the settled step of a view it stood in */
    bool passed_over; /* it was stopped, and when it woke up there was a view without it */
    uint64_t heard;   /* bit per process: it has spoken on the present link, */
    uint64_t met;     /* on any so far */
    /* the last one ended in order after it had spoken, and it has not been linked since */
    uint64_t likely;
    uint64_t witnesses; /* of its death on a link on which it had spoken: bit per process */
    /* processes that have its host's certificate of its death: bit per process */
    uint64_t certified;
    uint64_t fenced_epoch[64]; /* per process: the latest epoch in which it has fenced us */
    /* per process: of the first word from it on the last link it spoke on */
    uint64_t first_epoch[64];
    struct fact_view proposed; /* the latest proposal it has handled */
};

struct sim_facts {
    struct fact_view *view; /* by epoch */
    uint64_t view_count;    /* one past the highest epoch */
    uint64_t view_capacity;
    struct fact_commit *commit;
    size_t commit_count, commit_capacity;
    struct fact_result *result;
    size_t result_count, result_capacity;
    struct fact_process *process;
    uint64_t steps_max; /* highest step committed by anybody */
    /* liveness */
    uint64_t uniform_epoch, uniform_from;
};

void spotnik_check_start(struct sim_world *world);
void spotnik_check_free(struct sim_world *world);

/* Facts, as they happen. */
void spotnik_fact_flat(struct sim_world *world, uint64_t epoch, uint64_t step);
bool spotnik_fact_is_forged(const struct sim_world *world, const struct sim_process *process);
bool spotnik_fact_excluded(const struct sim_world *world, const struct sim_process *process);
void spotnik_check_begun(struct sim_world *world, const struct sim_process *process);
void spotnik_check_input(struct sim_world *world, const struct sim_process *process);
void spotnik_check_commit(struct sim_world *world, struct sim_process *process, uint64_t step);
void spotnik_check_woken(struct sim_world *world, struct sim_process *process, uint64_t slept_ns);
void spotnik_check_copied(struct sim_world *world, struct sim_process *process);
void spotnik_check_view(struct sim_world *world, struct sim_process *process, uint64_t epoch);
void spotnik_check_move(struct sim_world *world, const struct spotnik_move *move);
void spotnik_check_sent(struct sim_world *world, struct sim_process *process,
                        const struct sim_process *to, const struct spotnik_message *message);
void spotnik_check_message(struct sim_world *world, const struct sim_process *to,
                           const struct sim_process *from, const struct spotnik_message *message);
void spotnik_check_proof(struct sim_world *world, const struct sim_process *process, uint32_t dead,
                         enum spotnik_event_kind kind, enum spotnik_proof proof);
void spotnik_check_proposal(struct sim_world *world, const struct sim_process *process,
                            const struct spotnik_message *message);
void spotnik_check_unheard(struct sim_world *world, const struct sim_process *process,
                           uint32_t peer);
void spotnik_check_death(struct sim_world *world, const struct sim_process *process);
void spotnik_check_exit(struct sim_world *world, const struct sim_process *process, bool left);
void spotnik_check_process(struct sim_world *world, struct sim_process *process);
void spotnik_check_end(struct sim_world *world);

/* The book. */
const struct fact_view *spotnik_fact_view_of(const struct sim_world *world, uint64_t epoch);
uint32_t spotnik_fact_rank(const struct fact_view *view, uint32_t process);
const struct fact_input *spotnik_fact_input_of(const struct sim_world *world, uint32_t process,
                                               uint64_t step);
uint64_t spotnik_fact_reducing_epoch(const struct sim_world *world, uint64_t step);
bool spotnik_fact_is_orphan(const struct sim_world *world, const struct fact_commit *commit);

/* The promises. */
void spotnik_check_lineage_view(struct sim_world *world, const struct fact_view *view);
void spotnik_check_lineage_end(struct sim_world *world);
void spotnik_check_view_install(struct sim_world *world, const struct sim_process *process,
                                struct fact_view *known);
void spotnik_check_step_commit(struct sim_world *world, const struct sim_process *process,
                               const struct fact_commit *commit);
void spotnik_check_step_view(struct sim_world *world, const struct sim_process *process,
                             const struct fact_view *view);
void spotnik_check_step_end(struct sim_world *world);
bool spotnik_check_bits_expected(struct sim_world *world, uint64_t epoch, uint64_t step,
                                 uint64_t *ret_digest);
void spotnik_check_bits_end(struct sim_world *world);
void spotnik_check_work_end(struct sim_world *world);
void spotnik_check_recovery_view(struct sim_world *world, struct sim_process *process,
                                 const struct fact_view *view);
void spotnik_check_join_view(struct sim_world *world, const struct sim_process *process,
                             const struct fact_view *view);
void spotnik_check_join_end(struct sim_world *world);
void spotnik_check_ledger_end(struct sim_world *world);
void spotnik_check_strategy_end(struct sim_world *world);
void spotnik_check_progress_probe(struct sim_world *world);

const char *spotnik_sim_message_name(enum spotnik_message_kind kind);

#endif
