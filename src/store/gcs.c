/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of Google Cloud Storage, by its XML API: "gs://bucket/job". It words listings and uploads
 * in parts as S3 does. */
#include "store/gcs.h"

#include <stdio.h>
#include <string.h>

#include "store/bucket_bearer.h"
#include "store/s3.h"

static bool gcs_base_make(struct bucket *bucket, const char *name)
{
    const char *emulator = spotnik_bucket_variable("STORAGE_EMULATOR_HOST"),
               *endpoint = spotnik_bucket_variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE");
    char url[300];
    int length = emulator != NULL
                     ? snprintf(url, sizeof url, "%s%s",
                                strstr(emulator, "://") != NULL ? "" : "http://", emulator)
                 : endpoint != NULL ? snprintf(url, sizeof url, "%s", endpoint)
                                    : snprintf(url, sizeof url, "https://storage.googleapis.com");
    snprintf(bucket->account, sizeof bucket->account, "%s", emulator != NULL ? GCS_ANONYMOUS : "");
    return (size_t)length < sizeof url && spotnik_bucket_base_set(bucket, url, name);
}

static bool gcs_sign(const struct bucket *bucket, const struct bucket_request *request,
                     const struct bucket_credentials *credentials, struct bucket_message *message)
{
    char md5[32];
    if (credentials->token[0] != '\0')
        spotnik_bucket_header_add(bucket, message, "Authorization: Bearer %s", credentials->token);
    /* With POST it would be read as the digest of the object that the parts make. */
    return strcmp(request->method, "PUT") != 0
           || spotnik_bucket_md5_add(bucket, request, message, "x-goog-hash: md5=", md5);
}

/* As Google's own client writes it. */
static int gcs_upload_begin(struct bucket_upload *upload)
{
    return spotnik_s3_upload_begin_by(upload, "uploads");
}

const struct bucket_service spotnik_gcs_service = {
    .scheme = "gs://",
    .usage = "gs://BUCKET/NAME",
    .characters = "abcdefghijklmnopqrstuvwxyz0123456789.-_",
    .no_credentials = "no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS, or give this "
                      "machine a service account",
    .if_absent = "x-goog-if-generation-match: 0",
    .if_match = "x-goog-if-generation-match: ",
    .no_version = "1",
    .version_header = "x-goog-generation:",
    .id_header = "x-guploader-uploadid:",
    .listing = S3_LISTING,
    .base_make = gcs_base_make,
    .credentials_find = spotnik_gcs_credentials_find,
    .sign = gcs_sign,
    .list_query = spotnik_s3_list_query,
    .upload_begin = gcs_upload_begin,
    .part_query = spotnik_s3_part_query,
    .upload_end = spotnik_s3_upload_end,
    .upload_abort = spotnik_s3_upload_abort,
};
