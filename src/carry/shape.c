/* SPDX-License-Identifier: Apache-2.0 */
/* The link of shape.h, as one instant: when it will have sent what it was given. Bytes may go as
 * long as that lies no further ahead than a full queue of a network card. A sender that comes late
 * because its processor was busy may make up for it: the link would not have been idle
 * meanwhile. */
#include "carry/shape.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

#define QUEUE_NS (SPOTNIK_MS / 2)    /* what a card takes at once */
#define LATE_NS (50 * SPOTNIK_MS)    /* how late a sender may be and make up for it */
#define PORTION (UINT64_C(16) << 10) /* less is not worth a system call */

struct spotnik_shape spotnik_shape_process;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t duration_ns(const struct spotnik_shape *shape, uint64_t bytes)
{
    return (uint64_t)((double)bytes * 1e9 / (double)shape->bytes_per_s);
}

/* What a queue of QUEUE_NS holds, but at least a portion. */
static uint64_t room_ns(const struct spotnik_shape *shape)
{
    uint64_t portion_ns = duration_ns(shape, PORTION);

    return portion_ns > QUEUE_NS ? portion_ns : QUEUE_NS;
}

/* The link was idle until now, unless somebody waited for it. */
static void catch_up(struct spotnik_shape *shape, uint64_t now_ns)
{
    uint64_t grace_ns = now_ns <= shape->busy_ns ? LATE_NS : 0;

    if (shape->free_ns + grace_ns < now_ns)
        shape->free_ns = now_ns - grace_ns;
}

/* A sender that is still catching up goes on at once, or had no more to send. */
static uint64_t busy_until_ns(const struct spotnik_shape *shape, uint64_t now_ns)
{
    return shape->free_ns < now_ns ? now_ns + SPOTNIK_MS : 0;
}

size_t spotnik_shape_let(struct spotnik_shape *shape, size_t wanted, uint64_t now_ns,
                         uint64_t *ret_again_ns)
{
    if (shape->bytes_per_s == 0 || wanted == 0)
        return wanted;
    catch_up(shape, now_ns);
    uint64_t least_ns = duration_ns(shape, wanted < PORTION ? wanted : PORTION);
    uint64_t until_ns = now_ns + room_ns(shape);
    uint64_t room = until_ns > shape->free_ns ? until_ns - shape->free_ns : 0;

    if (room < least_ns) {
        shape->busy_ns = SPOTNIK_NEVER;
        *ret_again_ns = shape->free_ns + least_ns - room_ns(shape);
        return 0;
    }
    uint64_t bytes = (uint64_t)((double)room * (double)shape->bytes_per_s / 1e9) + 1;
    size_t let = bytes < wanted ? (size_t)bytes : wanted;

    shape->free_ns += duration_ns(shape, let);
    shape->busy_ns = let < wanted ? SPOTNIK_NEVER : busy_until_ns(shape, now_ns);
    return let;
}

void spotnik_shape_undo(struct spotnik_shape *shape, size_t bytes)
{
    if (shape->bytes_per_s == 0)
        return;
    uint64_t ns = duration_ns(shape, bytes);

    shape->free_ns -= ns < shape->free_ns ? ns : shape->free_ns;
}

bool spotnik_shape_parse(const char *text, uint64_t *ret_bytes_per_s)
{
    static const struct {
        const char *name;
        double bits;
    } unit[] = { { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 } };
    char *end;

    *ret_bytes_per_s = 0;
    if (text == NULL || *text == 0)
        return true;
    double value = strtod(text, &end);

    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (text[0] >= '0' && text[0] <= '9' && isfinite(value) && strcmp(end, unit[i].name) == 0
            && value * unit[i].bits >= 8e3 && value * unit[i].bits <= 1e15) {
            *ret_bytes_per_s = (uint64_t)(value * unit[i].bits / 8);
            return true;
        }
    return false;
}

int spotnik_shape_set(const char *text)
{
    uint64_t bytes_per_s;

    if (!spotnik_shape_parse(text, &bytes_per_s))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_SHAPE: \"%s\" is no speed; write 300kbit, 100mbit or 2.5gbit", text);
    pthread_mutex_lock(&lock);
    spotnik_shape_process.free_ns = 0;
    spotnik_shape_process.busy_ns = 0;
    __atomic_store_n(&spotnik_shape_process.bytes_per_s, bytes_per_s, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return 0;
}

size_t spotnik_shape_take(size_t wanted, uint64_t *ret_again_ns)
{
    if (!spotnik_shape_is_on())
        return wanted;
    pthread_mutex_lock(&lock);
    size_t let =
        spotnik_shape_let(&spotnik_shape_process, wanted, spotnik_clock_ns(), ret_again_ns);
    pthread_mutex_unlock(&lock);
    return let;
}

void spotnik_shape_give_back(size_t bytes)
{
    if (!spotnik_shape_is_on() || bytes == 0)
        return;
    pthread_mutex_lock(&lock);
    spotnik_shape_undo(&spotnik_shape_process, bytes);
    pthread_mutex_unlock(&lock);
}

void spotnik_shape_wait(size_t bytes)
{
    while (bytes > 0) {
        uint64_t again_ns = 0;
        size_t let = spotnik_shape_take(bytes, &again_ns);

        bytes -= let;
        if (let > 0)
            continue;
        struct timespec until = spotnik_clock_timespec(again_ns);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}
