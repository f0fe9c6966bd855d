/* SPDX-License-Identifier: Apache-2.0 */
/* GHASH by VPCLMULQDQ, two blocks in a register and sixteen for one reduction. GHASH takes the
 * first bit of a block for the lowest power, so blocks are reversed byte by byte, and products come
 * out one bit low: powers of the key are stored times x to make up for it. See ghash.h. */
#include "link/ghash.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define PAIRS (SPOTNIK_GHASH_POWERS / 2)

/* Three parts of a product of 128 by 128 bits, not reduced, of two lanes at once. */
struct product {
    __m256i low, middle, high;
};

bool spotnik_ghash_is_supported(void)
{
    const char *limit = getenv("SPOTNIK_CPU");
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul")
           && __builtin_cpu_supports("vpclmulqdq") && (!limit || strcmp(limit, "scalar") != 0);
}

INLINE __m256i reversed(__m256i blocks)
{
    const __m256i order = _mm256_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0,
                                          1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm256_shuffle_epi8(blocks, order);
}

INLINE void product_add(struct product *sum, const struct spotnik_ghash *ghash, size_t power,
                        __m256i blocks)
{
    __m256i by = _mm256_loadu_si256((const void *)ghash->powers[power]);
    __m256i by_sum = _mm256_loadu_si256((const void *)ghash->sums[power]);
    __m256i halves = _mm256_xor_si256(blocks, _mm256_shuffle_epi32(blocks, 0x4e));
    sum->low = _mm256_xor_si256(sum->low, _mm256_clmulepi64_epi128(blocks, by, 0x00));
    sum->high = _mm256_xor_si256(sum->high, _mm256_clmulepi64_epi128(blocks, by, 0x11));
    sum->middle = _mm256_xor_si256(sum->middle, _mm256_clmulepi64_epi128(halves, by_sum, 0x00));
}

INLINE __m128i lanes_add(__m256i two)
{
    return _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/* Modulo x^128 + x^7 + x^2 + x + 1, 64 bits at a time from the lowest. */
INLINE __m128i product_reduce(const struct product *sum)
{
    const __m128i modulus = _mm_set_epi64x((long long)0xc200000000000000, 1);
    __m128i low = lanes_add(sum->low), high = lanes_add(sum->high);
    __m128i middle = _mm_xor_si128(_mm_xor_si128(lanes_add(sum->middle), low), high);
    middle = _mm_xor_si128(middle, _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e),
                                                 _mm_clmulepi64_si128(modulus, low, 0x01)));
    return _mm_xor_si128(high, _mm_xor_si128(_mm_shuffle_epi32(middle, 0x4e),
                                             _mm_clmulepi64_si128(modulus, middle, 0x01)));
}

/* The hash after 1 to PAIRS pairs of blocks. */
INLINE __m128i pairs_hash(const struct spotnik_ghash *ghash, __m128i hash, const uint8_t *bytes,
                          size_t pairs)
{
    struct product sum = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256() };
#pragma GCC unroll 8
    for (size_t i = pairs; i-- > 0;) { /* the first one last: it alone waits for the hash before */
        __m256i two = reversed(_mm256_loadu_si256((const void *)(bytes + 32 * i)));
        if (i == 0)
            two = _mm256_xor_si256(two, _mm256_zextsi128_si256(hash));
        product_add(&sum, ghash, 2 * (PAIRS - pairs + i), two);
    }
    return product_reduce(&sum);
}

/* One block: as the second of a pair whose first is zero. */
INLINE __m128i block_hash(const struct spotnik_ghash *ghash, __m128i hash, __m128i reversed_block)
{
    struct product sum = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256() };
    __m128i block = _mm_xor_si128(hash, reversed_block);
    product_add(&sum, ghash, SPOTNIK_GHASH_POWERS - 2,
                _mm256_inserti128_si256(_mm256_setzero_si256(), block, 1));
    return product_reduce(&sum);
}

INLINE __m128i block_reversed(const uint8_t block[SPOTNIK_GHASH_BYTES])
{
    __m128i loaded = _mm_loadu_si128((const void *)block);
    return _mm256_castsi256_si128(reversed(_mm256_zextsi128_si256(loaded)));
}

static TARGET void blocks_add(struct spotnik_ghash *ghash, const uint8_t *bytes, size_t blocks)
{
    __m128i hash = _mm_loadu_si128((const void *)ghash->hash);
    for (; blocks >= SPOTNIK_GHASH_POWERS; blocks -= SPOTNIK_GHASH_POWERS) {
        hash = pairs_hash(ghash, hash, bytes, PAIRS);
        bytes += SPOTNIK_GHASH_POWERS * SPOTNIK_GHASH_BYTES;
    }
    if (blocks >= 2)
        hash = pairs_hash(ghash, hash, bytes, blocks / 2);
    if (blocks % 2 == 1)
        hash = block_hash(ghash, hash, block_reversed(bytes + (blocks - 1) * SPOTNIK_GHASH_BYTES));
    _mm_storeu_si128((void *)ghash->hash, hash);
}

static void power_store(struct spotnik_ghash *ghash, size_t at, const uint64_t times_x[2])
{
    memcpy(ghash->powers[at], times_x, sizeof ghash->powers[at]);
    ghash->sums[at][0] = times_x[0] ^ times_x[1];
}

/* A power times x: shifted, and the bit that falls out is folded in again. */
static void power_set(struct spotnik_ghash *ghash, size_t at, const uint64_t power[2])
{
    uint64_t carry = 0 - (power[1] >> 63);
    power_store(ghash, at,
                (const uint64_t[2]){ power[0] << 1 ^ (carry & 1),
                                     (power[1] << 1 | power[0] >> 63)
                                         ^ (carry & 0xc200000000000000) });
}

static TARGET void powers_set(struct spotnik_ghash *ghash, const uint8_t key[SPOTNIK_GHASH_BYTES])
{
    __m128i first = block_reversed(key), power = first;
    for (size_t at = SPOTNIK_GHASH_POWERS; at-- > 0;) {
        uint64_t halves[2];
        _mm_storeu_si128((void *)halves, power);
        power_set(ghash, at, halves);
        power =
            block_hash(ghash, _mm_setzero_si128(), power); /* times the key, at the last place */
    }
}
#else
bool spotnik_ghash_is_supported(void)
{
    return false;
}

/* Not reached: seal.c asks is_supported() first. */
static void blocks_add(struct spotnik_ghash *ghash, const uint8_t *bytes, size_t blocks)
{
    (void)ghash, (void)bytes, (void)blocks;
}

static void powers_set(struct spotnik_ghash *ghash, const uint8_t key[SPOTNIK_GHASH_BYTES])
{
    (void)ghash, (void)key;
}
#endif

void spotnik_ghash_init(struct spotnik_ghash *ghash, const uint8_t key[SPOTNIK_GHASH_BYTES])
{
    memset(ghash, 0, sizeof *ghash);
    powers_set(ghash, key);
}

void spotnik_ghash_begin(struct spotnik_ghash *ghash)
{
    memset(ghash->hash, 0, sizeof ghash->hash);
    ghash->bytes = 0;
}

void spotnik_ghash_add(struct spotnik_ghash *ghash, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    size_t have = ghash->bytes % SPOTNIK_GHASH_BYTES;
    ghash->bytes += size;
    if (have > 0) {
        size_t more = size < SPOTNIK_GHASH_BYTES - have ? size : SPOTNIK_GHASH_BYTES - have;
        memcpy(ghash->rest + have, from, more);
        if (have + more < SPOTNIK_GHASH_BYTES)
            return;
        blocks_add(ghash, ghash->rest, 1);
        from += more;
        size -= more;
    }
    blocks_add(ghash, from, size / SPOTNIK_GHASH_BYTES);
    memcpy(ghash->rest, from + size / SPOTNIK_GHASH_BYTES * SPOTNIK_GHASH_BYTES,
           size % SPOTNIK_GHASH_BYTES);
}

void spotnik_ghash_end(struct spotnik_ghash *ghash, uint8_t ret_hash[SPOTNIK_GHASH_BYTES])
{
    size_t have = ghash->bytes % SPOTNIK_GHASH_BYTES;
    uint64_t bits = __builtin_bswap64(ghash->bytes * 8), halves[2] = { 0 };
    uint8_t sizes[SPOTNIK_GHASH_BYTES] = { 0 }; /* of the additional data; no ciphertext */
    if (have > 0) {
        memset(ghash->rest + have, 0, SPOTNIK_GHASH_BYTES - have);
        blocks_add(ghash, ghash->rest, 1);
    }
    memcpy(sizes, &bits, sizeof bits);
    blocks_add(ghash, sizes, 1);
    halves[0] = __builtin_bswap64(ghash->hash[1]);
    halves[1] = __builtin_bswap64(ghash->hash[0]);
    memcpy(ret_hash, halves, sizeof halves);
}
