/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, reading and shuffling text. Everything here is a function of the files and the seed
 * alone, so members on equal machines agree without a message. See charlm_text.h. */
#include "charlm_text.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

int text_append(struct text *text, const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        return errno;
    if (!text->bytes)
        text->bytes = malloc(TEXT_BYTES_MAX);
    if (text->bytes)
        text->length += fread(text->bytes + text->length, 1, TEXT_BYTES_MAX - text->length, file);
    int error = !text->bytes ? ENOMEM : ferror(file) ? EIO : 0;

    fclose(file);
    return error;
}

static void append_matching(struct text *text, const char *pattern)
{
    glob_t found;

    /* sorted: every member reads the same files in the same order */
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && text->length < TEXT_BYTES_MAX; i++)
            text_append(text, found.gl_pathv[i]); /* a file we may not read is left out */
    globfree(&found);
}

void text_find(struct text *text)
{
    static const char *const patterns[] = { "/usr/lib/python3*/*.py",
                                            "/usr/local/lib/python3*/*.py", "/usr/include/*.h",
                                            "/usr/include/*/*.h" };
    const size_t enough = 256 << 10;

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && text->length < enough; i++)
        append_matching(text, patterns[i]);
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){ 0 };
}

int64_t text_hash(const struct text *text)
{
    uint64_t hash = mix(text->length);

    for (size_t i = 0; i < text->length; i++)
        hash = mix(hash ^ text->bytes[i]);
    return (int64_t)hash;
}

uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A permutation that is computed instead of stored: a Feistel network over the next power of four,
 * walked until it lands inside [0, n). A member that joined a moment ago finds the same order as
 * all others without being told anything but the number of the pass. */
uint64_t shuffled(uint64_t i, uint64_t n, uint64_t seed)
{
    unsigned half = 1;

    while (half < 32 && (UINT64_C(1) << 2 * half) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;

    do {
        uint64_t left = i >> half, right = i & mask;

        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (mix(mix(seed + round) ^ right) & mask);

            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
