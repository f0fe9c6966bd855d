/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a result is hashed in which step. */
#include "base/fingerprint.h"

#include "base/hash.h"

/* Parts cover the result without a gap; the last may be shorter. */
uint64_t spotnik_fingerprint_add(uint64_t before, uint32_t number, uint64_t step, const void *data,
                                 size_t bytes)
{
    size_t part = (bytes + SPOTNIK_FINGERPRINT_TURNS - 1) / SPOTNIK_FINGERPRINT_TURNS;
    part = part > SPOTNIK_FINGERPRINT_LEAST ? part : SPOTNIK_FINGERPRINT_LEAST;
    size_t parts = bytes > 0 ? (bytes + part - 1) / part : 1;
    size_t begin = step % parts * part, end = begin + part < bytes ? begin + part : bytes;
    uint64_t words[] = { before, number, bytes,
                         end > begin
                             ? spotnik_hash_bytes((const unsigned char *)data + begin, end - begin)
                             : 0 };
    return spotnik_hash_bytes(words, sizeof words);
}
