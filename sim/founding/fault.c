/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to the world: deaths of processes and machines, firewalls, cables, the way to the
 * folder, files that are removed or torn, processes that are stopped. Some of it lasts longer than
 * T, some of it till the end. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "task.h"
#include "world.h"

#define EVENTS 40

static uint64_t some_time(void)
{
    uint64_t most_ns = task_below(4) == 0 ? 3 * world.stale_ns : world.stale_ns / 3;

    return task_below(most_ns) + SPOTNIK_MS;
}

static struct spotnik_runtime *somebody(void)
{
    struct spotnik_runtime *chosen = NULL;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < world.process_count; i++)
        if (world.process[i].alive && task_below(++seen) == 0)
            chosen = &world.process[i];
    return chosen;
}

static uint32_t some_host(void)
{
    return (uint32_t)task_below(HOSTS);
}

/* ---- machines and processes ---- */

static void kill_one(void)
{
    struct spotnik_runtime *victim = somebody();

    if (victim == NULL)
        return;
    world_tell("%u is killed", victim->number);
    process_kill(victim);
}

static void kill_all(void)
{
    world_tell("everybody is killed");
    world.totals++;
    for (uint32_t i = 0; i < world.process_count; i++)
        process_kill(&world.process[i]);
}

static void power_off(uint32_t host)
{
    world_tell("host %u loses power", host);
    world.host[host].boot = 0;
    for (uint32_t i = 0; i < world.process_count; i++)
        if (world.process[i].host == host)
            process_kill(&world.process[i]);
}

static void power_on(uint32_t host)
{
    if (world.host[host].boot != 0)
        return;
    world.host[host].boot = 1 + task_below(UINT64_MAX - 1);
    world_tell("host %u is switched on", host);
}

static void power_off_one(void)
{
    power_off(some_host());
}

static void power_on_one(void)
{
    power_on(some_host());
}

static void stop_one(void)
{
    struct spotnik_runtime *victim = somebody();

    if (victim == NULL)
        return;
    uint64_t ns = some_time();
    world_tell("%u is stopped for %.1f s", victim->number, (double)ns / 1e9);
    victim->paused_until_ns = task_now_ns() + ns;
}

/* Its launcher, or its machine, tells it to go. */
static void notice(struct spotnik_runtime *process)
{
    world_tell("%u is told to go", process->number);
    process->noticed_ns = process->noticed_ns != 0 ? process->noticed_ns : task_now_ns();
}

static void notice_one(void)
{
    struct spotnik_runtime *one = somebody();

    if (one != NULL)
        notice(one);
}

/* All that one member reaches, as when a scheduler takes a partition away: who is cut off from them
 * stays. */
static void notice_side(void)
{
    struct spotnik_runtime *one = somebody();

    for (uint32_t i = 0; one != NULL && i < world.process_count; i++)
        if (world.process[i].alive
            && (&world.process[i] == one || world_reach(one, &world.process[i])))
            notice(&world.process[i]);
}

/* All steps of one job are committed. */
static void finish(void)
{
    struct spotnik_runtime *one = somebody();

    if (one == NULL || one->lineage == NULL || !one->lineage->goes)
        return;
    world_tell("%016llx: the work is done", (unsigned long long)one->lineage->founding.id);
    one->lineage->done = true;
}

/* ---- ways ---- */

static void cut_pair(void)
{
    uint32_t a = some_host(), b = some_host();

    world_tell("host %u and host %u do not reach each other", a, b);
    if (a != b)
        world.host[a].cut[b] = true;
}

static void cut_off(void)
{
    uint32_t host = some_host();

    world_tell("host %u is cut off from all others", host);
    for (uint32_t i = 0; i < HOSTS; i++)
        world.host[host].cut[i] = i != host;
}

static void split(void)
{
    uint64_t side = 1 + task_below((1 << HOSTS) - 2);

    world_tell("hosts %#llx are cut off from the rest", (unsigned long long)side);
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = 0; b < HOSTS; b++)
            world.host[a].cut[b] = (side >> a & 1) != (side >> b & 1);
}

static void reject(void)
{
    uint32_t host = some_host();

    world_tell("a firewall refuses what host %u dials", host);
    for (uint32_t i = 0; i < HOSTS; i++)
        world.host[host].rejects[i] = i != host;
}

static void mend_paths(void)
{
    world_tell("all paths are mended");
    for (uint32_t i = 0; i < HOSTS; i++) {
        memset(world.host[i].cut, 0, sizeof world.host[i].cut);
        memset(world.host[i].rejects, 0, sizeof world.host[i].rejects);
    }
}

static void folder_trouble(void)
{
    enum folder kind = task_below(2) == 0 ? FOLDER_FAILS : FOLDER_HANGS;
    uint32_t only = (uint32_t)task_below(HOSTS + 2); /* or all of them */

    world_tell("the folder %s for %s %u", kind == FOLDER_FAILS ? "fails" : "hangs",
               only < HOSTS ? "host" : "all, not only", only);
    for (uint32_t i = 0; i < HOSTS; i++)
        if (only >= HOSTS || only == i)
            world.host[i].folder = kind;
}

static void folder_mend(void)
{
    world_tell("the folder is back");
    for (uint32_t i = 0; i < HOSTS; i++)
        world.host[i].folder = FOLDER_GOOD;
}

/* ---- in the folder ---- */

/* Somebody removes what begins so, or tears it. */
static void damage(const char *prefix, bool tears)
{
    DIR *folder = opendir(world.folder);
    char path[PATH_MAX];

    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || task_below(2) == 0)
            continue;
        world_tell("somebody %s %s", tears ? "tears" : "removes", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", world.folder, entry->d_name);
        if (tears)
            (void)!truncate(path, TORN_BYTES);
        else
            unlink(path);
        world.founding_record_gone |= !tears && strncmp(entry->d_name, "genesis-", 8) == 0;
    }
    closedir(folder);
}

static void damage_foundings(void)
{
    damage("genesis-", task_below(2) == 0);
}

static void damage_records(void)
{
    damage("member-", task_below(3) == 0);
}

static void damage_all(void)
{
    damage("", task_below(4) == 0);
}

struct happening {
    uint32_t often; /* of 100 */
    void (*does)(void);
};

static const struct happening always[] = {
    { 12, kill_one }, { 2, kill_all },    { 5, power_off_one },  { 9, power_on_one },
    { 14, stop_one }, { 6, cut_pair },    { 6, cut_off },        { 10, split },
    { 6, reject },    { 12, mend_paths }, { 9, folder_trouble }, { 9, folder_mend },
};

/* Where members leave. */
static const struct happening leaving[] = { { 25, notice_one },
                                            { 55, notice_side },
                                            { 20, finish } };

/* Where somebody damages the folder. */
static const struct happening damaging[] = { { 30, damage_foundings },
                                             { 45, damage_records },
                                             { 25, damage_all } };

static void one_of(const struct happening *happening)
{
    uint64_t at = task_below(100);

    while (at >= happening->often)
        at -= happening++->often;
    happening->does();
}

static void something(void)
{
    if (world.damages && task_below(6) == 0)
        one_of(damaging);
    else
        one_of(world.leaves && task_below(8) == 0 ? leaving : always);
}

void *fault_main(void *unused)
{
    (void)unused;
    for (int i = 0; i < EVENTS; i++) {
        task_sleep(some_time());
        something();
    }
    return NULL;
}

void fault_heal_all(void)
{
    world_tell("everything heals");
    world.healing = true;
    mend_paths();
    folder_mend();
    for (uint32_t i = 0; i < HOSTS; i++)
        power_on(i);
    for (uint32_t i = 0; i < world.process_count; i++)
        world.process[i].paused_until_ns = 0;
}
