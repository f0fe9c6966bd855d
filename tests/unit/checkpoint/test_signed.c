/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a job with a key that was given. Claims: the job goes on from what its key has
 * signed, and from nothing else: no part and no manifest that were made anew or altered, none of
 * another entry, another job, another key, or without a signature. It says what to do, and never
 * begins anew over them. A key that was made for one run signs nothing, as no key does. `spotnik
 * checkpoint adopt` takes over what is whole, and changes the key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/key.h"
#include "checkpoint/checkpoint_store.h"
#include "checkpoint/resume.h"
#include "checkpoint_adopt.h"
#include "spotnik/spotnik.h"
#include "tests.h"

#define COUNT 100
#define NAME_BYTES (SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1)

static char root[64], dir[128], key_a[128], key_b[128], key_made[128];
static struct spotnik_signer none, pair_a[2], pair_b[2], a, b;
static int32_t words[COUNT];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/spotnik-signed-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/checkpoints", root);
    snprintf(key_a, sizeof key_a, "%s/a", root);
    snprintf(key_b, sizeof key_b, "%s/b", root);
    snprintf(key_made, sizeof key_made, "%s/made", root);
    assert_int_equal(spotnik_key_create(key_a) | spotnik_key_create(key_b), 0);
    assert_int_equal(spotnik_key_create_for_run(key_made), 0);
    assert_int_equal(spotnik_key_signer(key_a, pair_a) | spotnik_key_signer(key_b, pair_b), 0);
    a = pair_a[0];
    b = pair_b[0];
    assert_true(a.has_key && b.has_key && strcmp(a.name, b.name) != 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* A job of one until its first step has begun; what that said. */
static int begin(const char *key, const char *name, uint64_t steps_max, spotnik_job **ret_job,
                 spotnik_step *ret_step)
{
    spotnik_config config;

    spotnik_config_init(&config);
    config.job_name = name;
    config.key_file = key;
    config.checkpoint_dir = dir;
    config.checkpoint_steps = 1000; /* the last one alone */
    config.steps_max = steps_max;
    memset(words, 0, sizeof words);
    assert_int_equal(spotnik_join(&config, ret_job), 0);
    assert_int_equal(spotnik_state_add(*ret_job, "words", words, COUNT, SPOTNIK_I32), 0);
    return spotnik_step_begin(*ret_job, ret_step);
}

/* Up to `last`, after which a checkpoint is written. */
static void train(const char *key, uint64_t last)
{
    spotnik_job *job;
    spotnik_step step;
    int rc = begin(key, "spotnik", last, &job, &step);

    for (; rc == 0; rc = spotnik_step_begin(job, &step)) {
        assert_int_equal(spotnik_step_commit(job), 0);
        for (int i = 0; i < COUNT; i++)
            words[i] = (int)step.number + i;
    }
    assert_int_equal(rc, SPOTNIK_ERR_DONE);
    assert_int_equal(spotnik_leave(job), 0);
}

static void expect_resumed(const char *key, uint64_t step)
{
    spotnik_job *job;
    spotnik_step begun;

    assert_int_equal(begin(key, "spotnik", 0, &job, &begun), 0);
    assert_int_equal(begun.number, step + 1);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(words[i], (int)step + i);
    spotnik_abandon(job);
}

static void expect_refused(const char *key, const char *name, const char *words_of_error)
{
    spotnik_job *job;
    spotnik_step begun;

    assert_int_equal(begin(key, name, 0, &job, &begun), SPOTNIK_ERR_CHECKPOINT);
    if (!strstr(spotnik_last_error(), words_of_error))
        fail_msg("not \"%s\": %s", words_of_error, spotnik_last_error());
    spotnik_abandon(job);
}

/* The name of the checkpoint after `step`. */
static void entry_find(uint64_t step, char ret[NAME_BYTES])
{
    struct spotnik_checkpoint_store_list found;

    ret[0] = '\0';
    assert_int_equal(spotnik_checkpoint_store_list(dir, &found), 0);
    for (uint32_t i = 0; i < found.count; i++)
        if (found.entry[i].step == step && found.entry[i].written_s)
            memcpy(ret, found.entry[i].name, NAME_BYTES);
    spotnik_checkpoint_store_list_done(&found);
    assert_true(ret[0] != '\0');
}

static struct spotnik_manifest *look(const char *entry, const struct spotnik_signer *signer)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);

    assert_non_null(manifest);
    assert_int_equal(spotnik_checkpoint_look_at(dir, entry, signer, manifest), 0);
    return manifest;
}

static void manifest_free(struct spotnik_manifest *manifest)
{
    spotnik_manifest_done(manifest);
    free(manifest);
}

static uint8_t *slurp(const char *entry, const char *name, size_t *ret_size)
{
    uint8_t *bytes;

    assert_int_equal(spotnik_checkpoint_store_get(dir, entry, name, 1 << 20, &bytes, ret_size), 0);
    return bytes;
}

static void spill(const char *entry, const char *name, const void *bytes, size_t size)
{
    assert_int_equal(spotnik_checkpoint_store_put(dir, entry, name, 1, bytes, size), 0);
}

static void shell(const char *format, const char *from, const char *to)
{
    char command[512];

    snprintf(command, sizeof command, format, dir, from, dir, to);
    assert_int_equal(system(command), 0);
}

TEST_WITH(signed_and_resumed, setup, teardown)
{
    char entry[NAME_BYTES];

    train(key_a, 4);
    entry_find(4, entry);
    struct spotnik_manifest *manifest = look(entry, &a);
    assert_int_equal(manifest->state, SPOTNIK_MANIFEST_SIGNED);
    assert_int_equal(strlen(manifest->part[0].digest), SPOTNIK_DIGEST_SIGNED);
    assert_non_null(strstr(manifest->part[0].name, manifest->part[0].digest));
    manifest_free(manifest);
    manifest = look(entry, &b);
    assert_int_equal(manifest->state, SPOTNIK_MANIFEST_ANOTHERS);
    assert_string_equal(manifest->signer, a.name);
    manifest_free(manifest);
    expect_resumed(key_a, 4);
    train(key_a, 9);
    expect_resumed(key_a, 9);
}

/* ---- what the writer of the folder can make ---- */

/* Another model under the signature `forger`, all else as it was: names, digests, manifest. */
static void forge(const char *entry, const struct spotnik_signer *forger)
{
    struct spotnik_manifest *manifest = look(entry, &none);
    char role[SPOTNIK_MANIFEST_ROLE], *text;
    size_t size;

    for (uint32_t i = 0; i <= manifest->part_count; i++) {
        bool is_part = i < manifest->part_count;
        struct spotnik_manifest_file *file = is_part ? &manifest->part[i] : &manifest->blobs;
        uint8_t *bytes = slurp(entry, file->name, &size);

        bytes[size - 1] ^= is_part;
        spotnik_manifest_role(i, manifest->part_count, role);
        assert_int_equal(spotnik_signature_make(forger, entry, role, bytes, size, file->digest), 0);
        if (is_part)
            spotnik_manifest_name(role, file->digest, file->name);
        spill(entry, file->name, bytes, size);
        free(bytes);
    }
    assert_int_equal(spotnik_manifest_write(manifest, &manifest->schema, forger, entry, &text,
                                            &size),
                     0);
    spill(entry, SPOTNIK_MANIFEST_NAME, text, size);
    free(text);
    manifest_free(manifest);
}

TEST_WITH(forged, setup, teardown)
{
    struct spotnik_signer under_our_name = b;
    char entry[NAME_BYTES];

    train(key_a, 4);
    entry_find(4, entry);
    forge(entry, &none);
    expect_refused(key_a, "spotnik", "is not signed");
    assert_non_null(strstr(spotnik_last_error(), "spotnik checkpoint adopt"));
    forge(entry, &b);
    expect_refused(key_a, "spotnik", b.name);
    assert_non_null(strstr(spotnik_last_error(), "spotnik checkpoint adopt"));
    memcpy(under_our_name.name, a.name, sizeof a.name);
    forge(entry, &under_our_name);
    expect_refused(key_a, "spotnik", "does not start from scratch");
    assert_non_null(strstr(spotnik_last_error(), "not as its key signed it"));
}

static uint64_t load(struct spotnik_resume *ret)
{
    struct spotnik_registry registry;

    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "words", words, COUNT, SPOTNIK_I32), 0);
    int rc = spotnik_checkpoint_load(dir, "spotnik", &a, &registry, ret);
    if (rc)
        fail_msg("%s", spotnik_last_error());
    spotnik_registry_done(&registry);
    return ret->step;
}

/* What is altered is passed over for the one before, as what is damaged is. */
static void expect_passed_over(const char *entry, const char *what, size_t at)
{
    struct spotnik_resume resume;

    if (load(&resume) != 4 || !strstr(resume.message, entry))
        fail_msg("%s, byte %zu: step %d; %s", what, at, (int)resume.step, resume.message);
    shell("mv '%s/skipped-%s' '%s/%s'", entry, entry);
}

static void alter(const char *entry, const char *name, size_t stride)
{
    size_t size;
    uint8_t *bytes = slurp(entry, name, &size);

    for (size_t at = 0; at < size; at += stride) {
        bytes[at] ^= (uint8_t)(1 << at % 8);
        spill(entry, name, bytes, size);
        expect_passed_over(entry, name, at);
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    spill(entry, name, bytes, size - 1);
    expect_passed_over(entry, "cut", size - 1);
    spill(entry, name, bytes, size);
    free(bytes);
}

TEST_WITH(altered, setup, teardown)
{
    struct spotnik_resume resume;
    char entry[NAME_BYTES];

    train(key_a, 4);
    train(key_a, 6);
    entry_find(6, entry);
    struct spotnik_manifest *manifest = look(entry, &a);
    alter(entry, SPOTNIK_MANIFEST_NAME, 7);
    alter(entry, manifest->part[0].name, 41);
    alter(entry, manifest->blobs.name, 11);
    assert_int_equal(load(&resume), 6);
    manifest_free(manifest);
}

/* All of a signed one under a later name; and a signed part where another belongs. */
TEST_WITH(moved, setup, teardown)
{
    char entry[NAME_BYTES], before[NAME_BYTES], later[NAME_BYTES];
    struct spotnik_resume resume;
    size_t size;

    train(key_a, 4);
    train(key_a, 6);
    entry_find(4, before);
    entry_find(6, entry);
    spotnik_checkpoint_store_entry_name(9, 0xabc, later);
    shell("cp -r '%s/%s' '%s/%s'", before, later);
    assert_int_equal(load(&resume), 6);
    assert_non_null(strstr(resume.message, later));
    assert_non_null(strstr(resume.message, "moved from another checkpoint"));

    struct spotnik_manifest *now = look(entry, &a), *old = look(before, &a);
    uint8_t *bytes = slurp(before, old->part[0].name, &size);
    spill(entry, now->part[0].name, bytes, size);
    expect_passed_over(entry, "a part of another entry", 0);
    free(bytes);
    manifest_free(now);
    manifest_free(old);
}

/* Two checkpoints with the same bytes: neither the entry nor the part may be taken for another. */
TEST(a_signature_is_of_one_place)
{
    char one[SPOTNIK_DIGEST_TEXT], other[SPOTNIK_DIGEST_TEXT];
    const uint8_t key[32] = { 7 };
    struct spotnik_signer signer;

    assert_int_equal(spotnik_signer_init(&signer, key), 0);
    assert_int_equal(spotnik_signature_make(&signer, "step-4", "part-1", "bytes", 5, one), 0);
    assert_int_equal(spotnik_signature_make(&signer, "step-6", "part-1", "bytes", 5, other), 0);
    assert_false(spotnik_digest_equal(one, other));
    assert_int_equal(spotnik_signature_make(&signer, "step-4", "part-2", "bytes", 5, other), 0);
    assert_false(spotnik_digest_equal(one, other));
    assert_int_equal(spotnik_signature_make(&signer, "step-4", "part-1", "bytes", 5, other), 0);
    assert_true(spotnik_digest_equal(one, other));
    assert_false(spotnik_digest_equal("", ""));
    assert_int_equal(spotnik_signature_make(&none, "step-4", "part-1", "bytes", 5, one), 0);
    assert_int_equal(spotnik_signature_make(&none, "step-6", "part-2", "bytes", 5, other), 0);
    assert_string_equal(one, other);
    assert_true(spotnik_digest_is(one, SPOTNIK_DIGEST_PLAIN));
    spotnik_signer_done(&signer);
    assert_false(signer.has_key);
}

/* The manifest says that it is of the job "another". */
static void rename_job(const char *entry)
{
    size_t size;
    uint8_t *text = slurp(entry, SPOTNIK_MANIFEST_NAME, &size);
    char *name = memmem(text, size, "\"spotnik\"", strlen("\"spotnik\""));
    assert_non_null(name);
    memcpy(name, "\"another\"", strlen("\"another\""));
    spill(entry, SPOTNIK_MANIFEST_NAME, text, size);
    free(text);
}

TEST_WITH(of_another_job, setup, teardown)
{
    char entry[NAME_BYTES];

    train(key_a, 4);
    expect_refused(key_a, "another", "\"spotnik\"");
    entry_find(4, entry);
    rename_job(entry);
    expect_refused(key_a, "another", "not as its key signed it");
}

/* ---- whose key ---- */

TEST_WITH(unsigned_under_a_key, setup, teardown)
{
    char entry[NAME_BYTES];

    train(NULL, 4);
    expect_refused(key_a, "spotnik", "spotnik checkpoint adopt");
    entry_find(4, entry); /* and it is where it was */
    train(key_made, 6);   /* as without a key */
    expect_refused(key_a, "spotnik", "is not signed");
    expect_resumed(NULL, 6);
}

TEST_WITH(a_key_of_one_run_signs_nothing, setup, teardown)
{
    char entry[NAME_BYTES], other[192];

    train(key_made, 4);
    entry_find(4, entry);
    struct spotnik_manifest *manifest = look(entry, &none);
    assert_int_equal(manifest->state, SPOTNIK_MANIFEST_UNSIGNED);
    manifest_free(manifest);
    snprintf(other, sizeof other, "%s/next", root);
    assert_int_equal(spotnik_key_create_for_run(other), 0);
    expect_resumed(other, 4);
}

TEST_WITH(signed_without_a_key, setup, teardown)
{
    char entry[NAME_BYTES];

    train(key_a, 4);
    expect_refused(NULL, "spotnik", "--key-file");
    expect_refused(key_made, "spotnik", a.name);
    expect_refused(key_b, "spotnik", "--old-key-file");
    entry_find(4, entry);
    expect_resumed(key_a, 4);
}

/* ---- adopt ---- */

static void expect_not_adopted(const char *entry, const struct spotnik_signer *signer,
                               const struct spotnik_signer *old, const char *words_of_error)
{
    size_t size, size_after;
    uint8_t *before = slurp(entry, SPOTNIK_MANIFEST_NAME, &size);

    assert_int_not_equal(checkpoint_adopt(dir, entry, signer, old), 0);
    if (!strstr(spotnik_last_error(), words_of_error))
        fail_msg("not \"%s\": %s", words_of_error, spotnik_last_error());
    uint8_t *after = slurp(entry, SPOTNIK_MANIFEST_NAME, &size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static int count_one(void *context, const struct spotnik_object *file)
{
    (void)file;
    ++*(uint32_t *)context;
    return 0;
}

TEST_WITH(adopted_and_rotated, setup, teardown)
{
    char entry[NAME_BYTES];
    uint32_t before = 0, after = 0;

    train(NULL, 4);
    entry_find(4, entry);
    assert_int_equal(spotnik_checkpoint_store_files(dir, entry, count_one, &before), 0);
    assert_int_equal(checkpoint_adopt(dir, entry, &a, &none), 0);
    expect_resumed(key_a, 4);
    expect_not_adopted(entry, &a, &none, "already");
    expect_not_adopted(entry, &b, &none, "--old-key-file");
    expect_not_adopted(entry, &b, &b, a.name);
    assert_int_equal(checkpoint_adopt(dir, entry, &b, &a), 0);
    expect_resumed(key_b, 4);
    expect_refused(key_a, "spotnik", b.name);
    assert_int_equal(spotnik_checkpoint_store_files(dir, entry, count_one, &after), 0);
    assert_int_equal(before, after); /* the old parts are gone */
}

/* A job goes on from what the key before has signed, signs by the new one, and never goes back.
 * What was signed by the one before that is another's. */
TEST_WITH(rotated_and_resumed, setup, teardown)
{
    char entry[NAME_BYTES], copy[192];
    struct spotnik_signer pair[2];

    snprintf(copy, sizeof copy, "%s/copy", root);
    train(key_a, 4);
    assert_int_equal(link(key_a, copy), 0);
    assert_int_equal(spotnik_key_rotate(key_a), 0);
    expect_resumed(key_a, 4);
    train(key_a, 8);
    entry_find(8, entry);
    assert_int_equal(spotnik_key_signer(key_a, pair), 0);
    struct spotnik_manifest *manifest = look(entry, pair);
    assert_string_equal(manifest->signer, pair[0].name);
    manifest_free(manifest);
    expect_refused(copy, "spotnik", "--old-key-file");
    assert_int_equal(spotnik_key_rotate(key_a), 0);
    expect_resumed(key_a, 8);
    assert_int_equal(spotnik_key_rotate(key_a), 0);
    expect_refused(key_a, "spotnik", "--old-key-file");
}

TEST_WITH(only_what_is_whole_is_adopted, setup, teardown)
{
    char entry[NAME_BYTES], later[NAME_BYTES];
    size_t size;

    train(NULL, 4);
    entry_find(4, entry);
    spotnik_checkpoint_store_entry_name(9, 0xabc, later);
    shell("cp -r '%s/%s' '%s/%s'", entry, later);
    expect_not_adopted(later, &a, &none, entry);
    struct spotnik_manifest *manifest = look(entry, &none);
    uint8_t *bytes = slurp(entry, manifest->part[0].name, &size);
    bytes[size - 1] ^= 1;
    spill(entry, manifest->part[0].name, bytes, size);
    expect_not_adopted(entry, &a, &none, "damaged or altered");
    bytes[size - 1] ^= 1;
    spill(entry, manifest->part[0].name, bytes, size);
    assert_int_equal(checkpoint_adopt(dir, entry, &a, &none), 0);
    free(bytes);
    manifest_free(manifest);

    rename_job(entry);
    expect_not_adopted(entry, &b, &a, "not as its key signed it");
}
