/* SPDX-License-Identifier: Apache-2.0 */
/* A replica as a list of tensors and as one run of bytes. */
#include "transfer/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "spotnik/spotnik.h"

#define LATE_BYTES_MIN (UINT64_C(64) << 10)
#define ROOM_BYTES ((size_t)16 << 20)

void spotnik_registry_init(struct spotnik_registry *registry)
{
    memset(registry, 0, sizeof *registry);
}

void spotnik_registry_done(struct spotnik_registry *registry)
{
    free(registry->tensor);
    spotnik_blobs_done(&registry->blobs);
    memset(registry, 0, sizeof *registry);
}

uint32_t spotnik_registry_element_bytes(int dtype)
{
    return spotnik_dtype_bytes((uint64_t)dtype);
}

static int check(const struct spotnik_registry *registry, const char *name, uint64_t count,
                 int dtype)
{
    uint32_t element_bytes = spotnik_registry_element_bytes(dtype);

    if (!name || !*name || strlen(name) > SPOTNIK_TENSOR_NAME_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "a tensor needs a name of 1 to %d bytes",
                                    SPOTNIK_TENSOR_NAME_MAX);
    if (!element_bytes || dtype == SPOTNIK_Q8)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "tensor %s: no element type of tensors: %d", name, dtype);
    if (count > (UINT64_MAX / 2 - registry->bytes) / element_bytes)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "tensor %s: %llu elements are too many",
                                    name, (unsigned long long)count);
    for (uint32_t i = 0; i < registry->count; i++)
        if (!strcmp(registry->tensor[i].name, name))
            return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "tensor %s is registered already",
                                        name);
    if (registry->count == SPOTNIK_TENSORS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "tensor %s: at most %d tensors can be registered", name,
                                    SPOTNIK_TENSORS_MAX);
    return 0;
}

static int grow(struct spotnik_registry *registry)
{
    uint32_t capacity = registry->capacity ? 2 * registry->capacity : 16;
    struct spotnik_tensor *tensor;

    if (registry->count < registry->capacity)
        return 0;
    tensor = realloc(registry->tensor, capacity * sizeof *tensor);
    if (!tensor)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the list of tensors");
    registry->tensor = tensor;
    registry->capacity = capacity;
    return 0;
}

int spotnik_registry_add_shape(struct spotnik_registry *registry, const char *name, uint64_t count,
                               int dtype)
{
    int rc = check(registry, name, count, dtype);

    if (!rc)
        rc = grow(registry);
    if (rc)
        return rc;
    SPOTNIK_ASSERT(registry->tensor && name);
    struct spotnik_tensor *tensor = &registry->tensor[registry->count++];

    memset(tensor, 0, sizeof *tensor);
    memcpy(tensor->name, name, strlen(name));
    tensor->count = count;
    tensor->bytes = count * spotnik_registry_element_bytes(dtype);
    tensor->offset = registry->bytes;
    tensor->dtype = (uint8_t)dtype;
    registry->bytes += tensor->bytes;
    return 0;
}

int spotnik_registry_add(struct spotnik_registry *registry, const char *name, void *data,
                         size_t count, int dtype)
{
    if (!data && count && name)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "tensor %s: no memory given", name);
    int rc = spotnik_registry_add_shape(registry, name, count, dtype);

    if (!rc)
        registry->tensor[registry->count - 1].data = data;
    return rc;
}

int spotnik_registry_add_remote(struct spotnik_registry *registry, const char *name, uint64_t count,
                                int dtype)
{
    int rc = spotnik_registry_add_shape(registry, name, count, dtype);

    if (rc)
        return rc;
    struct spotnik_tensor *tensor = &registry->tensor[registry->count - 1];

    tensor->remote = true;
    tensor->remote_at = registry->remote_bytes;
    registry->remote_bytes += tensor->bytes;
    return 0;
}

/* The first tensor that ends behind `offset`. */
static uint32_t find(const struct spotnik_registry *registry, uint64_t offset)
{
    uint32_t low = 0, high = registry->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (registry->tensor[middle].offset + registry->tensor[middle].bytes <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool spotnik_registry_is_failed(const struct spotnik_registry *registry)
{
    return __atomic_load_n(&registry->failed, __ATOMIC_ACQUIRE);
}

/* Small ones are copied at the boundary: among them are counters that a program may change
 * early. */
static bool is_late(const struct spotnik_registry *registry, const struct spotnik_tensor *tensor)
{
    return !registry->at_once && (tensor->remote || tensor->bytes >= LATE_BYTES_MIN);
}

bool spotnik_registry_has_late(const struct spotnik_registry *registry)
{
    for (uint32_t i = 0; i < registry->count; i++)
        if (is_late(registry, &registry->tensor[i]))
            return true;
    return false;
}

static bool is_of(const struct spotnik_registry *registry, const struct spotnik_tensor *tensor,
                  enum spotnik_registry_part part)
{
    return part == SPOTNIK_REGISTRY_ALL
           || is_late(registry, tensor) == (part == SPOTNIK_REGISTRY_LATE);
}

/* Exactly one of `out` and `in` is given. */
static void move_remote(struct spotnik_registry *registry, uint64_t at, uint8_t *out,
                        const uint8_t *in, size_t size)
{
    const struct spotnik_reach *reach = &registry->reach;

    if (out ? reach->read(reach->context, at, out, size)
            : reach->write(reach->context, at, in, size))
        __atomic_store_n(&registry->failed, true, __ATOMIC_RELEASE);
}

static void move_piece(struct spotnik_registry *registry, const struct spotnik_tensor *tensor,
                       uint64_t at, uint8_t *out, const uint8_t *in, size_t size)
{
    SPOTNIK_ASSERT(!out != !in);
    if (tensor->remote)
        move_remote(registry, tensor->remote_at + at, out, in, size);
    else if (out)
        memcpy(out, tensor->data + at, size);
    else
        memcpy(tensor->data + at, in, size);
}

/* Bytes from `at` of tensor *i on that one call can move, `size` at most; *i becomes the last of
 * them. Remote tensors lie one behind the other, and a call costs more than its bytes. */
static size_t stretch(const struct spotnik_registry *registry, uint32_t *i, uint64_t at,
                      size_t size)
{
    uint64_t bytes = registry->tensor[*i].bytes - at;

    while (registry->tensor[*i].remote && bytes < size && *i + 1 < registry->count
           && registry->tensor[*i + 1].remote)
        bytes += registry->tensor[++*i].bytes;
    return bytes < size ? (size_t)bytes : size;
}

/* Visit the pieces of [offset, offset + size) that are of `part`. */
static void move(struct spotnik_registry *registry, enum spotnik_registry_part part,
                 uint64_t offset, uint8_t *out, const uint8_t *in, size_t size)
{
    SPOTNIK_ASSERT(offset <= registry->bytes && size <= registry->bytes - offset);
    for (uint32_t i = find(registry, offset); size; i++) {
        const struct spotnik_tensor *tensor = &registry->tensor[i];
        uint64_t at = offset - tensor->offset;
        size_t some = stretch(registry, &i, at, size);

        if (some && is_of(registry, tensor, part))
            move_piece(registry, tensor, at, out, in, some);
        out += out ? some : 0;
        in += in ? some : 0;
        offset += some;
        size -= some;
    }
}

void spotnik_registry_read(struct spotnik_registry *registry, enum spotnik_registry_part part,
                           uint64_t offset, void *out, size_t size)
{
    move(registry, part, offset, out, NULL, size);
}

void spotnik_registry_write(struct spotnik_registry *registry, uint64_t offset, const void *bytes,
                            size_t size)
{
    move(registry, SPOTNIK_REGISTRY_ALL, offset, NULL, bytes, size);
}

void spotnik_registry_refresh(const struct spotnik_registry *registry)
{
    if (registry->refresh)
        registry->refresh(registry->refresh_context);
}

size_t spotnik_registry_extra_size(const struct spotnik_registry *registry)
{
    return 8 + spotnik_blobs_packed_size(&registry->blobs);
}

void spotnik_registry_extra_write(const struct spotnik_registry *registry,
                                  struct spotnik_writer *writer)
{
    spotnik_writer_u64(writer, registry->founding);
    spotnik_blobs_write(&registry->blobs, writer);
}

int spotnik_registry_extra_read(struct spotnik_registry *registry, struct spotnik_reader *reader)
{
    uint64_t founding = spotnik_reader_u64(reader);
    int rc = spotnik_blobs_read(&registry->blobs, reader);

    if (!rc)
        registry->founding = founding;
    return rc;
}

static void hash_remote(struct spotnik_registry *registry, const struct spotnik_tensor *tensor,
                        struct spotnik_hash *hash, uint8_t *room)
{
    for (uint64_t at = 0; at < tensor->bytes; at += ROOM_BYTES) {
        size_t size = tensor->bytes - at < ROOM_BYTES ? (size_t)(tensor->bytes - at) : ROOM_BYTES;

        move_remote(registry, tensor->remote_at + at, room, NULL, size);
        spotnik_hash_add(hash, room, size);
    }
}

uint64_t spotnik_registry_digest(struct spotnik_registry *registry)
{
    struct spotnik_hash hash;
    uint8_t *room = registry->remote_bytes ? malloc(ROOM_BYTES) : NULL;

    spotnik_hash_begin(&hash);
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct spotnik_tensor *tensor = &registry->tensor[i];

        if (tensor->remote && room)
            hash_remote(registry, tensor, &hash, room);
        else if (tensor->bytes && tensor->data)
            spotnik_hash_add(&hash, tensor->data, tensor->bytes);
    }
    uint64_t digest = spotnik_hash_end(&hash);
    bool good = (room || !registry->remote_bytes) && !spotnik_registry_is_failed(registry);

    free(room);
    return good ? digest : 0;
}

size_t spotnik_registry_schema_size(const struct spotnik_registry *registry)
{
    size_t size = 4;

    for (uint32_t i = 0; i < registry->count; i++)
        size += 1 + strlen(registry->tensor[i].name) + 1 + 8;
    return size;
}

void spotnik_registry_schema_write(const struct spotnik_registry *registry,
                                   struct spotnik_writer *writer)
{
    spotnik_writer_u32(writer, registry->count);
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct spotnik_tensor *tensor = &registry->tensor[i];
        size_t length = strlen(tensor->name);

        spotnik_writer_u8(writer, (uint8_t)length);
        spotnik_writer_bytes(writer, tensor->name, length);
        spotnik_writer_u8(writer, tensor->dtype);
        spotnik_writer_u64(writer, tensor->count);
    }
}

static int compare(const struct spotnik_tensor *ours, const char *name, uint8_t dtype,
                   uint64_t count)
{
    if (strcmp(ours->name, name))
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "this program registers tensor %s where the job has %s",
                                    ours->name, name);
    if (ours->dtype != dtype)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "tensor %s has element type %u here and %u in the job", name,
                                    ours->dtype, dtype);
    if (ours->count != count)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "tensor %s has %llu elements here and %llu in the job", name,
                                    (unsigned long long)ours->count, (unsigned long long)count);
    return 0;
}

int spotnik_registry_compare(const struct spotnik_registry *registry,
                             const struct spotnik_registry *other)
{
    for (uint32_t i = 0; i < other->count; i++) {
        const struct spotnik_tensor *theirs = &other->tensor[i];

        if (i >= registry->count)
            return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                        "it has a tensor %s that this program lacks", theirs->name);
        int rc = compare(&registry->tensor[i], theirs->name, theirs->dtype, theirs->count);
        if (rc)
            return rc;
    }
    if (other->count < registry->count)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "it has no tensor %s, which this program registers",
                                    registry->tensor[other->count].name);
    return 0;
}

int spotnik_registry_schema_check(const struct spotnik_registry *registry,
                                  struct spotnik_reader *reader)
{
    uint32_t count = spotnik_reader_u32(reader);

    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        char name[SPOTNIK_TENSOR_NAME_MAX + 1] = { 0 };
        uint8_t length = spotnik_reader_u8(reader);

        spotnik_reader_bytes(reader, name, length);
        uint8_t dtype = spotnik_reader_u8(reader);
        uint64_t elements = spotnik_reader_u64(reader);
        if (reader->failed)
            break;
        if (i >= registry->count)
            return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                        "the job has a tensor %s that this program lacks", name);
        int rc = compare(&registry->tensor[i], name, dtype, elements);
        if (rc)
            return rc;
    }
    if (reader->failed)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "the list of tensors of the job cannot be read");
    if (count < registry->count)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "the job has no tensor %s, which this program registers",
                                    registry->tensor[count].name);
    return 0;
}
