/* SPDX-License-Identifier: Apache-2.0 */
/* GMAC, keyed once per connection: AES by OpenSSL, and GHASH by ghash.c where the processor has its
 * instructions; else all by OpenSSL's EVP_MAC. See seal.h. */
#include "link/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "link/ghash.h"
#include "spotnik/spotnik.h"

#define KEY_BYTES 16
#define NONCE_BYTES 12

static _Atomic uint64_t failures;

/* HKDF-Expand: the handshake's key is random enough to need no Extract. */
static bool key_derive(const uint8_t from[32], uint8_t ret_key[KEY_BYTES])
{
    char digest[] = "SHA256", info[] = "spotnik gmac 1";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    EVP_KDF *hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = hkdf != NULL ? EVP_KDF_CTX_new(hkdf) : NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)from, 32),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info - 1),
        OSSL_PARAM_END,
    };
    bool good = context != NULL && EVP_KDF_derive(context, ret_key, KEY_BYTES, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(hkdf);
    return good;
}

/* One of the two: our GHASH with the block cipher, or all of GMAC. */
struct seal_context {
    EVP_CIPHER_CTX *block;
    struct spotnik_ghash ghash;
    uint8_t mask[SPOTNIK_SEAL_BYTES]; /* of the message at hand */
    EVP_MAC_CTX *gmac;
};

static void context_free(struct seal_context *context)
{
    if (context == NULL)
        return;
    EVP_CIPHER_CTX_free(context->block);
    EVP_MAC_CTX_free(context->gmac);
    OPENSSL_clear_free(context, sizeof *context);
}

static bool block_encrypt(EVP_CIPHER_CTX *block, const uint8_t in[SPOTNIK_SEAL_BYTES],
                          uint8_t ret[SPOTNIK_SEAL_BYTES])
{
    int size = 0;
    return EVP_EncryptUpdate(block, ret, &size, in, SPOTNIK_SEAL_BYTES) == 1
           && size == SPOTNIK_SEAL_BYTES;
}

static bool ghash_init(struct seal_context *context, const uint8_t key[KEY_BYTES])
{
    uint8_t hash_key[SPOTNIK_GHASH_BYTES] = { 0 };
    context->block = EVP_CIPHER_CTX_new();
    bool good = context->block != NULL
                && EVP_EncryptInit_ex(context->block, EVP_aes_128_ecb(), NULL, key, NULL) == 1
                && EVP_CIPHER_CTX_set_padding(context->block, 0) == 1
                && block_encrypt(context->block, hash_key, hash_key);
    if (good)
        spotnik_ghash_init(&context->ghash, hash_key);
    OPENSSL_cleanse(hash_key, sizeof hash_key);
    return good;
}

static bool gmac_init(struct seal_context *context, const uint8_t key[KEY_BYTES])
{
    char cipher[] = "AES-128-GCM";
    OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
                            OSSL_PARAM_END };
    EVP_MAC *gmac = EVP_MAC_fetch(NULL, "GMAC", NULL);
    context->gmac = gmac != NULL ? EVP_MAC_CTX_new(gmac) : NULL;
    EVP_MAC_free(gmac);
    return context->gmac != NULL && EVP_MAC_init(context->gmac, key, KEY_BYTES, params) == 1;
}

int spotnik_seal_init(struct spotnik_seal *seal, const uint8_t key[32])
{
    uint8_t own[KEY_BYTES];
    struct seal_context *context = OPENSSL_zalloc(sizeof *context);
    bool good = context != NULL && key_derive(key, own)
                && (spotnik_ghash_is_supported() ? ghash_init : gmac_init)(context, own);
    OPENSSL_cleanse(own, sizeof own);
    if (!good) {
        context_free(context);
        context = NULL;
    }
    *seal = (struct spotnik_seal){ .context = context };
    return good ? 0
                : spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                       "OpenSSL has no HKDF or no GMAC with AES-128 here; install "
                                       "its default provider");
}

void spotnik_seal_done(struct spotnik_seal *seal)
{
    context_free(seal->context);
    seal->context = NULL;
}

/* GCM's first counter block, of a nonce of 96 bits. */
static bool ghash_begin(struct seal_context *context, const uint8_t nonce[NONCE_BYTES])
{
    uint8_t counter[SPOTNIK_SEAL_BYTES] = { [SPOTNIK_SEAL_BYTES - 1] = 1 };
    memcpy(counter, nonce, NONCE_BYTES);
    spotnik_ghash_begin(&context->ghash);
    return block_encrypt(context->block, counter, context->mask);
}

static bool gmac_begin(struct seal_context *context, uint8_t nonce[NONCE_BYTES])
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, nonce, NONCE_BYTES), OSSL_PARAM_END
    };
    return EVP_MAC_init(context->gmac, NULL, 0, params) == 1;
}

void spotnik_seal_begin(struct spotnik_seal *seal, uint64_t number)
{
    uint8_t nonce[NONCE_BYTES] = { 0 };
    struct spotnik_writer writer;

    if (seal->bare)
        return;
    spotnik_writer_init(&writer, nonce, sizeof nonce);
    spotnik_writer_u64(&writer, number);
    struct seal_context *context = seal->context;
    seal->failed =
        context == NULL
        || !(context->gmac != NULL ? gmac_begin(context, nonce) : ghash_begin(context, nonce));
}

void spotnik_seal_add(struct spotnik_seal *seal, const void *bytes, size_t size)
{
    struct seal_context *context = seal->context;
    if (seal->bare || seal->failed || size == 0)
        return;
    if (context->gmac != NULL)
        seal->failed = EVP_MAC_update(context->gmac, bytes, size) != 1;
    else
        spotnik_ghash_add(&context->ghash, bytes, size);
}

static void ghash_end(struct seal_context *context, uint8_t ret_tag[SPOTNIK_SEAL_BYTES])
{
    spotnik_ghash_end(&context->ghash, ret_tag);
    for (size_t i = 0; i < SPOTNIK_SEAL_BYTES; i++)
        ret_tag[i] ^= context->mask[i];
}

void spotnik_seal_end(struct spotnik_seal *seal, uint8_t ret_tag[SPOTNIK_SEAL_BYTES])
{
    struct seal_context *context = seal->context;
    size_t size = 0;
    memset(ret_tag, 0, SPOTNIK_SEAL_BYTES);
    if (seal->bare || seal->failed)
        return;
    if (context->gmac != NULL)
        seal->failed = EVP_MAC_final(context->gmac, ret_tag, &size, SPOTNIK_SEAL_BYTES) != 1
                       || size != SPOTNIK_SEAL_BYTES;
    else
        ghash_end(context, ret_tag);
}

bool spotnik_seal_check(struct spotnik_seal *seal, const uint8_t tag[SPOTNIK_SEAL_BYTES])
{
    uint8_t own[SPOTNIK_SEAL_BYTES];
    if (seal->bare)
        return true;
    spotnik_seal_end(seal, own);
    if (!seal->failed && CRYPTO_memcmp(own, tag, sizeof own) == 0)
        return true;
    spotnik_seal_failure_note();
    return false;
}

void spotnik_seal_make(struct spotnik_seal *seal, uint64_t number, const void *bytes, size_t size,
                       uint8_t ret_tag[SPOTNIK_SEAL_BYTES])
{
    spotnik_seal_begin(seal, number);
    spotnik_seal_add(seal, bytes, size);
    spotnik_seal_end(seal, ret_tag);
}

bool spotnik_seal_verify(struct spotnik_seal *seal, uint64_t number, const void *bytes, size_t size,
                         const uint8_t tag[SPOTNIK_SEAL_BYTES])
{
    spotnik_seal_begin(seal, number);
    spotnik_seal_add(seal, bytes, size);
    return spotnik_seal_check(seal, tag);
}

uint64_t spotnik_seal_failures(void)
{
    return failures;
}

void spotnik_seal_failure_note(void)
{
    failures++;
}
