/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds in which jobs are founded, one for each seed, under virtual time:
 *
 *     founding [--bucket] [--seed N] [--seeds COUNT] [--keep-going] [--trace]
 *
 * Promises: a job is one lineage, but for what docs/protocol.md, section 16 allows (counted as
 * excused); a member ends because the job is over only
 * where its work was done; and when everything has healed, all processes stand in one view of one
 * lineage before 3 T + 40 s are over. Where somebody removed a founding they may refuse to found
 * another, for good. Where somebody tore the younger of two foundings that section 16 allows, both
 * may go on (docs/design/0002-finding-the-job.md). */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "task.h"
#include "world.h"

#define STALE_NS (20 * SPOTNIK_S)
#define CALM_NS (3 * STALE_NS + 40 * SPOTNIK_S)
/* In a bucket a record is stale after three refreshes of 5.4 s for each member. */
#define CALM_BUCKET_NS (3 * VIEW_MAX * 17 * SPOTNIK_S)
#define END_NS (3600 * SPOTNIK_S)

struct world world;

void world_tell(const char *format, ...)
{
    va_list arguments;

    if (!world.trace)
        return;
    printf("%9.3f  ", (double)task_now_ns() / 1e9);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

void world_break(const char *format, ...)
{
    va_list arguments;

    if (world.broken[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(world.broken, sizeof world.broken, format, arguments);
    va_end(arguments);
    world_tell("BROKEN: %s", world.broken);
}

static void *ticks_main(void *unused)
{
    (void)unused;
    while (world.broken[0] == '\0') {
        lineages_tick();
        task_sleep(TICK_NS);
    }
    return NULL;
}

static uint32_t living(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < world.process_count; i++)
        count += world.process[i].alive;
    return count;
}

/* As `spotnik run` and schedulers do: where there are too few, another is started soon. */
static void *agent_main(void *unused)
{
    uint32_t wanted = 2 + (uint32_t)task_below(6);

    (void)unused;
    while (world.process_count < PROCESSES_MAX) {
        /* where the folder fails for long each ends at once */
        bool may = world.healed || world.process_count < PROCESSES_MAX - PROCESSES_CALM;
        if (may && living() < wanted)
            process_start((uint32_t)task_below(HOSTS));
        task_sleep(task_below(3 * SPOTNIK_S));
    }
    return NULL;
}

static const struct spotnik_runtime *odd_one(void)
{
    const struct lineage *common = NULL;
    uint32_t members = 0;

    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct spotnik_runtime *process = &world.process[i];
        if (!process->alive || process->ended != 0)
            continue;
        common = common != NULL ? common : process->lineage;
        if (process->lineage == NULL || process->lineage != common || process->parked)
            return process;
        members++;
    }
    return common == NULL || !common->goes || common->size != members ? &world.process[0] : NULL;
}

/* True: there is one job, before the time is over. */
static void *calm_main(void *unused)
{
    uint64_t until_ns, calm_ns = world.bucket ? CALM_BUCKET_NS : CALM_NS;

    (void)unused;
    fault_main(NULL);
    fault_heal_all();
    world.healed = true;
    until_ns = task_now_ns() + calm_ns;
    while (odd_one() != NULL && task_now_ns() < until_ns && world.broken[0] == '\0')
        task_sleep(SPOTNIK_S);
    const struct spotnik_runtime *odd = odd_one();
    if (odd != NULL && (world.founding_record_gone || lineages_are_hidden()))
        world.refused++;
    else if (odd != NULL)
        world_break("%.0f s after everything healed: process %u is %s", (double)calm_ns / 1e9,
                    odd->number,
                    odd->lineage == NULL ? "in no view"
                    : odd->parked        ? "parked"
                                         : "in another view than others");
    else
        world_tell("one job of %u members, %.0f s after everything healed",
                   world.lineage[world.lineage_count - 1].size,
                   (double)(task_now_ns() + calm_ns - until_ns) / 1e9);
    task_reset(0); /* nobody runs any more */
    return NULL;
}

static void empty(void)
{
    DIR *folder = opendir(world.folder);
    char path[PATH_MAX];

    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", world.folder, entry->d_name);
        unlink(path);
    }
    if (folder != NULL)
        closedir(folder);
}

static void world_make(uint64_t seed, bool trace, bool bucket, const char *folder)
{
    world = (struct world){ .seed = seed,
                            .trace = trace,
                            .bucket = bucket,
                            .fixed_ports = seed % 4 < 2,
                            .stale_ns = STALE_NS,
                            .slow_ns = seed % 5 == 0 ? 100 * SPOTNIK_MS : 0,
                            .leaves = seed % 7 < 4,
                            .damages = seed % 6 == 5 };
    snprintf(world.folder, sizeof world.folder, "%s", folder);
    setenv("SPOTNIK_STALE_MS", "20000", 1);
    task_reset(seed);
    for (uint32_t i = 0; i < HOSTS; i++)
        world.host[i] = (struct host){ .boot = 1 + task_below(UINT64_MAX - 1),
                                       .clock_ns = task_below(100000) * SPOTNIK_S };
}

static bool play(uint64_t seed, bool trace, bool bucket, const char *folder)
{
    world_make(seed, trace, bucket, folder);
    empty();
    task_detach(task_new(NULL, agent_main, NULL));
    task_detach(task_new(NULL, ticks_main, NULL));
    task_detach(task_new(NULL, calm_main, NULL));
    task_run(END_NS);
    return world.broken[0] == '\0';
}

static const char *value(int argc, char **argv, const char *name, const char *usual)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return usual;
}

static bool has(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    uint64_t first = strtoull(value(argc, argv, "--seed", "1"), NULL, 10),
             count = strtoull(value(argc, argv, "--seeds", "1"), NULL, 10);
    bool trace = has(argc, argv, "--trace"), bucket = has(argc, argv, "--bucket"),
         all = has(argc, argv, "--keep-going");
    uint64_t foundings = 0, refoundings = 0, parkings = 0, replaced = 0, totals = 0, stops = 0,
             survivors = 0, excused = 0, refused = 0, broken = 0, played = 0;
    char folder[64];

    /* In memory where there is such a place: the files are many and small. */
    snprintf(folder, sizeof folder, "%s/founding.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    for (uint64_t seed = first; seed < first + count && (broken == 0 || all); seed++) {
        played++;
        if (!play(seed, trace, bucket, folder)) {
            printf("seed %llu: %s; see it with: founding%s --seed %llu --trace\n",
                   (unsigned long long)seed, world.broken, bucket ? " --bucket" : "",
                   (unsigned long long)seed);
            broken++;
        }
        foundings += world.foundings;
        refoundings += world.refoundings;
        parkings += world.parkings;
        replaced += world.replaced;
        totals += world.totals;
        stops += world.stops;
        survivors += world.survivors;
        excused += world.excused > 0;
        refused += world.refused > 0;
    }
    empty();
    rmdir(folder);
    printf("%llu seeds: %llu foundings, %llu from memory, %llu parkings, %llu total losses, %llu "
           "jobs told to go with %llu members left behind, "
           "%llu members ended for a later founding; %llu worlds excused (section 16), %llu "
           "without their founding; %llu broke a promise\n",
           (unsigned long long)played, (unsigned long long)foundings,
           (unsigned long long)refoundings, (unsigned long long)parkings,
           (unsigned long long)totals, (unsigned long long)stops, (unsigned long long)survivors,
           (unsigned long long)replaced, (unsigned long long)excused, (unsigned long long)refused,
           (unsigned long long)broken);
    return broken != 0;
}
