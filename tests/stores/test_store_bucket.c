/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a bucket of each service: what it keeps, and what becomes of requests whose answer is
 * lost, of a busy server and of one that ignores conditions. The stand-ins are the servers;
 * stand_in.py lists by which name what goes wrong. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store_tests.h"

/* What the service calls it. */
static const struct service {
    const char *scheme, *torn, *ignores;
} services[] = {
    { "s3", "XAmzContentSHA256Mismatch", "ignores If-None-Match" },
    { "gs", "BadDigest", "ignores x-goog-if-generation-match" },
    { "az", "Md5Mismatch", "ignores If-None-Match" },
};

static const struct service *service_of(void)
{
    const struct service *service = services;
    while (strcmp(service->scheme, getenv("STORE_SCHEME")) != 0)
        service++;
    return service;
}

static void assert_holds(const char *name, const char *text)
{
    char there[100];
    size_t size;
    uint64_t version;
    assert_int_equal(spotnik_objects_get(store, name, there, sizeof there, &size, &version), 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(there, text, size);
}

/* Claim: what was put is read, up to the room there is; its version follows what it holds; one
 * process makes an object, and a name that was deleted is absent. */
TEST_WITH(objects, NULL, store_close)
{
    char text[4];
    size_t size;
    uint64_t first, second, none;
    store_open("objects/of one+job/");
    assert_int_equal(spotnik_objects_check(store, 1), 0);
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &none), -ENOENT);
    assert_true(none == 0);
    assert_int_equal(spotnik_objects_put(store, "a", 1, "01234567", 8), 0);
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &first), 0);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(text, "0123", sizeof text);
    assert_int_equal(spotnik_objects_put(store, "a", 1, "other", 5), 0);
    assert_int_equal(spotnik_objects_get(store, "a", text, sizeof text, &size, &second), 0);
    assert_true(first != 0 && second != 0 && first != second);
    assert_int_equal(spotnik_objects_put_if_absent(store, "a", 1, "third", 5), -EEXIST);
    assert_holds("a", "other");
    assert_int_equal(spotnik_objects_delete(store, "a"), 0);
    assert_int_equal(spotnik_objects_put_if_absent(store, "a", 1, "third", 5), 0);
    assert_holds("a", "third");
}

/* Claim: a register goes to larger numbers only, to one text for each, and is not made by being
 * advanced. */
TEST_WITH(registers, NULL, store_close)
{
    store_open("registers");
    assert_false(spotnik_objects_register_advance(store, "tie", 1, "a"));
    assert_int_equal(spotnik_objects_register_make(store, "tie", "a"), 0);
    assert_int_equal(spotnik_objects_register_make(store, "tie", "b"), -EEXIST);
    assert_true(spotnik_objects_register_advance(store, "tie", 5, "b"));
    assert_true(spotnik_objects_register_advance(store, "tie", 5, "b"));
    assert_false(spotnik_objects_register_advance(store, "tie", 5, "a"));
    assert_false(spotnik_objects_register_advance(store, "tie", 4, "a"));
    assert_true(spotnik_objects_register_advance(store, "tie", 6, "a"));
    spotnik_objects_register_delete(store, "tie");
    assert_false(spotnik_objects_register_advance(store, "tie", 7, "a"));
}

/* Claim: a write that was carried out and not answered is known for ours, never for another's. */
TEST_WITH(lost_answers, NULL, store_close)
{
    store_open("lost");
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "genesis-%d", i);
        assert_int_equal(spotnik_objects_put_if_absent(store, name, 1, "ours", 4), 0);
        assert_int_equal(spotnik_objects_put_if_absent(store, name, 1, "theirs", 6), -EEXIST);
        assert_holds(name, "ours");
    }
    assert_int_equal(spotnik_objects_register_make(store, "tie", "a"), 0);
    for (uint64_t number = 1; number < 5; number++) {
        assert_true(spotnik_objects_register_advance(store, "tie", number, "b"));
        assert_false(spotnik_objects_register_advance(store, "tie", number, "a"));
    }
}

/* Claim: no server, and no proxy before it, makes a call wait beyond its time. */
TEST_WITH(centuries, NULL, store_close)
{
    store_open("centuries");
    assert_int_equal(spotnik_objects_put(store, "a", 1, "b", 1), -ETIMEDOUT);
}

/* Claim: a put that is carried out late replaces nothing that was put behind it. */
TEST_WITH(late, NULL, store_close)
{
    store_open("late");
    for (char text[] = "a"; text[0] < 'e'; text[0]++) {
        assert_int_equal(spotnik_objects_put(store, "record", 1, text, 1), 0);
        assert_holds("record", text);
    }
    assert_int_equal(spotnik_objects_delete(store, "record"), 0);
    assert_int_equal(spotnik_objects_put(store, "record", 1, "new", 3), 0);
    assert_holds("record", "new");
}

/* Claim: a delete that is carried out late removes no object that was put behind it; without the
 * condition it does. */
TEST_WITH(late_delete, NULL, store_close)
{
    uint64_t ours = spotnik_hash_bytes("ours", 4);
    store_open("late");
    assert_int_equal(spotnik_objects_put_if_absent(store, "genesis", 1, "ours", 4), 0);
    assert_int_equal(spotnik_objects_delete_if(store, "genesis", ours + 1), -EEXIST);
    assert_int_equal(spotnik_objects_delete_if(store, "genesis", ours), 0);
    assert_int_equal(spotnik_objects_put_if_absent(store, "genesis", 1, "theirs", 6), 0);
    for (int i = 0; i < 8; i++) { /* the late requests come one after the other */
        assert_int_equal(spotnik_objects_put(store, "record", 1, "new", 3), 0);
        assert_holds("genesis", "theirs");
    }
}

/* Claim: a server without conditional deletes deletes all the same. */
TEST_WITH(old, NULL, store_close)
{
    store_open("old");
    assert_int_equal(spotnik_objects_put_if_absent(store, "genesis", 1, "ours", 4), 0);
    assert_int_equal(spotnik_objects_delete_if(store, "genesis", spotnik_hash_bytes("ours", 4)), 0);
    assert_int_equal(spotnik_objects_put_if_absent(store, "genesis", 1, "theirs", 6), 0);
}

/* Claim: what a busy server refuses is sent again. */
TEST_WITH(busy, NULL, store_close)
{
    store_open("busy");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(spotnik_objects_put(store, "a", 1, "b", 1), 0);
        assert_holds("a", "b");
        assert_int_equal(spotnik_objects_delete(store, "a"), 0);
    }
}

/* Claim: when a token has ended the credentials are read again, and the request is sent again. */
TEST_WITH(expired, NULL, store_close)
{
    store_open("expired");
    assert_int_equal(spotnik_objects_put(store, "a", 1, "b", 1), 0);
    assert_holds("a", "b");
}

/* Claim: a store that ignores conditions is refused, with the reason. */
TEST_WITH(unconditional, NULL, store_close)
{
    store_open("unconditional");
    int rc = spotnik_objects_check(store, 1);
    assert_int_equal(rc, -ENOTSUP);
    assert_non_null(strstr(spotnik_objects_why(rc), service_of()->ignores));
}

static int name_add(void *context, const char *name)
{
    strcat(context, name);
    return strcmp(name, "stop") == 0 ? -ECANCELED : 0;
}

/* Claim: a listing of many pages is whole and without its prefix, however long their tokens are;
 * each() ends it. */
TEST_WITH(pages, NULL, store_close)
{
    static const char *const names[] = { "a", "b", "c&<d>", "e", "f" };
    char all[100] = "";
    store_open("pages/one");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(spotnik_objects_put(store, names[i], 1, "", 0), 0);
    assert_int_equal(spotnik_objects_list(store, name_add, all), 0);
    assert_string_equal(all, "abc&<d>ef");
    assert_int_equal(spotnik_objects_put(store, "stop", 1, "", 0), 0);
    assert_int_equal(spotnik_objects_list(store, name_add, all), -ECANCELED);
}

/* Claim: a token that is too long for us ends the listing with an error, and is not cut. */
TEST_WITH(endless, NULL, store_close)
{
    static const char *const names[] = { "a", "b", "c" };
    char all[100] = "";
    store_open("endless");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(spotnik_objects_put(store, names[i], 1, "", 0), 0);
    int rc = spotnik_objects_list(store, name_add, all);
    assert_int_equal(rc, -EIO);
    assert_non_null(strstr(spotnik_objects_why(rc), "token"));
}

/* ---- large objects ---- */

#define LARGE ((size_t)70 << 20) /* more than one request holds */

static uint8_t *large_make(void)
{
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (uint8_t)(i * 31 + (i >> 16));
    return bytes;
}

/* Put it as three pieces that no request begins or ends with. */
static int large_put(const char *name, uint8_t *bytes, size_t size, bool (*is_stopped)(void *))
{
    struct iovec piece[] = { { bytes, 5 }, { bytes + 5, size / 2 }, { NULL, 0 } };
    piece[2] = (struct iovec){ bytes + 5 + size / 2, size - 5 - size / 2 };
    return spotnik_objects_put_pieces(store, name,
                                      &(struct spotnik_objects_pieces){
                                          .piece = piece, .count = 3, .is_stopped = is_stopped });
}

static void assert_reads(const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t *there = malloc(LARGE);
    size_t got;
    assert_non_null(there);
    for (size_t at = 0; at <= size; at += LARGE / 3) {
        assert_int_equal(spotnik_objects_get_range(store, name, at, there, LARGE / 3, &got), 0);
        assert_int_equal(got, size - at < LARGE / 3 ? size - at : LARGE / 3);
        assert_memory_equal(there, bytes + at, got);
    }
    free(there);
}

/* Claim: pieces become one object, in one request or in several, though answers are lost, the
 * server is busy, or a byte is changed on the way. Ranges are read, and end where the object does.
 */
TEST_WITH(pieces, NULL, store_close)
{
    static const char *const places[] = { "pieces", "lost/pieces", "busy/pieces" };
    uint8_t *bytes = large_make();
    size_t got;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        store_open(places[i]);
        assert_int_equal(large_put("in/one", bytes, 1000, NULL), 0);
        assert_reads("in/one", bytes, 1000);
        assert_int_equal(large_put("in/parts", bytes, LARGE, NULL), 0);
        assert_reads("in/parts", bytes, LARGE);
        assert_int_equal(spotnik_objects_get_range(store, "none", 0, bytes, 1, &got), -ENOENT);
        store_close(NULL);
    }
    free(bytes);
}

/* Claim: the store compares what arrives with its digest. */
TEST_WITH(torn, NULL, store_close)
{
    uint8_t bytes[100] = "0123456789";
    size_t got;
    store_open("torn");
    int rc = large_put("a", bytes, sizeof bytes, NULL);
    assert_int_equal(rc, -EIO);
    assert_non_null(strstr(spotnik_objects_why(rc), service_of()->torn));
    assert_int_equal(spotnik_objects_get_range(store, "a", 0, bytes, 1, &got), -ENOENT);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

/* Claim: an upload that is stopped leaves no object. */
TEST_WITH(stopped, NULL, store_close)
{
    uint8_t *bytes = large_make();
    size_t got;
    store_open("stopped");
    assert_int_equal(large_put("a", bytes, LARGE, always), -ECANCELED);
    assert_int_equal(spotnik_objects_get_range(store, "a", 0, bytes, 1, &got), -ENOENT);
    free(bytes);
}

static int object_add(void *context, const struct spotnik_object *object)
{
    char line[100];
    snprintf(line, sizeof line, "%s %llu %lld;", object->name, (unsigned long long)object->size,
             (long long)object->written_s);
    strcat(context, line);
    return 0;
}

/* Claim: a walk shows what begins with the prefix, with sizes and times, and each folder once. */
TEST_WITH(walk, NULL, store_close)
{
    static const char *const names[] = { "a", "ab", "ab/one", "ab/two", "b" };
    char all[200] = "";
    store_open("pages/walk");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(spotnik_objects_put(store, names[i], 1, "xyz", 3), 0);
    assert_int_equal(spotnik_objects_walk(store, "a", object_add, all), 0);
    assert_string_equal(all, "b 3 1767323045;b/ 0 0;"); /* "a" itself has no name behind it */
    all[0] = '\0';
    assert_int_equal(spotnik_objects_walk(store, "ab/", object_add, all), 0);
    assert_string_equal(all, "one 3 1767323045;two 3 1767323045;");
}
