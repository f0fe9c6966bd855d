/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes of one world, as jobs of the public API: their ways to each other are what the world
 * says. Nobody is taken for lost by its silence, however busy the machine: only those are lost that
 * end. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/probe.h"
#include "link/address.h"
#include "shm/segment.h"
#include "world.h"
#include "../key.h"

#define SILENCE_NS UINT64_C(600000000000)

static const struct spotnik_choice trees[] = {
    { SPOTNIK_CHOICE_ALL, 256 * 1024, SPOTNIK_SCHEDULE_TREE, false },
    { 0, 0, SPOTNIK_SCHEDULE_RING, false },
};

/* Joiners have lower ids than the others: a view keeps its order, whatever they are. */
static struct spotnik_id id_of(uint32_t index)
{
    return (struct spotnik_id){ .high = 1, .low = 1000 - index };
}

static void on_committed(void *context, uint64_t step, uint32_t bucket_count,
                         const struct spotnik_bucket_result *result)
{
    struct spotnik_job *job = context;
    (void)step;
    spotnik_collectives_deliver(job->collectives, bucket_count, result);
}

static void address_set(const struct cell_world *cell, uint32_t index, struct spotnik_member *self)
{
    char text[32];
    uint16_t port;
    uint32_t place = cell->way == WAY_FAR         ? index + 1
                     : cell->way == WAY_HOSTS_FAR ? cell_host_of(cell, index) + 1
                                                  : 1;
    snprintf(text, sizeof text, "127.0.0.%u", place);
    spotnik_address_parse(text, self->address, &port);
    self->port = 0;
}

static void limits_set(const struct cell_world *cell, struct spotnik_limits *limits)
{
    spotnik_limits_init(limits, CELL_PLAYERS_MAX + 2);
    limits->chunk_bytes = cell->chunk_bytes;
    limits->fan = cell->fan;
    limits->hierarchy = cell->way != WAY_RING;
    limits->silence_floor_ns = limits->silence_ceiling_ns = SILENCE_NS;
    if (cell->way == WAY_RING)
        limits->choice = NULL;
    if (cell->way == WAY_TREE || cell->way == WAY_HOSTS_TREE)
        limits->choice = trees;
}

struct spotnik_job *cluster_job_new(const struct cell_world *cell, uint32_t index)
{
    struct spotnik_job *job = calloc(1, sizeof *job);
    struct spotnik_runtime_config config = { .members_min = 1, .minority_wait_ns = SILENCE_NS };
    char channels[12];
    pid_t pid = getpid();
    snprintf(channels, sizeof channels, "%u", cell->channels);
    if (job == NULL)
        return NULL;
    pthread_mutex_init(&job->rate.lock, NULL);
    limits_set(cell, &config.limits);
    memset(config.credentials.job, 7, sizeof config.credentials.job);
    config.credentials.key = key_new(0);
    memcpy(config.credentials.key, &pid,
           sizeof pid); /* names of sockets come from it: several runs may share a machine */
    config.credentials.self.id = id_of(index);
    config.credentials.self.host = 1 + cell_host_of(cell, index);
    address_set(cell, index, &config.credentials.self);
    config.transport = cell_is_memory(cell->way) ? "auto" : "tcp";
    config.channels = cell->channels > 0 ? channels : NULL;
    config.hooks = (struct spotnik_runtime_hooks){ .context = job, .committed = on_committed };
    job->sealed = true; /* there is no state */
    if (spotnik_donor_new(&job->registry, 65536, &job->donor) == 0
        && spotnik_runtime_new(&config, &job->runtime) == 0)
        return job;
    spotnik_donor_free(job->donor);
    free(job);
    return NULL;
}

void cluster_job_free(struct spotnik_job *job, bool goodbye)
{
    spotnik_runtime_free(job->runtime, goodbye);
    free(job->collectives);
    spotnik_donor_free(job->donor);
    pthread_mutex_destroy(&job->rate.lock);
    free(job);
}

/* ---- coming together ---- */

static void gather(struct world *world)
{
    struct spotnik_member member[CELL_PLAYERS_MAX];
    uint64_t epoch;
    for (uint32_t i = 0; i < world->players; i++)
        while (spotnik_runtime_members(world->player[i].job->runtime, member, CELL_PLAYERS_MAX,
                                       &epoch)
               < world->players)
            sched_yield();
}

static void gather_memory(struct world *world)
{
    for (uint32_t i = 0; i < world->players; i++)
        for (uint32_t k = 0; k < world->players; k++)
            while (i != k && cell_host_of(world->cell, i) == cell_host_of(world->cell, k)
                   && !spotnik_net_sees(world->player[i].job->runtime, id_of(k)))
                sched_yield();
}

/* Members that are there from the start know all others, and have their memory. */
void cluster_found(struct world *world)
{
    struct spotnik_member first = spotnik_runtime_credentials(world->player[0].job->runtime)->self;
    spotnik_runtime_found(world->player[0].job->runtime, NULL, NULL);
    for (uint32_t i = 1; i < world->players; i++) {
        spotnik_runtime_join(world->player[i].job->runtime, id_of(i), 0);
        spotnik_runtime_enter(world->player[i].job->runtime, &first);
    }
    gather(world);
    if (cell_is_memory(world->cell->way))
        gather_memory(world);
}

void cluster_enter(struct world *world, struct world_player *player,
                   const struct world_player *sponsor)
{
    struct spotnik_member member = spotnik_runtime_credentials(sponsor->job->runtime)->self;
    (void)world;
    spotnik_runtime_join(player->job->runtime, id_of(player->index), player->joins_at);
    spotnik_runtime_enter(player->job->runtime, &member);
}

/* ---- what a runtime says of itself ---- */

static uint32_t host_members(const struct cell_world *cell)
{
    uint32_t most = 0;
    for (uint32_t host = 0; host < cell->hosts; host++) {
        uint32_t here = 0;
        for (uint32_t i = 0; i < cell->members; i++)
            here += cell_host_of(cell, i) == host;
        most = here > most ? here : most;
    }
    return most;
}

/* Over TCP there are no slices: what memory would have is as good a size as any. */
void cluster_limits(const struct world *world, struct limits_place *ret)
{
    struct spotnik_net_ways ways;
    spotnik_net_ways(world->player[0].job->runtime, &ways);
    *ret = (struct limits_place){ .members = world->cell->members,
                                  .hosts = world->cell->hosts,
                                  .host_members = host_members(world->cell) };
    ret->chunk_bytes = world->cell->chunk_bytes;
    ret->small_bytes = ways.limits.flat_small_bytes;
    ret->page_bytes = SPOTNIK_SEGMENT_PAGE;
    ret->slice_bytes = ways.memory.slice_bytes > 0 ? ways.memory.slice_bytes : 128 * 1024;
    ret->stream_bytes = ways.memory.slice_bytes > 0 ? ways.memory.stream_bytes : 32 << 20;
}

/* As rank 0 took it: it is in every tree and holds the stream of its host. */
enum order_way cluster_way(const struct spotnik_job *job, uint32_t number, uint64_t step)
{
    static const enum order_way ways[] = { ORDER_RING, ORDER_DIRECT, ORDER_HUB, ORDER_TREE };
    struct spotnik_net_ways view;
    spotnik_net_ways(job->runtime, &view);
    struct spotnik_bucket bucket = spotnik_net_bucket(job->runtime, step, number);
    bool tree = bucket.schedule == SPOTNIK_SCHEDULE_TREE;
    return view.members < 2 ? ORDER_ALONE
           : bucket.hosts   ? (tree ? ORDER_HOSTS_TREE : ORDER_HOSTS_RING)
           : bucket.flat    ? ORDER_FLAT
                            : ways[bucket.schedule];
}
