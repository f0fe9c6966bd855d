/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: of two jobs that write into one directory neither prunes what the other wrote; a job of
 * one that is begun again prunes what its earlier lives wrote; a directory that everybody may
 * write to is warned of; and a job begins from the checkpoint that SPOTNIK_FROM names, unless
 * its directory has a later one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/job.h"
#include "spotnik/spotnik.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint_store.h"
#include "tests.h"

static char root[200], dir[256];
static int32_t word;

static int setup(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(root, sizeof root, "%s/spotnik-XXXXXX", temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/checkpoints", root);
    return 0;
}

static int teardown(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static spotnik_job *join(uint64_t steps_max)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    spotnik_config_init(&config);
    config.checkpoint_dir = dir;
    config.checkpoint_steps = 2;
    config.checkpoint_keep = 1;
    config.steps_max = steps_max;
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_state_add(job, "word", &word, 1, SPOTNIK_I32), 0);
    return job;
}

/* A life of the job, up to this step and a checkpoint after it. Returns its founding. */
static uint64_t train(uint64_t last)
{
    spotnik_job *job = join(last);
    spotnik_step step;
    struct spotnik_checkpoint_store_list found;

    while (spotnik_step_begin(job, &step) == 0) {
        assert_int_equal(spotnik_step_commit(job), 0);
        word = (int32_t)step.number;
    }
    assert_int_equal(spotnik_leave(job), 0);
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_true(found.entry[0].step == last && found.entry[0].written_s != 0);
    uint64_t founding = found.entry[0].founding;
    spotnik_checkpoint_store_list_done(&found);
    return founding;
}

/* A complete one, by its names, after step 1. */
static void stranger_write(uint64_t founding, char manifest[600])
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    spotnik_checkpoint_store_entry_name(1, founding, entry);
    assert_int_equal(spotnik_checkpoint_store_entry_make(dir, entry), 0);
    snprintf(manifest, 600, "%s/%s/" SPOTNIK_MANIFEST_NAME, dir, entry);
    int fd = open(manifest, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static uint32_t entries(void)
{
    struct spotnik_checkpoint_store_list found;

    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    uint32_t count = found.count;
    spotnik_checkpoint_store_list_done(&found);
    return count;
}

TEST_WITH(another_job_is_left_alone, setup, teardown)
{
    char manifest[600];

    uint64_t first = train(4);
    stranger_write(0xbb, manifest);
    uint64_t second = train(6); /* goes on from the first, and prunes it */
    assert_true(first != second);
    assert_int_equal(access(manifest, F_OK), 0);
    assert_int_equal(entries(), 2);
}

TEST_WITH(a_directory_of_all_is_warned_of, setup, teardown)
{
    static char text[1 << 18];

    assert_int_equal(mkdir(dir, 0777) | chmod(dir, 0777), 0);
    spotnik_job *job = join(6);
    assert_true(spotnik_job_status_text(job, text, sizeof text) > 0);
    assert_non_null(strstr(text, "may write to the checkpoint directory: chmod o-w"));
    spotnik_abandon(job);
}

static void goes_on_after_4(void)
{
    spotnik_step step;

    word = 0;
    spotnik_job *job = join(0);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(step.number, 5);
    assert_int_equal(word, 4);
    spotnik_abandon(job);
}

TEST_WITH(one_that_is_named_is_begun_from, setup, teardown)
{
    char older[300], from[512], newer[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    struct spotnik_checkpoint_store_list found;
    spotnik_config config;
    spotnik_job *job;

    uint64_t first = train(4);
    snprintf(older, sizeof older, "%s/older", root);
    assert_int_equal(rename(dir, older), 0);
    spotnik_checkpoint_store_entry_name(6, train(6), newer);
    snprintf(from, sizeof from, "%s/step-%012d-%016llx/", older, 4, (unsigned long long)first);
    assert_int_equal(setenv("SPOTNIK_FROM", from, 1), 0);
    spotnik_config_init(&config);
    config.checkpoint_dir = dir;
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_CHECKPOINT);
    assert_non_null(strstr(spotnik_last_error(), "step-000000000004-"));
    assert_non_null(strstr(spotnik_last_error(), newer));
    strcat(dir, "-fresh");
    goes_on_after_4();
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(setenv("SPOTNIK_FROM", root, 1), 0);
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_CHECKPOINT);
    assert_non_null(strstr(spotnik_last_error(), "cannot be used"));
    unsetenv("SPOTNIK_FROM");
}
