/* SPDX-License-Identifier: Apache-2.0 */
/* A store on a real folder: names, versions, and what many do at once. Registers: see the test of
 * the witness. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "store/store.h"
#include "tests.h"

#define WRITERS 8

static char folder[64];
static struct spotnik_objects *store;

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/spotnik-objects-XXXXXX");
    return mkdtemp(folder) == NULL || spotnik_objects_open(folder, &store) != 0;
}

static int folder_remove(void **state)
{
    char command[96];
    (void)state;
    spotnik_objects_close(store);
    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    return system(command);
}

/* Claim: what was put is read, up to the room there is; its version is another one after each put;
 * a name that was deleted is absent. */
TEST_WITH(objects, folder_make, folder_remove)
{
    char text[8];
    size_t size;
    uint64_t first, second;
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &first), -ENOENT);
    assert_int_equal(spotnik_objects_put(store, "a", 1, "0123456789", 10), 0);
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &first), 0);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(text, "01234567", sizeof text);
    assert_int_equal(spotnik_objects_put(store, "a", 1, "0123456789", 10), 0);
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &second), 0);
    assert_true(first != 0 && second != 0 && first != second);
    assert_int_equal(spotnik_objects_put_if_absent(store, "a", 1, "b", 1), -EEXIST);
    assert_int_equal(spotnik_objects_delete(store, "a"), 0);
    assert_int_equal(spotnik_objects_delete(store, "a"), -ENOENT);
    assert_int_equal(spotnik_objects_put_if_absent(store, "a", 1, "b", 1), 0);
}

/* Claim: what is no file is an error that has a version; a folder that is not there has none. */
TEST_WITH(no_objects, folder_make, folder_remove)
{
    struct spotnik_objects *nowhere;
    char path[128], text[8], longest[5000];
    size_t size;
    uint64_t version;
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(spotnik_objects_get(store, "pipe", text, sizeof text, &size, &version),
                     -EINVAL);
    assert_true(version != 0);
    snprintf(path, sizeof path, "%s/pipe/below", folder);
    assert_int_equal(spotnik_objects_open(path, &nowhere), 0);
    assert_int_equal(spotnik_objects_get(nowhere, "a", text, sizeof text, &size, &version),
                     -ENOTDIR);
    assert_true(version == 0);
    assert_int_equal(spotnik_objects_put(nowhere, "a", 1, "b", 1), -ENOTDIR);
    assert_string_equal(spotnik_objects_why(-ENOTDIR), strerror(ENOTDIR));
    spotnik_objects_close(nowhere);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(spotnik_objects_open(longest, &nowhere), SPOTNIK_ERR_ARGUMENT);
}

static int name_count(void *context, const char *name)
{
    uint32_t *count = context;
    if (strcmp(name, "stop") == 0)
        return -ECANCELED;
    *count += strcmp(name, "a") == 0 || strcmp(name, "b") == 0;
    return 0;
}

/* Claim: each name comes once, and each() ends the list. */
TEST_WITH(lists, folder_make, folder_remove)
{
    uint32_t count = 0;
    assert_int_equal(spotnik_objects_put(store, "a", 1, "", 0), 0);
    assert_int_equal(spotnik_objects_put(store, "b", 1, "", 0), 0);
    assert_int_equal(spotnik_objects_list(store, name_count, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(spotnik_objects_put(store, "stop", 1, "", 0), 0);
    assert_int_equal(spotnik_objects_list(store, name_count, &count), -ECANCELED);
}

struct writer {
    uint64_t number;
    int rc;
    bool took;
    pthread_t thread;
};

static void *writer_main(void *context)
{
    struct writer *writer = context;
    writer->rc = spotnik_objects_put_if_absent(store, "one", writer->number, &writer->number,
                                               sizeof writer->number);
    writer->took = spotnik_objects_take(store, "mark", writer->number);
    return NULL;
}

/* Claim: of many at once one makes the object, and it holds what that one wrote; one takes the
 * mark. */
TEST_WITH(many_at_once, folder_make, folder_remove)
{
    struct writer writer[WRITERS] = { 0 };
    uint64_t winner = 0, read, version;
    uint32_t made = 0, took = 0;
    size_t size;
    assert_int_equal(spotnik_objects_put(store, "mark", 1, "", 0), 0);
    for (uint64_t i = 0; i < WRITERS; i++) {
        writer[i].number = i + 1;
        assert_int_equal(pthread_create(&writer[i].thread, NULL, writer_main, &writer[i]), 0);
    }
    for (uint64_t i = 0; i < WRITERS; i++) {
        pthread_join(writer[i].thread, NULL);
        assert_true(writer[i].rc == 0 || writer[i].rc == -EEXIST);
        made += writer[i].rc == 0;
        took += writer[i].took;
        winner = writer[i].rc == 0 ? writer[i].number : winner;
    }
    assert_int_equal(made, 1);
    assert_int_equal(took, 1);
    assert_int_equal(spotnik_objects_get(store, "one", &read, sizeof read, &size, &version), 0);
    assert_int_equal(read, winner);
}

/* Claim: URLs of buckets, those of no kind that is known, and paths are told apart. */
TEST(urls)
{
    static const char *const buckets[] = { "s3://a/b", "gs://a/b", "az://a/b" };
    static const char *const foreign[] = { "abfs://a/b", "gcs://a/b", "https://a/b" };
    static const char *const paths[] = { "/a/b", "a", "file:///a", "file:/a", "/a/s3://b", "a:b" };
    for (int i = 0; i < 3; i++) {
        assert_true(spotnik_objects_is_bucket(buckets[i]));
        assert_false(spotnik_objects_is_foreign(buckets[i]));
        assert_true(spotnik_objects_is_foreign(foreign[i]));
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_false(spotnik_objects_is_bucket(paths[i]) || spotnik_objects_is_foreign(paths[i]));
}
