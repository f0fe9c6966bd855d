/* SPDX-License-Identifier: Apache-2.0 */
/* A job of one writes checkpoints and is begun again from them. Claims: the state, the blobs, the
 * number of the step and the place in the data are those after the step of the checkpoint; one that
 * is cut short or changed in any byte of its manifest or headers, or in a part of its tensors, is
 * passed over for the one before and never loaded; another job's or another model's is an error
 * that says so; the newest are kept. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/job.h"
#include "spotnik/spotnik.h"
#include "spotnik/state.h"
#include "checkpoint/checkpoint_inside.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"
#include "tests.h"

#define WORDS 1000
#define SAMPLES 100

static char root[256], dir[512];
static int32_t words[WORDS];
static float more[3];
static struct spotnik_signer signer; /* none */

static void file_path(const char *entry, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s/%s", dir, entry, name);
}

static int setup(void **state)
{
    /* In memory where it is to be had: thousands of damaged checkpoints reach the disk. */
    const char *memory = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", *chosen = getenv("TMPDIR");
    (void)state;
    snprintf(root, sizeof root, "%s/spotnik-XXXXXX", chosen ? chosen : memory);
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/checkpoints", root);
    return 0;
}

static int teardown(void **state)
{
    char command[600];
    (void)state;
    umount2(dir, MNT_DETACH); /* of test_full_disk, and so is this: */
    unsetenv("SPOTNIK_EVENTS");
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void configure(spotnik_config *config)
{
    spotnik_config_init(config);
    config->checkpoint_dir = dir;
    config->checkpoint_steps = 2;
    config->checkpoint_keep = 2;
    config->samples = SAMPLES;
    config->batch = 7;
}

static void words_expect(uint64_t step)
{
    for (int i = 0; i < WORDS; i++)
        assert_int_equal(words[i], (int)(step * 3) + i);
}

static void update(uint64_t step)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = (int)(step * 3) + i;
    more[1] = (float)step;
}

static spotnik_job *join(spotnik_config *config)
{
    spotnik_job *job = NULL;
    assert_int_equal(spotnik_join(config, &job), 0);
    assert_int_equal(spotnik_state_add(job, "words", words, WORDS, SPOTNIK_I32), 0);
    assert_int_equal(spotnik_state_add(job, "more", more, 3, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_state_add(job, "none", NULL, 0, SPOTNIK_U8), 0);
    return job;
}

/* The first step begun here must be `first`; samples are consumed in order, 7 a step, so that is
 * where it draws from. */
static void steps(spotnik_job *job, uint64_t first, uint64_t count)
{
    spotnik_step step;
    char blob[48];

    for (uint64_t number = first; number < first + count; number++) {
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        assert_int_equal(step.number, number);
        assert_int_equal(step.samples[0].begin, (number - 1) * 7);
        if (number > 1)
            words_expect(number - 1);
        assert_int_equal(spotnik_step_commit(job), 0);
        update(number);
        snprintf(blob, sizeof blob, "scheduler after %llu", (unsigned long long)number);
        assert_int_equal(spotnik_state_blob_set(job, "scheduler", blob, strlen(blob)), 0);
    }
}

static void blob_expect(spotnik_job *job, const char *text)
{
    char blob[64];
    size_t length;

    assert_int_equal(spotnik_state_blob_get(job, "scheduler", blob, sizeof blob, &length), 0);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(blob, text, length);
}

/* Begin, and end when `complete` checkpoints are. Writing is in the background, so at steps=2 a
 * slow disk may leave one out; the last one is finished by spotnik_leave(). */
static void train(uint64_t first, uint64_t last)
{
    spotnik_config config;
    configure(&config);
    config.steps_max = last;
    spotnik_job *job = join(&config);
    steps(job, first, last - first + 1);
    spotnik_step step;
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_DONE);
    assert_int_equal(spotnik_leave(job), 0);
}

TEST_WITH(resume, setup, teardown)
{
    spotnik_config config;
    spotnik_checkpoint_info info = { .size = sizeof info };
    spotnik_step step;

    train(1, 5);
    memset(words, 0, sizeof words);
    configure(&config);
    spotnik_job *job = join(&config);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(step.number, 6);
    assert_int_equal(step.samples[0].begin, 35);
    assert_int_equal(step.data_epoch, 0);
    words_expect(5);
    assert_float_equal(more[1], 5, 0);
    blob_expect(job, "scheduler after 5");
    assert_int_equal(spotnik_state_loads(job), 1);
    spotnik_checkpoint_status(job, &info);
    assert_int_equal(info.resumed_step, 5);
    assert_string_equal(info.message, "");
    spotnik_abandon(job);
    memset(words, 0, sizeof words);
    train(6, 9); /* and again, from there on */
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_true(found.count >= 1 && found.count <= 3);
    assert_int_equal(found.entry[0].step, 9);
    assert_true(found.entry[0].written_s != 0);
    spotnik_checkpoint_store_list_done(&found);
}

/* A job that is done stays so. */
TEST_WITH(done_again, setup, teardown)
{
    spotnik_config config;
    spotnik_step step;

    train(1, 3);
    configure(&config);
    config.steps_max = 3;
    memset(words, 0, sizeof words);
    spotnik_job *job = join(&config);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_DONE);
    words_expect(3);
    assert_int_equal(spotnik_leave(job), 0);
}

/* Complete checkpoints after steps 4 and 6, whatever the disk. */
static void two_checkpoints(void)
{
    train(1, 4);
    train(5, 6);
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_int_equal(found.count, 2);
    assert_true(found.entry[0].step == 6 && found.entry[0].written_s != 0);
    assert_true(found.entry[1].step == 4 && found.entry[1].written_s != 0);
    spotnik_checkpoint_store_list_done(&found);
}

static void newest_is(uint64_t step)
{
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    uint32_t at = 0;
    while (at < found.count && found.entry[at].written_s == 0)
        at++;
    assert_true(at < found.count);
    assert_int_equal(found.entry[at].step, step);
    spotnik_checkpoint_store_list_done(&found);
}

static void newest(char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_true(found.count > 0);
    memcpy(ret_name, found.entry[0].name, SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1);
    assert_int_equal(found.entry[0].step, 6);
    spotnik_checkpoint_store_list_done(&found);
}

/* Load as a founder does, and put back in its place what was set aside. */
static uint64_t load(const char *entry, struct spotnik_resume *ret)
{
    struct spotnik_registry registry;
    char from[PATH_MAX], to[PATH_MAX];

    spotnik_registry_init(&registry);
    memset(words, 0x55, sizeof words);
    assert_int_equal(spotnik_registry_add(&registry, "words", words, WORDS, SPOTNIK_I32), 0);
    assert_int_equal(spotnik_registry_add(&registry, "more", more, 3, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_registry_add(&registry, "none", NULL, 0, SPOTNIK_U8), 0);
    assert_int_equal(spotnik_checkpoint_load(dir, "spotnik", &signer, &registry, ret), 0);
    words_expect(ret->step);
    spotnik_registry_done(&registry);
    snprintf(from, sizeof from, "%s/skipped-%s", dir, entry);
    snprintf(to, sizeof to, "%s/%s", dir, entry);
    (void)!rename(from, to);
    return ret->step;
}

/* All of a file; the caller frees it. */
static uint8_t *slurp(const char *entry, const char *name, size_t *ret_size)
{
    uint8_t *bytes;
    assert_int_equal(spotnik_checkpoint_store_get(dir, entry, name, 1 << 20, &bytes, ret_size), 0);
    return bytes;
}

static void spill(const char *entry, const char *name, const uint8_t *bytes, size_t size)
{
    char path[PATH_MAX];
    file_path(entry, name, path);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void expect_skipped(const char *entry, const char *what, size_t at)
{
    struct spotnik_resume resume;
    if (load(entry, &resume) != 4)
        fail_msg("%s, byte %zu: the damaged checkpoint was loaded", what, at);
    if (!strstr(resume.message, entry))
        fail_msg("%s, byte %zu: nothing was said", what, at);
}

/* Cut at every `stride` lengths, and with every bit of every `stride`th byte changed once. */
static void damage(const char *entry, const char *name, size_t from, size_t to, size_t stride)
{
    size_t size;
    uint8_t *bytes = slurp(entry, name, &size);

    to = to < size ? to : size;
    for (size_t at = from; at < to; at += stride) {
        spill(entry, name, bytes, at);
        expect_skipped(entry, "cut", at);
        bytes[at] ^= (uint8_t)(1 << at % 8);
        spill(entry, name, bytes, size);
        expect_skipped(entry, "changed", at);
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    bytes = realloc(bytes, size + 1);
    assert_non_null(bytes);
    bytes[size] = '\n';
    spill(entry, name, bytes, size + 1);
    expect_skipped(entry, "longer", size);
    spill(entry, name, bytes, size);
    free(bytes);
}

static void part_name(const char *entry, const char *prefix, char ret[NAME_MAX + 1])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, entry);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    ret[0] = 0;
    for (const struct dirent *at; (at = readdir(directory)) != NULL;)
        if (!strncmp(at->d_name, prefix, strlen(prefix)))
            snprintf(ret, NAME_MAX + 1, "%s", at->d_name);
    closedir(directory);
    assert_true(ret[0] != 0);
}

TEST_WITH(damaged_is_never_loaded, setup, teardown)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], part[NAME_MAX + 1], blobs[NAME_MAX + 1],
        path[PATH_MAX];
    struct spotnik_resume resume;

    two_checkpoints();
    newest(entry);
    assert_int_equal(load(entry, &resume), 6);
    assert_string_equal(resume.message, "");
    part_name(entry, "part-", part);
    part_name(entry, "blobs-", blobs);
    damage(entry, SPOTNIK_MANIFEST_NAME, 0, SIZE_MAX, 1);
    damage(entry, part, 0, 300, 1); /* the header and the first elements */
    damage(entry, part, 300, SIZE_MAX, 97);
    damage(entry, blobs, 0, SIZE_MAX, 1);
    assert_int_equal(load(entry, &resume), 6);
    file_path(entry, part, path);
    assert_int_equal(unlink(path), 0);
    expect_skipped(entry, "missing part", 0);
}

/* Killed before the manifest was written: as if it had never been begun. */
TEST_WITH(incomplete_is_passed_over, setup, teardown)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], path[PATH_MAX];
    two_checkpoints();
    newest(entry);
    file_path(entry, SPOTNIK_MANIFEST_NAME, path);
    assert_int_equal(unlink(path), 0);
    expect_skipped(entry, "no manifest", 0);
    memset(words, 0, sizeof words);
    train(5, 8);
}

/* What the founder passed over is out of the way for good: a later one must not take it for the
 * newest. */
TEST_WITH(damaged_is_set_aside, setup, teardown)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], path[PATH_MAX];
    two_checkpoints();
    newest(entry);
    spill(entry, SPOTNIK_MANIFEST_NAME, (const uint8_t *)"{}", 2);
    train(5, 5);
    snprintf(path, sizeof path, "%s/skipped-%s", dir, entry);
    assert_int_equal(access(path, F_OK), 0);
}

static void expect_refused(spotnik_config *config, const char *name, size_t count,
                           const char *words_of_error)
{
    spotnik_job *job = NULL;
    spotnik_step step;

    assert_int_equal(spotnik_join(config, &job), 0);
    assert_int_equal(spotnik_state_add(job, name, words, count, SPOTNIK_I32), 0);
    assert_int_equal(spotnik_state_add(job, "more", more, 3, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_state_add(job, "none", NULL, 0, SPOTNIK_U8), 0);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_CHECKPOINT);
    if (!strstr(spotnik_last_error(), words_of_error))
        fail_msg("%s", spotnik_last_error());
    spotnik_abandon(job);
}

TEST_WITH(not_ours, setup, teardown)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    spotnik_config config;

    two_checkpoints();
    configure(&config);
    config.job_name = "another";
    expect_refused(&config, "words", WORDS, "another");
    configure(&config);
    expect_refused(&config, "wörds", WORDS, "wörds");
    expect_refused(&config, "words", WORDS - 1, "999");
    config.samples = SAMPLES + 1;
    expect_refused(&config, "words", WORDS, "101");
    configure(&config);
    newest(entry); /* nothing of that was written to */
    spill(entry, SPOTNIK_MANIFEST_NAME, (const uint8_t *)"{}", 2);
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    spill(found.entry[1].name, SPOTNIK_MANIFEST_NAME, (const uint8_t *)"{}", 2);
    spotnik_checkpoint_store_list_done(&found);
    /* all damaged: not begun anew in silence */
    expect_refused(&config, "words", WORDS, "move them away");
}

/* A FIFO or a device in the place of a file of a checkpoint: passed over at once, as any damage
 * is. */
TEST_WITH(no_files, setup, teardown)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], path[PATH_MAX], part[NAME_MAX + 1];
    alarm(60); /* a test that hangs ends */
    two_checkpoints();
    newest(entry);
    file_path(entry, SPOTNIK_MANIFEST_NAME, path);
    assert_int_equal(unlink(path) | mkfifo(path, 0600), 0);
    expect_skipped(entry, "no regular file", 0);
    assert_int_equal(unlink(path) | symlink("/dev/zero", path), 0);
    expect_skipped(entry, "no regular file", 0);
    teardown(NULL);
    setup(NULL);
    two_checkpoints();
    newest(entry);
    part_name(entry, "part-", part);
    file_path(entry, part, path);
    assert_int_equal(unlink(path) | mkfifo(path, 0600), 0);
    expect_skipped(entry, "no regular file", 0);
    alarm(0);
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static uint32_t prune(uint32_t keep) /* as the newest one's founding */
{
    struct spotnik_checkpoint_store_list found;
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    uint64_t founding = found.entry[0].founding,
             its_root = spotnik_checkpoint_store_root(dir, founding);
    spotnik_checkpoint_store_list_done(&found);
    spotnik_checkpoint_store_root_set(dir, 0xaa, its_root);
    return spotnik_checkpoint_store_prune(dir, founding, its_root, keep);
}

/* Plain, and signed. */
#define PART "part-00001-of-00001-0123456789abcdef.safetensors"
#define SIGNED_PART "part-00001-of-00001-0123456789abcdef0123456789abcdef.safetensors"

static void put_in(const char *entry, const char *name)
{
    char path[PATH_MAX];
    file_path(entry, name, path);
    put(path);
}

static bool stands_in(const char *entry, const char *name)
{
    char path[PATH_MAX];
    file_path(entry, name, path);
    return access(path, F_OK) == 0;
}

/* A linked archive, and files of somebody else beside ours, outlive every pruning; an old
 * checkpoint of ours goes. */
TEST_WITH(prune_removes_only_ours, setup, teardown)
{
    static const char ours[] = "step-000000000002-00000000000000aa",
                      linked[] = "step-000000000001-00000000000000aa",
                      mixed[] = "step-000000000003-00000000000000aa";
    static const char *const kept[] = { "notes.txt", "part-1.safetensors", "manifest.json.orig" };
    char archive[512], path[PATH_MAX];

    two_checkpoints();
    snprintf(archive, sizeof archive, "%s/archive", root);
    assert_int_equal(mkdir(archive, 0700), 0);
    snprintf(path, sizeof path, "%s/" SPOTNIK_MANIFEST_NAME, archive);
    put(path);
    snprintf(path, sizeof path, "%s/%s", dir, linked);
    assert_int_equal(symlink(archive, path), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i ? mixed : ours);
        assert_int_equal(mkdir(path, 0700), 0);
        put_in(i ? mixed : ours, SPOTNIK_MANIFEST_NAME);
        put_in(i ? mixed : ours, PART);
        put_in(i ? mixed : ours, SIGNED_PART);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        put_in(mixed, kept[i]);
    assert_int_equal(prune(1), 2); /* ours, and the older of two_checkpoints() */
    snprintf(path, sizeof path, "%s/" SPOTNIK_MANIFEST_NAME, archive);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%s", dir, ours);
    assert_int_equal(access(path, F_OK), -1);
    assert_false(stands_in(mixed, PART) || stands_in(mixed, SIGNED_PART));
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_true(stands_in(mixed, kept[i]));
}

/* A disk of our own that is this large. False: we may not mount. */
static bool mount_small(const char *size)
{
    return mkdir(dir, 0700) == 0 && unshare(CLONE_NEWNS) == 0
           && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
           && mount("none", dir, "tmpfs", 0, size) == 0;
}

/* Take what is left of the disk. */
static void fill_disk(const char *name)
{
    static const char page[4096];
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof page) > 0)
        continue;
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void status_expect(spotnik_job *job, bool failing)
{
    static char text[1 << 18];
    static const char *const words_of[] = { "\"failing\":false", "\"failing\":true" };

    assert_true(spotnik_job_status_text(job, text, sizeof text) > 0);
    if (!strstr(text, words_of[failing]))
        fail_msg("%s", text);
    if (failing && !strstr(text, "No space left on device"))
        fail_msg("%s", text);
}

/* On a full disk older checkpoints make room for the next, down to one; and where that is not
 * enough, the newest complete one stays, and the status says that checkpoints fail, and why. */
TEST_WITH(full_disk, setup, teardown)
{
    spotnik_checkpoint_info info = { .size = sizeof info };
    struct spotnik_checkpoint_store_list found;
    spotnik_config config;
    spotnik_step step;

    setenv("SPOTNIK_EVENTS", "off", 1); /* its log would race for the room that is made */
    if (!mount_small("size=128k")) {
        print_message("skipped: no disk of our own can be mounted: %s\n", strerror(errno));
        skip();
    }
    two_checkpoints();
    fill_disk("filler");
    train(7, 8);
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    assert_int_equal(found.count, 2); /* the one after step 6 stayed until this one was complete */
    assert_true(found.entry[0].step == 8 && found.entry[0].written_s != 0);
    assert_true(found.entry[1].step == 6 && found.entry[1].written_s != 0);
    spotnik_checkpoint_store_list_done(&found);
    prune(1);
    fill_disk("more");
    configure(&config);
    spotnik_job *job = join(&config);
    steps(job, 9, 1);
    status_expect(job, false);
    while (!strstr(info.message, "No space left")) { /* written in the background */
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        assert_int_equal(spotnik_step_commit(job), 0);
        spotnik_checkpoint_status(job, &info);
    }
    status_expect(job, true);
    spotnik_abandon(job);
    newest_is(8);
}

static int unreadable(void *context, uint64_t offset, void *out, size_t size)
{
    return context != NULL || out == NULL || offset + size > 0;
}

static int unwritable(void *context, uint64_t offset, const void *bytes, size_t size)
{
    return context != NULL || bytes == NULL || offset + size > 0;
}

/* Each is left out, and leaves no memory behind. */
TEST_WITH(a_state_that_cannot_be_read, setup, teardown)
{
    spotnik_config config;
    configure(&config);
    spotnik_job *job = join(&config);
    assert_int_equal(spotnik_state_reach_set(job, unreadable, unwritable, NULL), 0);
    assert_int_equal(spotnik_state_add_remote(job, "remote", 1, SPOTNIK_F32), 0);
    steps(job, 1, 7);
    assert_true(job->checkpoint->missed > 1);
    assert_null(job->checkpoint->slot.blobs);
    spotnik_abandon(job);
}

TEST_WITH(wrong_directory, setup, teardown)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    configure(&config);
    config.checkpoint_dir = "/proc/spotnik/checkpoints";
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_SYSTEM);
    config.checkpoint_dir = dir;
    config.checkpoint_keep = 0;
    assert_int_equal(spotnik_join(&config, &job), SPOTNIK_ERR_ARGUMENT);
    assert_null(job);
}
