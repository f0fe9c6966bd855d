/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of judge.h. Medians, because a step with a loss or a join takes arbitrarily long. */
#include "adapt/judge.h"

#include <string.h>

#include "base/assert.h"
#include "adapt/same_bits.h"

_Static_assert(sizeof(struct spotnik_sync_judge)
                   == 8 * (14 + 3 * SPOTNIK_SYNC_WINDOW + SPOTNIK_SYNC_MEMORY),
               "what is hashed and copied to joiners has no holes");

void spotnik_sync_judge_init(struct spotnik_sync_judge *judge, enum spotnik_sync_mode mode)
{
    memset(judge, 0, sizeof *judge);
    judge->mode = mode;
}

/* The upper one of the two in the middle. */
static double median(const double *values, uint64_t count)
{
    double sorted[SPOTNIK_SYNC_WINDOW];
    uint64_t have = 0;

    SPOTNIK_ASSERT(count >= 1 && count <= SPOTNIK_SYNC_WINDOW);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = have++;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[count / 2];
}

struct measured {
    double mean_busy_us, max_busy_us, min_wait_us, mean_compute_us, max_compute_us;
    uint64_t samples;
};

static struct measured measure(const struct spotnik_sync_row *rows, uint32_t count)
{
    struct measured all = { .min_wait_us = rows[0].wait_us };

    for (uint32_t i = 0; i < count; i++) {
        double compute_us = rows[i].compute_us, busy_us = compute_us + rows[i].apply_us;

        all.mean_busy_us += busy_us;
        all.mean_compute_us += compute_us;
        all.max_busy_us = busy_us > all.max_busy_us ? busy_us : all.max_busy_us;
        all.max_compute_us = compute_us > all.max_compute_us ? compute_us : all.max_compute_us;
        all.min_wait_us = rows[i].wait_us < all.min_wait_us ? rows[i].wait_us : all.min_wait_us;
        all.samples += rows[i].samples;
    }
    all.mean_busy_us /= count;
    all.mean_compute_us /= count;
    return all;
}

/* The rows of this step tell what was waited for in the one before. */
static void remember(struct spotnik_sync_judge *judge, const struct measured *now, bool follows)
{
    judge->mean_us[judge->times] = now->mean_compute_us;
    judge->max_us[judge->times++] = now->max_compute_us;
    if (follows && judge->averaged && now->max_busy_us > 0)
        judge->ratio[judge->ratios++] = now->mean_busy_us / (now->max_busy_us + now->min_wait_us);
}

static uint64_t window_of(const struct spotnik_sync_rules *rules)
{
    return rules->window > 0 && rules->window < SPOTNIK_SYNC_WINDOW ? rules->window
                                                                    : SPOTNIK_SYNC_WINDOW;
}

/* Members that run apart measure the exchange seldom: each time counts for a window. */
static bool ratios_are_complete(const struct spotnik_sync_judge *judge,
                                const struct spotnik_sync_rules *rules)
{
    return judge->ratios >= (judge->mode == SPOTNIK_SYNC_ASYNCHRONOUS ? 1 : window_of(rules));
}

static bool window_close(struct spotnik_sync_judge *judge, const struct spotnik_sync_rules *rules)
{
    bool by_ratio = ratios_are_complete(judge, rules), by_times = judge->times >= window_of(rules);
    bool due = rules->rule == SPOTNIK_SYNC_RULE_THROUGHPUT && !rules->own ? by_ratio : by_times;

    if (by_ratio) {
        judge->last_ratio = median(judge->ratio, judge->ratios);
        judge->ratios = 0;
    }
    if (by_times) {
        judge->last_mean_us = median(judge->mean_us, judge->times);
        judge->last_max_us = median(judge->max_us, judge->times);
        judge->times = 0;
    }
    judge->windows += due;
    return due;
}

static struct spotnik_sync_metrics metrics_of(const struct spotnik_sync_judge *judge,
                                              const struct spotnik_sync_rules *rules,
                                              uint32_t members)
{
    return (struct spotnik_sync_metrics){
        .speed = judge->last_ratio,
        .alone_speed = judge->last_ratio > 0 ? 1 : 0,
        .mean_time_s = judge->last_mean_us / 1e6,
        .max_time_s = judge->last_max_us / 1e6,
        .samples_done = judge->samples_done,
        .samples_total = rules->samples_total,
        .step = judge->step,
        .members = members,
    };
}

static enum spotnik_sync_mode ask_own(struct spotnik_sync_judge *judge,
                                      const struct spotnik_sync_rules *rules,
                                      const struct spotnik_sync_metrics *metrics)
{
    enum spotnik_sync_mode mode = (enum spotnik_sync_mode)judge->mode;
    enum spotnik_sync_mode wanted = rules->own(rules->own_context, metrics, mode, judge->memory);

    if (wanted == mode
        || (wanted != SPOTNIK_SYNC_SYNCHRONOUS && wanted != SPOTNIK_SYNC_ASYNCHRONOUS))
        return mode;
    judge->reason = SPOTNIK_SYNC_REASON_OWN;
    judge->value = metrics->speed;
    judge->limit = 0;
    return wanted;
}

static enum spotnik_sync_mode ask(struct spotnik_sync_judge *judge,
                                  const struct spotnik_sync_rules *rules, uint32_t members)
{
    struct spotnik_sync_metrics metrics = metrics_of(judge, rules, members);
    struct spotnik_sync_policy policy = { (enum spotnik_sync_mode)judge->mode,
                                          (enum spotnik_sync_reason)judge->reason, judge->value,
                                          judge->limit, (uint32_t)judge->streak };
    enum spotnik_sync_mode wanted = policy.mode;

    if (rules->own)
        return ask_own(judge, rules, &metrics);
    if (rules->rule == SPOTNIK_SYNC_RULE_THROUGHPUT)
        wanted = spotnik_sync_policy_throughput(&policy, &rules->limits, &metrics);
    if (rules->rule == SPOTNIK_SYNC_RULE_WAITING)
        wanted = spotnik_sync_policy_waiting(&policy, &rules->limits, &metrics);
    if (rules->rule == SPOTNIK_SYNC_RULE_SCHEDULE)
        wanted = spotnik_sync_policy_schedule(&policy, rules->part, &metrics);
    judge->reason = policy.reason;
    judge->value = policy.value;
    judge->limit = policy.limit;
    judge->streak = policy.streak;
    return wanted;
}

/* What was measured before says nothing of what comes. */
static void forget(struct spotnik_sync_judge *judge, enum spotnik_sync_mode mode)
{
    judge->mode = mode;
    judge->streak = judge->ratios = judge->times = 0;
    judge->last_ratio = judge->last_mean_us = judge->last_max_us = 0;
}

enum spotnik_sync_mode spotnik_sync_judge_step(struct spotnik_sync_judge *judge,
                                               const struct spotnik_sync_rules *rules,
                                               uint64_t step, const struct spotnik_sync_row *rows,
                                               uint32_t count, bool averaged)
{
    bool follows = step == judge->step + 1,
         due = rules->rule == SPOTNIK_SYNC_RULE_SCHEDULE && !rules->own;

    SPOTNIK_ASSERT(step > judge->step && judge->ratios < SPOTNIK_SYNC_WINDOW
                   && judge->times < SPOTNIK_SYNC_WINDOW);
    if (count > 0) {
        struct measured now = measure(rows, count);
        remember(judge, &now, follows);
        judge->samples_done += now.samples;
        due |= window_close(judge, rules);
    }
    judge->step = step;
    judge->averaged = averaged;
    enum spotnik_sync_mode wanted =
        due ? ask(judge, rules, count) : (enum spotnik_sync_mode)judge->mode;

    if (wanted != (enum spotnik_sync_mode)judge->mode)
        forget(judge, wanted);
    return wanted;
}
