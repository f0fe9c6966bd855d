/* SPDX-License-Identifier: Apache-2.0 */
/* The three policies of policy.h. What is unknown (0) asks for nothing and does not break a
 * streak. */
#include "adapt/policy.h"

#include "base/assert.h"
#include "adapt/same_bits.h"

static void change(struct spotnik_sync_policy *policy, enum spotnik_sync_mode mode,
                   enum spotnik_sync_reason reason, double value, double limit)
{
    *policy = (struct spotnik_sync_policy){ mode, reason, value, limit, 0 };
}

struct wish {
    enum spotnik_sync_mode mode;
    bool other; /* the measured value asks for the other mode */
    enum spotnik_sync_reason reason;
    double value, limit;
};

static enum spotnik_sync_mode consider(struct spotnik_sync_policy *policy, uint32_t patience,
                                       struct wish wish)
{
    SPOTNIK_ASSERT(patience >= 1);
    policy->streak = wish.other ? policy->streak + 1 : 0;
    if (policy->streak >= patience)
        change(policy, wish.mode, wish.reason, wish.value, wish.limit);
    return policy->mode;
}

struct spotnik_sync_hysteresis spotnik_sync_throughput_usual(void)
{
    return (struct spotnik_sync_hysteresis){ .low = 0.40, .high = 0.50, .patience = 3 };
}

enum spotnik_sync_mode spotnik_sync_policy_throughput(struct spotnik_sync_policy *policy,
                                                      const struct spotnik_sync_hysteresis *limits,
                                                      const struct spotnik_sync_metrics *metrics)
{
    if (!(metrics->alone_speed > 0) || !(metrics->speed > 0))
        return policy->mode;
    double ratio = metrics->speed / metrics->alone_speed;
    if (policy->mode == SPOTNIK_SYNC_SYNCHRONOUS)
        return consider(policy, limits->patience,
                        (struct wish){ SPOTNIK_SYNC_ASYNCHRONOUS, ratio < limits->low,
                                       SPOTNIK_SYNC_REASON_SLOW, ratio, limits->low });
    return consider(policy, limits->patience,
                    (struct wish){ SPOTNIK_SYNC_SYNCHRONOUS, ratio > limits->high,
                                   SPOTNIK_SYNC_REASON_FAST, ratio, limits->high });
}

struct spotnik_sync_hysteresis spotnik_sync_waiting_usual(void)
{
    return (struct spotnik_sync_hysteresis){ .low = 0.15, .high = 0.30, .patience = 3 };
}

enum spotnik_sync_mode spotnik_sync_policy_waiting(struct spotnik_sync_policy *policy,
                                                   const struct spotnik_sync_hysteresis *limits,
                                                   const struct spotnik_sync_metrics *metrics)
{
    if (!(metrics->max_time_s > 0) || !(metrics->mean_time_s > 0))
        return policy->mode;
    double waiting = 1 - metrics->mean_time_s / metrics->max_time_s;
    if (policy->mode == SPOTNIK_SYNC_SYNCHRONOUS)
        return consider(policy, limits->patience,
                        (struct wish){ SPOTNIK_SYNC_ASYNCHRONOUS, waiting > limits->high,
                                       SPOTNIK_SYNC_REASON_WAITING, waiting, limits->high });
    return consider(policy, limits->patience,
                    (struct wish){ SPOTNIK_SYNC_SYNCHRONOUS, waiting < limits->low,
                                   SPOTNIK_SYNC_REASON_EVEN, waiting, limits->low });
}

enum spotnik_sync_mode spotnik_sync_policy_schedule(struct spotnik_sync_policy *policy, double part,
                                                    const struct spotnik_sync_metrics *metrics)
{
    if (metrics->samples_total == 0 || policy->mode == SPOTNIK_SYNC_ASYNCHRONOUS)
        return policy->mode;
    double done = (double)metrics->samples_done / (double)metrics->samples_total;
    return consider(policy, 1,
                    (struct wish){ SPOTNIK_SYNC_ASYNCHRONOUS, done >= part,
                                   SPOTNIK_SYNC_REASON_WORK_DONE, done, part });
}

const char *spotnik_sync_reason_text(enum spotnik_sync_reason reason)
{
    switch (reason) {
    case SPOTNIK_SYNC_REASON_NONE:
        return "as it was started";
    case SPOTNIK_SYNC_REASON_SLOW:
        return "throughput per member, relative to one alone, fell below the limit";
    case SPOTNIK_SYNC_REASON_FAST:
        return "throughput per member, relative to one alone, is above the limit again";
    case SPOTNIK_SYNC_REASON_WAITING:
        return "the part of a step spent waiting for stragglers is above the limit";
    case SPOTNIK_SYNC_REASON_EVEN:
        return "the part of a step spent waiting for stragglers is below the limit again";
    case SPOTNIK_SYNC_REASON_WORK_DONE:
        return "the synchronous part of the work is done";
    case SPOTNIK_SYNC_REASON_OWN:
        return "the policy of the program asked for it";
    }
    return "unknown";
}
