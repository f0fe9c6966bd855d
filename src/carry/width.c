/* SPDX-License-Identifier: Apache-2.0 */
/* Climbing while it pays. Integers: bytes per second. */
#include "carry/width.h"

#include "base/time.h"

#define MEASURE_NS (250 * SPOTNIK_MS)
#define MEASURE_BYTES (UINT64_C(4) << 20)
#define SETTLE_NS (200 * SPOTNIK_MS)
#define SETTLE_ROUND_TRIPS 12 /* slow start from 10 segments to 40 MB */
#define PATIENCE_NS (20 * SPOTNIK_S)
#define PATIENCE_MAX_NS (600 * SPOTNIK_S)

struct spotnik_width spotnik_width_make(uint32_t fixed, uint32_t first)
{
    uint32_t wanted = fixed > 0 ? fixed : first > 0 ? first : 1;
    return (struct spotnik_width){ .wanted = wanted,
                                   .fixed = fixed > 0,
                                   .patience_ns = PATIENCE_NS };
}

static void measure_anew(struct spotnik_width *width)
{
    width->bytes = width->ns = 0;
}

void spotnik_width_opened(struct spotnik_width *width, uint64_t round_trip_ns)
{
    uint64_t slow_ns = SETTLE_ROUND_TRIPS * round_trip_ns;

    width->settle_ns = slow_ns > SETTLE_NS ? slow_ns : SETTLE_NS;
    measure_anew(width);
}

static void wait_for_the_next_try(struct spotnik_width *width)
{
    width->trying = 0;
    width->rest_ns = width->patience_ns;
    measure_anew(width);
}

static void put_all_aside(struct spotnik_width *width)
{
    width->wanted -= width->trying;
    wait_for_the_next_try(width);
    width->patience_ns =
        width->patience_ns < PATIENCE_MAX_NS / 2 ? 2 * width->patience_ns : PATIENCE_MAX_NS;
}

void spotnik_width_failed(struct spotnik_width *width)
{
    if (width->trying == 1) {
        put_all_aside(width);
        return;
    }
    width->wanted -= width->wanted > 1;
    width->trying -= width->trying > 0;
}

/* What the rise of the rate is worth in flows of which `before` carry `rate_before`: one counts
 * from a third of it on. And what is not more than noise is worth none. */
static uint64_t flows_won(uint64_t rate, uint64_t rate_before, uint32_t before)
{
    uint64_t noise = rate_before / 12, flow = rate_before / before;

    if (flow == 0 || rate <= rate_before + noise)
        return 0;
    return (rate - rate_before + flow - flow / 3) / flow;
}

static bool try_more(struct spotnik_width *width)
{
    uint32_t room = SPOTNIK_WIDTH_MAX - width->wanted;

    width->trying = width->wanted < room ? width->wanted : room;
    width->wanted += width->trying;
    return width->trying > 0;
}

/* Of those on trial, this number stays, from the first. */
static bool keep(struct spotnik_width *width, uint32_t kept, uint64_t rate)
{
    uint32_t left = width->trying - kept;

    width->rate = rate;
    width->patience_ns = PATIENCE_NS;
    if (left == 0)
        return try_more(width);
    width->wanted -= left;
    wait_for_the_next_try(width);
    return true;
}

/* A measurement is complete. */
static bool judge(struct spotnik_width *width, uint64_t rate, uint64_t ns)
{
    if (width->trying == 0) {
        width->rate = rate;
        width->rest_ns -= ns < width->rest_ns ? ns : width->rest_ns;
        return width->rest_ns == 0 && try_more(width);
    }
    uint64_t won = flows_won(rate, width->rate, width->wanted - width->trying);
    if (won > 0)
        return keep(width, won < width->trying ? (uint32_t)won : width->trying, rate);
    put_all_aside(width);
    return true;
}

bool spotnik_width_pressed(struct spotnik_width *width, uint64_t bytes, uint64_t ns)
{
    if (width->settle_ns > 0) {
        width->settle_ns -= ns < width->settle_ns ? ns : width->settle_ns;
        return false;
    }
    width->bytes += bytes;
    width->ns += ns;
    if (width->ns < MEASURE_NS || width->bytes < MEASURE_BYTES)
        return false;
    uint64_t rate = width->bytes * 1000 / (width->ns / SPOTNIK_MS), measured_ns = width->ns;
    measure_anew(width);
    if (!width->fixed)
        return judge(width, rate, measured_ns);
    width->rate = rate;
    return false;
}
