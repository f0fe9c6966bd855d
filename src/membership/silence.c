/* SPDX-License-Identifier: Apache-2.0 */
/* When is the silence of one peer a loss? On top of the limit of its gaps (member/detector.h) its
 * kernel may speak for it, and our own lateness against us. Rules: docs/protocol.md 4 and 14. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/detection.h"

/* A peer on another host whose kernel answers is given as much time as one on ours. Either the
 * process is stopped, or packets were lost and all that it has said since waits behind them. A
 * machine that has gone, or that is cut off, does not answer. */
#define KERNEL_PATIENCE 3

/* From now on silence counts. */
void silence_start(struct silence *silence, uint64_t now_ns)
{
    spotnik_detector_start(&silence->gaps, now_ns);
}

void silence_end(struct silence *silence, uint64_t now_ns, uint64_t floor_ns)
{
    spotnik_detector_hear(&silence->gaps, now_ns, floor_ns);
}

/* Its kernel has answered, while it was quiet itself. */
void silence_kernel(struct silence *silence, uint64_t now_ns)
{
    silence->kernel_ns = now_ns;
}

/* We were late ourselves, by `late_ns`: what looks like silence of others may be deafness of
 * ours. */
void silence_forgive(struct silence *silence, uint64_t now_ns, uint64_t late_ns)
{
    silence->gaps.heard_ns =
        spotnik_time_min(now_ns, spotnik_time_add(silence->gaps.heard_ns, late_ns));
}

/* Where heartbeats were late by one lately packets may get lost, and what is lost three times is
 * late by a second. */
static uint64_t kernel_floor_ns(const struct silence *silence, const struct silence_input *in)
{
    SPOTNIK_ASSERT(in->linked);
    if (silence->gaps.longest_ns >= in->floor_ns / 3)
        return in->ceiling_ns;
    return spotnik_time_min(in->ceiling_ns, KERNEL_PATIENCE * in->floor_ns);
}

bool silence_is_loss(const struct silence *silence, const struct silence_input *in)
{
    uint64_t floor_ns = in->peer_floor_ns;

    if (!in->linked)
        /* before the link is up there is nothing to hear: allow for the dialling */
        floor_ns = in->ceiling_ns;
    else if (spotnik_time_since(in->now_ns, silence->kernel_ns) < in->heartbeat_ns / 2)
        floor_ns = kernel_floor_ns(silence, in);
    return in->now_ns >= spotnik_detector_limit(&silence->gaps, floor_ns, in->ceiling_ns);
}

/* It will soon be a loss: ask its kernel. */
bool silence_is_near(const struct silence *silence, uint64_t now_ns, uint64_t floor_ns)
{
    return spotnik_time_since(now_ns, silence->gaps.heard_ns) >= floor_ns / 2;
}
