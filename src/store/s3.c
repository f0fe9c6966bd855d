/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of S3, and of what speaks its protocol: "s3://bucket/job". libcurl signs. */
#include "store/s3.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *variable(const char *first, const char *second, const char *otherwise)
{
    const char *text = spotnik_bucket_variable(first);
    text = text != NULL ? text : spotnik_bucket_variable(second);
    return text != NULL ? text : otherwise;
}

/* A bucket is a part of the host's name at AWS, and of the path elsewhere. */
static bool s3_base_make(struct bucket *bucket, const char *name)
{
    const char *region = variable("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1"),
               *endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "");
    char host[300];
    snprintf(host, sizeof host, "https://s3.%s.amazonaws.com", region);
    int signing = snprintf(bucket->account, sizeof bucket->account, "aws:amz:%s:s3", region);
    if (signing < 0 || (size_t)signing >= sizeof bucket->account)
        return false;
    if (*endpoint != '\0' || strchr(name, '.') != NULL)
        return spotnik_bucket_base_set(bucket, *endpoint != '\0' ? endpoint : host, name);
    snprintf(bucket->base, sizeof bucket->base, "https://%s.s3.%s.amazonaws.com", name, region);
    return true;
}

/* libcurl 7.88 takes a wrong digest for what PUT sends, unless it is given one. The server compares
 * it with what has arrived. */
static void digest_add(const struct bucket *bucket, const struct bucket_request *request,
                       struct bucket_message *message)
{
    unsigned char digest[64];
    char text[2 * sizeof digest + 1] = "";
    size_t size = spotnik_bucket_digest(request, "SHA256", digest);
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    spotnik_bucket_header_add(bucket, message, "x-amz-content-sha256: %s", text);
}

static bool s3_sign(const struct bucket *bucket, const struct bucket_request *request,
                    const struct bucket_credentials *credentials, struct bucket_message *message)
{
    __typeof__(&curl_easy_setopt) setopt = bucket->library->curl_easy_setopt;
    digest_add(bucket, request, message);
    if (credentials->token[0] != '\0')
        spotnik_bucket_header_add(bucket, message, "x-amz-security-token: %s", credentials->token);
    setopt(message->easy, CURLOPT_AWS_SIGV4, bucket->account);
    setopt(message->easy, CURLOPT_USERNAME, credentials->key);
    setopt(message->easy, CURLOPT_PASSWORD, credentials->secret);
    return true;
}

const struct bucket_service spotnik_s3_service = {
    .scheme = "s3://",
    .usage = "s3://BUCKET/NAME, and set AWS_REGION or AWS_ENDPOINT_URL",
    .characters = "abcdefghijklmnopqrstuvwxyz0123456789.-",
    .no_credentials = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                      "AWS_PROFILE, or give this machine a role",
    .if_absent = "If-None-Match: *",
    .if_match = "If-Match: ",
    .no_version = "\"0123456789abcdef0123456789abcdef\"",
    .version_header = "ETag:",
    .id_header = "x-amz-request-id:",
    .listing = S3_LISTING,
    .base_make = s3_base_make,
    .credentials_find = spotnik_s3_credentials_find,
    .sign = s3_sign,
    .list_query = spotnik_s3_list_query,
    .upload_begin = spotnik_s3_upload_begin,
    .part_query = spotnik_s3_part_query,
    .upload_end = spotnik_s3_upload_end,
    .upload_abort = spotnik_s3_upload_abort,
};
