/* SPDX-License-Identifier: Apache-2.0 */
/* A world in motion: members as threads with a runtime each, in one process. They meet before a
 * step (the cell is drawn), after their commits (who contributed is settled), and when what must
 * have come out has been computed, by all of them together. In a rush they make several steps
 * between the first meeting and the others, so that one may be ahead of another as far as the
 * runtimes let it. */
#ifndef TESTS_MATRIX_WORLD_H
#define TESTS_MATRIX_WORLD_H

#include <pthread.h>

#include "api/job.h"
#include "cell.h"
#include "order.h"
#include "report.h"

#define WORLD_GUARD 64   /* bytes before and behind a buffer that stay as they are */
#define WORLD_CENSUS 253 /* a bucket of the test: who contributed, one bit each */

/* Memory for the data of one bucket of one member. */
struct world_buffer {
    uint8_t *memory; /* a page of nothing, then the data at an offset */
    size_t bytes;    /* room from the second page on */
    bool owned;
};

/* What a member saw of one step. Steps made in a rush are kept as copies, others lie where they
 * came out. */
struct world_seen {
    spotnik_step step;
    int rc; /* of its commit */
    enum order_way way[CELL_BUCKETS_MAX];
    spotnik_range part[CELL_BUCKETS_MAX];
    uint64_t census;
    uint32_t share[CELL_PLAYERS_MAX], contributors;
    const uint8_t *data[CELL_BUCKETS_MAX], *out[CELL_BUCKETS_MAX], *result[CELL_BUCKETS_MAX];
    struct world_buffer data_copy[CELL_BUCKETS_MAX], out_copy[CELL_BUCKETS_MAX],
        result_copy[CELL_BUCKETS_MAX];
};

struct world_player {
    struct world *world;
    uint32_t index;
    pthread_t thread;
    struct spotnik_job *job; /* NULL: dead, or not yet born */
    uint32_t now;            /* the step of this rush that it plays, or compares */
    bool late;               /* it has joined, */
    uint64_t joins_at;       /* with this committed step */
    bool doomed;
    uint32_t doomed_at; /* the step of this rush */
    enum cell_death death;
    uint32_t slot; /* its part of computing what must come out */
    struct world_seen seen[CELL_RUSH_MAX];
    struct world_buffer data[CELL_BUCKETS_MAX][2], out[CELL_BUCKETS_MAX];
};

enum world_phase { PHASE_PLAN, PHASE_SETTLE, PHASE_EXPECT, WORLD_PHASES };

struct world {
    const struct cell_world *cell;
    struct report *report;
    struct limits_place place;
    uint64_t last_step; /* 0: as many as the cell says */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t present, joining, arrived; /* members that take part in meetings */
    enum world_phase phase;             /* of the next meeting */
    uint64_t meetings;                  /* that have been */
    uint64_t expected;                  /* the last step for which all has been computed */
    bool over;
    uint32_t players;
    struct world_player player[CELL_PLAYERS_MAX];
    uint32_t rush, settled,
        /* how many steps this rush has, for how many it is settled who contributed, and the last of
         * these */
        at;
    struct cell_step step[CELL_RUSH_MAX];
    uint32_t share_of[CELL_RUSH_MAX]
                     /* who has that share in a step, or UINT32_MAX */
                     [CELL_PLAYERS_MAX + CELL_LOSSES_MAX];
    /* the contributors of the step, by rank; `way` changes from bucket to bucket */
    struct order order;
    enum order_way way[CELL_BUCKETS_MAX];
    uint32_t contributor[CELL_PLAYERS_MAX], contributors; /* by share */
    uint8_t *expect[CELL_BUCKETS_MAX];
    size_t expect_bytes[CELL_BUCKETS_MAX];
};

/* Play it, in this process. */
void world_play(const struct cell_world *cell, uint64_t last_step, struct report *report);

/* world.c: until all have come; the last one settles the phase. */
void world_meet(struct world *world);
void world_leave(struct world *world);
void world_fail(struct world *world, const struct world_player *player,
                const struct cell_bucket *bucket, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* cluster.c: runtimes. */
struct spotnik_job *cluster_job_new(const struct cell_world *cell, uint32_t index);
void cluster_found(struct world *world);
void cluster_enter(struct world *world, struct world_player *player,
                   const struct world_player *sponsor);
void cluster_job_free(struct spotnik_job *job, bool goodbye);
void cluster_limits(const struct world *world, struct limits_place *ret);
enum order_way cluster_way(const struct spotnik_job *job, uint32_t bucket, uint64_t step);

/* player.c */
void *player_main(void *player);

/* check.c */
void check_settle(struct world *world);
void check_compute(struct world *world, uint32_t slot, uint32_t slots);
void check_inputs(struct world_player *player);
void check_results(struct world_player *player);
bool check_is_owned(const struct world_player *player, const struct cell_bucket *bucket);
uint8_t *check_data(const struct world_player *player, uint32_t k);
uint8_t *check_out(const struct world_player *player, uint32_t k);
void check_fill(struct world_player *player, uint32_t k);
void check_keep(struct world_player *player);

static inline const struct cell_step *world_step(const struct world_player *player)
{
    return &player->world->step[player->now];
}

static inline struct world_seen *world_seen(struct world_player *player)
{
    return &player->seen[player->now];
}

#endif
