/* SPDX-License-Identifier: Apache-2.0 */
/* The signature of a request to Azure: by the account's key ("Shared Key"), a SAS, or a token. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/azure.h"
#include "store/bucket_bearer.h"

#define VERSION "2021-12-02"
#define TYPE "application/octet-stream"

/* The value of the request's condition where it is that header. */
static const char *value_of(const struct bucket_request *request, const char *header)
{
    size_t length = strlen(header);
    const char *condition = request->condition;
    return condition != NULL && strncmp(condition, header, length) == 0 ? condition + length : "";
}

/* "a=b&c=d%20e" becomes "\na:b\nc:d e". */
static void query_write(const char *query, char *to, size_t size)
{
    size_t used = 0;
    unsigned code;
    to[used++] = '\n';
    for (; *query != '\0' && used + 1 < size; query++) {
        bool is_coded = *query == '%' && sscanf(query + 1, "%2x", &code) == 1;
        to[used++] = is_coded ? (char)code : *query == '&' ? '\n' : *query == '=' ? ':' : *query;
        query += is_coded ? 2 : 0;
    }
    to[used] = '\0';
}

/* The path of the URL, without its query. */
static const char *path_of(const char *url, int *ret_length)
{
    const char *host = strstr(url, "://"), *path = host != NULL ? strchr(host + 3, '/') : NULL;
    path = path != NULL ? path : "/";
    *ret_length = (int)strcspn(path, "?");
    return path;
}

static bool is_blob_put(const struct bucket_request *request)
{
    return strcmp(request->method, "PUT") == 0 && request->query == NULL;
}

/* What is signed; its lines stand in the order of the service's documentation. */
static void text_write(const struct bucket *bucket, const struct bucket_request *request,
                       const char *url, const char *md5, const char *date, char *text, size_t size)
{
    char length[24] = "", query[BUCKET_URL_MAX] = "";
    int path_length;
    const char *path = path_of(url, &path_length);
    if (request->size > 0)
        snprintf(length, sizeof length, "%zu", request->size);
    if (request->query != NULL)
        query_write(request->query, query, sizeof query);
    snprintf(text, size,
             "%s\n\n\n%s\n%s\n" TYPE "\n\n\n%s\n%s\n\n%s\n%sx-ms-date:%s\nx-ms-version:" VERSION
             "\n/%s%.*s%s",
             request->method, length, md5, value_of(request, "If-Match: "),
             value_of(request, "If-None-Match: "), value_of(request, "Range: "),
             is_blob_put(request) ? "x-ms-blob-type:BlockBlob\n" : "", date, bucket->account,
             path_length, path, query);
}

/* The base64 of the text's HMAC. False: the key is no base64. */
static bool hmac_make(const char *key, const char *text, char hmac[64])
{
    unsigned char plain[100], mac[32];
    size_t length = strlen(key), size = 0;
    int count = length > 0 && length <= 128 && length % 4 == 0
                    ? EVP_DecodeBlock(plain, (const unsigned char *)key, (int)length)
                    : -1;
    for (size_t end = length; count > 0 && end > 0 && key[end - 1] == '='; end--)
        count--;
    bool good = count > 0
                && EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, plain, (size_t)count,
                             (const unsigned char *)text, strlen(text), mac, sizeof mac, &size)
                       != NULL;
    if (good)
        EVP_EncodeBlock((unsigned char *)hmac, mac, (int)size);
    explicit_bzero(plain, sizeof plain);
    return good;
}

static bool key_sign(const struct bucket *bucket, const struct bucket_request *request,
                     const char *key, const char *md5, const char *date,
                     struct bucket_message *message)
{
    char text[2 * BUCKET_URL_MAX], hmac[64];
    text_write(bucket, request, message->url, md5, date, text, sizeof text);
    if (!hmac_make(key, text, hmac))
        return spotnik_objects_fail(-EACCES, "the key of Azure's account is no base64") == 0;
    spotnik_bucket_header_add(bucket, message, "Authorization: SharedKey %s:%s", bucket->account,
                              hmac);
    return true;
}

/* The query is the signature. */
static bool sas_add(const char *sas, bool is_first, char url[BUCKET_URL_MAX])
{
    size_t used = strlen(url);
    int length = snprintf(url + used, BUCKET_URL_MAX - used, "%s%s", is_first ? "?" : "&",
                          sas + (*sas == '?'));
    return (size_t)length < BUCKET_URL_MAX - used
           || spotnik_objects_fail(-EACCES, "the SAS token is too long") == 0;
}

bool spotnik_azure_sign(const struct bucket *bucket, const struct bucket_request *request,
                        const struct bucket_credentials *credentials,
                        struct bucket_message *message)
{
    char md5[32], date[40];
    spotnik_bucket_date_write(spotnik_bucket_now_s(), date);
    spotnik_bucket_header_add(bucket, message, "x-ms-date: %s", date);
    spotnik_bucket_header_add(bucket, message, "x-ms-version: " VERSION);
    if (is_blob_put(request))
        spotnik_bucket_header_add(bucket, message, "x-ms-blob-type: BlockBlob");
    if (!spotnik_bucket_md5_add(bucket, request, message, "Content-MD5: ", md5))
        return false;
    if (credentials->secret[0] != '\0')
        return key_sign(bucket, request, credentials->secret, md5, date, message);
    if (strcmp(credentials->key, AZURE_SAS) == 0)
        return sas_add(credentials->token, request->query == NULL, message->url);
    spotnik_bucket_header_add(bucket, message, "Authorization: Bearer %s", credentials->token);
    return true;
}
