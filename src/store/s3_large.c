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
#include "store/s3.h"

#define WHOLE_MAX (UINT64_C(64) << 20) /* in one request */
#define CHUNK_MIN (UINT64_C(16) << 20) /* S3 wants 5 MiB at least, */
#define CHUNKS_MAX 10000               /* and no more than these */
#define AT_ONCE 4
#define SLOWEST (UINT64_C(256) << 10) /* bytes a second */

struct upload {
    struct s3 *s3;
    const char *name;
    const struct spotnik_objects_pieces *pieces;
    uint64_t size, chunk;
    char id[1600];                 /* encoded; a server chooses it */
    char (*etag)[S3_ETAG_MAX + 1]; /* of each chunk */
};

uint64_t spotnik_s3_large_ns(uint64_t size)
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

static int whole_put(struct s3 *s3, const char *name, const struct spotnik_objects_pieces *pieces)
{
    uint64_t size = size_of(pieces);
    struct s3_request request = { .method = "PUT",
                                  .name = name,
                                  .pieces = pieces,
                                  .size = (size_t)size,
                                  .large_ns = spotnik_s3_large_ns(size) };
    return spotnik_s3_request(s3, &request);
}

/* ---- in parts ---- */

static int upload_begin(struct upload *upload)
{
    char id[512];
    struct s3_request request = {
        .method = "POST", .name = upload->name, .query = "uploads=", .bytes = ""
    };
    int rc = spotnik_s3_request(upload->s3, &request);
    if (rc != 0)
        return rc;
    spotnik_s3_word_find(&request, "<UploadId>", id, sizeof id);
    return id[0] != '\0' && spotnik_s3_encode(id, upload->id, sizeof upload->id)
               ? 0
               : spotnik_objects_fail(-EIO, "%s began no upload of %s in parts", upload->s3->base,
                                      upload->name);
}

/* The reason of this thread goes with spotnik_parallel(). */
static int chunk_put(void *context, uint32_t number)
{
    struct upload *upload = context;
    char query[sizeof upload->id + 64];
    uint64_t at = number * upload->chunk, left = upload->size - at;
    snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", number + 1, upload->id);
    struct s3_request request = { .method = "PUT",
                                  .name = upload->name,
                                  .query = query,
                                  .pieces = upload->pieces,
                                  .at = at,
                                  .size = (size_t)(left < upload->chunk ? left : upload->chunk),
                                  .large_ns = spotnik_s3_large_ns(upload->chunk) };
    int rc = spotnik_s3_request(upload->s3, &request);
    memcpy(upload->etag[number], request.etag, sizeof request.etag);
    return rc != 0 ? spotnik_error_return(rc, "%s", spotnik_objects_why(rc)) : 0;
}

/* It may have been carried out, and its answer lost: then there is no such upload any more, and the
 * object is there. */
static bool is_there(const struct upload *upload)
{
    char last[2];
    size_t got = 0;
    return spotnik_s3_get_range(&upload->s3->store, upload->name, upload->size - 1, last, 2, &got)
               == 0
           && got == 1;
}

static int complete_send(struct upload *upload, const char *body, size_t size)
{
    char query[sizeof upload->id + 16], code[64];
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    struct s3_request request = { .method = "POST",
                                  .name = upload->name,
                                  .query = query,
                                  .bytes = body,
                                  .size = size,
                                  .large_ns = spotnik_s3_large_ns(CHUNK_MIN) };
    int rc = spotnik_s3_request(upload->s3, &request);
    if (rc == -ENOENT && is_there(upload))
        return 0;
    /* The status is sent before the work is done: the error may come behind it. */
    spotnik_s3_word_find(&request, "<Code>", code, sizeof code);
    return rc == 0 && code[0] != '\0'
               ? spotnik_objects_fail(-EIO, "POST %s: %s", upload->name, code)
               : rc;
}

static int upload_complete(struct upload *upload, uint32_t chunks)
{
    size_t size = 80 + (size_t)chunks * (S3_ETAG_MAX + 80), used;
    char *body = malloc(size);
    if (body == NULL)
        return -ENOMEM;
    used = (size_t)snprintf(body, size, "<CompleteMultipartUpload>");
    for (uint32_t i = 0; i < chunks; i++)
        used += (size_t)snprintf(body + used, size - used,
                                 "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
                                 upload->etag[i]);
    used += (size_t)snprintf(body + used, size - used, "</CompleteMultipartUpload>");
    int rc = complete_send(upload, body, used);
    free(body);
    return rc;
}

/* Else its parts stay, and cost money, until a rule of the bucket removes them. */
static void upload_abort(struct upload *upload)
{
    char query[sizeof upload->id + 16];
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    struct s3_request request = { .method = "DELETE", .name = upload->name, .query = query };
    (void)spotnik_s3_request(upload->s3, &request);
}

static int chunks_put(struct upload *upload, uint32_t chunks)
{
    int rc = upload_begin(upload);
    if (rc != 0)
        return rc;
    char why[500] = "";
    rc = spotnik_parallel(chunks, AT_ONCE, chunk_put, upload);
    if (rc != 0)
        snprintf(why, sizeof why, "%s", spotnik_last_error());
    else if ((rc = upload_complete(upload, chunks)) != 0)
        snprintf(why, sizeof why, "%s", spotnik_objects_why(rc));
    if (rc == 0)
        return 0;
    if (rc != -ETIMEDOUT) /* else the store is away, and would not hear of it */
        upload_abort(upload);
    return spotnik_objects_fail(rc, "%s", why);
}

int spotnik_s3_put_pieces(struct spotnik_objects *store, const char *name,
                          const struct spotnik_objects_pieces *pieces)
{
    struct upload upload = {
        .s3 = (struct s3 *)store, .name = name, .pieces = pieces, .size = size_of(pieces)
    };
    if (upload.size <= WHOLE_MAX)
        return whole_put(upload.s3, name, pieces);
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

int spotnik_s3_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                         void *bytes, size_t size, size_t *ret_size)
{
    char range[64];
    snprintf(range, sizeof range, "Range: bytes=%llu-%llu", (unsigned long long)offset,
             (unsigned long long)(offset + size - 1));
    struct s3_request request = { .method = "GET",
                                  .name = name,
                                  .condition = range,
                                  .answer = bytes,
                                  .answer_max = size,
                                  .large_ns = spotnik_s3_large_ns(size) };
    int rc = spotnik_s3_request((struct s3 *)store, &request);
    *ret_size = rc == 0 ? request.answer_size : 0;
    if (rc != 0 && request.status == 416) /* the object ends before */
        return 0;
    return rc == 0 && request.status == 200 && offset > 0
               ? spotnik_objects_fail(-EIO, "%s does not read by ranges",
                                      ((struct s3 *)store)->base)
               : rc;
}
