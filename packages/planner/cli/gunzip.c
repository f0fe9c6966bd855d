/* SPDX-License-Identifier: Apache-2.0 */
#include "gunzip.h"
#include "common/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_HEADER 16 /* added to the window bits: zlib then expects gzip's header and trailer */
#define FIRST_ROOM 65536u

static bool grow(char **plain, size_t *room)
{
    char *grown = *room < SPOTNIK_TABLE_BYTES_MAX ? realloc(*plain, 2 * *room + 1) : NULL;

    if (!grown)
        return false;
    *plain = grown;
    *room *= 2;
    return true;
}

/* Zlib tells the end of a stream from the end of its input: only the first is whole. */
static int inflate_all(z_stream *stream, char **plain, size_t *size_out)
{
    size_t room = FIRST_ROOM / 2;
    int rc = Z_OK;

    while (rc == Z_OK) {
        if (stream->total_out == room || !*plain)
            if (!grow(plain, &room))
                return -1;
        stream->next_out = (Bytef *)*plain + stream->total_out;
        stream->avail_out = (uInt)(room - stream->total_out);
        rc = inflate(stream, Z_NO_FLUSH);
    }
    *size_out = stream->total_out;
    return rc == Z_STREAM_END ? 0 : -1;
}

int spotnik_gunzip(char **bytes, size_t *size)
{
    z_stream stream = { .next_in = (Bytef *)*bytes, .avail_in = (uInt)*size };
    char *plain = NULL;
    size_t plain_size;

    if (*size < 2 || memcmp(*bytes, "\x1f\x8b", 2))
        return 0;
    if (inflateInit2(&stream, MAX_WBITS + GZIP_HEADER) != Z_OK)
        return -1;
    int rc = inflate_all(&stream, &plain, &plain_size);
    inflateEnd(&stream);
    if (rc) {
        free(plain);
        return -1;
    }
    plain[plain_size] = '\0';
    free(*bytes);
    *bytes = plain;
    *size = plain_size;
    return 0;
}
