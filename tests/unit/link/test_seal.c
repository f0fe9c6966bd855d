/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of bulk bytes (link/seal.h): what docs/reference/wire-format.md says they are, and that no
 * altered, renumbered or foreign message verifies. */
#include <openssl/evp.h>
#include <string.h>

#include "base/prng.h"
#include "link/auth.h"
#include "link/ghash.h"
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

static void check_length(struct spotnik_seal *seal, const uint8_t *bytes, size_t size)
{
    uint8_t tag[SPOTNIK_SEAL_BYTES], expected[SPOTNIK_SEAL_BYTES];
    expect_tag(size % 251, bytes, (int)size, expected);
    spotnik_seal_make(seal, size % 251, bytes, size, tag);
    assert_memory_equal(tag, expected, sizeof tag);
}

static void check_pieces(struct spotnik_seal *seal, struct spotnik_prng *prng, const uint8_t *bytes,
                         size_t size)
{
    uint8_t expected[SPOTNIK_SEAL_BYTES];
    size_t at = 0;
    expect_tag(1, bytes, (int)size, expected);
    spotnik_seal_begin(seal, 1);
    while (at < size) {
        size_t piece = spotnik_prng_between(prng, 0, spotnik_prng_chance(prng, 1, 8) ? 4000 : 40);
        piece = piece < size - at ? piece : size - at;
        spotnik_seal_add(seal, bytes + at, piece);
        at += piece;
    }
    assert_true(spotnik_seal_check(seal, expected));
}

/* Our GHASH and OpenSSL's GMAC are one. The build runs this file a second time with
 * SPOTNIK_CPU=scalar, where all is OpenSSL's. */
TEST(tags_are_the_same_for_all_lengths_and_pieces)
{
    enum { LONG = 3 * 1024 * 1024 + 777 };
    static uint8_t bytes[LONG + 1];
    struct spotnik_prng prng;
    struct spotnik_seal seal;
    spotnik_prng_seed(&prng, 40);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)spotnik_prng_next(&prng);
    assert_int_equal(spotnik_seal_init(&seal, key), 0);
    for (size_t size = 0; size <= 4096; size++)
        check_length(&seal, bytes + size % 2, size);
    check_length(&seal, bytes, 1024 * 1024);
    check_length(&seal, bytes + 1, LONG);
    for (int i = 0; i < 500; i++)
        check_pieces(&seal, &prng, bytes + i, spotnik_prng_between(&prng, 0, 6000));
    spotnik_seal_done(&seal);
}

/* NIST's CAVS vectors for AES-128-GCM (gcmEncryptExtIV128, PTlen 0, AADlen 128, first). The hash is
 * the tag without its mask. */
TEST(the_hash_is_that_of_a_vector_by_nist)
{
    static const uint8_t cavs_key[16] = { 0x77, 0xbe, 0x63, 0x70, 0x89, 0x71, 0xc4, 0xe2,
                                          0x40, 0xd1, 0xcb, 0x79, 0xe8, 0xd7, 0x7f, 0xeb },
                         cavs_data[16] = { 0x7a, 0x43, 0xec, 0x1d, 0x9c, 0x0a, 0x5a, 0x78,
                                           0xa0, 0xb1, 0x65, 0x33, 0xa6, 0x21, 0x3c, 0xab },
                         cavs_tag[16] = { 0x20, 0x9f, 0xcc, 0x8d, 0x36, 0x75, 0xed, 0x93,
                                          0x8e, 0x9c, 0x71, 0x66, 0x70, 0x9d, 0xd9, 0x46 };
    uint8_t blocks[32] = { [16] = 0xe0, 0xe0, 0x0f, 0x19, 0xfe, 0xd7, 0xba, 0x01,
                           0x36,        0xa7, 0x97, 0xf3, 0,    0,    0,    1 };
    uint8_t hash[16];
    struct spotnik_ghash ghash;
    int size;
    if (!spotnik_ghash_is_supported())
        skip();
    EVP_CIPHER_CTX *aes = EVP_CIPHER_CTX_new();
    assert_int_equal(EVP_EncryptInit_ex(aes, EVP_aes_128_ecb(), NULL, cavs_key, NULL), 1);
    assert_int_equal(EVP_EncryptUpdate(aes, blocks, &size, blocks, sizeof blocks), 1);
    EVP_CIPHER_CTX_free(aes);
    spotnik_ghash_init(&ghash, blocks);
    spotnik_ghash_begin(&ghash);
    spotnik_ghash_add(&ghash, cavs_data, sizeof cavs_data);
    spotnik_ghash_end(&ghash, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        assert_int_equal(hash[i] ^ blocks[16 + i], cavs_tag[i]);
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
