/* SPDX-License-Identifier: Apache-2.0 */
/* For test_transfer.c: the replica, what a step does to it, and the runtime, played. Included once,
 * after what they use is declared. */
#ifndef SPOTNIK_TEST_STATE_PLAYED_H
#define SPOTNIK_TEST_STATE_PLAYED_H

/* ---- the model ---- */

static void update_make(struct update *update, uint64_t step)
{
    for (int i = 0; i < BIG; i++)
        update->big[i] = (int64_t)(step * 1000003 + (uint64_t)i * 17);
    for (int i = 0; i < SMALL; i++)
        update->small[i] = (float)(step % 1000) + (float)i;
}

static void update_apply(struct replica *to, const struct update *update)
{
    for (int i = 0; i < WORDS; i += 7)
        to->word[i] =
            to->word[i] * 31 + (uint64_t)update->big[i % BIG] + (uint64_t)update->small[i % SMALL];
    to->step++;
}

/* What a program packs when a copy is wanted: its length changes from step to step. */
static void refresh(void *context)
{
    struct replica *of = context;
    char text[64];
    int length = snprintf(text, sizeof text, "after step %lld%.*s", (long long)of->step,
                          (int)(of->step % 9), ".........");

    assert_int_equal(spotnik_blobs_set(&of->registry.blobs, "loop", text, (size_t)length), 0);
}

static void replica_new(struct replica *to)
{
    to->word = calloc(WORDS, sizeof *to->word);
    assert_non_null(to->word);
    to->step = 0;
    for (int i = 0; i < WORDS; i++)
        to->word[i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
    spotnik_registry_init(&to->registry);
    assert_int_equal(spotnik_registry_add(&to->registry, "word", to->word, WORDS, SPOTNIK_I64), 0);
    assert_int_equal(spotnik_registry_add(&to->registry, "step", &to->step, 1, SPOTNIK_I64), 0);
    to->registry.refresh = refresh;
    to->registry.refresh_context = to;
    to->registry.founding = 4711;
}

/* ---- the runtime, played ---- */

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    return &runtime->credentials;
}

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&runtime->lock);
    if (runtime == &runtime_of[MEMBERS])
        looks++;
    pthread_cond_broadcast(&runtime->changed);
    ret->joining = runtime->joining;
    ret->size = MEMBERS;
    ret->step_stable =
        runtime->committed && !runtime->settled ? runtime->committed - 1 : runtime->committed;
    pthread_mutex_unlock(&runtime->lock);
}

uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch)
{
    (void)runtime;
    assert_true(max >= MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        ret[i] = runtime_of[i].credentials.self;
    *ret_epoch = 3;
    return MEMBERS;
}

void spotnik_runtime_wake(struct spotnik_runtime *runtime)
{
    (void)runtime;
}

void spotnik_runtime_enter(struct spotnik_runtime *runtime, const struct spotnik_member *sponsor)
{
    (void)sponsor;
    pthread_mutex_lock(&runtime->lock);
    runtime->entered = true;
    pthread_mutex_unlock(&runtime->lock);
}

static void take_chunk(struct spotnik_runtime *runtime, const struct spotnik_chunk_header *header,
                       const void *payload, size_t bytes)
{
    int which = header->bucket == 7;
    uint8_t *target = which ? (uint8_t *)runtime->update.small : (uint8_t *)runtime->update.big;

    assert_true(header->bucket == 0 || header->bucket == 7);
    assert_int_equal(header->count, which ? SMALL : BIG);
    assert_int_equal(header->dtype, which ? SPOTNIK_F32 : SPOTNIK_I64);
    if (header->sequence * CHUNK_BYTES < runtime->got[which])
        return; /* had it from the donor before */
    assert_int_equal(header->sequence * CHUNK_BYTES, runtime->got[which]);
    memcpy(target + runtime->got[which], payload, bytes);
    runtime->got[which] += bytes;
}

int spotnik_runtime_handover(struct spotnik_runtime *runtime,
                             const struct spotnik_chunk_header *header, const void *payload,
                             size_t bytes)
{
    pthread_mutex_lock(&runtime->lock);
    if (runtime->joining && header->step == runtime->committed + 1) {
        take_chunk(runtime, header, payload, bytes);
        if (runtime->got[0] == sizeof runtime->update.big
            && runtime->got[1] == sizeof runtime->update.small) {
            update_apply(runtime->replica, &runtime->update);
            runtime->got[0] = runtime->got[1] = 0;
            runtime->committed++;
        }
    } else {
        assert_true(!runtime->joining || header->step <= runtime->committed);
    }
    pthread_mutex_unlock(&runtime->lock);
    return 0;
}

#endif
