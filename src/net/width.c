/* SPDX-License-Identifier: Apache-2.0 */
/* Climbing while it pays. Integers: bytes per second. */
#include "net/width.h"

#include "base/time.h"

#define MEASURE_NS (250 * SPOTNIK_MS)
#define MEASURE_BYTES (UINT64_C(4) << 20)
#define SETTLE_NS (200 * SPOTNIK_MS)
#define SETTLE_ROUND_TRIPS 12 /* slow start from 10 segments to 40 MB */
#define PATIENCE_NS (20 * SPOTNIK_S)
#define PATIENCE_MAX_NS (600 * SPOTNIK_S)

struct spotnik_width spotnik_width_make(uint32_t fixed)
{
    return (struct spotnik_width){ .wanted = fixed > 0 ? fixed : 1, .fixed = fixed > 0, .patience_ns = PATIENCE_NS };
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

static void put_aside(struct spotnik_width *width)
{
    width->wanted--;
    width->trying = false;
    width->rest_ns = width->patience_ns;
    width->patience_ns = width->patience_ns < PATIENCE_MAX_NS / 2 ? 2 * width->patience_ns : PATIENCE_MAX_NS;
    measure_anew(width);
}

void spotnik_width_failed(struct spotnik_width *width)
{
    if (width->trying)
        put_aside(width);
}

/* One more would add a part in `before` to the rate if flows are what is capped. A third of that, and more than noise. */
static bool has_paid(uint64_t rate, uint64_t rate_before, uint32_t before)
{
    uint64_t third = rate_before / (3 * before), noise = rate_before / 12;

    return rate >= rate_before + (third > noise ? third : noise);
}

static bool try_one_more(struct spotnik_width *width)
{
    width->trying = width->wanted < SPOTNIK_WIDTH_MAX;
    if (!width->trying)
        return false;
    width->wanted++;
    return true;
}

/* A measurement is complete. */
static bool judge(struct spotnik_width *width, uint64_t rate, uint64_t ns)
{
    if (!width->trying) {
        width->rate = rate;
        width->rest_ns -= ns < width->rest_ns ? ns : width->rest_ns;
        return width->rest_ns == 0 && try_one_more(width);
    }
    if (!has_paid(rate, width->rate, width->wanted - 1)) {
        put_aside(width);
        return true;
    }
    width->rate = rate;
    width->patience_ns = PATIENCE_NS;
    return try_one_more(width);
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
