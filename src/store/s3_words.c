/* SPDX-License-Identifier: Apache-2.0 */
/* How S3, and who took over its words, names listings and uploads in parts. */
#include <errno.h>
#include <stdio.h>

#include "store/s3.h"

int spotnik_s3_list_query(const char *prefix, const char *token, char *query, size_t size)
{
    return snprintf(query, size, "%s%s%sdelimiter=%%2F&list-type=2&prefix=%s",
                    *token != '\0' ? "continuation-token=" : "", token, *token != '\0' ? "&" : "",
                    prefix);
}

int spotnik_s3_upload_begin_by(struct bucket_upload *upload, const char *query)
{
    char id[512];
    struct bucket_request request = {
        .method = "POST", .name = upload->name, .query = query, .bytes = ""
    };
    int rc = spotnik_bucket_request(upload->bucket, &request);
    if (rc != 0)
        return rc;
    spotnik_bucket_word_find(&request, "<UploadId>", id, sizeof id);
    return id[0] != '\0' && spotnik_bucket_encode(id, upload->id, sizeof upload->id)
               ? 0
               : spotnik_objects_fail(-EIO, "%s began no upload of %s in parts",
                                      upload->bucket->base, upload->name);
}

/* libcurl signs a key with its "=". */
int spotnik_s3_upload_begin(struct bucket_upload *upload)
{
    return spotnik_s3_upload_begin_by(upload, "uploads=");
}

void spotnik_s3_part_query(const struct bucket_upload *upload, uint32_t number, char *query,
                           size_t size)
{
    snprintf(query, size, "partNumber=%u&uploadId=%s", number + 1, upload->id);
}

static void line_write(const struct bucket_upload *upload, uint32_t number, char *to, size_t size)
{
    snprintf(to, size, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number + 1,
             upload->etag[number]);
}

int spotnik_s3_upload_end(struct bucket_upload *upload, uint32_t parts)
{
    char query[sizeof upload->id + 16];
    struct bucket_ending ending = { .method = "POST",
                                    .query = query,
                                    .begin = "<CompleteMultipartUpload>",
                                    .line = line_write,
                                    .end = "</CompleteMultipartUpload>" };
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    return spotnik_bucket_upload_end(upload, parts, &ending);
}

/* Else its parts stay, and cost money, until a rule of the bucket removes them. */
void spotnik_s3_upload_abort(struct bucket_upload *upload)
{
    char query[sizeof upload->id + 16];
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    struct bucket_request request = { .method = "DELETE", .name = upload->name, .query = query };
    (void)spotnik_bucket_request(upload->bucket, &request);
}
