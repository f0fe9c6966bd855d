/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of safetensors files, and the blobs of a replica as such a file. */
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/layout.h"
#include "transfer/registry.h"

static const char *const dtype_names[] = {
    [SPOTNIK_F32] = "F32", [SPOTNIK_F64] = "F64", [SPOTNIK_I32] = "I32",   [SPOTNIK_I64] = "I64",
    [SPOTNIK_U8] = "U8",   [SPOTNIK_F16] = "F16", [SPOTNIK_BF16] = "BF16", [SPOTNIK_I8] = "I8",
    [SPOTNIK_I16] = "I16", [SPOTNIK_U16] = "U16", [SPOTNIK_U32] = "U32",   [SPOTNIK_U64] = "U64"
};
#define DTYPES ((int)(sizeof dtype_names / sizeof dtype_names[0]))

const char *spotnik_safetensors_dtype(int dtype)
{
    return dtype > 0 && dtype < DTYPES ? dtype_names[dtype] : NULL;
}

int spotnik_safetensors_dtype_read(const char *name)
{
    for (int i = 1; i < DTYPES; i++)
        if (dtype_names[i] && !strcmp(dtype_names[i], name))
            return i;
    return 0;
}

bool spotnik_safetensors_add(json_t *header, const char *name, int dtype, uint64_t count,
                             uint64_t *at)
{
    uint64_t end = *at + count * spotnik_registry_element_bytes(dtype);
    json_t *entry =
        json_pack("{s:s, s:[I], s:[I,I]}", "dtype", spotnik_safetensors_dtype(dtype), "shape",
                  (json_int_t)count, "data_offsets", (json_int_t)*at, (json_int_t)end);

    *at = end;
    return json_object_set_new(header, name, entry) == 0;
}

bool spotnik_safetensors_header(const json_t *header, uint8_t **ret_bytes, size_t *ret_size)
{
    char *text = json_dumps(header, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0, padded = (length + 7) & ~(size_t)7;
    uint8_t *bytes = text ? malloc(8 + padded) : NULL;
    struct spotnik_writer writer;

    if (bytes) {
        spotnik_writer_init(&writer, bytes, 8);
        spotnik_writer_u64(&writer, padded);
        memcpy(bytes + 8, text, length);
        memset(bytes + 8 + length, ' ', padded - length);
        *ret_bytes = bytes;
        *ret_size = 8 + padded;
    }
    free(text);
    return bytes != NULL;
}

json_t *spotnik_safetensors_parse(const uint8_t *bytes, size_t size, size_t *ret_data)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, size);
    uint64_t length = spotnik_reader_u64(&reader);
    if (reader.failed || length > size - 8 || length > SPOTNIK_SAFETENSORS_HEADER_MAX)
        return NULL;
    json_t *header =
        json_loadb((const char *)bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
    if (header && !json_is_object(header)) {
        json_decref(header);
        return NULL;
    }
    *ret_data = 8 + (size_t)length;
    return header;
}

/* ---- blobs ---- */

int spotnik_blobs_file(const struct spotnik_blobs *blobs, uint8_t **ret_bytes, size_t *ret_size)
{
    json_t *header = json_object();
    uint8_t *head = NULL, *bytes;
    size_t head_bytes = 0;
    uint64_t at = 0;
    bool good = header != NULL;

    for (uint32_t i = 0; i < blobs->count && good; i++)
        good = strcmp(blobs->blob[i].name, SPOTNIK_SAFETENSORS_METADATA) != 0
               && spotnik_safetensors_add(header, blobs->blob[i].name, SPOTNIK_U8,
                                          blobs->blob[i].size, &at);
    if (!good) {
        json_decref(header);
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "a checkpoint needs names of blobs in UTF-8");
    }
    good = spotnik_safetensors_header(header, &head, &head_bytes);
    json_decref(header);
    bytes = good ? realloc(head, head_bytes + blobs->bytes) : NULL;
    if (!bytes) {
        free(head);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the blobs of a checkpoint");
    }
    *ret_bytes = bytes;
    *ret_size = head_bytes + blobs->bytes;
    for (uint32_t i = 0; i < blobs->count; i++) {
        memcpy(bytes + head_bytes, blobs->blob[i].bytes, blobs->blob[i].size);
        head_bytes += blobs->blob[i].size;
    }
    return 0;
}

/* One entry of the header: bytes [begin, end) of the data are the blob `name`. */
static int blob_read(struct spotnik_blobs *blobs, const char *name, json_t *entry,
                     const uint8_t *data, size_t size)
{
    const char *dtype;
    json_int_t count, begin, end;

    if (json_unpack_ex(entry, NULL, JSON_STRICT, "{s:s, s:[I!], s:[I,I!]}", "dtype", &dtype,
                       "shape", &count, "data_offsets", &begin, &end)
        || strcmp(dtype, "U8") || begin < 0 || end < begin || (uint64_t)end > size
        || count != end - begin)
        return SPOTNIK_ERR_PEERS;
    int rc = spotnik_blobs_set(blobs, name, data + begin, (size_t)count);
    return !rc || rc == SPOTNIK_ERR_MEMORY ? rc : SPOTNIK_ERR_PEERS;
}

static int blobs_read(struct spotnik_blobs *blobs, json_t *header, const uint8_t *data, size_t size)
{
    const char *name;
    json_t *entry;
    int rc = 0;

    json_object_foreach(header, name, entry)
    {
        rc = blob_read(blobs, name, entry, data, size);
        if (rc)
            break;
    }
    return !rc && blobs->bytes != size ? SPOTNIK_ERR_PEERS : rc;
}

int spotnik_blobs_file_read(struct spotnik_blobs *blobs, const uint8_t *bytes, size_t size)
{
    struct spotnik_blobs *fresh = calloc(1, sizeof *fresh);
    size_t at = 0;
    json_t *header = fresh ? spotnik_safetensors_parse(bytes, size, &at) : NULL;
    int rc = !fresh    ? SPOTNIK_ERR_MEMORY
             : !header ? SPOTNIK_ERR_PEERS
                       : blobs_read(fresh, header, bytes + at, size - at);

    json_decref(header);
    if (!rc) {
        spotnik_blobs_done(blobs);
        *blobs = *fresh;
    } else if (fresh) {
        spotnik_blobs_done(fresh);
    }
    free(fresh);
    return rc ? spotnik_error_return(rc, "the blobs of a checkpoint cannot be read") : 0;
}
