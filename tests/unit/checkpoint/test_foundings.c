/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: of two jobs that write into one directory neither prunes what the other wrote; a job of
 * one that is begun again prunes what its earlier lives wrote; and a directory that everybody may
 * write to is warned of. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/job.h"
#include "spotnik/spotnik.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shelf.h"

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
    struct spotnik_shelf_list found;

    while (spotnik_step_begin(job, &step) == 0)
        assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_leave(job), 0);
    assert_int_equal(spotnik_shelf_list(dir, &found), 0);
    assert_true(found.entry[0].step == last && found.entry[0].written_s != 0);
    uint64_t founding = found.entry[0].founding;
    spotnik_shelf_list_done(&found);
    return founding;
}

/* A complete one, by its names, after step 1. */
static void stranger_write(uint64_t founding, char manifest[600])
{
    char entry[SPOTNIK_SHELF_NAME_MAX + 1];

    spotnik_shelf_entry_name(1, founding, entry);
    assert_int_equal(spotnik_shelf_entry_make(dir, entry), 0);
    snprintf(manifest, 600, "%s/%s/" SPOTNIK_MANIFEST_NAME, dir, entry);
    int fd = open(manifest, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static uint32_t entries(void)
{
    struct spotnik_shelf_list found;

    assert_int_equal(spotnik_shelf_list(dir, &found), 0);
    uint32_t count = found.count;
    spotnik_shelf_list_done(&found);
    return count;
}

static void another_job_is_left_alone(void **state)
{
    char manifest[600];

    (void)state;
    uint64_t first = train(4);
    stranger_write(0xbb, manifest);
    uint64_t second = train(6); /* goes on from the first, and prunes it */
    assert_true(first != second);
    assert_int_equal(access(manifest, F_OK), 0);
    assert_int_equal(entries(), 2);
}

static void a_directory_of_all_is_warned_of(void **state)
{
    static char text[1 << 18];

    (void)state;
    assert_int_equal(mkdir(dir, 0777) | chmod(dir, 0777), 0);
    spotnik_job *job = join(6);
    assert_true(spotnik_job_status_text(job, text, sizeof text) > 0);
    assert_non_null(strstr(text, "may write to the checkpoint directory: chmod o-w"));
    spotnik_abandon(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_job_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_of_all_is_warned_of, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
