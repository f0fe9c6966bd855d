/* SPDX-License-Identifier: Apache-2.0 */
/* A store that is a bucket, of S3 or of what speaks its protocol: "s3://bucket/job". It must honour
 * If-None-Match and If-Match, and show in a listing what was put before. The first is tried before
 * a founding (_check()); the second is what S3 promises. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "spotnik/spotnik.h"
#include "store/s3.h"

#define PAGE_BYTES ((size_t)1 << 21) /* 1,000 names of 1,024 bytes, and what stands round them */
#define PAGES_MAX 64

static struct s3 *s3_of(struct spotnik_objects *store)
{
    return (struct s3 *)store;
}

static void s3_close(struct spotnik_objects *store)
{
    struct s3 *s3 = s3_of(store);
    for (int i = 0; i < S3_IDLE_MAX; i++)
        if (s3->idle[i] != NULL)
            s3->library->curl_easy_cleanup(s3->idle[i]);
    pthread_mutex_destroy(&s3->lock);
    explicit_bzero(s3, sizeof *s3);
    free(s3);
}

/* ---- objects ---- */

static int object_put(struct s3 *s3, const char *name, const char *condition, const void *bytes,
                      size_t size)
{
    struct s3_request request = { .method = "PUT",
                                  .name = name,
                                  .condition = condition,
                                  .bytes = bytes,
                                  .size = size,
                                  .large_ns = spotnik_s3_large_ns(size) };
    return spotnik_s3_request(s3, &request);
}

static int object_get(struct s3 *s3, const char *name, void *bytes, size_t size, size_t *ret_size,
                      char etag[S3_ETAG_MAX + 1])
{
    struct s3_request request = {
        .method = "GET", .name = name, .answer = bytes, .answer_max = size
    };
    int rc = spotnik_s3_request(s3, &request);
    *ret_size = rc == 0 ? request.answer_size : 0;
    memcpy(etag, request.etag, S3_ETAG_MAX + 1);
    return rc;
}

/* The condition did not hold, yet the object may be ours: an answer was lost, and the request was
 * sent again. */
static bool is_ours(struct s3 *s3, const char *name, const void *bytes, size_t size)
{
    char *there = malloc(size + 1), etag[S3_ETAG_MAX + 1];
    size_t there_size;
    bool same = there != NULL && object_get(s3, name, there, size + 1, &there_size, etag) == 0
                && there_size == size && memcmp(there, bytes, size) == 0;
    free(there);
    return same;
}

static int s3_put(struct spotnik_objects *store, const char *name, uint64_t writer,
                  const void *bytes, size_t size, bool if_absent)
{
    struct s3 *s3 = s3_of(store);
    (void)writer; /* a put is whole or not at all */
    int rc = object_put(s3, name, if_absent ? S3_IF_ABSENT : NULL, bytes, size);
    return rc == -EEXIST && is_ours(s3, name, bytes, size) ? 0 : rc;
}

static int s3_get(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
                  size_t *ret_size, uint64_t *ret_version)
{
    char etag[S3_ETAG_MAX + 1];
    int rc = object_get(s3_of(store), name, bytes, size, ret_size, etag);
    *ret_version = rc == 0 ? spotnik_hash_bytes(etag, strlen(etag)) : 0;
    return rc;
}

static int s3_delete(struct spotnik_objects *store, const char *name)
{
    struct s3_request request = { .method = "DELETE", .name = name };
    return spotnik_s3_request(s3_of(store), &request);
}

/* ---- listing ---- */

/* Keys in order, as the signature wants them. */
static bool query_make(const struct s3 *s3, const char *under, const char *token, char *query,
                       size_t size)
{
    char plain[sizeof s3->prefix + SPOTNIK_OBJECTS_NAME_MAX], prefix[3 * sizeof plain],
        coded[2048] = "";
    snprintf(plain, sizeof plain, "%s%.*s", s3->prefix, SPOTNIK_OBJECTS_NAME_MAX - 1, under);
    if (!spotnik_s3_encode(plain, prefix, sizeof prefix)
        || !spotnik_s3_encode(token, coded, sizeof coded))
        return false;
    int length = snprintf(query, size, "%s%s%sdelimiter=%%2F&list-type=2&prefix=%s",
                          *token != '\0' ? "continuation-token=" : "", coded,
                          *token != '\0' ? "&" : "", prefix);
    return length > 0 && (size_t)length < size;
}

static int s3_walk(struct spotnik_objects *store, const char *prefix,
                   int (*each)(void *context, const struct spotnik_object *object), void *context)
{
    struct s3 *s3 = s3_of(store);
    char query[4096], token[600] = "";
    char *page = malloc(PAGE_BYTES);
    int rc = page != NULL ? 0 : -ENOMEM;
    for (int i = 0; rc == 0 && (i == 0 || token[0] != '\0'); i++) {
        struct s3_request request = {
            .method = "GET", .query = query, .answer = page, .answer_max = PAGE_BYTES
        };
        rc = i < PAGES_MAX && query_make(s3, prefix, token, query, sizeof query)
                 ? spotnik_s3_request(s3, &request)
                 : spotnik_objects_fail(-E2BIG,
                                        "%s/%s holds too many objects: give each job a "
                                        "prefix of its own",
                                        s3->base, s3->prefix);
        if (rc == 0)
            rc = spotnik_s3_page_read(s3, prefix, page, request.answer_size, each, context, token,
                                      sizeof token);
    }
    free(page);
    return rc;
}

struct names {
    int (*each)(void *context, const char *name);
    void *context;
};

static int name_pass(void *context, const struct spotnik_object *object)
{
    const struct names *names = context;
    return strchr(object->name, '/') != NULL ? 0 : names->each(names->context, object->name);
}

static int s3_list(struct spotnik_objects *store, int (*each)(void *context, const char *name),
                   void *context)
{
    return s3_walk(store, "", name_pass, &(struct names){ .each = each, .context = context });
}

/* ---- what folders have ---- */

/* `spotnik run` leaves its mark in folders alone. */
static bool s3_take(struct spotnik_objects *store, const char *name, uint64_t writer)
{
    (void)store, (void)name, (void)writer;
    return false;
}

static bool s3_is_writable_by_all(struct spotnik_objects *store)
{
    (void)store;
    return false;
}

/* ---- registers: an object that holds "<number> <text>" ---- */

static bool s3_has_registers(struct spotnik_objects *store)
{
    (void)store;
    return true; /* _check() comes first */
}

static size_t register_format(uint64_t number, const char *text, char object[128])
{
    return (size_t)snprintf(object, 128, "%llu %.*s\n", (unsigned long long)number,
                            SPOTNIK_OBJECTS_TEXT_MAX, text);
}

static int s3_register_make(struct spotnik_objects *store, const char *name, const char *text)
{
    char object[128];
    size_t size = register_format(0, text, object);
    return s3_put(store, name, 0, object, size, true);
}

/* False: it cannot be read. */
static bool register_read(struct s3 *s3, const char *name, uint64_t *ret_number,
                          char text[SPOTNIK_OBJECTS_TEXT_MAX + 1], char etag[S3_ETAG_MAX + 1])
{
    char object[128];
    unsigned long long number;
    size_t size;
    if (object_get(s3, name, object, sizeof object - 1, &size, etag) != 0)
        return false;
    object[size] = '\0';
    if (sscanf(object, "%llu %63s", &number, text) != 2)
        return false;
    *ret_number = number;
    return true;
}

static bool s3_register_advance(struct spotnik_objects *store, const char *name, uint64_t number,
                                const char *text)
{
    struct s3 *s3 = s3_of(store);
    char object[128], there[SPOTNIK_OBJECTS_TEXT_MAX + 1], etag[S3_ETAG_MAX + 1],
        condition[S3_ETAG_MAX + 16];
    uint64_t at;
    if (!register_read(s3, name, &at, there, etag))
        return false;
    if (at < number) {
        size_t size = register_format(number, text, object);
        snprintf(condition, sizeof condition, "If-Match: %s", etag);
        (void)object_put(s3, name, condition, object, size);
        if (!register_read(s3, name, &at, there, etag))
            return false;
    }
    return at == number && strcmp(there, text) == 0;
}

static void s3_register_delete(struct spotnik_objects *store, const char *name)
{
    (void)s3_delete(store, name);
}

/* ---- does it honour conditions? ---- */

static int s3_check(struct spotnik_objects *store, uint64_t writer)
{
    struct s3 *s3 = s3_of(store);
    char name[40];
    snprintf(name, sizeof name, "probe-%016llx", (unsigned long long)writer);
    int rc = object_put(s3, name, NULL, "1", 1);
    int absent = rc == 0 ? object_put(s3, name, S3_IF_ABSENT, "2", 1) : 0,
        match = rc == 0
                    ? object_put(s3, name, "If-Match: \"0123456789abcdef0123456789abcdef\"", "3", 1)
                    : 0;
    if (rc == 0)
        (void)s3_delete(store, name);
    if (rc != 0 || (absent == -EEXIST && match == -EEXIST))
        return rc;
    if ((absent != 0 && absent != -EEXIST) || (match != 0 && match != -EEXIST))
        return absent != 0 && absent != -EEXIST ? absent : match;
    return spotnik_objects_fail(-ENOTSUP,
                                "%s ignores %s, so two processes could found one job: use a store "
                                "with conditional writes",
                                s3->base, absent == 0 ? "If-None-Match" : "If-Match");
}

static const struct spotnik_objects_kind kind = {
    .is_billed = true,
    .close = s3_close,
    .put = s3_put,
    .get = s3_get,
    .list = s3_list,
    .put_pieces = spotnik_s3_put_pieces,
    .get_range = spotnik_s3_get_range,
    .walk = s3_walk,
    .delete = s3_delete,
    .take = s3_take,
    .is_writable_by_all = s3_is_writable_by_all,
    .check = s3_check,
    .has_registers = s3_has_registers,
    .register_make = s3_register_make,
    .register_advance = s3_register_advance,
    .register_delete = s3_register_delete,
};

/* ---- opening ---- */

static const char *variable(const char *first, const char *second, const char *otherwise)
{
    const char *text = getenv(first);
    if (text == NULL || *text == '\0')
        text = second != NULL ? getenv(second) : NULL;
    return text != NULL && *text != '\0' ? text : otherwise;
}

/* A bucket is a part of the host's name at AWS, and of the path elsewhere. */
static bool base_make(struct s3 *s3, const char *bucket)
{
    const char *region = variable("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1"),
               *endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "");
    size_t end = strlen(endpoint);
    while (end > 0 && endpoint[end - 1] == '/')
        end--;
    int length =
        end > 0 ? snprintf(s3->base, sizeof s3->base, "%.*s/%s", (int)end, endpoint, bucket)
        : strchr(bucket, '.') != NULL
            ? snprintf(s3->base, sizeof s3->base, "https://s3.%s.amazonaws.com/%s", region, bucket)
            : snprintf(s3->base, sizeof s3->base, "https://%s.s3.%s.amazonaws.com", bucket, region);
    int signing = snprintf(s3->signing, sizeof s3->signing, "aws:amz:%s:s3", region);
    return length > 0 && (size_t)length < sizeof s3->base && signing > 0
           && (size_t)signing < sizeof s3->signing;
}

static bool where_parse(struct s3 *s3, const char *where)
{
    char bucket[64];
    const char *name = where + strlen("s3://");
    size_t length = strcspn(name, "/");
    if (length < 3 || length >= sizeof bucket
        || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") < length)
        return false;
    snprintf(bucket, sizeof bucket, "%.*s", (int)length, name);
    name += length + (name[length] == '/');
    length = strlen(name);
    while (length > 0 && name[length - 1] == '/')
        length--;
    if (length + 2 > sizeof s3->prefix)
        return false;
    if (length > 0)
        snprintf(s3->prefix, sizeof s3->prefix, "%.*s/", (int)length, name);
    return base_make(s3, bucket);
}

int spotnik_s3_open(const char *where, struct spotnik_objects **ret_store)
{
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (s3 == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a bucket");
    s3->store.kind = &kind;
    pthread_mutex_init(&s3->lock, NULL);
    int rc = where_parse(s3, where)
                 ? spotnik_s3_library(&s3->library)
                 : spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                        "\"%.100s\" is no bucket: write s3://BUCKET/NAME, and set "
                                        "AWS_REGION or AWS_ENDPOINT_URL",
                                        where);
    if (rc != 0) {
        s3_close(&s3->store);
        return rc;
    }
    *ret_store = &s3->store;
    return 0;
}
