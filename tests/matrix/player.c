/* SPDX-License-Identifier: Apache-2.0 */
/* One member of a world: its steps, and its death when it is due. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

/* ---- a step ---- */

static int bucket_start(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    const struct numbers *numbers = &bucket->numbers;
    struct spotnik_job *job = player->job;
    uint8_t *data = check_data(player, k);
    switch (bucket->call) {
    case CALL_ALLREDUCE:
        return spotnik_allreduce(job, bucket->number, data, bucket->count, numbers->dtype,
                                 numbers->op);
    case CALL_FROM:
        return spotnik_allreduce_from(job, bucket->number, data, bucket->count, numbers->dtype,
                                      numbers->op);
    case CALL_BROADCAST:
        return spotnik_broadcast(job, bucket->number, data, bucket->count, numbers->dtype,
                                 bucket->root);
    case CALL_ALLGATHER:
        return spotnik_allgather(job, bucket->number, data, bucket->count, numbers->dtype,
                                 check_out(player, k), bucket->slots);
    case CALL_REDUCE_SCATTER:
        return spotnik_reduce_scatter(job, bucket->number, data, bucket->count, numbers->dtype,
                                      numbers->op, &world_seen(player)->part[k]);
    default: /* numbers->dtype is that of the wire */
        return spotnik_allreduce_compressed(job, bucket->number, (float *)(void *)data,
                                            bucket->count, numbers->dtype, numbers->op);
    }
}

static void die(struct world_player *player)
{
    struct spotnik_job *job = player->job;
    cluster_job_free(job, false);
    pthread_mutex_lock(&player->world->lock);
    player->job = NULL;
    pthread_mutex_unlock(&player->world->lock);
    world_leave(player->world);
}

static bool is_to_die(const struct world_player *player, enum cell_death when)
{
    return player->doomed && player->doomed_at == player->now && player->death == when;
}

static int start_all(struct world_player *player)
{
    const struct world *world = player->world;
    const struct cell_step *step = world_step(player);
    uint32_t half = is_to_die(player, DEATH_STARTING) ? (step->buckets + 1) / 2 : step->buckets;
    int rc = step->weighted ? spotnik_weight_set(player->job, cell_weight(step, player->index)) : 0;
    for (uint32_t k = 0; k < step->buckets; k++)
        check_fill(player, k);
    for (uint32_t k = 0; k < half && rc == 0; k++)
        rc = bucket_start(player, k);
    if (rc == 0 && cell_is_churned(world->cell) && !is_to_die(player, DEATH_STARTING)) {
        world_seen(player)->census = UINT64_C(1) << player->index;
        rc = spotnik_allreduce(player->job, WORLD_CENSUS, &world_seen(player)->census, 1,
                               SPOTNIK_U64, SPOTNIK_SUM);
    }
    return rc;
}

static void share_note(struct world_player *player)
{
    struct world *world = player->world;
    const spotnik_step *step = &world_seen(player)->step;
    pthread_mutex_lock(&world->lock);
    if (step->share < step->shares
        && step->share < sizeof world->share_of[0] / sizeof world->share_of[0][0])
        world->share_of[player->now][step->share] = player->index;
    pthread_mutex_unlock(&world->lock);
}

/* The step is begun. False: it died in it. */
static bool step_play(struct world_player *player)
{
    struct world *world = player->world;
    share_note(player);
    if (is_to_die(player, DEATH_BEGUN))
        return false;
    int rc = start_all(player);
    if (rc != 0)
        world_fail(world, player, NULL, "a bucket could not be started: %s (%s)",
                   spotnik_strerror(rc), spotnik_last_error());
    if (is_to_die(player, DEATH_STARTING) || is_to_die(player, DEATH_STARTED))
        return false;
    check_inputs(player);
    if (is_to_die(player, DEATH_COMMITTING))
        spotnik_patience_set(player->job, world_step(player)->patience_ns);
    int committed = spotnik_step_commit(player->job);
    if (is_to_die(player, DEATH_COMMITTING))
        return false;
    if (committed != 0 && committed != SPOTNIK_ERR_ROOT) {
        world_fail(world, player, NULL, "commit: %s (%s)", spotnik_strerror(committed),
                   spotnik_last_error());
        abort(); /* the others would wait for ever; all that is known is in the report */
    }
    world_seen(player)->rc = committed;
    for (uint32_t k = 0; k < world_step(player)->buckets; k++)
        world_seen(player)->way[k] = cluster_way(player->job, world_step(player)->bucket[k].number,
                                                 world_step(player)->number);
    check_keep(player);
    return true;
}

static void begin(struct world_player *player)
{
    int rc = spotnik_step_begin(player->job, &world_seen(player)->step);
    if (rc == 0)
        return;
    world_fail(player->world, player, NULL, "begin: %s (%s)", spotnik_strerror(rc),
               spotnik_last_error());
    abort();
}

/* ---- a life ---- */

static void wait_expected(struct world *world, uint64_t step)
{
    pthread_mutex_lock(&world->lock);
    while (world->expected < step)
        pthread_cond_wait(&world->changed, &world->lock);
    pthread_mutex_unlock(&world->lock);
}

/* A joiner: steps that the others are in, or have done, until it comes to one that they have not
 * begun. */
static void catch_up(struct world_player *player)
{
    struct world *world = player->world;
    for (begin(player); world_seen(player)->step.number <= player->joins_at + 1; begin(player)) {
        (void)step_play(player);
        wait_expected(world, world_seen(player)->step.number);
        check_results(player);
    }
}

/* The steps of a rush; `begun`: the first of them is. False: it died. */
static bool rush(struct world_player *player, bool begun)
{
    struct world *world = player->world;
    for (player->now = 0; player->now < world->rush; player->now++) {
        if (player->now > 0 || !begun)
            begin(player);
        if (world_seen(player)->step.number != world_step(player)->number) {
            world_fail(world, player, NULL, "began step %llu",
                       (unsigned long long)world_seen(player)->step.number);
            abort();
        }
        if (!step_play(player))
            return false;
    }
    return true;
}

void *player_main(void *context)
{
    struct world_player *player = context;
    struct world *world = player->world;
    if (player->late)
        catch_up(player);
    for (bool begun = player->late;; begun = false) {
        world_meet(world); /* PLAN */
        if (world->over)
            break;
        if (!rush(player, begun)) {
            die(player);
            return NULL;
        }
        for (player->now = 0; player->now < world->rush; player->now++) {
            world_meet(world); /* SETTLE */
            check_compute(world, player->slot, world->present);
            world_meet(world); /* EXPECT */
            check_results(player);
        }
        player->now = 0;
    }
    return NULL;
}
