/* SPDX-License-Identifier: Apache-2.0 */
/* Switching strategies in a running job, among members that are threads of this process. Claims:
 * all members run the same strategy in every step and agree on the model's bits, a joiner that
 * comes later too; when models are to be equal again, they are from the commit of the switching
 * step on; a policy that answers differently on one member is found out by all; names are read
 * strictly. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "place.h"
#include "spotnik/sync.h"
#include "tests.h"

enum { MEMBERS = 3, SLOTS = 4, COUNT = 37, STEPS = 1 << 20, END = 6, PERIOD = 3 };

struct meeting {
    struct place place;
    pthread_barrier_t begun;
    int liar; /* its policy answers something else in the end; -1: none */
};

struct member {
    struct meeting *meeting;
    pthread_t thread;
    int number;
    uint64_t *agreed, *model; /* digests by step; 0: not seen */
    char *mode;               /* by step: 's', 'a' */
    uint64_t last, switched;
    uint32_t switches, turns;
    int result;
    double done;
    char failure[256];
};

static void descend(void *context, float *model, const float *gradient, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        model[i] -= 0.1f * gradient[i];
}

/* To and fro, every two windows. A liar says the opposite once the third is in. */
static int to_and_fro(void *context, const spotnik_sync_numbers *numbers)
{
    struct member *member = context;

    numbers->memory[0] += 1;
    member->turns++;
    if (numbers->members == MEMBERS && member->number == member->meeting->liar)
        return !((int)numbers->memory[0] / 2 % 2);
    return (int)numbers->memory[0] / 2 % 2;
}

static spotnik_job *join(struct member *member, float *model, spotnik_sync **ret_sync)
{
    spotnik_config config;
    spotnik_sync_config how;
    spotnik_job *job = NULL;

    place_config(&member->meeting->place, &config);
    config.members_min = 2;
    config.members_max = SLOTS;
    config.samples = 600;
    config.batch = 30;
    spotnik_sync_config_init(&how);
    how.strategy = "auto:ssgd/localsgd";
    how.period = PERIOD;
    EXPECT(member, spotnik_join(&config, &job) == 0);
    EXPECT(member, job && spotnik_sync_open(job, &how, model, COUNT, descend, NULL, ret_sync) == 0);
    EXPECT(member, job && spotnik_sync_policy_set(*ret_sync, to_and_fro, member) == 0);
    return member->failure[0] ? NULL : job;
}

static void look(struct member *member, const spotnik_sync *sync, const spotnik_step *step,
                 const float *model)
{
    spotnik_sync_report report = { .size = sizeof report };

    EXPECT(member, spotnik_sync_report_get(sync, &report) == 0);
    member->last = step->number;
    member->agreed[step->number] = spotnik_sync_digest(sync) | 1;
    member->model[step->number] =
        step->replay ? 0 : spotnik_hash_bytes(model, COUNT * sizeof *model) | 1;
    member->mode[step->number] = report.asynchronous ? 'a' : 's';
    member->switches = report.switches;
    member->switched = report.switched_step;
    EXPECT(member, !report.asynchronous == !strcmp(spotnik_sync_name(sync), "ssgd"));
    EXPECT(member, report.switches == 0
                       || !strcmp(report.reason, "the policy of the program asked for it"));
}

static int finish(spotnik_sync *sync, const spotnik_step *step, const float *model)
{
    float gradient[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = (model[i] - (float)(i + 1)) * (1 + 0.1f * (float)step->share)
                      + 0.01f * (float)(step->number % 7);
    return spotnik_sync_step(sync, gradient);
}

/* The third tells how many steps it has computed in either mode; then all stop at the same step. */
static void run(struct member *member, spotnik_job *job, spotnik_sync *sync, float *model)
{
    spotnik_step step;
    uint32_t computed = 0, first_switches = 0;

    while (!member->failure[0] && spotnik_sync_told(sync, 0) == 0) {
        EXPECT(member, spotnik_sync_begin(sync, &step) == 0 && step.number < STEPS);
        computed += step.shares > 0;
        if (computed == 1)
            first_switches = member->switches;
        spotnik_sync_tell(sync, 0, member->number == 2 && member->switches >= first_switches + END);
        member->result = finish(sync, &step, model);
        if (member->result)
            break;
        look(member, sync, &step, model);
        if (step.number == 5 && member->number == 0)
            pthread_barrier_wait(&member->meeting->begun); /* the third may come */
    }
    if (member->result && member->number == 0 && step.number < 5)
        pthread_barrier_wait(&member->meeting->begun);
    spotnik_leave(job);
}

static void *live(void *context)
{
    struct member *member = context;
    float model[COUNT] = { 0 };
    spotnik_sync *sync = NULL;

    if (member->number == 2)
        pthread_barrier_wait(&member->meeting->begun);
    spotnik_job *job = join(member, model, &sync);

    if (job)
        run(member, job, sync, model);
    return NULL;
}

static void meeting_open(struct meeting *meeting, int liar)
{
    meeting->liar = liar;
    place_open(&meeting->place);
    assert_int_equal(pthread_barrier_init(&meeting->begun, NULL, 2), 0);
}

static void meet(struct meeting *meeting, struct member member[MEMBERS])
{
    for (int i = 0; i < MEMBERS; i++) {
        member[i] = (struct member){ .meeting = meeting, .number = i };
        member[i].agreed = calloc(STEPS, sizeof *member[i].agreed);
        member[i].model = calloc(STEPS, sizeof *member[i].model);
        member[i].mode = calloc(STEPS, 1);
        assert_true(member[i].agreed && member[i].model && member[i].mode);
        assert_int_equal(pthread_create(&member[i].thread, NULL, live, &member[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++)
        pthread_join(member[i].thread, NULL);
}

static void part(struct meeting *meeting, struct member member[MEMBERS])
{
    for (int i = 0; i < MEMBERS; i++) {
        free(member[i].agreed);
        free(member[i].model);
        free(member[i].mode);
    }
    pthread_barrier_destroy(&meeting->begun);
    place_close(&meeting->place);
}

TEST(all_switch_alike)
{
    struct meeting meeting;
    struct member member[MEMBERS];
    uint64_t equal = 0, apart = 0, third = 0;

    meeting_open(&meeting, -1);
    meet(&meeting, member);
    for (int i = 0; i < MEMBERS; i++) {
        assert_string_equal(member[i].failure, "");
        assert_int_equal(member[i].last, member[0].last);
        assert_int_equal(member[i].switches, member[0].switches);
    }
    for (uint64_t step = 1; step <= member[0].last; step++) {
        assert_int_equal(member[0].agreed[step], member[1].agreed[step]);
        assert_int_equal(member[0].mode[step], member[1].mode[step]);
        bool synchronous =
            step > 1 && member[0].mode[step] == 's' && member[0].mode[step - 1] == 's';
        if (synchronous) /* the switching step was one before: equal from its commit on */
            assert_int_equal(member[0].model[step], member[1].model[step]);
        equal += synchronous;
        apart += member[0].model[step] != member[1].model[step];
        if (!member[2].mode[step])
            continue;
        third++;
        assert_int_equal(member[2].agreed[step], member[0].agreed[step]);
        assert_int_equal(member[2].mode[step], member[0].mode[step]);
    }
    assert_true(equal > 20 && apart > 5 && third > 20 && member[0].switches >= END);
    part(&meeting, member);
}

TEST(a_liar_is_found_out)
{
    struct meeting meeting;
    struct member member[MEMBERS];

    meeting_open(&meeting, 1);
    meet(&meeting, member);
    for (int i = 0; i < MEMBERS; i++) {
        assert_string_equal(member[i].failure, "");
        assert_int_equal(member[i].result, SPOTNIK_ERR_MISMATCH);
        assert_int_equal(member[i].last, member[0].last);
    }
    part(&meeting, member);
}

TEST(names_are_read_strictly)
{
    static const struct {
        const char *name;
        int expected;
    } names[] = {
        { "auto:ssgd/localsgd", 0 },
        { "auto:throughput:ssgd/localsgd", 0 },
        { "auto:throughput=0.3,0.6:sma/localsgd", 0 },
        { "auto:fastest:ssgd/localsgd", 0 },
        { "auto:fastest=0.9:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:ssgd/localsgd:waiting=0.5", 0 },
        { "auto:schedule=0.25:lookahead/localsgd", 0 },
        { "auto:schedule:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:throughput=0.6,0.3:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:throughput=40:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:throughput=0.1,0.2,0.3:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:throughputs:ssgd/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:ssgd/nothing", SPOTNIK_ERR_ARGUMENT },
        { "auto:nothing/localsgd", SPOTNIK_ERR_ARGUMENT },
        { "auto:ssgd/", SPOTNIK_ERR_ARGUMENT },
        { "auto:", SPOTNIK_ERR_ARGUMENT },
        { "automatic", SPOTNIK_ERR_ARGUMENT },
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        spotnik_config config;
        spotnik_sync_config how;
        spotnik_job *job = NULL;
        spotnik_sync *sync = NULL;
        float model[COUNT] = { 0 };

        spotnik_config_init(&config);
        config.steps_max = 10;
        spotnik_sync_config_init(&how);
        how.strategy = names[i].name;
        assert_int_equal(spotnik_join(&config, &job), 0);
        int rc = spotnik_sync_open(job, &how, model, COUNT, descend, NULL, &sync);
        if (rc != names[i].expected)
            print_error("%s: %d, %s\n", names[i].name, rc, spotnik_last_error());
        assert_int_equal(rc, names[i].expected);
        spotnik_abandon(job);
    }
}

TEST(own_policies_need_auto)
{
    spotnik_config config;
    spotnik_sync_config how;
    spotnik_job *job = NULL;
    spotnik_sync *sync = NULL;
    float model[COUNT] = { 0 };

    spotnik_config_init(&config);
    spotnik_sync_config_init(&how);
    how.strategy = "ssgd";
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_sync_open(job, &how, model, COUNT, descend, NULL, &sync), 0);
    assert_int_equal(spotnik_sync_policy_set(sync, to_and_fro, NULL), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_sync_policy_set(sync, NULL, NULL), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_sync_report_get(sync, NULL), SPOTNIK_ERR_ARGUMENT);
    spotnik_abandon(job);
}
