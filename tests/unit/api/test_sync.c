/* SPDX-License-Identifier: Apache-2.0 */
/* A model under a strategy, in a job of one: what calls are refused, what a strategy makes of a
 * step, what is agreed. Several members: test_switch.c, and e2e_kills_*. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "spotnik/sync.h"
#include "tests.h"

enum { COUNT = 5, STEPS = 20 };

static void descend(void *context, float *w, const float *g, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        w[i] -= 0.5f * g[i];
}

static spotnik_job *job_new(uint64_t samples)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    spotnik_config_init(&config);
    config.samples = samples;
    config.batch = samples;
    config.steps_max = STEPS;
    assert_int_equal(spotnik_join(&config, &job), 0);
    return job;
}

static int open_named(spotnik_job *job, const char *name, float *w, spotnik_sync **ret)
{
    spotnik_sync_config config;

    spotnik_sync_config_init(&config);
    config.strategy = name;
    return spotnik_sync_open(job, &config, w, COUNT, descend, NULL, ret);
}

/* w <- w - 0.5 (w - 1), STEPS times. */
static void train(spotnik_sync *sync, float *w)
{
    float g[COUNT];
    spotnik_step step;
    int rc;

    while ((rc = spotnik_sync_begin(sync, &step)) == 0) {
        for (int i = 0; i < COUNT; i++)
            g[i] = w[i] - 1;
        spotnik_sync_tell(sync, 1, 7);
        assert_int_equal(spotnik_sync_step(sync, g), 0);
    }
    assert_int_equal(rc, SPOTNIK_ERR_DONE);
}

TEST(every_strategy_trains_alone)
{
    static const char *const names[] = { "ssgd",     "sma",       "easgd",
                                         "localsgd", "lookahead", "lookahead+sma",
                                         "adpsgd",   "asp",       "hogwild" };

    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        spotnik_job *job = job_new(0);
        spotnik_sync *sync = NULL;
        float w[COUNT] = { 9, 8, 7, 6, 5 };
        /* one step back after five forward */
        float near = strncmp(names[n], "lookahead", 9) == 0 ? 1.7f : 1.2f;

        assert_int_equal(open_named(job, names[n], w, &sync), 0);
        assert_string_equal(spotnik_sync_name(sync), names[n]);
        assert_int_equal(spotnik_sync_is_same_bits(sync), n == 0 || n == 4);
        train(sync, w);
        for (int i = 0; i < COUNT; i++)
            assert_true(w[i] > 0.8f && w[i] < near);
        assert_true(spotnik_sync_told(sync, 1) > 0);
        if (spotnik_sync_is_same_bits(sync))
            assert_memory_equal(spotnik_sync_agreed(sync), w, sizeof w);
        assert_int_equal(spotnik_leave(job), 0);
    }
}

/* Claim: a local step neither reads nor writes the model: the program may keep it elsewhere. */
TEST(local_steps_leave_the_model_to_apply)
{
    static const struct {
        const char *name;
        unsigned period, back; /* of averages, and of Lookahead; 0: it is not local between them */
    } cases[] = { { "localsgd", 8, STEPS + 1 },
                  { "easgd", 4, STEPS + 1 },
                  { "lookahead+localsgd", 8, 5 },
                  { "lookahead", 0, 0 },
                  { "sma", 0, 0 },
                  { "adpsgd", 0, 0 },
                  { "auto:localsgd/adpsgd", 0, 0 },
                  { "ssgd", 0, 0 } };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        spotnik_job *job = job_new(0);
        spotnik_sync *sync = NULL;
        float w[COUNT] = { 9, 8, 7, 6, 5 }, own[COUNT], g[COUNT] = { 0 };
        spotnik_step step;

        assert_int_equal(open_named(job, cases[n].name, w, &sync), 0);
        assert_int_equal(spotnik_sync_is_local(sync, 1), 0); /* no step was begun yet */
        for (uint64_t number = 1; number < STEPS; number++) {
            bool local = cases[n].period && number % cases[n].period && number % cases[n].back;

            assert_int_equal(spotnik_sync_is_local(sync, number), number > 1 && local);
            memcpy(own, w, sizeof w);
            if (number > 1 && local)
                memset(w, 0xff, sizeof w); /* not a number, and does not become one */
            assert_int_equal(spotnik_sync_begin(sync, &step), 0);
            assert_int_equal(spotnik_sync_is_local(sync, number), local);
            assert_int_equal(spotnik_sync_step(sync, g), 0);
            if (number > 1 && local)
                memcpy(w, own, sizeof w);
            assert_false(isnan(w[0]) || isnan(spotnik_sync_agreed(sync)[0]));
        }
        spotnik_abandon(job);
    }
}

TEST(what_does_not_fit_is_refused)
{
    spotnik_job *job = job_new(0);
    spotnik_sync *sync = NULL;
    float w[COUNT] = { 0 }, g[COUNT] = { 0 };
    spotnik_step step;

    assert_int_equal(spotnik_sync_open(job, NULL, w, 0, descend, NULL, &sync),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_sync_open(job, NULL, w, COUNT, NULL, NULL, &sync),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(open_named(job, "gossip", w, &sync), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "ssgd, sma"));
    /* one for a job, refused or not */
    assert_int_equal(open_named(job, "ssgd", w, &sync), SPOTNIK_ERR_STATE);
    spotnik_abandon(job);

    job = job_new(0);
    assert_int_equal(open_named(job, "lookahead+adpsgd", w, &sync), SPOTNIK_ERR_ARGUMENT);
    spotnik_abandon(job);

    job = job_new(0);
    assert_int_equal(open_named(job, "sma", w, &sync), 0);
    assert_int_equal(spotnik_sync_step(sync, g), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_sync_tell(sync, SPOTNIK_SYNC_TELL_MAX, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_sync_begin(sync, &step), 0);
    assert_int_equal(spotnik_sync_state_add(sync, "late", g, COUNT, SPOTNIK_F32),
                     SPOTNIK_ERR_STATE);
    /* sma's */
    assert_int_equal(spotnik_allreduce(job, 250, g, 1, SPOTNIK_F32, SPOTNIK_SUM),
                     SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_sync_step(sync, NULL), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_sync_step(sync, g), 0);
    spotnik_abandon(job);
}

struct asked {
    int begun, finished;
};

static void rule_begin(void *context, spotnik_sync *sync, const spotnik_sync_view *now)
{
    ((struct asked *)context)->begun++;
    memcpy(now->scratch, now->model, now->count * sizeof *now->model);
    for (int i = 0; i < 5; i++) /* one more than there may be */
        spotnik_sync_average(sync, now->scratch);
}

static void rule_finish(void *context, spotnik_sync *sync, const spotnik_sync_view *now)
{
    (void)sync;
    (void)now;
    ((struct asked *)context)->finished++;
}

TEST(a_rule_that_averages_too_much_is_told)
{
    spotnik_job *job = job_new(0);
    spotnik_sync *sync = NULL;
    float w[COUNT] = { 0 }, g[COUNT] = { 0 };
    struct asked asked = { 0 };
    spotnik_step step;

    assert_int_equal(open_named(job, "ssgd", w, &sync), 0);
    assert_int_equal(spotnik_sync_rule_set(sync, "x", 64, rule_begin, rule_finish, &asked),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_sync_rule_set(sync, "x", SPOTNIK_RULE_SYNCHRONOUS, rule_begin,
                                           rule_finish, &asked),
                     0);
    assert_string_equal(spotnik_sync_name(sync), "x");
    assert_int_equal(spotnik_sync_begin(sync, &step), 0);
    assert_int_equal(spotnik_sync_step(sync, g), SPOTNIK_ERR_LIMIT);
    assert_int_equal(asked.begun, 1);
    assert_int_equal(asked.finished, 0);
    spotnik_abandon(job);
}

/* ---- after the loss of everybody ---- */

enum { SAVED = 16, AFTER = 8 };

static spotnik_sync *saved_open(const struct place *place, const char *name, float *w,
                                spotnik_job **ret_job)
{
    spotnik_config config;
    spotnik_sync *sync = NULL;

    place_config(place, &config);
    config.checkpoint_dir = place->folder;
    config.checkpoint_steps = SAVED;
    assert_int_equal(spotnik_join(&config, ret_job), 0);
    spotnik_sync_config settings;
    spotnik_sync_config_init(&settings);
    settings.strategy = name;
    settings.average_period = 4;
    assert_int_equal(spotnik_sync_open(*ret_job, &settings, w, COUNT, descend, NULL, &sync), 0);
    return sync;
}

static void one_step(spotnik_sync *sync, const float *w)
{
    spotnik_step step;
    float g[COUNT];

    assert_int_equal(spotnik_sync_begin(sync, &step), 0);
    for (int i = 0; i < COUNT; i++)
        g[i] = w[i] - 1;
    assert_int_equal(spotnik_sync_step(sync, g), 0);
}

/* The checkpoint is of step SAVED, whatever comes after; it is written in the background. */
static void save(const struct place *place, const char *name)
{
    float w[COUNT] = { 9, 8, 7, 6, 5 };
    spotnik_checkpoint_info info = { .size = sizeof info };
    spotnik_job *job;
    spotnik_sync *sync = saved_open(place, name, w, &job);

    for (int i = 0; i < SAVED; i++)
        one_step(sync, w);
    do {
        one_step(sync, w);
        spotnik_checkpoint_status(job, &info);
    } while (info.complete_step == 0);
    spotnik_abandon(job);
}

/* From what a program begins with this is far. */
static void go_on(const struct place *place, const char *name)
{
    float w[COUNT] = { 900, 800, 700, 600, 500 };
    spotnik_checkpoint_info info = { .size = sizeof info };
    spotnik_job *job;
    spotnik_sync *sync = saved_open(place, name, w, &job);

    for (int i = 0; i < AFTER; i++) {
        one_step(sync, w);
        for (int k = 0; k < COUNT; k++)
            assert_true(w[k] > 0.5f && w[k] < 3 && spotnik_sync_agreed(sync)[k] < 3);
    }
    spotnik_checkpoint_status(job, &info);
    assert_true(info.resumed_step >= SAVED);
    spotnik_abandon(job);
}

/* Claim: a job that has lost all its members goes on from the agreed model in every strategy, ASP's
 * store and Hogwild's memory included; and it may take another strategy then. */
TEST(goes_on_from_what_was_agreed)
{
    static const char *const names[] = { "ssgd",   "sma", "easgd",  "localsgd",
                                         "adpsgd", "asp", "hogwild" };
    const size_t count = sizeof names / sizeof *names;

    for (size_t n = 0; n < count; n++) {
        struct place place;
        place_open(&place);
        save(&place, names[n]);
        go_on(&place, names[n]);
        place_close(&place);
        place_open(&place);
        save(&place, names[n]);
        go_on(&place, names[(n + 3) % count]);
        place_close(&place);
    }
}

int main(void)
{
    setenv("SPOTNIK_STALE_MS", "400", 1); /* as long waits each that goes on in a used folder */
    return tests_run(NULL, NULL);
}
