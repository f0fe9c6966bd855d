/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time, not time: what a member loses to others on a busy machine is no part of its
 * speed. But processors that share caches and execution units with others take more processor time,
 * too; a time of samples does without all of that. */
#include "api/throttle.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

/* of the processors: the rest is for the library, the launcher, and other programs */
#define ROOM 0.5

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

/* A number of percent, 1% to 99%; *text moves behind it. */
static bool jitter_read(const char **text, double *ret_jitter)
{
    char *end;

    if (strchr("+- \t", **text))
        return false;
    *ret_jitter = strtod(*text, &end) / 100;
    if (end == *text || *end != '%')
        return false;
    *text = end + 1;
    return *ret_jitter > 0 && *ret_jitter < 1;
}

/* A time such as 30us or 0.4ms, perhaps with ~2% behind it, and nothing else. */
static bool sample_time(const char *text, double *ret_ns, double *ret_jitter)
{
    char *end;

    if (strchr("+- \t", *text))
        return false;
    *ret_ns = strtod(text, &end);
    if (end == text || (strncmp(end, "us", 2) && strncmp(end, "ms", 2)))
        return false;
    *ret_ns *= *end == 'm' ? 1e6 : 1e3;
    text = end + 2;
    if (*text == '~') {
        text++;
        if (!jitter_read(&text, ret_jitter))
            return false;
    }
    return !*text && *ret_ns >= 1 && *ret_ns <= 60e9;
}

/* Speeds up to the end of the text or an '@', where *ret_end is. Returns how many; 0: they are
 * none. */
static uint32_t speeds(const char *text, double *ret_speed, const char **ret_end)
{
    for (uint32_t count = 0; count < SPOTNIK_THROTTLE_MAX; text++) {
        char *end;
        if (!*text || strchr("+- \t", *text))
            return 0;
        ret_speed[count] = strtod(text, &end);
        if (end == text || !(ret_speed[count] > 0) || ret_speed[count] > 1e6
            || (*end && !strchr(":@", *end)))
            return 0;
        count++;
        *ret_end = text = end;
        if (*end != ':')
            return count;
    }
    return 0;
}

bool spotnik_throttle_parse(const char *text, uint32_t place, uint32_t cpus,
                            struct spotnik_throttle *ret)
{
    double speed[SPOTNIK_THROTTLE_MAX], most = 0, sum = 0, possible = 1;
    const char *end = text;
    uint32_t count = speeds(text, speed, &end);

    *ret = (struct spotnik_throttle){ .speed = 0 };
    if (!count || (*end && !sample_time(end + 1, &ret->sample_ns, &ret->jitter)))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        sum += speed[i];
        most = speed[i] > most ? speed[i] : most;
    }
    if (!*end && sum > ROOM * cpus * most)
        possible = ROOM * cpus * most / sum;
    ret->speed = count > 1 ? possible * speed[place % count] / most : speed[0];
    spotnik_prng_seed(&ret->prng, place);
    return ret->speed <= 1;
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
    if (!spotnik_throttle_parse(text, place, cpus_here(), throttle))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_THROTTLE is \"%s\"; it must be a speed above 0 and up "
                                    "to 1, or relative speeds "
                                    "of the workers such as 9:12:18; behind it, perhaps, the time "
                                    "of a sample: @30us, or @30us~2%%",
                                    text);
    return 0;
}

void spotnik_throttle_begin(struct spotnik_throttle *throttle, uint64_t samples)
{
    if (throttle->speed == 0)
        return;
    throttle->samples = samples;
    throttle->begun_ns = clock_ns(CLOCK_MONOTONIC);
    throttle->begun_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    throttle->due = true;
}

void spotnik_throttle_end(struct spotnik_throttle *throttle)
{
    if (!throttle->due)
        return;
    throttle->due = false;
    double took_ns = throttle->sample_ns > 0
                         ? throttle->sample_ns * (double)throttle->samples
                         : (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - throttle->begun_cpu_ns);
    if (throttle->jitter > 0)
        took_ns *= 1
                   + throttle->jitter
                         * (2 * (double)(spotnik_prng_next(&throttle->prng) >> 11) / 0x1p53 - 1);
    uint64_t until_ns = throttle->begun_ns + (uint64_t)(took_ns / throttle->speed);
    struct timespec until = spotnik_clock_timespec(until_ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}
