/* SPDX-License-Identifier: Apache-2.0 */
/* What Google's and Azure's stores have in common: tokens that end, digests by MD5. */
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "store/bucket.h"
#include "store/bucket_bearer.h"

/* A service gives the same token until about five minutes before its end. */
#define MARGIN_S 240

bool spotnik_bucket_md5_add(const struct bucket *bucket, const struct bucket_request *request,
                            struct bucket_message *message, const char *header, char md5[32])
{
    unsigned char digest[64];
    md5[0] = '\0';
    if (request->bytes == NULL && request->pieces == NULL)
        return true;
    size_t size = spotnik_bucket_digest(request, "MD5", digest);
    if (size != 16)
        return spotnik_objects_fail(-EACCES, "this OpenSSL makes no MD5, which %s needs",
                                    bucket->service->scheme)
               == 0;
    EVP_EncodeBlock((unsigned char *)md5, digest, (int)size);
    spotnik_bucket_header_add(bucket, message, "%s%s", header, md5);
    return true;
}

/* IMDS writes the number as a string. */
static uint64_t seconds_of(const json_t *number)
{
    const char *text = json_string_value(number);
    long long value = text != NULL ? strtoll(text, NULL, 10) : json_integer_value(number);
    return value > 0 && value < 1000000 ? (uint64_t)value : 0;
}

static bool token_take(const char *text, struct bucket_credentials *to)
{
    json_t *root = json_loads(text, 0, NULL);
    bool good = spotnik_bucket_set(to->token, sizeof to->token,
                                   json_string_value(json_object_get(root, "access_token")));
    uint64_t lasts_s = seconds_of(json_object_get(root, "expires_in"));
    json_decref(root);
    to->renew_after_ns = (lasts_s > 2 * MARGIN_S ? lasts_s - MARGIN_S : lasts_s / 2) * SPOTNIK_S;
    return good;
}

bool spotnik_bucket_token_ask(const struct bucket *bucket, const struct bucket_question *question,
                              struct bucket_credentials *to)
{
    struct bucket_reply reply;
    bool answered = spotnik_bucket_ask(bucket->library, question, &reply),
         good = answered && token_take(reply.text, to);
    explicit_bzero(&reply, sizeof reply);
    if (answered && !good)
        spotnik_objects_fail(-EACCES, "%.200s answers without a token", question->url);
    return good;
}
