/* SPDX-License-Identifier: Apache-2.0 */
/* One lineage: the digests of stable steps, without gap or second version. */
#include "lineage.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

/* between a starvation and the exclusion for it, as they are told */
#define EXCUSED_NS (3 * SPOTNIK_S)

/* Step `step` is stable: this member committed the one after it, or ended in good order. */
static void settle(struct cluster *cluster, const struct worker *worker, uint64_t step,
                   uint64_t digest)
{
    uint64_t *known = &cluster->digest_of[step & (CLUSTER_STEPS - 1)];

    if (*known && *known != digest)
        cluster_fail(cluster,
                     "w%u has digest %016" PRIx64 " after step %" PRIu64 ", others %016" PRIx64,
                     worker->number, digest, step, *known);
    *known = digest;
    if (step > cluster->step_highest)
        cluster->step_highest = step;
}

static void on_commit(struct cluster *cluster, struct worker *worker, const char *line)
{
    uint64_t step, digest, epoch, now_ns;
    unsigned size, replay;

    if (sscanf(line, "commit %" SCNu64 " %" SCNx64 " %" SCNu64 " %u %u %" SCNu64, &step, &digest,
               &epoch, &size, &replay, &now_ns)
        != 6)
        cluster_fail(cluster, "w%u said: %s", worker->number, line);
    bool gap = worker->step && step != worker->step + 1;
    bool resumed = worker->exclusions && worker->step == 0;

    if (gap && !resumed)
        cluster_fail(cluster, "w%u committed step %" PRIu64 " after %" PRIu64, worker->number, step,
                     worker->step);
    if (worker->step)
        settle(cluster, worker, worker->step, worker->digest);
    if (worker->last_commit_ns && !replay && !worker->replay
        && now_ns - worker->last_commit_ns > worker->longest_step_ns)
        worker->longest_step_ns = now_ns - worker->last_commit_ns;
    if (!worker->entered_ns && !replay)
        worker->entered_ns = now_ns;
    if (epoch != worker->epoch)
        worker->view_ns = now_ns;
    worker->step = step;
    worker->digest = digest;
    worker->epoch = epoch;
    worker->size = size;
    worker->replay = replay;
    worker->last_commit_ns = now_ns;
    worker->commits++;
    cluster->commits++;
}

static void on_recovery(struct cluster *cluster, const struct worker *worker, const char *line)
{
    uint64_t epoch, detected_ns, reconciled_ns, accepted_ns, restarted_ns, committed_ns;
    unsigned lost, joined;

    if (sscanf(line,
               "recovery %" SCNu64 " %u %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &epoch, &lost, &joined, &detected_ns, &reconciled_ns, &accepted_ns, &restarted_ns,
               &committed_ns)
        != 8)
        cluster_fail(cluster, "w%u said: %s", worker->number, line);
    if (!lost || !detected_ns || committed_ns < detected_ns)
        return;
    cluster->recoveries++;
    cluster->last_recovery_ns = committed_ns - detected_ns;
    if (cluster->last_recovery_ns > cluster->recovery_max_ns)
        cluster->recovery_max_ns = cluster->last_recovery_ns;
}

static void on_exclusion(struct cluster *cluster, struct worker *worker)
{
    uint64_t now_ns = cluster_now_ns();

    if (worker->entered_ns && !cluster->tolerant /* a joiner may be turned away, and tries again */
        && !(worker->starved_ns && now_ns - worker->starved_ns < EXCUSED_NS))
        worker->accusing_ns = now_ns;
    worker->exclusions++;
    worker->step = worker->last_commit_ns = worker->entered_ns =
        0; /* its last commit may not have been stable */
}

/* Not to be let run for long is a reason to be excluded. It may be told a moment after the
 * exclusion. */
static void on_starved(struct cluster *cluster, struct worker *worker, const char *line)
{
    printf("w%u was not let run for %s00 ms\n", worker->number, strchr(line, ' ') + 1);
    worker->starved_ns = cluster_now_ns();
    worker->accusing_ns = 0;
    cluster->starvations++;
}

void lineage_judge(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (worker->accusing_ns && !worker->killed
            && cluster_now_ns() - worker->accusing_ns > EXCUSED_NS)
            cluster_fail(cluster, "w%u was excluded although nothing had happened to it",
                         worker->number);
    }
}

static void on_over(struct cluster *cluster, struct worker *worker, const char *line)
{
    uint64_t step, digest;

    if (sscanf(line, "%*s %" SCNu64 " %" SCNx64, &step, &digest) != 2
        || (worker->step && (step != worker->step || digest != worker->digest)))
        cluster_fail(cluster, "w%u at step %" PRIu64 " said: %s", worker->number, worker->step,
                     line);
    worker->over = true;
    worker->step = step;
    worker->digest = digest;
}

static void on_aim(struct cluster *cluster, struct worker *worker, const char *line)
{
    int aim;

    if (sscanf(line, "%*s %d", &aim) != 1 || aim < 0 || aim >= ARMED_AIMS)
        cluster_fail(cluster, "w%u said: %s", worker->number, line);
    if (line[0] == 'a') {
        worker->aim = aim;
        return;
    }
    cluster->died_at[aim]++;
    cluster->kills += !worker->killed;
    worker->killed = true;
}

void lineage_event(struct cluster *cluster, struct worker *worker, const char *line)
{
    if (!strncmp(line, "commit ", 7)) {
        on_commit(cluster, worker, line);
    } else if (!strncmp(line, "recovery ", 9)) {
        on_recovery(cluster, worker, line);
    } else if (!strncmp(line, "joined ", 7)) {
        if (worker->step) /* between two steps: nothing was lost, so nothing was told */
            on_exclusion(cluster, worker);
        snprintf(worker->member, sizeof worker->member, "%.32s", line + 7);
        worker->joined_ns = cluster_now_ns();
    } else if (!strncmp(line, "excluded ", 9)) {
        on_exclusion(cluster, worker);
    } else if (!strncmp(line, "done ", 5) || !strncmp(line, "leaving ", 8)) {
        on_over(cluster, worker, line);
    } else if (!strncmp(line, "starved ", 8)) {
        on_starved(cluster, worker, line);
    } else if (!strncmp(line, "aim ", 4) || !strncmp(line, "dies ", 5)) {
        on_aim(cluster, worker, line);
    } else if (!worker->killed) {
        cluster_fail(cluster, "w%u said: %s", worker->number, line);
    }
}

/* By a signal that no test sends, or by a finding of a sanitizer (status 66, see dev/sanitize.sh):
 * never excused, also not in a member that has told its end or is about to be killed. */
static bool has_crashed(int status)
{
    return status == 66
           || (status > 128 && status != 128 + SIGKILL && status != 128 + SIGTERM
               && status != 128 + SIGINT);
}

void lineage_end(struct cluster *cluster, struct worker *worker)
{
    if (has_crashed(worker->status))
        cluster_fail(cluster, "w%u crashed: it ended with %d", worker->number, worker->status);
    if (worker->over && worker->step)
        settle(cluster, worker, worker->step, worker->digest);
    else if (!worker->killed)
        cluster_fail(cluster, "w%u ended with %d without having been killed", worker->number,
                     worker->status);
}
