/* SPDX-License-Identifier: Apache-2.0 */
/* A store that is a bucket: "s3://bucket/job". It must honour conditions of writes, and show in a
 * listing what was put before. The first is tried before a founding (_check()); the second is what
 * the services promise. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "spotnik/spotnik.h"
#include "store/bucket.h"

static struct bucket *bucket_of(struct spotnik_objects *store)
{
    return (struct bucket *)store;
}

static void bucket_close(struct spotnik_objects *store)
{
    struct bucket *bucket = bucket_of(store);
    for (int i = 0; i < BUCKET_IDLE_MAX; i++)
        if (bucket->idle[i] != NULL)
            bucket->library->curl_easy_cleanup(bucket->idle[i]);
    pthread_mutex_destroy(&bucket->lock);
    explicit_bzero(bucket, sizeof *bucket);
    free(bucket);
}

/* ---- objects ---- */

/* `version`, unless NULL, becomes that of what was put; "": it is not known. */
static int object_put(struct bucket *bucket, const char *name, const char *condition,
                      const void *bytes, size_t size, char *version)
{
    struct bucket_request request = { .method = "PUT",
                                      .name = name,
                                      .condition = condition,
                                      .bytes = bytes,
                                      .size = size,
                                      .large_ns = spotnik_bucket_large_ns(size) };
    int rc = spotnik_bucket_request(bucket, &request);
    if (version != NULL)
        snprintf(version, BUCKET_VERSION_MAX + 1, "%s", rc == 0 ? request.version : "");
    return rc;
}

static int object_get(struct bucket *bucket, const char *name, void *bytes, size_t size,
                      size_t *ret_size, char version[BUCKET_VERSION_MAX + 1])
{
    struct bucket_request request = {
        .method = "GET", .name = name, .answer = bytes, .answer_max = size
    };
    int rc = spotnik_bucket_request(bucket, &request);
    *ret_size = rc == 0 ? request.answer_size : 0;
    memcpy(version, request.version, BUCKET_VERSION_MAX + 1);
    return rc;
}

/* The condition did not hold, yet the object may be ours: an answer was lost, and the request was
 * sent again. 0: it is; -EEXIST: it holds something else; or why it cannot be read. */
static int is_there(struct bucket *bucket, const char *name, const void *bytes, size_t size,
                    char version[BUCKET_VERSION_MAX + 1])
{
    char *there = malloc(size + 1);
    size_t there_size;
    if (there == NULL)
        return -ENOMEM;
    int rc = object_get(bucket, name, there, size + 1, &there_size, version);
    if (rc == 0 && (there_size != size || memcmp(there, bytes, size) != 0))
        rc = -EEXIST;
    free(there);
    return rc;
}

/* ---- replacing an object ----
 * A put that was given up, or sent again, may be carried out much later. So each names the version
 * that it replaces, and is refused once that is no longer there: an older record of a member never
 * comes back, nor one that the member has removed. */

#define REPLACE_MAX 4 /* writers of one name at once */

static void version_recall(struct bucket *bucket, const char *name,
                           char version[BUCKET_VERSION_MAX + 1])
{
    pthread_mutex_lock(&bucket->lock);
    bool known = strcmp(bucket->put_name, name) == 0;
    snprintf(version, BUCKET_VERSION_MAX + 1, "%s", known ? bucket->put_version : "");
    pthread_mutex_unlock(&bucket->lock);
}

static void version_keep(struct bucket *bucket, const char *name, const char *version)
{
    pthread_mutex_lock(&bucket->lock);
    snprintf(bucket->put_name, sizeof bucket->put_name, "%s", name);
    snprintf(bucket->put_version, sizeof bucket->put_version, "%s", version);
    pthread_mutex_unlock(&bucket->lock);
}

/* Over `version`, "": where there is none. It becomes that of what was put. */
static int version_put(struct bucket *bucket, const char *name, const void *bytes, size_t size,
                       char version[BUCKET_VERSION_MAX + 1])
{
    char condition[BUCKET_VERSION_MAX + 64];
    snprintf(condition, sizeof condition, "%s%s",
             version[0] != '\0' ? bucket->service->if_match : bucket->service->if_absent, version);
    return object_put(bucket, name, condition, bytes, size, version);
}

static int object_replace(struct bucket *bucket, const char *name, const void *bytes, size_t size)
{
    char version[BUCKET_VERSION_MAX + 1];
    version_recall(bucket, name, version);
    int rc = version_put(bucket, name, bytes, size, version);
    for (int i = 0; (rc == -EEXIST || rc == -ENOENT) && i < REPLACE_MAX; i++) {
        rc = is_there(bucket, name, bytes, size, version);
        if (rc != 0)
            rc = rc == -EEXIST || rc == -ENOENT ? version_put(bucket, name, bytes, size, version)
                                                : rc;
    }
    version_keep(bucket, name, version);
    return rc;
}

static int bucket_put(struct spotnik_objects *store, const char *name, uint64_t writer,
                      const void *bytes, size_t size, bool if_absent)
{
    struct bucket *bucket = bucket_of(store);
    char version[BUCKET_VERSION_MAX + 1];
    (void)writer; /* a put is whole or not at all */
    if (!if_absent)
        return object_replace(bucket, name, bytes, size);
    int rc = object_put(bucket, name, bucket->service->if_absent, bytes, size, NULL);
    return rc == -EEXIST && is_there(bucket, name, bytes, size, version) == 0 ? 0 : rc;
}

static int bucket_get(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
                      size_t *ret_size, uint64_t *ret_version)
{
    char version[BUCKET_VERSION_MAX + 1];
    int rc = object_get(bucket_of(store), name, bytes, size, ret_size, version);
    *ret_version = rc == 0 ? spotnik_hash_bytes(version, strlen(version)) : 0;
    return rc;
}

static int bucket_delete(struct spotnik_objects *store, const char *name)
{
    struct bucket_request request = { .method = "DELETE", .name = name };
    return spotnik_bucket_request(bucket_of(store), &request);
}

/* A server that knows no such condition answers 501, or does not look at it. */
static int bucket_delete_if(struct spotnik_objects *store, const char *name, uint64_t hash)
{
    struct bucket *bucket = bucket_of(store);
    char bytes[SPOTNIK_DELETE_IF_MAX], version[BUCKET_VERSION_MAX + 1],
        condition[BUCKET_VERSION_MAX + 64];
    struct bucket_request request = { .method = "DELETE", .name = name, .condition = condition };
    size_t size;
    int rc = object_get(bucket, name, bytes, sizeof bytes, &size, version);
    if (rc != 0)
        return rc;
    if (spotnik_hash_bytes(bytes, size) != hash)
        return -EEXIST;
    snprintf(condition, sizeof condition, "%s%s", bucket->service->if_match, version);
    rc = spotnik_bucket_request(bucket, &request);
    return request.status == 501 ? bucket_delete(store, name) : rc;
}

/* ---- what folders have ---- */

/* `spotnik run` leaves its mark in folders alone. */
static bool bucket_take(struct spotnik_objects *store, const char *name, uint64_t writer)
{
    (void)store, (void)name, (void)writer;
    return false;
}

static bool bucket_is_writable_by_all(struct spotnik_objects *store)
{
    (void)store;
    return false;
}

/* ---- registers: an object that holds "<number> <text>" ---- */

static bool bucket_has_registers(struct spotnik_objects *store)
{
    (void)store;
    return true; /* _check() comes first */
}

static size_t register_format(uint64_t number, const char *text, char object[128])
{
    return (size_t)snprintf(object, 128, "%llu %.*s\n", (unsigned long long)number,
                            SPOTNIK_OBJECTS_TEXT_MAX, text);
}

static int bucket_register_make(struct spotnik_objects *store, const char *name, const char *text)
{
    char object[128];
    size_t size = register_format(0, text, object);
    return bucket_put(store, name, 0, object, size, true);
}

/* False: it cannot be read. */
static bool register_read(struct bucket *bucket, const char *name, uint64_t *ret_number,
                          char text[SPOTNIK_OBJECTS_TEXT_MAX + 1],
                          char version[BUCKET_VERSION_MAX + 1])
{
    char object[128];
    unsigned long long number;
    size_t size;
    if (object_get(bucket, name, object, sizeof object - 1, &size, version) != 0)
        return false;
    object[size] = '\0';
    if (sscanf(object, "%llu %63s", &number, text) != 2)
        return false;
    *ret_number = number;
    return true;
}

static bool bucket_register_advance(struct spotnik_objects *store, const char *name,
                                    uint64_t number, const char *text)
{
    struct bucket *bucket = bucket_of(store);
    char object[128], there[SPOTNIK_OBJECTS_TEXT_MAX + 1], version[BUCKET_VERSION_MAX + 1],
        condition[BUCKET_VERSION_MAX + 40];
    uint64_t at;
    if (!register_read(bucket, name, &at, there, version))
        return false;
    if (at < number) {
        size_t size = register_format(number, text, object);
        snprintf(condition, sizeof condition, "%s%s", bucket->service->if_match, version);
        (void)object_put(bucket, name, condition, object, size, NULL);
        if (!register_read(bucket, name, &at, there, version))
            return false;
    }
    return at == number && strcmp(there, text) == 0;
}

static void bucket_register_delete(struct spotnik_objects *store, const char *name)
{
    (void)bucket_delete(store, name);
}

/* ---- does it honour conditions? ---- */

static int condition_fail(const struct bucket *bucket, const char *header)
{
    return spotnik_objects_fail(-ENOTSUP,
                                "%s ignores %.*s, so two processes could found one job: use a "
                                "store with conditional writes",
                                bucket->base, (int)strcspn(header, ":"), header);
}

static int bucket_check(struct spotnik_objects *store, uint64_t writer)
{
    struct bucket *bucket = bucket_of(store);
    const struct bucket_service *service = bucket->service;
    char name[40], match_header[160];
    snprintf(name, sizeof name, "probe-%016llx", (unsigned long long)writer);
    snprintf(match_header, sizeof match_header, "%s%s", service->if_match, service->no_version);
    int rc = object_put(bucket, name, NULL, "1", 1, NULL);
    if (rc != 0)
        return rc;
    int absent = object_put(bucket, name, service->if_absent, "2", 1, NULL),
        match = object_put(bucket, name, match_header, "3", 1, NULL);
    (void)bucket_delete(store, name);
    if (absent != 0 && absent != -EEXIST)
        return absent;
    if (match != 0 && match != -EEXIST)
        return match;
    return absent == 0  ? condition_fail(bucket, service->if_absent)
           : match == 0 ? condition_fail(bucket, service->if_match)
                        : 0;
}

static const struct spotnik_objects_kind kind = {
    .is_billed = true,
    .close = bucket_close,
    .put = bucket_put,
    .get = bucket_get,
    .list = spotnik_bucket_list,
    .put_pieces = spotnik_bucket_put_pieces,
    .get_range = spotnik_bucket_get_range,
    .walk = spotnik_bucket_walk,
    .delete = bucket_delete,
    .delete_if = bucket_delete_if,
    .take = bucket_take,
    .is_writable_by_all = bucket_is_writable_by_all,
    .check = bucket_check,
    .has_registers = bucket_has_registers,
    .register_make = bucket_register_make,
    .register_advance = bucket_register_advance,
    .register_delete = bucket_register_delete,
};

/* ---- opening ---- */

static const struct bucket_service *const services[] = { &spotnik_s3_service, &spotnik_gcs_service,
                                                         &spotnik_azure_service };

static const struct bucket_service *service_of(const char *where)
{
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
        if (strncmp(where, services[i]->scheme, strlen(services[i]->scheme)) == 0)
            return services[i];
    return NULL;
}

bool spotnik_bucket_base_set(struct bucket *bucket, const char *endpoint, const char *name)
{
    size_t end = strlen(endpoint);
    while (end > 0 && endpoint[end - 1] == '/')
        end--;
    int length = snprintf(bucket->base, sizeof bucket->base, "%.*s/%s", (int)end, endpoint, name);
    return length > 0 && (size_t)length < sizeof bucket->base;
}

static bool where_parse(struct bucket *bucket, const char *where)
{
    char own[64];
    const char *name = where + strlen(bucket->service->scheme);
    size_t length = strcspn(name, "/");
    if (length < 3 || length >= sizeof own || strspn(name, bucket->service->characters) < length)
        return false;
    snprintf(own, sizeof own, "%.*s", (int)length, name);
    name += length + (name[length] == '/');
    length = strlen(name);
    while (length > 0 && name[length - 1] == '/')
        length--;
    if (length + 2 > sizeof bucket->prefix)
        return false;
    if (length > 0)
        snprintf(bucket->prefix, sizeof bucket->prefix, "%.*s/", (int)length, name);
    return bucket->service->base_make(bucket, own);
}

int spotnik_objects_bucket_open(const char *where, struct spotnik_objects **ret_store)
{
    struct bucket *bucket = calloc(1, sizeof *bucket);
    if (bucket == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a bucket");
    bucket->store.kind = &kind;
    bucket->service = service_of(where);
    pthread_mutex_init(&bucket->lock, NULL);
    int rc = bucket->service == NULL
                 ? spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "\"%.100s\" is no bucket", where)
             : !where_parse(bucket, where)
                 ? spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "\"%.100s\" is no bucket: write %s",
                                        where, bucket->service->usage)
                 : spotnik_bucket_library(&bucket->library);
    if (rc != 0)
        bucket_close(&bucket->store);
    else
        *ret_store = &bucket->store;
    return rc;
}
