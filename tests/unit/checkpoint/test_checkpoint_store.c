/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: files of checkpoints go where they belong, and are read only where they are files.
 * Somebody else may have put a link or a FIFO in their place: writing must not follow the one, nor
 * reading wait for the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"
#include "tests.h"

#define ENTRY "step-000000000001-0000000000000001"

static char directory[64], victim[128];
static const struct spotnik_signer no_key;

static int directory_make(void **state)
{
    char path[256];

    (void)state;
    snprintf(directory, sizeof directory, "/tmp/spotnik-shelf-XXXXXX");
    if (!mkdtemp(directory))
        return 1;
    snprintf(victim, sizeof victim, "%s/victim", directory);
    snprintf(path, sizeof path, "%s/" ENTRY, directory);
    FILE *file = fopen(victim, "w");
    return !file || fputs("untouched", file) < 0 || fclose(file) || mkdir(path, 0700);
}

static int directory_clear(void **state)
{
    char command[96];

    (void)state;
    snprintf(command, sizeof command, "rm -rf -- %s", directory);
    return system(command);
}

static void expect_untouched(void)
{
    char text[32] = "";
    FILE *file = fopen(victim, "r");

    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "untouched");
}

TEST_WITH(writing_follows_no_link, directory_make, directory_clear)
{
    char path[256];
    uint8_t *bytes;
    size_t size;

    snprintf(path, sizeof path, "%s/" ENTRY "/.tmp-%016x", directory, 7);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(spotnik_checkpoint_store_put(directory, ENTRY, "manifest.json", 7, "text", 4),
                     0);
    expect_untouched();
    assert_int_equal(spotnik_checkpoint_store_get(directory, ENTRY, "manifest.json", 100, &bytes,
                                                  &size),
                     0);
    assert_int_equal(size, 4);
    free(bytes);
    snprintf(path, sizeof path, "%s/due-%016x-9", directory, 1);
    assert_int_equal(symlink("/nowhere/to/write", path), 0);
    assert_int_equal(spotnik_checkpoint_store_due_set(directory, 1, 9), 0);
    assert_int_equal(spotnik_checkpoint_store_due(directory, 1), 9);
}

TEST_WITH(a_fifo_is_no_manifest, directory_make, directory_clear)
{
    char path[256];
    uint8_t *bytes;
    size_t size;
    struct spotnik_manifest manifest = { .part_count = 0 };

    snprintf(path, sizeof path, "%s/" ENTRY "/manifest.json", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(spotnik_checkpoint_store_get(directory, ENTRY, "manifest.json", 100, &bytes,
                                                  &size),
                     SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "no regular file"));
    assert_int_equal(spotnik_checkpoint_verify(directory, ENTRY, &no_key, &manifest),
                     SPOTNIK_ERR_PEERS);
    unlink(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_int_equal(spotnik_checkpoint_store_get(directory, ENTRY, "manifest.json", 100, &bytes,
                                                  &size),
                     SPOTNIK_ERR_PEERS);
}

/* A scratch disk was tidied up: the folder is made again. Not so what it lies in: that may be a
 * disk that is away. */
TEST_WITH(a_folder_that_was_removed_is_made_again, directory_make, directory_clear)
{
    char folder[128], path[256], inner[160];
    struct stat facts;

    snprintf(folder, sizeof folder, "%s/folder", directory);
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(path, sizeof path, "%s/" ENTRY, folder);
    assert_int_equal(spotnik_checkpoint_store_entry_make(folder, ENTRY), 0);
    assert_true(stat(path, &facts) == 0 && S_ISDIR(facts.st_mode));
    assert_true(rmdir(path) == 0 && rmdir(folder) == 0);
    assert_int_equal(spotnik_checkpoint_store_entry_make(inner, ENTRY), SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "No such file"));
    assert_int_equal(access(folder, F_OK), -1);
}

/* The model is in them. */
TEST_WITH(only_their_user_reads_checkpoints, directory_make, directory_clear)
{
    char folder[128], path[256];
    struct stat facts;
    mode_t mask = umask(0);

    snprintf(folder, sizeof folder, "%s/folder", directory);
    assert_int_equal(spotnik_checkpoint_store_open(folder), 0);
    assert_int_equal(spotnik_checkpoint_store_entry_make(folder, ENTRY), 0);
    assert_int_equal(spotnik_checkpoint_store_put(folder, ENTRY, "part", 1, "weights", 7), 0);
    umask(mask);
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/" ENTRY, folder);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    strcat(path, "/part");
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

/* One whose manifest cannot be looked at (another user's, a server that does not answer) is not one
 * that was never completed: no job goes on from an older one, nor begins anew, and nothing is
 * pruned. */
TEST_WITH(an_unreadable_one_is_not_incomplete, directory_make, directory_clear)
{
    struct spotnik_registry registry;
    struct spotnik_resume resume;
    struct spotnik_checkpoint_store_list list;
    char path[256];

    snprintf(path, sizeof path, "%s/step-000000000002-0000000000000001", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(spotnik_checkpoint_store_put(directory, ENTRY, "manifest.json", 7, "text", 4),
                     0);
    strcat(path, "/manifest.json");
    assert_int_equal(spotnik_checkpoint_store_list(directory, &list), 0);
    assert_true(list.count == 2 && !list.entry[0].written_s && list.entry[1].written_s);
    spotnik_checkpoint_store_list_done(&list);
    assert_int_equal(symlink("manifest.json", path), 0); /* a loop: ELOOP, for root as well */
    assert_int_equal(spotnik_checkpoint_store_list(directory, &list), SPOTNIK_ERR_SYSTEM);
    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_checkpoint_load(directory, "job", &no_key, &registry, &resume),
                     SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "must be able to read"));
    spotnik_registry_done(&registry);
    assert_int_equal(spotnik_checkpoint_store_prune(directory, 1, 1, 0), 0);
    assert_true(spotnik_checkpoint_store_has(directory, ENTRY, "manifest.json"));
}

/* The state of a minority is in no list that a job resumes from or prunes by; it is in its own. */
TEST_WITH(a_minority_has_a_list_of_its_own, directory_make, directory_clear)
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], path[256];
    struct spotnik_checkpoint_store_list list;

    spotnik_checkpoint_store_minority_name(9, 0xabc, name);
    assert_string_equal(name, "minority-step-000000000009-0000000000000abc");
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(spotnik_checkpoint_store_put(directory, name, "manifest.json", 7, "text", 4),
                     0);
    assert_int_equal(spotnik_checkpoint_store_put(directory, ENTRY, "manifest.json", 7, "text", 4),
                     0);
    assert_int_equal(spotnik_checkpoint_store_list(directory, &list), 0);
    assert_true(list.count == 1 && list.entry[0].step == 1);
    spotnik_checkpoint_store_list_done(&list);
    assert_int_equal(spotnik_checkpoint_store_list_minority(directory, &list), 0);
    assert_true(list.count == 1 && list.entry[0].step == 9 && list.entry[0].written_s);
    assert_string_equal(list.entry[0].name, name);
    spotnik_checkpoint_store_list_done(&list);
    assert_int_equal(spotnik_checkpoint_store_prune(directory, 1, 1, 0), 1);
    assert_true(spotnik_checkpoint_store_has(directory, name, "manifest.json"));
}
