/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Web Token of a service account: RFC 7519, RS256. */
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/bucket_bearer.h"
#include "store/gcs.h"

#define SCOPE "https://www.googleapis.com/auth/devstorage.read_write"
#define LASTS_S 3600

/* Base64 for URLs, without padding, behind what `to` holds. False: no room. */
static bool base64_add(const void *bytes, size_t count, char *to, size_t size)
{
    size_t used = strlen(to);
    if (used + (count + 2) / 3 * 4 + 1 > size)
        return false;
    EVP_EncodeBlock((unsigned char *)to + used, bytes, (int)count);
    for (char *at = to + used; *at != '\0'; at++)
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
    return true;
}

static bool claims_add(const char *account, char *jwt, size_t size)
{
    json_int_t now_s = spotnik_bucket_now_s();
    json_t *claims = json_pack("{ss ss ss sI sI}", "iss", account, "scope", SCOPE, "aud",
                               GCS_TOKEN_URI, "iat", now_s, "exp", now_s + LASTS_S);
    char *text = claims != NULL ? json_dumps(claims, JSON_COMPACT) : NULL;
    bool good = text != NULL && base64_add(text, strlen(text), jwt, size);
    free(text);
    json_decref(claims);
    return good;
}

static bool signature_add(EVP_PKEY *key, char *jwt, size_t size)
{
    unsigned char signature[1024];
    size_t length = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good =
        EVP_PKEY_get_size(key) <= (int)sizeof signature
        && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1
        && EVP_DigestSign(context, signature, &length, (const unsigned char *)jwt, strlen(jwt))
               == 1;
    EVP_MD_CTX_free(context);
    if (!good || strlen(jwt) + 2 > size)
        return false;
    strcat(jwt, ".");
    return base64_add(signature, length, jwt, size);
}

/* A key with a passphrase is refused; OpenSSL would ask for it on the terminal. */
static int no_passphrase(char *to, int size, int writes, void *context)
{
    (void)to, (void)size, (void)writes, (void)context;
    return -1;
}

static EVP_PKEY *key_read(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (key == NULL || EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA)
        return key;
    EVP_PKEY_free(key);
    return NULL;
}

bool spotnik_gcs_jwt_make(const char *account, const char *key_text, char *jwt, size_t size)
{
    static const char head[] = "{\"alg\":\"RS256\",\"typ\":\"JWT\"}";
    jwt[0] = '\0';
    EVP_PKEY *key = key_read(key_text);
    bool good = key != NULL && base64_add(head, strlen(head), jwt, size - 1)
                && strcat(jwt, ".") != NULL && claims_add(account, jwt, size)
                && signature_add(key, jwt, size);
    EVP_PKEY_free(key);
    return good
           || spotnik_objects_fail(-EACCES, "private_key of %.100s is no RSA key in PEM", account)
                  == 0;
}
