/* SPDX-License-Identifier: Apache-2.0 */
/* State and cost of a bag, from the folder alone: any user that can read it can ask, while it runs
 * and afterwards. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "bag_run.h"

/* ---- sums ---- */

static double seconds(uint64_t ms)
{
    return (double)ms / 1e3;
}

/* Does the worker itself say how this attempt ended? Then what others said of it does not count. */
static bool owner_says(const struct bag *bag, const char *job, uint32_t attempt)
{
    char name[NAME_MAX + 1];
    for (int end = BAG_END_NONE + 1; end < BAG_ENDS; end++) {
        snprintf(name, sizeof name, "%s@%u.%s", job, attempt, bag_end_names[end]);
        if (end != BAG_END_LOST && bag_claim_is(bag, name))
            return true;
    }
    return false;
}

static void attempt_add(struct bag_sums *sums, enum bag_end end, const struct bag_figures *figures)
{
    double ran_s = seconds(figures->ran_ms);
    double kept_s =
        figures->saved_ms > figures->base_ms ? seconds(figures->saved_ms - figures->base_ms) : 0;
    sums->ends[end]++;
    sums->spent_s += ran_s;
    sums->cpu_s += seconds(figures->cpu_ms);
    if (end == BAG_END_DONE)
        sums->useful_s += ran_s + seconds(figures->base_ms);
    else
        sums->recomputed_s += end == BAG_END_LATE ? ran_s : fmax(ran_s - kept_s, 0);
}

struct adding {
    struct bag *bag;
    struct bag_sums *sums;
};

static void claim_add(void *context, const char *name)
{
    struct bag *bag = ((struct adding *)context)->bag;
    struct bag_sums *sums = ((struct adding *)context)->sums;
    char job[BAG_JOB_NAME_MAX];
    struct bag_figures figures;
    uint32_t attempt;
    uint64_t worker;
    enum bag_end end;
    if (!bag_claim_parse(name, job, &attempt, &end)
        || !bag_figures_read(bag, job, attempt, end, &figures, &worker))
        return;
    if (end == BAG_END_NONE) {
        sums->attempts++;
        sums->expected_s += attempt == 1 ? seconds(figures.expected_ms) : 0;
        return;
    }
    if (end == BAG_END_LOST && owner_says(bag, job, attempt))
        return;
    attempt_add(sums, end, &figures);
}

static void workers_add(struct bag *bag, struct bag_sums *sums)
{
    struct bag_worker *list;
    if (bag_workers_list(bag, &list, &sums->workers) != 0)
        return;
    for (size_t i = 0; i < sums->workers; i++) {
        const struct bag_worker *worker = &list[i];
        double up_s = seconds(worker->up_ms);
        sums->workers_live +=
            !worker->left && spotnik_process_life(&worker->process) != SPOTNIK_LIFE_ENDED;
        sums->up_s += up_s;
        sums->slot_s += up_s * worker->slots;
        sums->busy_s += seconds(worker->busy_ms);
        sums->core_s += up_s * worker->slots * worker->cores;
        sums->usd += up_s / 3600 * worker->usd_per_h;
    }
    free(list);
}

struct times {
    int64_t first_s, last_s;
};

static void times_see(void *context, const char *mark, int64_t written_s)
{
    struct times *times = context;
    if (times->first_s == 0 || written_s < times->first_s)
        times->first_s = written_s;
    if (strncmp(mark, "results.", 8) == 0 && written_s > times->last_s)
        times->last_s = written_s;
}

/* From the first file of the bag, or claim in a bucket, to the last result, both by the server's
 * clock. */
static double makespan(struct bag *bag)
{
    char path[PATH_MAX];
    struct stat first, last;
    struct times times = { 0 };
    double end_s = 0;
    if (bag_is_bucket(bag))
        return bag_bucket_walk(bag, "marks/", times_see, &times) == 0 && times.last_s > 0
                   ? (double)(times.last_s - times.first_s)
                   : 0;
    bag_path(bag, path, "bag.json", NULL);
    if (stat(path, &first) != 0)
        return 0;
    for (size_t i = 0; i < bag->job_count; i++) {
        bag_path(bag, path, "results", bag->job[i]->name);
        bag_join(path, path, "spotnik.json");
        if (bag->job[i]->done && stat(path, &last) == 0)
            end_s = fmax(end_s, (double)last.st_mtim.tv_sec + (double)last.st_mtim.tv_nsec / 1e9);
    }
    return fmax(end_s - ((double)first.st_mtim.tv_sec + (double)first.st_mtim.tv_nsec / 1e9), 0);
}

void bag_sum(struct bag *bag, struct bag_sums *ret)
{
    memset(ret, 0, sizeof *ret);
    bag_look(bag);
    ret->jobs = bag->job_count;
    for (size_t i = 0; i < bag->job_count; i++) {
        const struct bag_job *job = bag->job[i];
        ret->done += job->done;
        ret->aside += job->aside && !job->done;
        ret->dropped += job->dropped && !job->done && !job->aside;
        ret->runs += !bag_job_is_over(job) && job->attempt > 0 && job->end == BAG_END_NONE;
    }
    (void)bag_claims_each(bag, claim_add, &(struct adding){ .bag = bag, .sums = ret });
    workers_add(bag, ret);
    ret->makespan_s = makespan(bag);
}

/* ---- telling ---- */

static json_t *sums_json(const struct bag_sums *sums)
{
    return json_pack("{sI sI sI sI sI sI sI sI sI sI sI sI sf sf sf sf sf sf sf sf sf sf}", "jobs",
                     (json_int_t)sums->jobs, "done", (json_int_t)sums->done, "aside",
                     (json_int_t)sums->aside, "dropped", (json_int_t)sums->dropped, "running",
                     (json_int_t)sums->runs, "attempts", (json_int_t)sums->attempts, "lost",
                     (json_int_t)sums->ends[BAG_END_LOST], "returned",
                     (json_int_t)sums->ends[BAG_END_RETURNED], "failed",
                     (json_int_t)sums->ends[BAG_END_FAILED], "late",
                     (json_int_t)sums->ends[BAG_END_LATE], "workers", (json_int_t)sums->workers,
                     "workers_live", (json_int_t)sums->workers_live, "useful_s", sums->useful_s,
                     "spent_s", sums->spent_s, "recomputed_s", sums->recomputed_s, "cpu_s",
                     sums->cpu_s, "worker_s", sums->up_s, "slot_s", sums->slot_s, "busy_s",
                     sums->busy_s, "makespan_s", sums->makespan_s, "usd", sums->usd, "expected_s",
                     sums->expected_s);
}

static const char *span(double span_s, char text[32])
{
    if (span_s < 120)
        snprintf(text, 32, "%.1f s", span_s);
    else
        spotnik_duration_print(span_s, text, 32);
    return text;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void sums_print(const struct bag_sums *sums)
{
    char a[32], b[32];
    printf("jobs      %zu: %zu done, %zu running, %zu set aside, %zu dropped, %zu to do\n",
           sums->jobs, sums->done, sums->runs, sums->aside, sums->dropped,
           sums->jobs - sums->done - sums->runs - sums->aside - sums->dropped);
    printf("attempts  %zu: %zu lost, %zu given back, %zu failed, %zu finished by others first\n",
           sums->attempts, sums->ends[BAG_END_LOST], sums->ends[BAG_END_RETURNED],
           sums->ends[BAG_END_FAILED], sums->ends[BAG_END_LATE]);
    printf("work      %s in jobs that are done; %s lost and done again (%.2f %%)\n",
           span(sums->useful_s, a), span(sums->recomputed_s, b),
           percent(sums->recomputed_s, sums->useful_s));
    printf("workers   %zu, %zu of them live; %s in all, busy %.1f %%\n", sums->workers,
           sums->workers_live, span(sums->up_s, a), percent(sums->busy_s, sums->slot_s));
}

static void job_print(const struct bag *bag, const struct bag_job *job)
{
    struct bag_worker *worker = malloc(sizeof *worker);
    struct bag_figures figures;
    uint64_t owner = 0, print;
    bag_figures_read(bag, job->name, job->attempt, BAG_END_NONE, &figures, &owner);
    if (worker != NULL && bag_worker_read(bag, owner, worker, &print))
        for (uint32_t i = 0; i < worker->run_count; i++)
            if (strcmp(worker->run[i].job, job->name) == 0
                && worker->run[i].attempt == job->attempt)
                printf("  %s runs on %s, attempt %u: %.0f s, %.0f s saved%s\n", job->name,
                       worker->host, job->attempt,
                       seconds(worker->run[i].base_ms + worker->run[i].ran_ms),
                       seconds(worker->run[i].saved_ms),
                       spotnik_process_life(&worker->process) == SPOTNIK_LIFE_ENDED
                           ? "; its worker is dead"
                           : "");
    free(worker);
}

static int open_or_say(const char *folder, struct bag *bag)
{
    struct spotnik_fault fault;
    if (bag_open(folder, bag, &fault) == 0)
        return 0;
    fprintf(stderr, "spotnik bag: %s\n", fault.text);
    bag_close(bag);
    return 1;
}

static int tell_json(struct bag *bag, const struct bag_sums *sums)
{
    json_t *root = sums_json(sums);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (text != NULL)
        puts(text);
    free(text);
    json_decref(root);
    bag_close(bag);
    return text != NULL ? 0 : 1;
}

int bag_status(const char *folder, bool json)
{
    static struct bag bag;
    struct bag_sums sums;
    if (open_or_say(folder, &bag) != 0)
        return 1;
    bag_sum(&bag, &sums);
    if (json)
        return tell_json(&bag, &sums);
    sums_print(&sums);
    for (size_t i = 0; i < bag.job_count; i++) {
        const struct bag_job *job = bag.job[i];
        if (job->aside && !job->done)
            printf("  %s is set aside; see %s/aside/%s/log\n", job->name, bag_where(&bag),
                   job->name);
        else if (!bag_job_is_over(job) && job->attempt > 0 && job->end == BAG_END_NONE)
            job_print(&bag, job);
    }
    bag_close(&bag);
    return 0;
}

int bag_report(const char *folder, bool json)
{
    static struct bag bag;
    struct bag_sums sums;
    char a[32], b[32];
    if (open_or_say(folder, &bag) != 0)
        return 1;
    bag_sum(&bag, &sums);
    if (json)
        return tell_json(&bag, &sums);
    sums_print(&sums);
    printf("makespan  %s\n", span(sums.makespan_s, a));
    if (sums.expected_s > 0 && sums.makespan_s > 0 && sums.slot_s > 0) {
        printf("model     it expected %s of work, saves and losses; it took %s",
               span(sums.expected_s, a), span(sums.spent_s, b));
        printf("; on these machines a makespan of %s\n",
               span(sums.expected_s / sums.slot_s * sums.makespan_s, a));
    }
    double cores = sums.slot_s > 0 ? sums.core_s / sums.slot_s : 1,
           core_h = sums.useful_s * cores / 3600;
    if (sums.usd > 0 && core_h > 0)
        printf("cost      $%.2f: $%.4f for each of %.2f useful core hours\n", sums.usd,
               sums.usd / core_h, core_h);
    bag_close(&bag);
    return 0;
}
