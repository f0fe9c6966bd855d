/* SPDX-License-Identifier: Apache-2.0 */
/* The public API as a job of one, which needs no key and no network of others. Claims: the loop of
 * the header works; calls in the wrong place or with wrong arguments are refused with the right
 * code and change nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/hash.h"
#include "spotnik/p2p.h"
#include "spotnik/spotnik.h"
#include "spotnik/state.h"
#include "discovery/discovery.h"
#include "tests.h"

static const char *const variables[] = { "SPOTNIK_JOB",          "SPOTNIK_KEY_FILE",
                                         "SPOTNIK_PEERS",        "SPOTNIK_BIND",
                                         "SPOTNIK_MIN",          "SPOTNIK_MAX",
                                         "SPOTNIK_SILENCE_MS",   "SPOTNIK_ON_MINORITY",
                                         "SPOTNIK_CHECKPOINT",   "SPOTNIK_CHECKPOINT_STEPS",
                                         "SPOTNIK_CHECKPOINT_S", "SPOTNIK_SYNC",
                                         "SPOTNIK_CPU",          "SPOTNIK_BUDGET",
                                         "SPOTNIK_PRICE" };

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    return 0;
}

static spotnik_job *join_one(uint64_t samples, uint64_t batch, uint64_t steps_max)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    spotnik_config_init(&config);
    config.samples = samples;
    config.batch = batch;
    config.steps_max = steps_max;
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_non_null(job);
    return job;
}

/* Every sample once per epoch of data, results equal to inputs, DONE after the last step. */
TEST_WITH(loop, setup, NULL)
{
    spotnik_job *job = join_one(10, 4, 7);
    float w[3] = { 0, 0, 0 }, g[3];
    unsigned seen[10] = { 0 };
    spotnik_step step;
    int rc;

    assert_int_equal(spotnik_state_add(job, "w", w, 3, SPOTNIK_F32), 0);
    uint64_t expected = 1;
    while ((rc = spotnik_step_begin(job, &step)) == 0) {
        assert_int_equal(step.number, expected++);
        assert_int_equal(step.rank, 0);
        assert_int_equal(step.size, 1);
        assert_false(step.replay);
        for (uint32_t r = 0; r < step.range_count; r++)
            for (uint64_t i = step.samples[r].begin; i < step.samples[r].end; i++)
                seen[i] += step.data_epoch == 0;
        for (int i = 0; i < 3; i++)
            g[i] = (float)(step.number * (uint64_t)(i + 1));
        assert_int_equal(spotnik_allreduce(job, 0, g, 3, SPOTNIK_F32, SPOTNIK_MEAN), 0);
        assert_int_equal(spotnik_step_commit(job), 0);
        assert_true(g[2] == (float)(3 * step.number));
        for (int i = 0; i < 3; i++)
            w[i] += g[i];
    }
    assert_int_equal(rc, SPOTNIK_ERR_DONE);
    assert_int_equal(expected, 8);
    for (int i = 0; i < 10; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(spotnik_state_digest(job), spotnik_hash_bytes(w, sizeof w));
    assert_int_equal(spotnik_leave(job), 0);
}

TEST_WITH(calls_in_the_wrong_place, setup, NULL)
{
    spotnik_job *job = join_one(0, 0, 0);
    spotnik_step step;
    float g[2] = { 1, 2 };

    assert_int_equal(spotnik_step_commit(job), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_allreduce(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_SUM), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_weight_set(job, 3), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_state_add(job, "late", g, 2, SPOTNIK_F32), SPOTNIK_ERR_STATE);
    assert_non_null(strstr(spotnik_last_error(), "late"));
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_weight_set(job, 3), 0);
    assert_int_equal(spotnik_allreduce(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_SUM), 0);
    assert_int_equal(spotnik_allreduce(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_SUM), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_weight_set(job, 3), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_step_commit(job), SPOTNIK_ERR_STATE);
    assert_true(g[0] == 1 && g[1] == 2);
    assert_int_equal(spotnik_step_begin(job, &step), 0); /* a step without buckets */
    assert_int_equal(step.number, 2);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_leave(job), 0);
}

TEST_WITH(wrong_arguments, setup, NULL)
{
    spotnik_job *job = join_one(0, 0, 0);
    spotnik_step step;
    uint8_t g[8] = { 0 };

    assert_int_equal(spotnik_step_begin(job, NULL), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_step_begin(NULL, &step), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_allreduce(job, 256, g, 1, SPOTNIK_U8, SPOTNIK_MAX),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, NULL, 1, SPOTNIK_U8, SPOTNIK_MAX),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, g, 1, (enum spotnik_dtype)14, SPOTNIK_MAX),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, g, SIZE_MAX, SPOTNIK_F32, SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, g, 8, SPOTNIK_U8, (enum spotnik_op)6),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, g, 8, SPOTNIK_U8, (enum spotnik_op)0),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce(job, 0, g, 8, SPOTNIK_U8, SPOTNIK_MAX),
                     0); /* none of them used up the bucket */
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_leave(job), 0);
    assert_int_equal(spotnik_leave(NULL), 0);
    spotnik_abandon(NULL);
    spotnik_notice(NULL);
}

/* A notice ends the loop at the next step_begin; a begun step is finished first. */
TEST_WITH(notice, setup, NULL)
{
    spotnik_job *job = join_one(0, 0, 0);
    spotnik_step step;

    assert_int_equal(spotnik_step_begin(job, &step), 0);
    spotnik_notice(job);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_LEAVING);
    assert_int_equal(spotnik_leave(job), 0);
}

TEST_WITH(status, setup, NULL)
{
    spotnik_job *job = join_one(0, 0, 0);
    spotnik_job_status status;
    spotnik_step step;

    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_step_commit(job), 0);
    spotnik_status(job, &status);
    assert_int_equal(status.step_committed, 1);
    assert_int_equal(status.size, 1);
    assert_int_equal(status.view_epoch, 1);
    assert_int_equal(strlen(status.member), 32);
    assert_false(status.joining);
    spotnik_abandon(job);
}

static void refuse(const char *variable, const char *value)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    setup(NULL);
    setenv(variable, value, 1);
    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    assert_null(job);
    if (!strstr(spotnik_last_error(), variable))
        fail_msg("%s=%s: %s", variable, value, spotnik_last_error());
}

TEST_WITH(wrong_environment, setup, NULL)
{
    refuse("SPOTNIK_MIN", "two");
    refuse("SPOTNIK_MIN", "-1");
    refuse("SPOTNIK_MIN", "0");
    refuse("SPOTNIK_MIN", "4294967296");
    refuse("SPOTNIK_MIN", "2"); /* nobody else can come without peers */
    refuse("SPOTNIK_MAX", "4x");
    refuse("SPOTNIK_MAX", "100000");
    refuse("SPOTNIK_SILENCE_MS", "fast");
    refuse("SPOTNIK_SILENCE_MS", "0");
    refuse("SPOTNIK_ON_MINORITY", "panic");
    refuse("SPOTNIK_BIND", "0.0.0.0");
    refuse("SPOTNIK_BIND", "999.1");
    refuse("SPOTNIK_CPU", "fast");
    refuse("SPOTNIK_BUDGET", "much");
    refuse("SPOTNIK_PRICE", "nan");
    refuse("SPOTNIK_CHECKPOINT_STEPS", "-1"); /* though nothing reads these now */
    refuse("SPOTNIK_CHECKPOINT_S", "10m");
    refuse("SPOTNIK_CHECKPOINT", "gcs://bucket/job");
    refuse("SPOTNIK_PEERS", "");
    refuse("SPOTNIK_SYNC", "bogus");
    refuse("SPOTNIK_SYNC", "lookahead+adpsgd");
    refuse("SPOTNIK_SYNC", "auto:bogus");
    refuse("SPOTNIK_SYNC", "auto:waiting:ssgd/bogus");
    setup(NULL);
    setenv("SPOTNIK_PEERS", "127.0.0.1:1", 1); /* peers without a key */
    spotnik_config config;
    spotnik_job *job = NULL;

    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "spotnik key"));
}

/* What SPOTNIK_SYNC may say keeps no program from joining, whether it asks for a strategy or
 * not. */
TEST_WITH(right_environment, setup, NULL)
{
    static const char *const names[] = { "ssgd", "lookahead+sma", "hogwild", "auto",
                                         "auto:waiting=0.3:lookahead/adpsgd" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv("SPOTNIK_SYNC", names[i], 1);
        spotnik_abandon(join_one(0, 0, 0));
    }
}

TEST_WITH(wrong_config, setup, NULL)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    assert_int_equal(spotnik_join(NULL, &job), SPOTNIK_ERR_ARGUMENT);
    memset(&config, 0, sizeof config);
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, NULL), SPOTNIK_ERR_ARGUMENT);
    config.samples = 10; /* and no batch */
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    config.batch = config.batch_per_member = 3; /* nor both */
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    assert_null(job);
}

/* Claim: a job may have ten thousand members; what is made for a thousand says so when it is asked
 * for more. */
TEST_WITH(many_members, setup, NULL)
{
    spotnik_job *job = NULL;
    spotnik_config config;
    spotnik_step step;
    uint64_t value = 1;

    spotnik_config_init(&config);
    config.members_max = 10001;
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    config.members_max = 10000;
    config.samples = 10;
    config.batch = 2;
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "samples"));
    config.samples = config.batch = 0;
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_publish(job, "a", &value, 1, SPOTNIK_U64, 1), SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_broadcast(job, 1, &value, 1, SPOTNIK_U64, 0), SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_allreduce(job, 0, &value, 1, SPOTNIK_U64, SPOTNIK_SUM), 0);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(value, 1);
    assert_int_equal(spotnik_leave(job), 0);
}

/* A program built with the first header has a shorter struct: nothing is written behind it, and it
 * gets a job. */
TEST_WITH(config_of_an_older_header, setup, NULL)
{
    size_t first = offsetof(spotnik_config, checkpoint_dir);
    spotnik_config config;
    spotnik_job *job = NULL;

    memset(&config, 0xee, sizeof config);
    (spotnik_config_init)(&config);
    assert_int_equal(config.size, first);
    for (size_t i = first; i < sizeof config; i++)
        assert_int_equal(((unsigned char *)&config)[i], 0xee);
    assert_int_equal(spotnik_join(&config, &job), 0);
    spotnik_abandon(job);
    config.size = sizeof config + 8; /* of a newer one */
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
}

/* A member alone consumes its batch in every step, as it would among others. */
TEST_WITH(batch_per_member, setup, NULL)
{
    spotnik_config config;
    spotnik_job *job = NULL;
    spotnik_step step;

    spotnik_config_init(&config);
    config.samples = 10;
    config.batch_per_member = 4;
    assert_int_equal(spotnik_join(&config, &job), 0);
    for (uint64_t expected = 0; expected < 3; expected++) {
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        assert_int_equal(step.sample_count, expected < 2 ? 4 : 2);
        assert_int_equal(step.samples[0].begin, 4 * expected);
        assert_int_equal(spotnik_step_commit(job), 0);
    }
    spotnik_abandon(job);
}

TEST_WITH(blobs, setup, NULL)
{
    spotnik_job *job = join_one(0, 0, 0);
    char out[8];
    size_t length = 99;
    spotnik_step step;

    assert_int_equal(spotnik_state_blob_get(job, "rng", NULL, 0, &length), 0);
    assert_int_equal(length, 0);
    assert_int_equal(spotnik_state_blob_set(job, "rng", "seed", 4), 0);
    assert_int_equal(spotnik_state_blob_get(job, "rng", out, 3, &length), SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_state_blob_get(job, "rng", out, sizeof out, &length), 0);
    assert_int_equal(length, 4);
    assert_memory_equal(out, "seed", 4);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_state_blob_set(job, "rng", "next", 4), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_state_blob_set(job, "rng", "longer now", 10), 0);
    assert_int_equal(spotnik_state_blob_get(job, "rng", NULL, 0, &length), 0);
    assert_int_equal(length, 10);
    assert_int_equal(spotnik_state_loads(job), 0);
    spotnik_abandon(job);
}

/* A collective beside the training: the samples stay in the pool, and are dealt out in the next
 * step. */
TEST_WITH(samples_declined, setup, NULL)
{
    spotnik_job *job = join_one(10, 4, 0);
    spotnik_step step;
    float g[2] = { 1, 2 };

    assert_int_equal(spotnik_samples_decline(job), SPOTNIK_ERR_STATE);
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        assert_int_equal(step.data_epoch, i / 2 / 3);
        assert_int_equal(step.samples[0].begin, 4 * (i / 2 % 3));
        assert_int_equal(step.share, 0);
        assert_int_equal(step.shares, 1);
        if (i % 2 == 0)
            assert_int_equal(spotnik_samples_decline(job), 0);
        assert_int_equal(spotnik_allreduce(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_MEAN), 0);
        assert_int_equal(spotnik_samples_decline(job), SPOTNIK_ERR_STATE);
        assert_int_equal(spotnik_step_commit(job), 0);
        assert_true(g[0] == 1 && g[1] == 2);
    }
    spotnik_abandon(job);
}

/* A notice waits for the batch's last step, and is heeded at the boundary after it. */
TEST_WITH(batch_continued, setup, NULL)
{
    spotnik_job *job = join_one(10, 4, 0);
    spotnik_step step;

    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_batch_continue(job), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_commit(job), 0);
    spotnik_notice(job);
    assert_int_equal(spotnik_batch_continue(job), 0);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(step.number, 2);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_LEAVING);
    spotnik_abandon(job);
}

/* A job for two, one of whom is missing; in a folder of its own. */
static spotnik_job *join_a_pair(char folder[64])
{
    char key[96], peers[96];
    spotnik_config config;
    spotnik_job *job = NULL;

    strcpy(folder, "/tmp/spotnik-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(spotnik_discovery_fresh(folder), 0);
    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(peers, sizeof peers, "file:%s", folder);
    assert_int_equal(spotnik_key_create(key), 0);
    spotnik_config_init(&config);
    config.key_file = key;
    config.peers = peers;
    config.members_min = 2;
    assert_int_equal(spotnik_join(&config, &job), 0);
    return job;
}

static void remove_folder(const char *folder)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    assert_int_equal(system(command), 0);
}

/* Waiting for somebody who does not come ends in time, and may be taken up again; and so may
 * leaving. */
TEST_WITH(patience, setup, NULL)
{
    char folder[64];
    spotnik_job *job = join_a_pair(folder);
    spotnik_step step;

    assert_int_equal(spotnik_patience_set(NULL, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_patience_set(job, 5000000), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_AGAIN);
    spotnik_notice(job);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_LEAVING);
    assert_int_equal(spotnik_leave(job), 0);
    remove_folder(folder);
}

TEST_WITH(members, setup, NULL)
{
    char folder[64];
    spotnik_job *job = join_a_pair(folder);
    spotnik_job_member member[2];
    spotnik_job_status status;

    spotnik_status(job, &status);
    assert_int_equal(spotnik_members(job, member, 2), 1);
    assert_string_equal(member[0].member, status.member);
    assert_int_equal(strncmp(member[0].address, "127.0.0.1:", 10), 0);
    assert_int_equal(spotnik_members(job, member, 0), 0);
    assert_int_equal(spotnik_members(NULL, member, 2), 0);
    spotnik_abandon(job);
    remove_folder(folder);
}

static int sockets_open(void)
{
    struct stat status;
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    return count;
}

/* A child keeps none of our connections, and every descriptor that is not ours. */
TEST_WITH(fork, setup, NULL)
{
    int before = sockets_open(), pair[2], status;
    char folder[64];
    spotnik_job *job = join_a_pair(folder);

    assert_true(sockets_open() > before);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(sockets_open() == before + 2 && write(pair[1], "x", 1) == 1 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(sockets_open() > before + 2);
    close(pair[0]);
    close(pair[1]);
    spotnik_abandon(job);
    remove_folder(folder);
}

/* What a child may call on its parent's job, each with its answer. 0: all as they should be; else
 * the line. */
static int calls_of_a_child(spotnik_job *job)
{
    spotnik_job_status status;
    spotnik_job_member member;
    spotnik_step step;
    float g[2] = { 1, 2 };

#define EXPECT(what)                                                                               \
    if (!(what))                                                                                   \
    return __LINE__ % 200 + 1
    EXPECT(spotnik_step_begin(job, &step) == SPOTNIK_ERR_STATE);
    EXPECT(strstr(spotnik_last_error(), "forked"));
    EXPECT(spotnik_allreduce(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_SUM) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_allreduce_from(job, 0, g, 2, SPOTNIK_F32, SPOTNIK_SUM) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_allreduce_compressed(job, 0, g, 2, SPOTNIK_F16, SPOTNIK_SUM)
           == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_broadcast(job, 0, g, 2, SPOTNIK_F32, 0) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_step_commit(job) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_barrier(job) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_weight_set(job, 1) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_patience_set(job, 1) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_state_blob_set(job, "b", g, 1) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_publish(job, "p", g, 2, SPOTNIK_F32, 1) == SPOTNIK_ERR_STATE);
    EXPECT(spotnik_alloc(job, 8) == NULL && spotnik_result(job, 0) == NULL);
    spotnik_status(job, &status);
    EXPECT(status.size == 0 && spotnik_members(job, &member, 1) == 0);
    spotnik_notice(job);
    EXPECT(spotnik_leave(job) == SPOTNIK_ERR_STATE);
    spotnik_abandon(job);
    /* the library still answers */
    EXPECT(spotnik_join(&(spotnik_config){ 0 }, &job) == SPOTNIK_ERR_ARGUMENT);
#undef EXPECT
    return 0;
}

/* In a child, calls on the job of the parent return an error: they neither crash, nor hang on a
 * lock that a thread of the parent held, nor change what the parent goes on with. The progress
 * thread is at work meanwhile, so that some children find its lock taken. */
TEST_WITH(calls_of_a_child, setup, NULL)
{
    char folder[64];
    spotnik_job *job = join_a_pair(folder);
    spotnik_job_status status;
    int ended;

    for (int i = 0; i < 50; i++) {
        spotnik_notice(job); /* wakes the progress thread */
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            _exit(calls_of_a_child(job));
        }
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    spotnik_status(job, &status);
    assert_int_equal(status.size, 1);
    spotnik_abandon(job);
    remove_folder(folder);
}

/* A child may join a job of its own. */
TEST_WITH(job_of_a_child, setup, NULL)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not follow a child that starts threads */
#endif
    spotnik_job *job = join_one(0, 0, 0);
    int ended;

    pid_t child = fork();
    if (child == 0) {
        spotnik_job *own = join_one(0, 0, 0);
        spotnik_step step;
        float g = 3;

        alarm(30);
        _exit(spotnik_step_begin(own, &step)
              || spotnik_allreduce(own, 0, &g, 1, SPOTNIK_F32, SPOTNIK_SUM)
              || spotnik_step_commit(own) || g != 3 || spotnik_leave(own));
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(spotnik_leave(job), 0);
}
