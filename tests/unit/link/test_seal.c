/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of bulk bytes (link/seal.h): what docs/reference/wire-format.md says they are, and that no
 * altered, renumbered or foreign message verifies. */
#include <openssl/evp.h>
#include <string.h>

#include "link/auth.h"
#include "link/seal.h"
#include "tests.h"

#define BYTES 100

static const uint8_t key[32] = { 1, 2, 3 }, other_key[32] = { 1, 2, 4 };

/* By other functions of OpenSSL. */
static void expect_tag(uint64_t number, const uint8_t *bytes, int size, uint8_t *ret_tag)
{
    uint8_t derived[SPOTNIK_AUTH_BYTES], nonce[12] = { (uint8_t)number };
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int ignored;
    assert_true(spotnik_auth_once(key, "spotnik gmac 1\1", 15, derived));
    assert_int_equal(EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), NULL, derived, nonce), 1);
    assert_int_equal(EVP_EncryptUpdate(context, NULL, &ignored, bytes, size), 1);
    assert_int_equal(EVP_EncryptFinal_ex(context, NULL, &ignored), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, ret_tag), 1);
    EVP_CIPHER_CTX_free(context);
}

TEST(tags_are_gmac_under_a_key_by_hkdf)
{
    struct spotnik_seal seal;
    uint8_t bytes[BYTES], tag[SPOTNIK_SEAL_BYTES], expected[SPOTNIK_SEAL_BYTES];
    assert_int_equal(spotnik_seal_init(&seal, key), 0);
    memset(bytes, 7, sizeof bytes);
    for (uint64_t number = 0; number < 3; number++) {
        expect_tag(number, bytes, BYTES, expected);
        spotnik_seal_make(&seal, number, bytes, BYTES, tag);
        assert_memory_equal(tag, expected, sizeof tag);
        spotnik_seal_begin(&seal, number); /* in pieces that fit no block */
        spotnik_seal_add(&seal, bytes, 1);
        spotnik_seal_add(&seal, bytes + 1, 0);
        spotnik_seal_add(&seal, bytes + 1, BYTES - 1);
        assert_true(spotnik_seal_check(&seal, expected));
    }
    spotnik_seal_done(&seal);
}

TEST(nothing_altered_verifies)
{
    struct spotnik_seal seal, other;
    uint8_t bytes[BYTES] = { 0 }, tag[SPOTNIK_SEAL_BYTES];
    uint64_t before = spotnik_seal_failures(), refused = 0;
    assert_int_equal(spotnik_seal_init(&seal, key), 0);
    assert_int_equal(spotnik_seal_init(&other, other_key), 0);
    spotnik_seal_make(&seal, 5, bytes, BYTES, tag);
    for (int bit = 0; bit < 8 * BYTES; bit++, refused++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(spotnik_seal_verify(&seal, 5, bytes, BYTES, tag));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (int bit = 0; bit < 8 * SPOTNIK_SEAL_BYTES; bit++, refused++) {
        tag[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(spotnik_seal_verify(&seal, 5, bytes, BYTES, tag));
        tag[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_false(spotnik_seal_verify(&seal, 4, bytes, BYTES, tag));
    assert_false(spotnik_seal_verify(&seal, 5, bytes, BYTES - 1, tag));
    assert_false(spotnik_seal_verify(&other, 5, bytes, BYTES, tag));
    assert_int_equal(spotnik_seal_failures() - before, refused + 3);
    assert_true(spotnik_seal_verify(&seal, 5, bytes, BYTES, tag));
    spotnik_seal_done(&seal);
    spotnik_seal_done(&other);
}

/* A seal without a key is not a bare one. */
TEST(without_a_key_nothing_verifies)
{
    struct spotnik_seal none = { .context = NULL };
    uint8_t tag[SPOTNIK_SEAL_BYTES];
    spotnik_seal_make(&none, 0, "", 0, tag);
    assert_false(spotnik_seal_verify(&none, 0, "", 0, tag));
}
