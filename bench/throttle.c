/* SPDX-License-Identifier: Apache-2.0 */
/* A slower processor for one worker: preload it (LD_PRELOAD). Before a step is committed the
 * caller's thread sleeps until the step has taken as long as it would at that speed. So the member
 * still answers. BENCH_THROTTLE:
 *
 *     9:12:18          relative speeds by place (SPOTNIK_SLOT), a duty cycle on processor time; all
 *                      together take half of the processors
 *     9:12:18@30us     the fastest takes that long for a sample, whatever the processor does
 *     9:12:18@30us~2%  every step varies at random by up to that much */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spotnik/spotnik.h"

#define SPEEDS_MAX 64
#define ROOM 0.5 /* of the processors: the rest is for the library and other programs */

static struct {
    double speed; /* in (0, 1]; 0: not read yet */
    double sample_s, jitter;
    uint64_t samples;
    double begun_s, begun_cpu_s;
} throttle;

static double clock_s(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned cpus_here(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

static void throttle_read(void)
{
    const char *text = getenv("BENCH_THROTTLE"), *slot = getenv("SPOTNIK_SLOT");
    double speed[SPEEDS_MAX], most = 0, sum = 0, possible = 1;
    char *end = (char *)(uintptr_t)(text ? text : "1");
    unsigned count = 0, place = slot ? (unsigned)strtoul(slot, NULL, 10) : 0;

    do {
        speed[count] = strtod(end, &end);
        sum += speed[count];
        most = speed[count] > most ? speed[count] : most;
    } while (++count < SPEEDS_MAX && *end++ == ':');
    if (end[-1] == '@')
        throttle.sample_s = strtod(end, &end) / (strncmp(end, "ms", 2) ? 1e6 : 1e3);
    else if (sum > ROOM * cpus_here() * most)
        possible = ROOM * cpus_here() * most / sum;
    const char *jitter = text ? strchr(text, '~') : NULL;
    throttle.jitter = jitter ? strtod(jitter + 1, NULL) / 100 : 0;
    throttle.speed = possible * speed[place % count] / most;
    srand48(place);
}

int spotnik_step_begin(spotnik_job *job, spotnik_step *ret_step)
{
    int (*real)(spotnik_job *, spotnik_step *) = dlsym(RTLD_NEXT, "spotnik_step_begin");
    int rc = real(job, ret_step);

    if (throttle.speed == 0)
        throttle_read();
    throttle.samples = rc ? 0 : ret_step->sample_count;
    throttle.begun_s = clock_s(CLOCK_MONOTONIC);
    throttle.begun_cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    return rc;
}

int spotnik_step_commit(spotnik_job *job)
{
    int (*real)(spotnik_job *) = dlsym(RTLD_NEXT, "spotnik_step_commit");
    double took_s = throttle.sample_s > 0
                        ? throttle.sample_s * (double)throttle.samples
                        : clock_s(CLOCK_PROCESS_CPUTIME_ID) - throttle.begun_cpu_s;

    took_s *= (1 + throttle.jitter * (2 * drand48() - 1)) / throttle.speed;
    double until_s = throttle.begun_s + took_s;
    struct timespec until = { .tv_sec = (time_t)until_s,
                              .tv_nsec = (long)((until_s - (double)(time_t)until_s) * 1e9) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
    return real(job);
}
