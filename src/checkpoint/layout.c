/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a checkpoint: where a replica is cut, and the header of each part. */
#include "checkpoint/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "base/assert.h"
#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/safetensors.h"

int spotnik_layout_check(const struct spotnik_registry *registry)
{
    for (uint32_t i = 0; i < registry->count; i++) {
        const char *name = registry->tensor[i].name;
        json_t *string = json_string(name);

        if (!string || !strcmp(name, SPOTNIK_SAFETENSORS_METADATA)) {
            json_decref(string);
            return spotnik_error_return(
                SPOTNIK_ERR_ARGUMENT,
                "tensor %s: a checkpoint needs names in UTF-8, and not this one", name);
        }
        json_decref(string);
    }
    return 0;
}

uint32_t spotnik_layout_parts(const struct spotnik_registry *registry)
{
    uint64_t parts = registry->bytes / SPOTNIK_PART_BYTES_MIN;

    return parts < 1 ? 1 : parts > SPOTNIK_PARTS_MAX ? SPOTNIK_PARTS_MAX : (uint32_t)parts;
}

/* ---- where to cut ---- */

/* Part `part` begins here. Evenly, but a tensor that fits in a part is not cut. */
static uint64_t cut(const struct spotnik_registry *registry, uint32_t parts, uint32_t part)
{
    uint64_t bytes = registry->bytes, at = bytes / parts * part + bytes % parts * part / parts;
    uint32_t low = 0, high = registry->count;

    if (part == 0 || part >= parts)
        return part ? bytes : 0;
    while (low < high) { /* the first tensor that ends behind `at` */
        uint32_t middle = low + (high - low) / 2;
        bool behind = registry->tensor[middle].offset + registry->tensor[middle].bytes > at;

        low = behind ? low : middle + 1;
        high = behind ? middle : high;
    }
    if (low == registry->count)
        return bytes;
    const struct spotnik_tensor *tensor = &registry->tensor[low];
    uint64_t inside = at - tensor->offset;

    if (tensor->bytes <= bytes / parts)
        return tensor->offset + (inside > tensor->bytes / 2 ? tensor->bytes : 0);
    return at - inside % spotnik_registry_element_bytes(tensor->dtype);
}

/* The piece of `tensor` in [begin, end); false: none. An empty tensor is in the part that holds its
 * place. */
static bool piece_of(const struct spotnik_tensor *tensor, uint64_t begin, uint64_t end, bool last,
                     struct spotnik_piece *ret)
{
    uint64_t one = spotnik_registry_element_bytes(tensor->dtype),
             stop = tensor->offset + tensor->bytes;
    uint64_t from = tensor->offset > begin ? tensor->offset : begin, to = stop < end ? stop : end;

    if (!tensor->bytes) {
        ret->first = ret->count = 0;
        return tensor->offset >= begin && (tensor->offset < end || last);
    }
    if (from >= to)
        return false;
    SPOTNIK_ASSERT((from - tensor->offset) % one == 0 && (to - from) % one == 0);
    ret->first = (from - tensor->offset) / one;
    ret->count = (to - from) / one;
    return true;
}

static void pieces_find(struct spotnik_part *part, const struct spotnik_registry *registry,
                        uint32_t parts, uint32_t number)
{
    uint64_t begin = cut(registry, parts, number), end = cut(registry, parts, number + 1);

    for (uint32_t wide = 8; wide; wide /= 2)
        for (uint32_t i = 0; i < registry->count; i++) {
            struct spotnik_piece *piece = &part->piece[part->piece_count];

            if (spotnik_registry_element_bytes(registry->tensor[i].dtype) != wide
                || !piece_of(&registry->tensor[i], begin, end, number + 1 == parts, piece))
                continue;
            piece->tensor = i;
            part->piece_count++;
        }
    part->data_bytes = end - begin;
}

/* ---- the header ---- */

static bool describe(json_t *metadata, json_t *header, const struct spotnik_part *part,
                     const struct spotnik_registry *registry)
{
    uint64_t at = 0;
    bool good = true;

    for (uint32_t i = 0; i < part->piece_count && good; i++) {
        const struct spotnik_piece *piece = &part->piece[i];
        const struct spotnik_tensor *tensor = &registry->tensor[piece->tensor];
        char key[SPOTNIK_TENSOR_NAME_MAX + 8], first[24];

        snprintf(key, sizeof key, "first:%s", tensor->name);
        snprintf(first, sizeof first, "%llu", (unsigned long long)piece->first);
        if (piece->count != tensor->count)
            good = json_object_set_new(metadata, key, json_string(first)) == 0;
        good =
            good && spotnik_safetensors_add(header, tensor->name, tensor->dtype, piece->count, &at);
    }
    SPOTNIK_ASSERT(!good || at == part->data_bytes);
    return good;
}

static int header_make(struct spotnik_part *part, const struct spotnik_registry *registry,
                       uint32_t parts, uint32_t number)
{
    char words[32];
    json_t *header = json_object(), *metadata = json_object();

    snprintf(words, sizeof words, "%u of %u", number + 1, parts);
    bool good = json_object_set_new(metadata, "part", json_string(words)) == 0
                && json_object_set(header, SPOTNIK_SAFETENSORS_METADATA, metadata) == 0
                && describe(metadata, header, part, registry)
                && spotnik_safetensors_header(header, &part->header, &part->header_bytes);
    json_decref(metadata);
    json_decref(header);
    return good ? 0
                : spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                       "no memory for the header of a checkpoint");
}

int spotnik_part_init(struct spotnik_part *part, const struct spotnik_registry *registry,
                      uint32_t parts, uint32_t number)
{
    SPOTNIK_ASSERT(number < parts);
    memset(part, 0, sizeof *part);
    /* one more: where a candidate is tried */
    part->piece = calloc(registry->count + 1, sizeof *part->piece);
    if (!part->piece)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the layout of a checkpoint");
    pieces_find(part, registry, parts, number);
    int rc = header_make(part, registry, parts, number);

    if (rc)
        spotnik_part_done(part);
    return rc;
}

void spotnik_part_done(struct spotnik_part *part)
{
    free(part->piece);
    free(part->header);
    memset(part, 0, sizeof *part);
}

/* ---- the tensors ---- */

static uint64_t place_of(const struct spotnik_registry *registry, const struct spotnik_piece *piece,
                         uint64_t *ret_bytes)
{
    const struct spotnik_tensor *tensor = &registry->tensor[piece->tensor];
    uint64_t one = spotnik_registry_element_bytes(tensor->dtype);

    *ret_bytes = piece->count * one;
    return tensor->offset + piece->first * one;
}

void spotnik_part_copy_out(const struct spotnik_part *part, struct spotnik_registry *registry,
                           enum spotnik_registry_part which, uint8_t *out)
{
    for (uint32_t i = 0; i < part->piece_count;) {
        uint64_t bytes, more, at = place_of(registry, &part->piece[i], &bytes);

        /* neighbours at once: a call for remote tensors costs more than its bytes */
        while (++i < part->piece_count && place_of(registry, &part->piece[i], &more) == at + bytes)
            bytes += more;
        spotnik_registry_read(registry, which, at, out, bytes);
        out += bytes;
    }
}

void spotnik_part_write_in(const struct spotnik_part *part, struct spotnik_registry *registry,
                           uint64_t offset, const uint8_t *in, size_t size)
{
    uint64_t behind = 0; /* bytes of the file before the piece */

    SPOTNIK_ASSERT(offset <= part->data_bytes && size <= part->data_bytes - offset);
    for (uint32_t i = 0; i < part->piece_count && size; i++) {
        uint64_t bytes, at = place_of(registry, &part->piece[i], &bytes), skip = offset - behind;

        behind += bytes;
        if (skip >= bytes)
            continue;
        size_t some = bytes - skip < size ? (size_t)(bytes - skip) : size;
        spotnik_registry_write(registry, at + skip, in, some);
        in += some;
        size -= some;
        offset += some;
    }
}
