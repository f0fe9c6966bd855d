/* SPDX-License-Identifier: Apache-2.0 */
/* It is XXH3-64 (a vector everybody can check), and pieces give the same as the whole, however they
 * are cut. */
#include "base/hash.h"
#include "tests.h"

TEST(is_xxh3)
{
    assert_true(spotnik_hash_bytes("", 0) == UINT64_C(0x2d06800538d394c2));
}

TEST(pieces_give_the_whole)
{
    uint8_t data[2000];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i >> 3);
    for (size_t piece = 1; piece <= sizeof data; piece += 37) {
        struct spotnik_hash hash;

        spotnik_hash_begin(&hash);
        for (size_t at = 0; at < sizeof data; at += piece)
            spotnik_hash_add(&hash, data + at, at + piece < sizeof data ? piece : sizeof data - at);
        spotnik_hash_add(&hash, NULL, 0);
        assert_true(spotnik_hash_end(&hash) == spotnik_hash_bytes(data, sizeof data));
    }
}

TEST(every_bit_counts)
{
    uint8_t data[40] = { 0 };
    uint64_t before = spotnik_hash_bytes(data, sizeof data);

    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(spotnik_hash_bytes(data, sizeof data) != before);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
