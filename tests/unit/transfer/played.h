/* SPDX-License-Identifier: Apache-2.0 */
/* For test_transfer.c: the replica, what a step does to it, and the engine, played. Included once,
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

/* ---- the engine, played ---- */

const struct spotnik_credentials *spotnik_engine_credentials(const struct spotnik_engine *engine)
{
    return &engine->credentials;
}

void spotnik_engine_status(struct spotnik_engine *engine, spotnik_job_status *ret)
{
    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&engine->lock);
    if (engine == &engine_of[MEMBERS])
        looks++;
    pthread_cond_broadcast(&engine->changed);
    ret->joining = engine->joining;
    ret->size = MEMBERS;
    ret->step_stable =
        engine->committed && !engine->settled ? engine->committed - 1 : engine->committed;
    pthread_mutex_unlock(&engine->lock);
}

uint32_t spotnik_engine_members(struct spotnik_engine *engine, struct spotnik_member *ret,
                                uint32_t max, uint64_t *ret_epoch)
{
    (void)engine;
    assert_true(max >= MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        ret[i] = engine_of[i].credentials.self;
    *ret_epoch = 3;
    return MEMBERS;
}

void spotnik_engine_wake(struct spotnik_engine *engine)
{
    (void)engine;
}

void spotnik_engine_enter(struct spotnik_engine *engine, const struct spotnik_member *sponsor)
{
    (void)sponsor;
    pthread_mutex_lock(&engine->lock);
    engine->entered = true;
    pthread_mutex_unlock(&engine->lock);
}

static void take_chunk(struct spotnik_engine *engine, const struct spotnik_chunk_header *header,
                       const void *payload, size_t bytes)
{
    int which = header->bucket == 7;
    uint8_t *target = which ? (uint8_t *)engine->update.small : (uint8_t *)engine->update.big;

    assert_true(header->bucket == 0 || header->bucket == 7);
    assert_int_equal(header->count, which ? SMALL : BIG);
    assert_int_equal(header->dtype, which ? SPOTNIK_F32 : SPOTNIK_I64);
    if (header->sequence * CHUNK_BYTES < engine->got[which])
        return; /* had it from the donor before */
    assert_int_equal(header->sequence * CHUNK_BYTES, engine->got[which]);
    memcpy(target + engine->got[which], payload, bytes);
    engine->got[which] += bytes;
}

int spotnik_engine_handover(struct spotnik_engine *engine,
                            const struct spotnik_chunk_header *header, const void *payload,
                            size_t bytes)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->joining && header->step == engine->committed + 1) {
        take_chunk(engine, header, payload, bytes);
        if (engine->got[0] == sizeof engine->update.big
            && engine->got[1] == sizeof engine->update.small) {
            update_apply(engine->replica, &engine->update);
            engine->got[0] = engine->got[1] = 0;
            engine->committed++;
        }
    } else {
        assert_true(!engine->joining || header->step <= engine->committed);
    }
    pthread_mutex_unlock(&engine->lock);
    return 0;
}

#endif
