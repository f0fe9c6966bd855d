/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of files: xxHash, or OpenSSL's HMAC. See signature.h. */
#include "checkpoint/signature.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

static void hex(const uint8_t *bytes, size_t count, char *ret)
{
    for (size_t i = 0; i < count; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static int failure(void)
{
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL has no HMAC-SHA-256 here");
}

/* HKDF-Expand of one block: the job key is random enough to need no Extract. The label ends with
 * the block's number, 1. */
static bool expand(const uint8_t job_key[32], const char *label, uint8_t ret[SPOTNIK_AUTH_BYTES])
{
    return spotnik_auth_once(job_key, label, strlen(label), ret);
}

int spotnik_signer_init(struct spotnik_signer *ret, const uint8_t job_key[32])
{
    uint8_t name[SPOTNIK_AUTH_BYTES];

    memset(ret, 0, sizeof *ret);
    if (!expand(job_key, "spotnik checkpoint key 1\1", ret->key)
        || !expand(job_key, "spotnik checkpoint name 1\1", name)) {
        spotnik_signer_done(ret);
        return failure();
    }
    ret->has_key = true;
    hex(name, (SPOTNIK_SIGNER_NAME - 1) / 2, ret->name);
    return 0;
}

void spotnik_signer_done(struct spotnik_signer *signer)
{
    OPENSSL_cleanse(signer, sizeof *signer);
}

const struct spotnik_signer *spotnik_signer_named(const struct spotnik_signer *signer,
                                                  const char *name)
{
    return signer->old && !strcmp(signer->old->name, name) ? signer->old : signer;
}

size_t spotnik_signer_digits(const struct spotnik_signer *signer)
{
    return signer->has_key ? SPOTNIK_DIGEST_SIGNED : SPOTNIK_DIGEST_PLAIN;
}

int spotnik_signature_begin(struct spotnik_signature *signature,
                            const struct spotnik_signer *signer, const char *entry,
                            const char *role)
{
    signature->failed = false;
    signature->auth.context = NULL;
    spotnik_hash_begin(&signature->hash);
    if (!signer->has_key)
        return 0;
    int rc = spotnik_auth_init(&signature->auth, signer->key);

    if (rc)
        return rc;
    signature->failed = !spotnik_auth_begin(&signature->auth);
    spotnik_signature_add(signature, entry, strlen(entry) + 1);
    spotnik_signature_add(signature, role, strlen(role) + 1);
    return 0;
}

void spotnik_signature_add(struct spotnik_signature *signature, const void *data, size_t size)
{
    if (!signature->auth.context)
        spotnik_hash_add(&signature->hash, data, size);
    else if (!signature->failed)
        signature->failed = !spotnik_auth_add(&signature->auth, data, size);
}

int spotnik_signature_end(struct spotnik_signature *signature, char ret_digest[SPOTNIK_DIGEST_TEXT])
{
    uint8_t mac[SPOTNIK_AUTH_BYTES];

    ret_digest[0] = '\0';
    if (!signature->auth.context)
        snprintf(ret_digest, SPOTNIK_DIGEST_TEXT, "%016llx",
                 (unsigned long long)spotnik_hash_end(&signature->hash));
    else if (!signature->failed && spotnik_auth_end(&signature->auth, mac))
        hex(mac, SPOTNIK_DIGEST_SIGNED / 2, ret_digest);
    spotnik_auth_done(&signature->auth);
    return ret_digest[0] ? 0 : failure();
}

int spotnik_signature_make(const struct spotnik_signer *signer, const char *entry, const char *role,
                           const void *data, size_t size, char ret_digest[SPOTNIK_DIGEST_TEXT])
{
    struct spotnik_signature signature;
    int rc = spotnik_signature_begin(&signature, signer, entry, role);

    if (rc)
        return rc;
    spotnik_signature_add(&signature, data, size);
    return spotnik_signature_end(&signature, ret_digest);
}

bool spotnik_digest_is(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") == digits && !text[digits];
}

bool spotnik_digest_equal(const char *a, const char *b)
{
    size_t length = strlen(a);

    return length && length == strlen(b)
           && spotnik_auth_equal((const uint8_t *)a, (const uint8_t *)b, length);
}
