/* SPDX-License-Identifier: Apache-2.0 */
/* Named runs of bytes of a replica. */
#include "transfer/blobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

void spotnik_blobs_done(struct spotnik_blobs *blobs)
{
    for (uint32_t i = 0; i < blobs->count; i++)
        free(blobs->blob[i].bytes);
    memset(blobs, 0, sizeof *blobs);
}

static struct spotnik_blob *find(struct spotnik_blobs *blobs, const char *name)
{
    for (uint32_t i = 0; i < blobs->count; i++)
        if (!strcmp(blobs->blob[i].name, name))
            return &blobs->blob[i];
    return NULL;
}

const struct spotnik_blob *spotnik_blobs_find(const struct spotnik_blobs *blobs, const char *name)
{
    for (uint32_t i = 0; i < blobs->count; i++)
        if (!strcmp(blobs->blob[i].name, name))
            return &blobs->blob[i];
    return NULL;
}

static int check(const struct spotnik_blobs *blobs, const struct spotnik_blob *before,
                 const char *name, const void *bytes, size_t size)
{
    size_t others = blobs->bytes - (before ? before->size : 0);

    if (!bytes && size)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "blob %s: no bytes given", name);
    if (!before && blobs->count == SPOTNIK_BLOBS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "blob %s: at most %d blobs can be kept; pack some together",
                                    name, SPOTNIK_BLOBS_MAX);
    if (size > SPOTNIK_BLOBS_BYTES_MAX - others)
        return spotnik_error_return(
            SPOTNIK_ERR_LIMIT,
            "blob %s: %zu bytes are too many; blobs hold at most %zu MiB together: "
            "register large arrays with spotnik_state_add()",
            name, size, SPOTNIK_BLOBS_BYTES_MAX >> 20);
    return 0;
}

int spotnik_blobs_set(struct spotnik_blobs *blobs, const char *name, const void *bytes, size_t size)
{
    if (!name || !*name || strlen(name) > SPOTNIK_BLOB_NAME_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "a blob needs a name of 1 to %d bytes",
                                    SPOTNIK_BLOB_NAME_MAX);
    struct spotnik_blob *blob = find(blobs, name);
    int rc = check(blobs, blob, name, bytes, size);

    if (rc)
        return rc;
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "blob %s: no memory for %zu bytes", name,
                                    size);
    if (size)
        memcpy(copy, bytes, size);
    if (!blob) {
        blob = &blobs->blob[blobs->count++];
        memset(blob, 0, sizeof *blob);
        memcpy(blob->name, name, strlen(name));
    }
    blobs->bytes = blobs->bytes - blob->size + size;
    free(blob->bytes);
    blob->bytes = copy;
    blob->size = size;
    return 0;
}

size_t spotnik_blobs_packed_size(const struct spotnik_blobs *blobs)
{
    size_t size = 4 + blobs->bytes;

    for (uint32_t i = 0; i < blobs->count; i++)
        size += 1 + strlen(blobs->blob[i].name) + 8;
    return size;
}

void spotnik_blobs_write(const struct spotnik_blobs *blobs, struct spotnik_writer *writer)
{
    spotnik_writer_u32(writer, blobs->count);
    for (uint32_t i = 0; i < blobs->count; i++) {
        const struct spotnik_blob *blob = &blobs->blob[i];

        spotnik_writer_u8(writer, (uint8_t)strlen(blob->name));
        spotnik_writer_bytes(writer, blob->name, strlen(blob->name));
        spotnik_writer_u64(writer, blob->size);
        spotnik_writer_bytes(writer, blob->bytes, blob->size);
    }
}

static int read_one(struct spotnik_blobs *blobs, struct spotnik_reader *reader)
{
    char name[SPOTNIK_BLOB_NAME_MAX + 1] = { 0 };
    uint8_t length = spotnik_reader_u8(reader);

    spotnik_reader_bytes(reader, name, length);
    uint64_t size = spotnik_reader_u64(reader);
    const uint8_t *bytes =
        size <= spotnik_reader_left(reader) ? spotnik_reader_skip(reader, (size_t)size) : NULL;

    if (reader->failed || !bytes || strlen(name) != length || find(blobs, name))
        return SPOTNIK_ERR_PEERS;
    int rc = spotnik_blobs_set(blobs, name, bytes, (size_t)size);
    return rc == SPOTNIK_ERR_MEMORY || !rc ? rc : SPOTNIK_ERR_PEERS;
}

int spotnik_blobs_read(struct spotnik_blobs *blobs, struct spotnik_reader *reader)
{
    struct spotnik_blobs *fresh = calloc(1, sizeof *fresh);
    uint32_t count = spotnik_reader_u32(reader);
    int rc = fresh ? 0 : SPOTNIK_ERR_MEMORY;

    for (uint32_t i = 0; i < count && !rc; i++)
        rc = read_one(fresh, reader);
    if (!rc && !spotnik_reader_is_done(reader))
        rc = SPOTNIK_ERR_PEERS;
    if (!rc) {
        spotnik_blobs_done(blobs);
        *blobs = *fresh;
    } else {
        if (fresh)
            spotnik_blobs_done(fresh);
        rc = spotnik_error_return(rc, rc == SPOTNIK_ERR_MEMORY
                                          ? "no memory for the blobs of the state"
                                          : "the blobs of the state cannot be read");
    }
    free(fresh);
    return rc;
}
