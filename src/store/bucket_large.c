/* SPDX-License-Identifier: Apache-2.0 */
/* Large objects of a bucket: put in parts, several at once, and read by ranges. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"
#include "base/time.h"
#include "spotnik/spotnik.h"
#include "store/bucket.h"

#define WHOLE_MAX (UINT64_C(64) << 20) /* in one request */
#define CHUNK_MIN (UINT64_C(16) << 20) /* S3 wants 5 MiB at least, */
#define CHUNKS_MAX 10000               /* and no more than these */
#define AT_ONCE 4
#define SLOWEST (UINT64_C(256) << 10) /* bytes a second */

uint64_t spotnik_bucket_large_ns(uint64_t size)
{
    return size / SLOWEST * SPOTNIK_S;
}

static uint64_t size_of(const struct spotnik_objects_pieces *pieces)
{
    uint64_t size = 0;
    for (int i = 0; i < pieces->count; i++)
        size += pieces->piece[i].iov_len;
    return size;
}

/* ---- in one request ---- */

static int whole_put(struct bucket *bucket, const char *name,
                     const struct spotnik_objects_pieces *pieces)
{
    uint64_t size = size_of(pieces);
    struct bucket_request request = { .method = "PUT",
                                      .name = name,
                                      .pieces = pieces,
                                      .size = (size_t)size,
                                      .large_ns = spotnik_bucket_large_ns(size) };
    return spotnik_bucket_request(bucket, &request);
}

/* ---- in parts ---- */

/* The reason of this thread goes with spotnik_parallel(). */
static int chunk_put(void *context, uint32_t number)
{
    struct bucket_upload *upload = context;
    char query[sizeof upload->id + 64];
    uint64_t at = number * upload->chunk, left = upload->size - at;
    upload->bucket->service->part_query(upload, number, query, sizeof query);
    struct bucket_request request = { .method = "PUT",
                                      .name = upload->name,
                                      .query = query,
                                      .pieces = upload->pieces,
                                      .at = at,
                                      .size = (size_t)(left < upload->chunk ? left : upload->chunk),
                                      .large_ns = spotnik_bucket_large_ns(upload->chunk) };
    int rc = spotnik_bucket_request(upload->bucket, &request);
    memcpy(upload->etag[number], request.etag, sizeof request.etag);
    return rc != 0 ? spotnik_error_return(rc, "%s", spotnik_objects_why(rc)) : 0;
}

/* It may have been carried out, and its answer lost: then there is no such upload any more, and the
 * object is there. */
static bool is_there(const struct bucket_upload *upload)
{
    char last[2];
    size_t got = 0;
    return spotnik_bucket_get_range(&upload->bucket->store, upload->name, upload->size - 1, last, 2,
                                    &got)
               == 0
           && got == 1;
}

static int ending_send(struct bucket_upload *upload, const struct bucket_ending *ending,
                       const char *body, size_t size)
{
    char code[64];
    struct bucket_request request = { .method = ending->method,
                                      .name = upload->name,
                                      .query = ending->query,
                                      .bytes = body,
                                      .size = size,
                                      .large_ns = spotnik_bucket_large_ns(CHUNK_MIN) };
    int rc = spotnik_bucket_request(upload->bucket, &request);
    if ((rc == -ENOENT || rc == -EIO) && is_there(upload))
        return 0;
    /* The status is sent before the work is done: the error may come behind it. */
    spotnik_bucket_word_find(&request, "<Code>", code, sizeof code);
    return rc == 0 && code[0] != '\0'
               ? spotnik_objects_fail(-EIO, "%s %s: %s", ending->method, upload->name, code)
               : rc;
}

int spotnik_bucket_upload_end(struct bucket_upload *upload, uint32_t parts,
                              const struct bucket_ending *ending)
{
    char line[BUCKET_VERSION_MAX + 80];
    size_t size = 80 + (size_t)parts * sizeof line, used;
    char *body = malloc(size);
    if (body == NULL)
        return -ENOMEM;
    used = (size_t)snprintf(body, size, "%s", ending->begin);
    for (uint32_t i = 0; i < parts; i++) {
        ending->line(upload, i, line, sizeof line);
        used += (size_t)snprintf(body + used, size - used, "%s", line);
    }
    used += (size_t)snprintf(body + used, size - used, "%s", ending->end);
    int rc = ending_send(upload, ending, body, used);
    free(body);
    return rc;
}

static int chunks_put(struct bucket_upload *upload, uint32_t chunks)
{
    const struct bucket_service *service = upload->bucket->service;
    int rc = service->upload_begin != NULL ? service->upload_begin(upload) : 0;
    if (rc != 0)
        return rc;
    char why[500] = "";
    rc = spotnik_parallel(chunks, AT_ONCE, chunk_put, upload);
    if (rc != 0)
        snprintf(why, sizeof why, "%s", spotnik_last_error());
    else if ((rc = service->upload_end(upload, chunks)) != 0)
        snprintf(why, sizeof why, "%s", spotnik_objects_why(rc));
    if (rc == 0)
        return 0;
    if (rc != -ETIMEDOUT
        && service->upload_abort != NULL) /* else the store is away, and would not hear of it */
        service->upload_abort(upload);
    return spotnik_objects_fail(rc, "%s", why);
}

int spotnik_bucket_put_pieces(struct spotnik_objects *store, const char *name,
                              const struct spotnik_objects_pieces *pieces)
{
    struct bucket_upload upload = {
        .bucket = (struct bucket *)store, .name = name, .pieces = pieces, .size = size_of(pieces)
    };
    if (upload.size <= WHOLE_MAX)
        return whole_put(upload.bucket, name, pieces);
    upload.chunk = upload.size / CHUNKS_MAX + 1;
    upload.chunk = upload.chunk < CHUNK_MIN ? CHUNK_MIN : upload.chunk;
    uint32_t chunks = (uint32_t)((upload.size + upload.chunk - 1) / upload.chunk);
    upload.etag = calloc(chunks, sizeof *upload.etag);
    if (upload.etag == NULL)
        return -ENOMEM;
    int rc = chunks_put(&upload, chunks);
    free(upload.etag);
    return rc;
}

/* ---- reading ---- */

int spotnik_bucket_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                             void *bytes, size_t size, size_t *ret_size)
{
    char range[64];
    snprintf(range, sizeof range, "Range: bytes=%llu-%llu", (unsigned long long)offset,
             (unsigned long long)(offset + size - 1));
    struct bucket_request request = { .method = "GET",
                                      .name = name,
                                      .condition = range,
                                      .answer = bytes,
                                      .answer_max = size,
                                      .large_ns = spotnik_bucket_large_ns(size) };
    int rc = spotnik_bucket_request((struct bucket *)store, &request);
    *ret_size = rc == 0 ? request.answer_size : 0;
    if (rc != 0 && request.status == 416) /* the object ends before */
        return 0;
    return rc == 0 && request.status == 200 && offset > 0
               ? spotnik_objects_fail(-EIO, "%s does not read by ranges",
                                      ((struct bucket *)store)->base)
               : rc;
}
