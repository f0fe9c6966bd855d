/* SPDX-License-Identifier: Apache-2.0 */
/* What a process of a job does, as far as founding and finding go: as src/api does it, without a
 * step. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "task.h"
#include "world.h"

#define FIND_NS (60 * SPOTNIK_S)
#define ENTER_NS (10 * SPOTNIK_S)
#define COPY_MAX_NS (2 * SPOTNIK_S)

void process_kill(struct spotnik_runtime *process)
{
    if (!process->alive)
        return;
    process->alive = false;
    task_kill(process);
    lineage_leave(process);
}

static struct spotnik_runtime *who(const struct spotnik_member *member)
{
    for (uint32_t i = 0; i < world.process_count; i++)
        if (spotnik_id_equal(world.process[i].credentials.self.id, member->id))
            return &world.process[i];
    return NULL;
}

/* A process that comes again is another member, from when it asks to be let in, or is in its view
 * again. Until then its record and its address name the member that it was. */
static void rename_self(struct spotnik_runtime *self)
{
    self->credentials.self.id.low++;
}

/* Copy the state from the sponsor, be in the folder, ask to be let in. */
static bool join(struct spotnik_runtime *self, const struct spotnik_member *member)
{
    const struct spotnik_runtime *sponsor = who(member);
    uint64_t until_ns = task_now_ns() + ENTER_NS;

    self->joining = true;
    task_sleep(task_below(COPY_MAX_NS));
    struct lineage *lineage = sponsor != NULL ? sponsor->lineage : NULL;
    if (lineage == NULL || !world_reach(self, sponsor))
        return false;
    if (self->past.id != 0)
        rename_self(self);
    spotnik_discovery_founding_set(self->peers, lineage->founding.id);
    if (spotnik_discovery_renew(self->peers) != 0)
        return false;
    while (task_now_ns() < until_ns && sponsor->lineage == lineage) {
        if (lineage_enter(lineage, self, sponsor))
            return true;
        task_sleep(TICK_NS);
    }
    return false;
}

static void leave_view(struct spotnik_runtime *self)
{
    lineage_leave(self);
    self->out = false;
}

static bool is_noticed(void *context)
{
    return ((const struct spotnik_runtime *)context)->noticed_ns != 0;
}

/* A member that was cut off reads that the job is over. That must be true. */
static bool is_over(struct spotnik_runtime *self)
{
    if (!spotnik_discovery_is_over(self->peers))
        return false;
    for (uint32_t i = 0; i < world.lineage_count; i++)
        if (world.lineage[i].founding.id == self->past.id && !world.lineage[i].done)
            world_break("%u ends, since the job is over, and its work is not done", self->number);
    world_tell("%u ends: the job is over", self->number);
    self->ended = SPOTNIK_ERR_DONE;
    return true;
}

/* In a job that goes on elsewhere, or alone from memory. */
static void come_again(struct spotnik_runtime *self)
{
    uint64_t step = self->step;
    bool found;
    struct spotnik_member sponsor;

    if (spotnik_discovery_refounds(self->peers)) {
        struct spotnik_founding founding = spotnik_discovery_lineage(self->peers);
        leave_view(self);
        rename_self(self);
        lineage_found(self, &founding, step);
        (void)spotnik_discovery_renew(self->peers);
        spotnik_discovery_refounded(self->peers);
        world.refoundings++;
        return;
    }
    leave_view(self);
    uint64_t until_ns = task_now_ns() + FIND_NS;
    while (self->lineage == NULL && self->ended == 0) {
        if (is_over(self))
            return;
        if (self->noticed_ns != 0) {
            self->ended = SPOTNIK_ERR_LEAVING;
            return;
        }
        /* its launcher starts another, which may follow any lineage */
        if (task_now_ns() >= until_ns) {
            self->ended = SPOTNIK_ERR_PEERS;
            return;
        }
        if (spotnik_discovery_find(self->peers, false, until_ns - task_now_ns(), is_noticed, self,
                                   &found, &sponsor)
            == 0)
            (void)join(self, &sponsor);
        self->joining = false;
        task_sleep(100 * SPOTNIK_MS);
    }
}

/* The search. False: this process ends, and its launcher starts another. */
static bool begin(struct spotnik_runtime *self)
{
    struct spotnik_member sponsor;
    char spec[96];
    bool found;

    snprintf(spec, sizeof spec, world.bucket ? "s3://bucket/job" : "file:%s", world.folder);
    if (spotnik_discovery_new(spec, self, &self->peers) != 0)
        return false;
    if (spotnik_discovery_find(self->peers, true, FIND_NS, is_noticed, self, &found, &sponsor)
        != 0) {
        world_tell("%u gives up: %s", self->number, spotnik_last_error());
        return false;
    }
    if (found) {
        struct spotnik_founding founding = spotnik_discovery_lineage(self->peers);
        spotnik_discovery_founding_set(self->peers, founding.id);
        lineage_survivors_check(lineage_found(self, &founding, 0));
    } else if (!join(self, &sponsor)) {
        self->out = true; /* it tries again, as one that may not found */
    }
    self->joining = false;
    return true;
}

/* Told to go, and cut off from those who would let it: it goes as it is (src/runtime/caller.c). */
static bool is_stranded(const struct spotnik_runtime *self)
{
    return self->noticed_ns != 0 && self->parked
           && task_now_ns() - self->noticed_ns >= 3 * world.stale_ns;
}

static void *process_main(void *context)
{
    struct spotnik_runtime *self = context;

    if (begin(self))
        while (self->ended == 0) {
            if (self->out)
                come_again(self);
            else if (is_stranded(self))
                self->ended = SPOTNIK_ERR_LEAVING;
            task_sleep(TICK_NS);
        }
    if (self->left != NULL)
        spotnik_discovery_over_set(self->peers, self->left->stopped);
    spotnik_discovery_free(self->peers);
    self->alive = false;
    lineage_leave(self);
    return NULL;
}

static bool is_taken(uint32_t host, uint16_t port)
{
    for (uint32_t i = 0; i < world.process_count; i++)
        if (world.process[i].alive && world.process[i].host == host
            && world.process[i].credentials.self.port == port)
            return true;
    return false;
}

/* Where operators name a port, a new process listens where a dead one did. */
static uint16_t port_of(const struct spotnik_runtime *process)
{
    uint16_t port = 4000;

    if (!world.fixed_ports)
        return (uint16_t)(port + process->number);
    while (is_taken(process->host, port))
        port++;
    return port;
}

struct spotnik_runtime *process_start(uint32_t host)
{
    static uint8_t key[32];

    if (world.process_count == PROCESSES_MAX || world.host[host].boot == 0)
        return NULL;
    struct spotnik_runtime *process = &world.process[world.process_count];
    *process = (struct spotnik_runtime){ .number = world.process_count++,
                                         .host = host,
                                         .alive = true,
                                         .stale_ns = world.stale_ns,
                                         .clock_ns = world.host[host].clock_ns };
    process->kernel = (struct spotnik_process){ .boot = world.host[host].boot,
                                                .pid = 100 + process->number,
                                                .start = task_now_ns() + 1,
                                                .space = 1 };
    struct spotnik_member *self = &process->credentials.self;
    self->id =
        (struct spotnik_id){ .high = 1 + task_below(UINT64_MAX), .low = task_below(UINT32_MAX) };
    self->host = world.host[host].boot;
    memcpy(self->address, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0", 15);
    self->address[15] = (uint8_t)host;
    self->port = port_of(process);
    memset(process->credentials.job, 1, sizeof process->credentials.job);
    memset(key, 2, sizeof key);
    process->credentials.key = key;
    world_tell("%u starts on host %u", process->number, host);
    task_detach(task_new(process, process_main, process));
    return process;
}
