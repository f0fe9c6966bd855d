/* SPDX-License-Identifier: Apache-2.0 */
/* Meetings of a world's members, and what the last one to come settles. Those that die leave; a
 * joiner comes to the first meeting before a step for which it is a member. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

void world_fail(struct world *world, const struct world_player *player,
                const struct cell_bucket *bucket, const char *format, ...)
{
    char what[512], where[256] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (bucket != NULL)
        snprintf(where, sizeof where,
                 "bucket %u (%s %s %s, %llu elements, %s %+d, %s +%u): ", bucket->number,
                 cell_call_name(bucket->call), cell_dtype_name(bucket->numbers.dtype),
                 cell_op_name(bucket->numbers.op), (unsigned long long)bucket->count,
                 limits_name(bucket->border), (int)bucket->near - 1,
                 cell_memory_name(bucket->memory), bucket->offset);
    uint32_t now = player != NULL ? player->now : world->at;
    const spotnik_step *step =
        player != NULL ? &player->seen[now].step : &(spotnik_step){ .number = 0 };
    report_fail(world->report, "step %llu, member %d (rank %u of %u): %s%s",
                (unsigned long long)world->step[now].number,
                player != NULL ? (int)player->index : -1, step->rank, step->size, where, what);
    world->over = true;
}

/* ---- who is there ---- */

static uint32_t living(struct world *world, struct world_player **ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->players; i++)
        if (world->player[i].job != NULL)
            ret[count++] = &world->player[i];
    return count;
}

static struct world_player *player_new(struct world *world)
{
    struct world_player *player = &world->player[world->players];
    *player = (struct world_player){ .world = world, .index = world->players };
    player->job = cluster_job_new(world->cell, player->index);
    if (player->job == NULL)
        return NULL;
    world->players++;
    return player;
}

static void doom(struct world *world, uint32_t at, struct world_player **live, uint32_t count)
{
    const struct cell_step *step = &world->step[at];
    for (uint32_t i = 0; i < step->losses; i++) {
        struct world_player *player = live[step->loss[i].of % count];
        if (player->doomed)
            continue;
        player->doomed = true;
        player->doomed_at = at;
        player->death = step->loss[i].when;
        world->report->deaths[player->death]++;
        world->report->losses++;
    }
}

static void join(struct world *world, const struct world_player *sponsor)
{
    struct world_player *player = player_new(world);
    if (player == NULL) {
        world_fail(world, NULL, NULL, "no runtime for a joiner: %s", spotnik_last_error());
        return;
    }
    player->late = true;
    player->joins_at = world->step[0].number - 1;
    world->joining++;
    world->report->joins++;
    cluster_enter(world, player, sponsor);
    pthread_create(&player->thread, NULL, player_main, player);
}

/* ---- phases ---- */

/* In one step of a rush at most. Those after it are dealt to fewer. */
static void rush_losses(struct world *world, struct world_player **live, uint32_t count)
{
    uint32_t lost = 0;
    for (uint32_t at = 0; at < world->rush; at++) {
        struct cell_step *step = &world->step[at];
        step->losses = lost > 0 ? 0 : step->losses;
        lost += step->losses;
        doom(world, at, live, count);
        for (uint32_t k = 0; k < step->buckets; k++)
            step->bucket[k].root %= count - lost;
    }
}

static void plan(struct world *world)
{
    struct world_player *live[CELL_PLAYERS_MAX];
    uint32_t count = living(world, live);
    uint64_t next = world->rush > 0 ? world->step[world->rush - 1].number + 1 : 1;
    uint64_t last = world->last_step != 0 && world->last_step < world->cell->steps
                        ? world->last_step
                        : world->cell->steps;
    world->report->progress++;
    if (next > last || world->over) {
        world->over = true;
        return;
    }
    memset(world->share_of, 0xff, sizeof world->share_of);
    world->place.members = count;
    for (world->rush = 0; world->rush < world->cell->rush && next + world->rush <= last;
         world->rush++)
        cell_step_make(world->cell, &world->place, next + world->rush, count,
                       &world->step[world->rush]);
    world->at = world->settled = 0;
    rush_losses(world, live, count);
    if (world->step[0].join && world->players < CELL_PLAYERS_MAX)
        join(world, live[0]);
    world->report->steps += world->rush;
    world->report->members[count]++;
}

static void settle(struct world *world)
{
    struct world_player *live[CELL_PLAYERS_MAX];
    uint32_t count = living(world, live);
    for (uint32_t i = 0; i < count; i++)
        live[i]->slot = i;
    world->report->progress++;
    world->at = world->settled++;
    check_settle(world);
}

/* Under the lock: everybody who is expected is here. */
static void meeting_end(struct world *world)
{
    if (world->phase == PHASE_PLAN) {
        world->present += world->joining;
        world->joining = 0;
        plan(world);
    } else if (world->phase == PHASE_SETTLE) {
        settle(world);
    } else {
        world->expected = world->step[world->at].number;
    }
    world->arrived = 0;
    world->meetings++;
    if (world->phase == PHASE_EXPECT)
        world->phase = world->settled < world->rush ? PHASE_SETTLE : PHASE_PLAN;
    else
        world->phase++;
    pthread_cond_broadcast(&world->changed);
}

static uint32_t awaited(const struct world *world)
{
    return world->present + (world->phase == PHASE_PLAN ? world->joining : 0);
}

void world_meet(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    uint64_t meeting = world->meetings;
    if (++world->arrived == awaited(world))
        meeting_end(world);
    else
        while (world->meetings == meeting)
            pthread_cond_wait(&world->changed, &world->lock);
    pthread_mutex_unlock(&world->lock);
}

void world_leave(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    world->present--;
    if (world->present > 0 && world->arrived == awaited(world))
        meeting_end(world);
    pthread_mutex_unlock(&world->lock);
}

/* ---- from beginning to end ---- */

static bool create(struct world *world)
{
    for (uint32_t i = 0; i < world->cell->members; i++)
        if (player_new(world) == NULL) {
            report_fail(world->report, "no runtime for member %u: %s", i, spotnik_last_error());
            return false;
        }
    cluster_found(world);
    cluster_limits(world, &world->place);
    return true;
}

/* It grows as members join. */
static uint32_t players_of(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    uint32_t count = world->players;
    pthread_mutex_unlock(&world->lock);
    return count;
}

void world_play(const struct cell_world *cell, uint64_t last_step, struct report *report)
{
    struct world *world = calloc(1, sizeof *world);
    world->cell = cell;
    world->report = report;
    world->last_step = last_step;
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->changed, NULL);
    if (!create(world))
        return;
    report->worlds++;
    report->world_way[cell->way][cell_is_churned(cell)]++;
    world->present = world->players;
    for (uint32_t i = 0; i < cell->members; i++)
        pthread_create(&world->player[i].thread, NULL, player_main, &world->player[i]);
    for (uint32_t i = 0; i < players_of(world); i++)
        pthread_join(world->player[i].thread, NULL);
    for (uint32_t i = 0; i < world->players; i++)
        if (world->player[i].job != NULL)
            cluster_job_free(world->player[i].job, true);
}
