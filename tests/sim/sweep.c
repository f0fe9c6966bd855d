/* SPDX-License-Identifier: Apache-2.0 */
/* Runs COUNT seeds from FIRST and fails at the first broken promise, saying how to see it again. Also fails
 * when the faults it is there for did not happen: a sweep of quiet worlds proves nothing. Usage: sweep
 * FIRST COUNT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/sim.h"

struct totals {
    uint64_t steps, views, kills, joins, exclusions, leaves, parked, excused, orphans;
};

static uint64_t seed_running;

static void on_abort(int signal)
{
    char text[80];
    int length =
        snprintf(text, sizeof(text), "reproduce: spotnik sim --seed %" PRIu64 " --trace\n", seed_running);
    (void)signal;
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(134);
}

static void add(struct totals *totals, const struct spotnik_sim_result *result)
{
    totals->steps += result->steps;
    totals->views += result->views;
    totals->kills += result->kills;
    totals->joins += result->joins;
    totals->exclusions += result->exclusions;
    totals->leaves += result->leaves;
    totals->parked += result->parked != 0;
    totals->excused += result->excused;
    totals->orphans += result->orphans;
}

static bool run(uint64_t seed, struct totals *totals)
{
    struct spotnik_sim_options options;
    struct spotnik_sim_result result;

    seed_running = seed;
    spotnik_sim_options_draw(&options, seed, 0);
    spotnik_sim_run(&options, &result);
    add(totals, &result);
    if (!result.failed)
        return true;
    spotnik_sim_options_print(&options, stdout);
    printf("%s is broken at %.3f ms: %s\nreproduce: spotnik sim --seed %" PRIu64 " --trace\n", result.promise,
           (double)result.failed_ns / 1e6, result.detail, seed);
    return false;
}

/* What 500 seeds hold at the least, far below what is usual. */
static bool eventful(const struct totals *totals, uint64_t count)
{
    uint64_t lots = count / 500;
    return totals->steps >= lots * 5000 && totals->views >= lots * 1000 && totals->kills >= lots * 400
           && totals->joins >= lots * 1000 && totals->exclusions >= lots * 20 && totals->leaves >= lots * 20
           && totals->parked >= lots * 30 && totals->orphans >= lots * 2 && totals->excused <= count / 5;
}

int main(int argc, char **argv)
{
    struct totals totals = { .steps = 0 };
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             count = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;

    signal(SIGABRT, on_abort);
    for (uint64_t i = 0; i < count; i++)
        if (!run(first + i, &totals))
            return 1;
    printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " views, %" PRIu64 " kills, %" PRIu64
           " joins, %" PRIu64 " exclusions, %" PRIu64 " leaves, %" PRIu64 " runs parked, %" PRIu64
           " without quorum, %" PRIu64 " unstable steps replaced\n",
           first, first + count - 1, totals.steps, totals.views, totals.kills, totals.joins,
           totals.exclusions, totals.leaves, totals.parked, totals.excused, totals.orphans);
    if (!eventful(&totals, count)) {
        puts("too little happened: the swarm has gone tame");
        return 1;
    }
    return 0;
}
