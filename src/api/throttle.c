/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time, not time: what a member loses to others on a busy machine is no part of its speed. */
#include "api/throttle.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

#define ROOM 0.5 /* of the processors: the rest is for the library, the launcher, and whoever else is there */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

bool spotnik_throttle_parse(const char *text, uint32_t place, uint32_t cpus, double *ret_speed)
{
    double speed[SPOTNIK_THROTTLE_MAX], most = 0, sum = 0;
    uint32_t count = 0;

    for (char *end;; text = end + 1) {
        if (count == SPOTNIK_THROTTLE_MAX || !*text || strchr("+- \t", *text))
            return false;
        speed[count] = strtod(text, &end);
        if (end == text || !(speed[count] > 0) || speed[count] > 1e6 || (*end && *end != ':'))
            return false;
        sum += speed[count];
        most = speed[count] > most ? speed[count] : most;
        count++;
        if (!*end)
            break;
    }
    double possible = count > 1 && sum > ROOM * cpus * most ? ROOM * cpus * most / sum : 1;
    *ret_speed = count > 1 ? possible * speed[place % count] / most : speed[0];
    return *ret_speed <= 1;
}

static uint32_t cpus_here(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

int spotnik_throttle_open(struct spotnik_throttle *throttle)
{
    const char *text = getenv("SPOTNIK_THROTTLE"), *slot = getenv("SPOTNIK_SLOT");
    uint32_t place = slot ? (uint32_t)strtoul(slot, NULL, 10) : 0;

    *throttle = (struct spotnik_throttle){ .speed = 0 };
    if (!text || !*text)
        return 0;
    if (!spotnik_throttle_parse(text, place, cpus_here(), &throttle->speed))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_THROTTLE is \"%s\"; it must be a speed above 0 and up to 1, or relative speeds "
                                    "of the workers such as 9:12:18",
                                    text);
    return 0;
}

void spotnik_throttle_begin(struct spotnik_throttle *throttle)
{
    if (throttle->speed == 0)
        return;
    throttle->begun_ns = clock_ns(CLOCK_MONOTONIC);
    throttle->begun_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    throttle->due = true;
}

void spotnik_throttle_end(struct spotnik_throttle *throttle)
{
    if (!throttle->due)
        return;
    throttle->due = false;
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - throttle->begun_cpu_ns;
    uint64_t until_ns = throttle->begun_ns + (uint64_t)((double)cpu_ns / throttle->speed);
    struct timespec until = { .tv_sec = (time_t)(until_ns / SPOTNIK_S), .tv_nsec = (long)(until_ns % SPOTNIK_S) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}
