/* SPDX-License-Identifier: Apache-2.0 */
/* Which names stand for a policy, and what it decides by: the agreed rows of every committed step,
 * replays included, feed the judge (adapt/judge.h). Its state is registered, so that all members
 * wish for the same at the same step. What is to be seen of it from other threads is kept in the
 * job.
 *
 *     auto[:throughput[=LOW[,HIGH]] | :fastest | :waiting[=HIGH[,LOW]] |
 *     :schedule=PART][:SYNCHRONOUS/ASYNCHRONOUS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/sync.h"
#include "base/error.h"
#include "adapt/judge.h"

#define NAME "auto"
#define PAIR "ssgd/adpsgd"
#define TOKEN_MAX 96

struct spotnik_sync_driver {
    struct spotnik_sync *sync;
    struct spotnik_sync_rules rules;
    struct spotnik_sync_judge judge; /* registered */
    struct spotnik_sync_row *row;
    int (*own)(void *context, const spotnik_sync_numbers *numbers);
    void *own_context;
};

static int wrong(const char *token)
{
    return spotnik_error_return(
        SPOTNIK_ERR_ARGUMENT,
        "\"%s\" is no policy (SPOTNIK_SYNC): "
        "auto[:throughput[=LOW[,HIGH]]|:fastest|:waiting[=HIGH[,LOW]]|"
        ":schedule=PART][:SYNCHRONOUS/ASYNCHRONOUS], all of them parts from 0 to 1",
        token);
}

/* "=A" or "=A,B": how many there are, 0 to 2; -1: something else. */
static int parts_read(const char *text, double part[2])
{
    int count = 0;

    if (*text == 0)
        return 0;
    do {
        char *end;
        if (text[1] < '0' || text[1] > '9' || count == 2)
            return -1;
        part[count] = strtod(text + 1, &end);
        if (!(part[count] >= 0 && part[count] <= 1))
            return -1;
        count++;
        text = end;
    } while (*text == ',');
    return *text == 0 && count <= 2 ? count : -1;
}

static bool limits_take(struct spotnik_sync_rules *rules, double first, double second,
                        bool first_is_low)
{
    rules->limits.low = first_is_low ? first : second;
    rules->limits.high = first_is_low ? second : first;
    return rules->limits.low <= rules->limits.high;
}

static bool throughput_take(struct spotnik_sync_rules *rules, const char *text)
{
    double part[2];
    int count = parts_read(text, part);

    rules->rule = SPOTNIK_SYNC_RULE_THROUGHPUT;
    rules->limits = spotnik_sync_throughput_usual();
    if (count == 1) /* as far above as usual, but not beyond what can be */
        part[1] = part[0] + (1 - part[0]) / 6;
    return count == 0 || (count > 0 && limits_take(rules, part[0], part[1], true));
}

/* Whichever gets more done, whatever it means for the models: a tenth is what the averages between
 * asynchronous steps may cost. */
static bool fastest_take(struct spotnik_sync_rules *rules, const char *text)
{
    rules->rule = SPOTNIK_SYNC_RULE_THROUGHPUT;
    rules->limits = spotnik_sync_throughput_usual();
    return *text == 0 && limits_take(rules, 0.90, 0.95, true);
}

static bool waiting_take(struct spotnik_sync_rules *rules, const char *text)
{
    double part[2];
    int count = parts_read(text, part);

    rules->rule = SPOTNIK_SYNC_RULE_WAITING;
    rules->limits = spotnik_sync_waiting_usual();
    if (count == 1)
        part[1] = part[0] / 2;
    return count == 0 || (count > 0 && limits_take(rules, part[0], part[1], false));
}

static bool schedule_take(struct spotnik_sync_rules *rules, const char *text)
{
    double part[2] = { 0 };
    int count = parts_read(text, part);

    rules->rule = SPOTNIK_SYNC_RULE_SCHEDULE;
    rules->part = part[0];
    return count == 1;
}

struct pair {
    char first[TOKEN_MAX];
    const struct spotnik_sync_strategy *second;
};

/* The second of a pair may be any: what is averaged now and then costs less, too. */
static int pair_read(const char *text, struct pair *ret)
{
    const struct spotnik_sync_strategy *first;
    const char *slash = strchr(text, '/');
    bool around;

    snprintf(ret->first, sizeof ret->first, "%.*s", (int)(slash - text), text);
    int rc = spotnik_sync_named(ret->first, &first, &around);

    if (rc)
        return rc;
    if (!first->synchronous)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "\"%s\" (SPOTNIK_SYNC): %s is no synchronous strategy", text,
                                    ret->first);
    ret->second = spotnik_sync_find(slash + 1);
    if (!ret->second || ret->second == &spotnik_sync_lookahead || (!around && ret->second == first))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "\"%s\" (SPOTNIK_SYNC): there is no second strategy \"%s\"",
                                    text, slash + 1);
    return 0;
}

static bool rule_take(struct spotnik_sync_rules *rules, const char *token)
{
    static const struct {
        const char *name;
        bool (*take)(struct spotnik_sync_rules *rules, const char *text);
    } known[] = { { "throughput", throughput_take },
                  { "fastest", fastest_take },
                  { "waiting", waiting_take },
                  { "schedule", schedule_take } };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t length = strlen(known[i].name);
        if (strncmp(token, known[i].name, length) == 0
            && (token[length] == 0 || token[length] == '='))
            return known[i].take(rules, token + length);
    }
    return false;
}

/* What follows "auto". */
static int tokens_read(const char *text, struct spotnik_sync_rules *rules, struct pair *ret_pair)
{
    const char *pair = PAIR;
    char token[TOKEN_MAX], paired[TOKEN_MAX];

    throughput_take(rules, "");
    while (*text == ':') {
        size_t length = strcspn(++text, ":");
        if (length >= sizeof token)
            return wrong(text);
        snprintf(token, sizeof token, "%.*s", (int)length, text);
        text += length;
        if (strchr(token, '/'))
            pair = memcpy(paired, token, sizeof token);
        else if (!rule_take(rules, token))
            return wrong(token);
    }
    return pair_read(pair, ret_pair);
}

static int tokens_take(struct spotnik_sync *sync, struct spotnik_sync_rules *rules,
                       const char *text)
{
    struct pair pair;
    int rc = tokens_read(text, rules, &pair);

    if (!rc)
        rc = spotnik_sync_choose(sync, pair.first);
    if (!rc)
        sync->of[SPOTNIK_SYNC_ASYNCHRONOUS] = pair.second;
    return rc;
}

/* Work is samples where the job knows how many, and steps where it does not. */
static int work_take(const spotnik_config *config, struct spotnik_sync_rules *rules)
{
    rules->samples_total =
        config->steps_max * (config->samples && config->batch ? config->batch : 1);
    if (rules->rule == SPOTNIK_SYNC_RULE_SCHEDULE && rules->samples_total == 0)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "auto:schedule needs to know how much work there is: set steps_max");
    return 0;
}

static uint32_t rows_take(struct spotnik_sync_driver *driver,
                          const struct spotnik_step_stats *agreed)
{
    uint32_t count = 0;
    bool counts_steps = !driver->sync->job->config.samples || !driver->sync->job->config.batch;

    for (uint32_t i = 0; i < agreed->slots; i++) {
        const struct spotnik_step_stats_row *row = &agreed->row[i];
        if (row->compute_us == 0)
            continue;
        driver->row[count] =
            (struct spotnik_sync_row){ row->compute_us, row->apply_us, row->wait_us, row->samples };
        if (counts_steps)
            driver->row[count].samples = count == 0;
        count++;
    }
    return count;
}

static void show(struct spotnik_sync_driver *driver)
{
    const struct spotnik_sync_judge *judge = &driver->judge;
    spotnik_job *job = driver->sync->job;
    bool seen = judge->last_max_us > 0;

    pthread_mutex_lock(&job->rate.lock);
    job->sync_shown.mode = (uint32_t)judge->mode;
    job->sync_shown.reason = (uint32_t)judge->reason;
    job->sync_shown.value = judge->value;
    job->sync_shown.limit = judge->limit;
    job->sync_shown.throughput = judge->last_ratio;
    job->sync_shown.waiting = seen ? 1 - judge->last_mean_us / judge->last_max_us : 0;
    pthread_mutex_unlock(&job->rate.lock);
}

/* What was decided after the step before is in the rows of this one, and has been found equal
 * (spotnik_step_stats_outcome()): only now it counts. Were it done at once, members that differ
 * would be at odds over buckets before they could say so. */
static enum spotnik_sync_mode decide(void *context, uint64_t step)
{
    struct spotnik_sync_driver *driver = context;
    enum spotnik_sync_mode confirmed = (enum spotnik_sync_mode)driver->judge.mode;
    const struct spotnik_step_stats *agreed = spotnik_step_stats_get(driver->sync->job);
    uint32_t count = agreed->step == step ? rows_take(driver, agreed) : 0;

    spotnik_sync_judge_step(&driver->judge, &driver->rules, step, driver->row, count,
                            driver->sync->averaged_count > 0);
    show(driver);
    return confirmed;
}

static void driver_free(void *context)
{
    struct spotnik_sync_driver *driver = context;

    free(driver->row);
    free(driver);
}

static bool is_policy(const char *name)
{
    size_t length = strlen(NAME);

    return strncmp(name, NAME, length) == 0 && (name[length] == 0 || name[length] == ':');
}

int spotnik_sync_name_check(const char *name)
{
    const struct spotnik_sync_strategy *found;
    struct spotnik_sync_rules rules = { 0 };
    struct pair pair;
    bool around;

    return is_policy(name) ? tokens_read(name + strlen(NAME), &rules, &pair)
                           : spotnik_sync_named(name, &found, &around);
}

int spotnik_sync_policy_open(struct spotnik_sync *sync, const char *name, bool *ret_mine)
{
    *ret_mine = is_policy(name);
    if (!*ret_mine)
        return 0;
    struct spotnik_sync_driver *driver = calloc(1, sizeof *driver);

    if (driver)
        driver->row = calloc(sync->job->config.members_max, sizeof *driver->row);
    if (!driver || !driver->row) {
        free(driver);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a policy");
    }
    driver->sync = sync;
    sync->hooks =
        (struct spotnik_sync_hooks){ .context = driver, .decide = decide, .free = driver_free };
    spotnik_sync_judge_init(&driver->judge, SPOTNIK_SYNC_SYNCHRONOUS);
    int rc = tokens_take(sync, &driver->rules, name + strlen(NAME));

    if (!rc)
        rc = work_take(&sync->job->config, &driver->rules);
    if (!rc)
        rc = spotnik_step_stats_on(sync->job);
    if (!rc)
        rc = spotnik_state_add(sync->job, "sync.policy", &driver->judge, sizeof driver->judge,
                               SPOTNIK_U8);
    if (!rc)
        spotnik_step_stats_check_watch(sync->job, &driver->judge, sizeof driver->judge);
    pthread_mutex_lock(&sync->job->rate.lock);
    snprintf(sync->job->sync_shown.policy, sizeof sync->job->sync_shown.policy, "%s", name);
    pthread_mutex_unlock(&sync->job->rate.lock);
    return rc;
}

/* ---- a policy of the program's own ---- */

static enum spotnik_sync_mode own_ask(void *context, const struct spotnik_sync_metrics *metrics,
                                      enum spotnik_sync_mode mode, double *memory)
{
    struct spotnik_sync_driver *driver = context;
    spotnik_sync_numbers numbers = {
        .size = sizeof numbers,
        .step = metrics->step,
        .members = metrics->members,
        .asynchronous = mode == SPOTNIK_SYNC_ASYNCHRONOUS,
        .throughput = metrics->speed,
        .mean_compute_s = metrics->mean_time_s,
        .max_compute_s = metrics->max_time_s,
        .samples_done = metrics->samples_done,
        .samples_total = metrics->samples_total,
        .memory = memory,
    };

    return driver->own(driver->own_context, &numbers) ? SPOTNIK_SYNC_ASYNCHRONOUS
                                                      : SPOTNIK_SYNC_SYNCHRONOUS;
}

int spotnik_sync_policy_set(spotnik_sync *sync,
                            int (*policy)(void *context, const spotnik_sync_numbers *numbers),
                            void *context)
{
    if (!sync || !policy)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no strategy or no policy was given");
    if (sync->job->sealed || sync->hooks.decide != decide)
        return spotnik_error_return(
            SPOTNIK_ERR_STATE,
            "a policy is set before the first step, where the strategy is auto[:...]");
    struct spotnik_sync_driver *driver = sync->hooks.context;

    driver->own = policy;
    driver->own_context = context;
    driver->rules.own = own_ask;
    driver->rules.own_context = driver;
    return 0;
}

int spotnik_sync_report_get(const spotnik_sync *sync, spotnik_sync_report *ret)
{
    if (!sync || !ret || ret->size < sizeof ret->size || ret->size > sizeof *ret)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "no strategy, or no report whose size is set");
    const struct spotnik_sync_shown *shown = &sync->job->sync_shown; /* written by this thread */
    spotnik_sync_report report = {
        .size = ret->size,
        .asynchronous = sync->sw.mode == SPOTNIK_SYNC_ASYNCHRONOUS,
        .switches = sync->sw.switches,
        .switched_step = sync->sw.switched_step,
        .reason = spotnik_sync_reason_text((enum spotnik_sync_reason)shown->reason),
        .value = shown->value,
        .limit = shown->limit,
        .throughput = shown->throughput,
        .waiting = shown->waiting,
    };

    memcpy(ret, &report, ret->size);
    return 0;
}

/* The step has been committed and the switch made. */
void spotnik_sync_show(struct spotnik_sync *sync)
{
    struct spotnik_sync_shown *shown = &sync->job->sync_shown;

    if (shown->strategy[0] && shown->switches == sync->sw.switches)
        return;
    if (shown->switches != sync->sw.switches)
        spotnik_runtime_tell_agent(sync->job->runtime, sync->sw.switched_step,
                                   sync->sw.mode | (uint64_t)shown->reason << 8, shown->value,
                                   shown->limit);
    pthread_mutex_lock(&sync->job->rate.lock);
    snprintf(shown->strategy, sizeof shown->strategy, "%s", spotnik_sync_name(sync));
    shown->switches = sync->sw.switches;
    shown->switched_step = sync->sw.switched_step;
    pthread_mutex_unlock(&sync->job->rate.lock);
}
