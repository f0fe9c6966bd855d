/* SPDX-License-Identifier: Apache-2.0 */
/* Many busy members on few cores, and nothing happens to them. Claim: nobody is lost, so there is
 * no false alarm. A view of the same members is none: on a slow machine the last joiner may need
 * one for the step it came in with. Where the machine did not let a member run at all for longer
 * than silence is allowed (it says so: armed.h), an exclusion is right, and the test says so and is
 * skipped.
 *
 *     e2e-idle WORKER [places=32] [seconds=15]        (a long run: seconds=600) */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

#define EXCUSED_NS (3 * SPOTNIK_S) /* what starved a member may be told a moment later */

/* A member that was lost, or has lost another, since all were in one view: before, one may have
 * been excluded that came in late on a busy machine. */
static const struct worker *first_alarmed(const struct cluster *cluster, const uint64_t *before)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].size != cluster->places
            || cluster->worker[i].exclusions != before[i])
            return &cluster->worker[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    static uint64_t before[CLUSTER_PLACES];
    uint32_t places = (uint32_t)cluster_argument(argc, argv, "places", 32);
    uint64_t seconds = cluster_argument(argc, argv, "seconds", 15), longest_ns = 0, alarm_ns = 0;

    if (argc < 2)
        return 2;
    cluster_new(&cluster, places, 1);
    cluster_use(&cluster, argv[1], "-c", "100000", "-x", "3000", NULL);
    for (uint32_t i = 0; i < places; i++)
        cluster_start(&cluster, i);
    /* beside a load of 130 two minutes were too few */
    cluster_until(&cluster, cluster_is_whole, "everybody in one view", 400000);
    uint64_t step = cluster_step(&cluster), begun_ns = cluster_now_ns();
    uint32_t starvations = cluster.starvations;

    for (uint32_t i = 0; i < places; i++) {
        cluster.worker[i].longest_step_ns = 0;
        before[i] = cluster.worker[i].exclusions;
    }
    while (cluster_now_ns() - begun_ns < seconds * SPOTNIK_S) {
        cluster_turn(&cluster, 100);
        const struct worker *alarmed = first_alarmed(&cluster, before);
        if (!alarmed)
            continue;
        alarm_ns = alarm_ns ? alarm_ns : cluster_now_ns();
        if (cluster.starvations > starvations) {
            printf("skipped: the machine is so busy that members were not let run for longer than "
                   "silence is allowed\n");
            cluster_free(&cluster);
            return 77;
        }
        if (cluster_now_ns() - alarm_ns > EXCUSED_NS)
            cluster_fail(&cluster, "w%u is in view %" PRIu64 " of %u, after %.1f s",
                         alarmed->number, alarmed->epoch, alarmed->size,
                         (double)(cluster_now_ns() - begun_ns) / 1e9);
    }
    for (uint32_t i = 0; i < places; i++)
        if (cluster.worker[i].longest_step_ns > longest_ns)
            longest_ns = cluster.worker[i].longest_step_ns;
    if (cluster_step(&cluster) == step)
        cluster_fail(&cluster, "no step in %" PRIu64 " s", seconds);
    printf("%u busy members, %" PRIu64 " s: %" PRIu64
           " steps, nobody was lost, longest step %.0f ms\n",
           places, seconds, cluster_step(&cluster) - step, (double)longest_ns / 1e6);
    cluster_free(&cluster);
    return 0;
}
