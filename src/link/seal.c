/* SPDX-License-Identifier: Apache-2.0 */
/* GMAC by OpenSSL's EVP_MAC, keyed once per connection. See seal.h. */
#include "link/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
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

int spotnik_seal_init(struct spotnik_seal *seal, const uint8_t key[32])
{
    uint8_t own[KEY_BYTES];
    char cipher[] = "AES-128-GCM";
    OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
                            OSSL_PARAM_END };
    EVP_MAC *gmac = EVP_MAC_fetch(NULL, "GMAC", NULL);
    EVP_MAC_CTX *context = gmac != NULL ? EVP_MAC_CTX_new(gmac) : NULL;
    EVP_MAC_free(gmac);
    bool good = context != NULL && key_derive(key, own)
                && EVP_MAC_init(context, own, sizeof own, params) == 1;
    OPENSSL_cleanse(own, sizeof own);
    if (!good) {
        EVP_MAC_CTX_free(context);
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
    EVP_MAC_CTX_free(seal->context);
    seal->context = NULL;
}

void spotnik_seal_begin(struct spotnik_seal *seal, uint64_t number)
{
    uint8_t nonce[NONCE_BYTES] = { 0 };
    struct spotnik_writer writer;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, nonce, sizeof nonce), OSSL_PARAM_END
    };

    if (seal->bare)
        return;
    spotnik_writer_init(&writer, nonce, sizeof nonce);
    spotnik_writer_u64(&writer, number);
    seal->failed = seal->context == NULL || EVP_MAC_init(seal->context, NULL, 0, params) != 1;
}

void spotnik_seal_add(struct spotnik_seal *seal, const void *bytes, size_t size)
{
    if (!seal->bare && !seal->failed && size > 0)
        seal->failed = EVP_MAC_update(seal->context, bytes, size) != 1;
}

void spotnik_seal_end(struct spotnik_seal *seal, uint8_t ret_tag[SPOTNIK_SEAL_BYTES])
{
    size_t size = 0;
    memset(ret_tag, 0, SPOTNIK_SEAL_BYTES);
    if (!seal->bare && !seal->failed)
        seal->failed = EVP_MAC_final(seal->context, ret_tag, &size, SPOTNIK_SEAL_BYTES) != 1
                       || size != SPOTNIK_SEAL_BYTES;
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
