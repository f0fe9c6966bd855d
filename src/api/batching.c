/* SPDX-License-Identifier: Apache-2.0 */
/* From agreed rows to weights; the rules are the controller's. */
#include "api/batching.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "base/hash.h"

/* How far throughput must fall to teach an upper bound, for good. On shared machines a smaller fall
 * comes and goes by itself, and the rule follows it anyway. A memory that overflows is more. */
#define FALL_BAND 0.5

static bool is_given(const struct spotnik_step_stats_row *row)
{
    return row->compute_us != 0;
}

static void state_copy(struct spotnik_batching_state *to, const struct spotnik_batching_state *from)
{
    size_t members = from->controller.size;

    to->step = from->step;
    memcpy(&to->controller, &from->controller,
           offsetof(struct spotnik_batch_controller, member)
               + members * sizeof from->controller.member[0]);
    memcpy(to->share, from->share, members * sizeof from->share[0]);
}

/* The members that gave a row: the controller's members after this step. Returns their number. */
static uint32_t present(uint32_t slots, const struct spotnik_step_stats_row *row,
                        uint32_t *ret_share)
{
    uint32_t size = 0;

    for (uint32_t i = 0; i < slots && size < SPOTNIK_BATCH_MEMBERS_MAX; i++)
        if (is_given(&row[i]))
            ret_share[size++] = i;
    return size;
}

/* Which of the controller's members has had share `share` in the step before. */
static uint32_t member_of(const struct spotnik_batching_state *state, uint32_t share)
{
    for (uint32_t i = 0; i < state->controller.size; i++)
        if (state->share[i] == share)
            return i;
    return SPOTNIK_BATCH_NEWCOMER;
}

/* The members of this step in terms of the last one's. Returns whether they are other ones. */
static bool follow(const struct spotnik_batching_state *state, uint32_t size, const uint32_t *share,
                   const struct spotnik_step_stats_row *row, uint32_t *ret_from)
{
    bool changed = size != state->controller.size;

    for (uint32_t i = 0; i < size; i++) {
        uint32_t before = row[share[i]].before;
        ret_from[i] = before ? member_of(state, before - 1) : SPOTNIK_BATCH_NEWCOMER;
        changed |= ret_from[i] != i;
    }
    return changed;
}

/* Nothing can be learnt where bounds do not admit the batch: shares are even until it is
 * otherwise. */
static void view_change(struct spotnik_batching *batching, uint32_t size, const uint32_t *from)
{
    struct spotnik_batch_controller *controller = &batching->now.controller;
    struct spotnik_batch_config config = batching->config;
    int rc = 0;

    if (batching->per_member)
        config.batch *= size;
    if (controller->size) {
        controller->config.batch = config.batch;
        rc = spotnik_batch_controller_view(controller, size, from);
    }
    if (!controller->size || rc)
        rc = spotnik_batch_controller_init(controller, &config, size, NULL);
    if (rc)
        controller->size = 0;
}

/* Was every share what it was meant to be? Else (the end of an epoch, the step after a view change,
 * a collective) times say little. */
static bool as_dealt(const struct spotnik_batching_state *state,
                     const struct spotnik_step_stats_row *row)
{
    for (uint32_t i = 0; i < state->controller.size; i++)
        if (row[state->share[i]].samples != state->controller.member[i].samples)
            return false;
    return true;
}

static void members_observe(struct spotnik_batching_state *state,
                            const struct spotnik_step_stats_row *row)
{
    double time_s[SPOTNIK_BATCH_MEMBERS_MAX];

    for (uint32_t i = 0; i < state->controller.size; i++)
        time_s[i] = (double)row[state->share[i]].compute_us / 1e6;
    spotnik_batch_controller_observe(&state->controller, time_s);
}

/* Every row was given early: members run apart. */
static bool is_apart(const struct spotnik_batching_state *state,
                     const struct spotnik_step_stats_row *row)
{
    for (uint32_t i = 0; i < state->controller.size; i++)
        if (!row[state->share[i]].timed)
            return false;
    return true;
}

static void apart_observe(struct spotnik_batching_state *state,
                          const struct spotnik_step_stats_row *row)
{
    uint64_t samples[SPOTNIK_BATCH_MEMBERS_MAX];
    double time_s[SPOTNIK_BATCH_MEMBERS_MAX];

    for (uint32_t i = 0; i < state->controller.size; i++) {
        const struct spotnik_step_stats_row *its = &row[state->share[i]];
        samples[i] = its->timed != UINT32_MAX && its->compute_us > 1 ? its->timed : 0;
        time_s[i] = (double)its->compute_us / 1e6;
    }
    spotnik_batch_controller_observe_apart(&state->controller, samples, time_s);
}

/* Members that have run apart stand together again: what each has come to, made to fit. */
static void together(struct spotnik_batching *batching)
{
    struct spotnik_batch_controller *controller = &batching->now.controller;
    uint32_t from[SPOTNIK_BATCH_MEMBERS_MAX];

    for (uint32_t i = 0; i < controller->size; i++)
        from[i] = i;
    if (!spotnik_batch_controller_is_whole(controller))
        view_change(batching, controller->size, from);
}

void spotnik_batching_observe(struct spotnik_batching *batching, uint64_t step, uint32_t slots,
                              const struct spotnik_step_stats_row *row)
{
    uint64_t hash = spotnik_hash_bytes(row, slots * sizeof *row);
    uint32_t share[SPOTNIK_BATCH_MEMBERS_MAX], from[SPOTNIK_BATCH_MEMBERS_MAX];
    struct spotnik_batching_state *now = &batching->now;

    if (step == now->step && hash == batching->seen)
        return;
    if (step == now->step)
        state_copy(now, &batching->before);
    else
        state_copy(&batching->before, now);
    batching->seen = hash;
    uint32_t size = present(slots, row, share);
    if (size && follow(now, size, share, row, from))
        view_change(batching, size, from);
    now->step = step;
    if (!size || !now->controller.size)
        return;
    memcpy(now->share, share, size * sizeof share[0]);
    if (is_apart(now, row)) {
        apart_observe(now, row);
        return;
    }
    together(batching);
    if (now->controller.size && as_dealt(now, row))
        members_observe(now, row);
}

uint32_t spotnik_batching_weights(struct spotnik_batching *batching, uint32_t slots)
{
    const struct spotnik_batching_state *now = &batching->now;

    if (!now->controller.size || slots > SPOTNIK_BATCH_MEMBERS_MAX)
        return 0;
    memset(batching->weight, 0, slots * sizeof batching->weight[0]);
    for (uint32_t i = 0; i < now->controller.size; i++)
        if (now->share[i] < slots)
            batching->weight[now->share[i]] = (uint32_t)now->controller.member[i].samples;
    return slots;
}

/* ---- the blob: u64 size of the state here, u64 hash of what was seen, then the used part of it
 * ---- */

#define BLOB_HEAD 16

static size_t state_bytes(uint32_t members)
{
    return offsetof(struct spotnik_batching_state, controller)
           + offsetof(struct spotnik_batch_controller, member)
           + members * (sizeof(struct spotnik_batch_member) + sizeof(uint32_t));
}

size_t spotnik_batching_pack(const struct spotnik_batching *batching, void *bytes, size_t size)
{
    const struct spotnik_batching_state *now = &batching->now;
    size_t members = now->controller.size, all = BLOB_HEAD + state_bytes(now->controller.size);
    size_t fixed = offsetof(struct spotnik_batching_state, controller.member);
    uint64_t head[2] = { sizeof *now, batching->seen };
    uint8_t *at = bytes;

    if (size < all)
        return 0;
    memcpy(at, head, BLOB_HEAD);
    memcpy(at += BLOB_HEAD, now, fixed);
    memcpy(at += fixed, now->controller.member, members * sizeof now->controller.member[0]);
    memcpy(at + members * sizeof now->controller.member[0], now->share,
           members * sizeof now->share[0]);
    return all;
}

static bool is_sane_timing(const struct spotnik_batch_timing *timing)
{
    for (uint32_t i = 0; i < timing->filled && i < SPOTNIK_BATCH_BLOCK; i++)
        if (!(timing->block[i] > 0 && timing->block[i] < 1e9))
            return false;
    return timing->filled < SPOTNIK_BATCH_BLOCK && timing->time_s >= 0 && timing->time_s < 1e9
           && timing->last_s >= 0 && timing->last_s < 1e9 && timing->doubt2 >= 0
           && timing->doubt2 <= 1 && timing->noise >= 0 && timing->noise < 1e9;
}

/* What the controller takes for granted: whole batches that add up, times and settings that are
 * numbers. */
static bool is_sane_config(const struct spotnik_batch_config *config)
{
    return config->batch >= 1 && config->batch <= UINT32_MAX && config->least >= 1
           && config->window >= 1 && config->smoothing > 0 && config->smoothing <= 1
           && config->dead_band >= 0 && config->dead_band < 1e6 && config->caution >= 0
           && config->caution < 1e6 && config->fall_band >= 0 && config->fall_band < 1;
}

static bool is_sane(const struct spotnik_batch_controller *controller)
{
    uint64_t sum = 0; /* not the batch, where members run apart */

    for (uint32_t i = 0; i < controller->size; i++) {
        const struct spotnik_batch_member *member = &controller->member[i];
        if (member->samples < 1 || member->samples > UINT32_MAX || !is_sane_timing(&member->timing)
            || !(member->speed_before >= 0 && member->speed_before < 1e18))
            return false;
        sum += member->samples;
    }
    return controller->size == 0 || (sum <= UINT32_MAX && is_sane_config(&controller->config));
}

bool spotnik_batching_unpack(struct spotnik_batching *batching, const void *bytes, size_t size)
{
    struct spotnik_batching_state *now = &batching->now;
    size_t fixed = offsetof(struct spotnik_batching_state, controller.member);
    const uint8_t *at = bytes;
    uint64_t head[2];
    uint32_t members = 0;

    memset(now, 0, sizeof *now);
    batching->seen = 0;
    if (size < BLOB_HEAD + fixed)
        return false;
    memcpy(head, at, BLOB_HEAD);
    memcpy(&members, at + BLOB_HEAD + offsetof(struct spotnik_batching_state, controller.size),
           sizeof members);
    if (head[0] != sizeof *now || members > SPOTNIK_BATCH_MEMBERS_MAX
        || size != BLOB_HEAD + state_bytes(members))
        return false;
    memcpy(now, at += BLOB_HEAD, fixed);
    memcpy(now->controller.member, at += fixed, members * sizeof now->controller.member[0]);
    memcpy(now->share, at + members * sizeof now->controller.member[0],
           members * sizeof now->share[0]);
    if (!is_sane(&now->controller)) {
        memset(now, 0, sizeof *now);
        return false;
    }
    batching->seen = head[1];
    return true;
}

/* ---- in the job ---- */

int spotnik_batching_open(struct spotnik_job *job)
{
    const spotnik_config *config = &job->config;
    struct spotnik_batching *batching;

    if (config->batching != SPOTNIK_BATCHING_DYNAMIC)
        return 0;
    batching = calloc(1, sizeof *batching);
    if (!batching)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for dynamic batching");
    batching->per_member = config->batch_per_member != 0;
    spotnik_batch_config_init(&batching->config,
                              batching->per_member ? config->batch_per_member : config->batch);
    batching->config.most = config->batch_most;
    batching->config.fall_band = FALL_BAND;
    job->batching = batching;
    return 0;
}

void spotnik_batching_begin(struct spotnik_job *job)
{
    struct spotnik_batching *batching = job->batching;

    if (!batching || batching->loads == job->state_loads)
        return;
    const struct spotnik_blob *blob =
        spotnik_blobs_find(&job->registry.blobs, SPOTNIK_BATCHING_BLOB);

    batching->loads = job->state_loads;
    spotnik_batching_unpack(batching, blob ? blob->bytes : NULL, blob ? blob->size : 0);
}

static const struct spotnik_step_stats_row *rows(const struct spotnik_job *job,
                                                 uint32_t bucket_count,
                                                 const struct spotnik_bucket_result *result)
{
    const struct spotnik_step_stats *agreed = spotnik_step_stats_get(job);
    bool there = agreed && bucket_count > SPOTNIK_BUCKET_AGREED
                 && result[SPOTNIK_BUCKET_AGREED].count
                        == agreed->slots * (sizeof(struct spotnik_step_stats_row) / 8);

    return there ? result[SPOTNIK_BUCKET_AGREED].data : NULL;
}

uint32_t spotnik_batching_deal(void *context, uint64_t step, uint32_t bucket_count,
                               const struct spotnik_bucket_result *result,
                               const uint32_t **ret_weight)
{
    struct spotnik_job *job = context;
    struct spotnik_batching *batching = job->batching;
    const struct spotnik_step_stats_row *row = rows(job, bucket_count, result);

    if (!row)
        return 0;
    spotnik_batching_observe(batching, step, job->config.members_max, row);
    *ret_weight = batching->weight;
    return spotnik_batching_weights(batching, job->config.members_max);
}

void spotnik_batching_committed(struct spotnik_job *job, uint64_t step, uint32_t bucket_count,
                                const struct spotnik_bucket_result *result)
{
    const struct spotnik_step_stats_row *row =
        job->batching ? rows(job, bucket_count, result) : NULL;

    if (row)
        spotnik_batching_observe(job->batching, step, job->config.members_max, row);
}

/* A replica without it (no memory) is one that begins to learn anew. */
void spotnik_batching_refresh(struct spotnik_job *job)
{
    size_t size = BLOB_HEAD + sizeof(struct spotnik_batching_state);
    void *bytes = job->batching ? malloc(size) : NULL;

    if (!bytes)
        return;
    size = spotnik_batching_pack(job->batching, bytes, size);
    (void)spotnik_blobs_set(&job->registry.blobs, SPOTNIK_BATCHING_BLOB, bytes, size);
    free(bytes);
}

double spotnik_batching_lambda(const struct spotnik_job *job)
{
    const struct spotnik_step_stats *agreed = spotnik_step_stats_get(job);
    double samples = 0, members = 0;

    if (!job->batching || !agreed || !agreed->step || !job->samples)
        return 1;
    for (uint32_t i = 0; i < agreed->slots; i++) {
        samples += agreed->row[i].samples;
        members += is_given(&agreed->row[i]) && agreed->row[i].samples;
    }
    return samples > 0 ? (double)job->samples * members / samples : 1;
}
