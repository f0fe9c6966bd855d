/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA-256 by OpenSSL's EVP_MAC, keyed once per link so that a frame costs no set-up. See
 * auth.h. */
#include "link/auth.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "spotnik/spotnik.h"

int spotnik_auth_init(struct spotnik_auth *auth, const uint8_t key[32])
{
    auth->context = NULL;
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac != NULL ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac);
    char digest[] = "SHA256";
    OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                            OSSL_PARAM_END };
    if (context == NULL || EVP_MAC_init(context, key, 32, params) != 1) {
        EVP_MAC_CTX_free(context);
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL has no HMAC-SHA-256 here");
    }
    auth->context = context;
    return 0;
}

void spotnik_auth_done(struct spotnik_auth *auth)
{
    EVP_MAC_CTX_free(auth->context);
    auth->context = NULL;
}

/* Without a key: begin anew with the one already set. */
bool spotnik_auth_begin(struct spotnik_auth *auth)
{
    return auth->context != NULL && EVP_MAC_init(auth->context, NULL, 0, NULL) == 1;
}

bool spotnik_auth_add(struct spotnik_auth *auth, const void *data, size_t size)
{
    return size == 0 || EVP_MAC_update(auth->context, data, size) == 1;
}

bool spotnik_auth_end(struct spotnik_auth *auth, uint8_t mac[SPOTNIK_AUTH_BYTES])
{
    size_t size = 0;
    return EVP_MAC_final(auth->context, mac, &size, SPOTNIK_AUTH_BYTES) == 1
           && size == SPOTNIK_AUTH_BYTES;
}

bool spotnik_auth_mac(struct spotnik_auth *auth, const struct spotnik_auth_part *part, size_t count,
                      uint8_t mac[SPOTNIK_AUTH_BYTES])
{
    bool good = spotnik_auth_begin(auth);
    for (size_t i = 0; good && i < count; i++)
        good = spotnik_auth_add(auth, part[i].data, part[i].size);
    return good && spotnik_auth_end(auth, mac);
}

bool spotnik_auth_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

bool spotnik_auth_once(const uint8_t key[32], const void *data, size_t size,
                       uint8_t mac[SPOTNIK_AUTH_BYTES])
{
    struct spotnik_auth auth;
    if (spotnik_auth_init(&auth, key) != 0)
        return false;
    bool good =
        spotnik_auth_mac(&auth, &(struct spotnik_auth_part){ .data = data, .size = size }, 1, mac);
    spotnik_auth_done(&auth);
    return good;
}

bool spotnik_auth_observer_key(const uint8_t key[32], uint8_t ret_key[32])
{
    static const char label[] = "spotnik observer";
    return spotnik_auth_once(key, label, sizeof label - 1, ret_key);
}

void spotnik_auth_random(void *out, size_t size)
{
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        SPOTNIK_ASSERT(got > 0); /* fails only for bad pointers or on kernels before 3.17 */
        at += got;
        size -= (size_t)got;
    }
}
