/* SPDX-License-Identifier: Apache-2.0 */
/* Trying, and keeping what is better. Integers: bytes per second. */
#include "carry/congestion.h"

#include "base/time.h"

#define MEASURE_NS (12 * SPOTNIK_S) /* BBR measures the round trip every 10 s */
#define MEASURE_BYTES (UINT64_C(64) << 20)
#define LOOK_NS SPOTNIK_S /* what is much worse shows sooner */
#define SETTLE_NS (SPOTNIK_S / 2)
#define PATIENCE_NS (120 * SPOTNIK_S)
#define PATIENCE_MAX_NS (3600 * SPOTNIK_S)

struct spotnik_congestion spotnik_congestion_make(bool fixed, bool pauses, bool other)
{
    return (struct spotnik_congestion){ .fixed = fixed,
                                        .pauses = pauses,
                                        .other = other,
                                        .settle_ns = SETTLE_NS,
                                        .patience_ns = PATIENCE_NS };
}

void spotnik_congestion_anew(struct spotnik_congestion *congestion)
{
    congestion->bytes = congestion->ns = 0;
}

static bool change(struct spotnik_congestion *congestion)
{
    congestion->other = !congestion->other;
    congestion->settle_ns = SETTLE_NS;
    spotnik_congestion_anew(congestion);
    return true;
}

static uint64_t rate_of(const struct spotnik_congestion *congestion)
{
    return congestion->bytes * 1000 / (congestion->ns / SPOTNIK_MS);
}

/* The one before was better, or as good. */
static bool go_back(struct spotnik_congestion *congestion)
{
    congestion->trying = false;
    congestion->rest_ns = congestion->patience_ns;
    congestion->patience_ns = congestion->patience_ns < PATIENCE_MAX_NS / 2
                                  ? 2 * congestion->patience_ns
                                  : PATIENCE_MAX_NS;
    return change(congestion);
}

static bool stay(struct spotnik_congestion *congestion, uint64_t rate)
{
    congestion->trying = false;
    congestion->rate = rate;
    congestion->rest_ns = congestion->patience_ns;
    spotnik_congestion_anew(congestion);
    return false;
}

static bool is_much_worse(const struct spotnik_congestion *congestion)
{
    return congestion->trying && congestion->ns >= LOOK_NS
           && rate_of(congestion) < congestion->rate / 8 * 7;
}

/* What is on trial has to be better by more than noise, or not worse by more, if it is the one
 * without pauses. */
static bool is_good(const struct spotnik_congestion *congestion, uint64_t rate)
{
    if (congestion->pauses && congestion->other)
        return rate >= congestion->rate - congestion->rate / 64;
    return rate >= congestion->rate + congestion->rate / 128;
}

/* Nothing is on trial. Where the usual one is not in use and the line carries much less than it
 * did, it is time to try that again. */
static bool rest(struct spotnik_congestion *congestion, uint64_t rate)
{
    bool fallen = congestion->other && rate < congestion->rate / 4 * 3;

    congestion->rest_ns -=
        congestion->ns < congestion->rest_ns ? congestion->ns : congestion->rest_ns;
    congestion->rate = rate;
    spotnik_congestion_anew(congestion);
    if (congestion->rest_ns > 0 && !fallen)
        return false;
    congestion->trying = true;
    return change(congestion);
}

bool spotnik_congestion_pressed(struct spotnik_congestion *congestion, uint64_t bytes, uint64_t ns)
{
    if (congestion->fixed)
        return false;
    if (congestion->settle_ns > 0) {
        congestion->settle_ns -= ns < congestion->settle_ns ? ns : congestion->settle_ns;
        return false;
    }
    congestion->bytes += bytes;
    congestion->ns += ns;
    if (is_much_worse(congestion))
        return go_back(congestion);
    if (congestion->ns < MEASURE_NS || congestion->bytes < MEASURE_BYTES)
        return false;
    uint64_t rate = rate_of(congestion);
    if (!congestion->trying)
        return rest(congestion, rate);
    return is_good(congestion, rate) ? stay(congestion, rate) : go_back(congestion);
}
