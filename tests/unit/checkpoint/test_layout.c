/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: however a replica is cut, every byte is in exactly one part; small tensors are not cut;
 * what a part holds is named in its header where it lies, aligned to its element; blobs come
 * through their file unchanged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "spotnik/spotnik.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"
#include "tests.h"

#define BYTES_MAX 4096

static uint8_t memory[BYTES_MAX], out[BYTES_MAX], again[BYTES_MAX];

/* A random replica in `memory`; some tensors are empty, some large. */
static void registry_draw(struct spotnik_registry *registry, struct spotnik_prng *prng)
{
    uint32_t tensors = (uint32_t)spotnik_prng_between(prng, 0, 12);
    uint64_t at = 0;
    char name[16];

    spotnik_registry_init(registry);
    for (uint32_t i = 0; i < tensors; i++) {
        int dtype = (int)spotnik_prng_between(prng, 1, SPOTNIK_U64);
        uint64_t one = spotnik_registry_element_bytes(dtype);
        uint64_t count = spotnik_prng_below(prng, i % 4 ? 9 : 200 / one);

        snprintf(name, sizeof name, "t%u", i);
        assert_true(at + count * one <= BYTES_MAX);
        assert_int_equal(spotnik_registry_add(registry, name, memory + at, count, dtype), 0);
        at += count * one;
    }
}

/* The header says of each tensor where it lies. Returns how many elements of all. */
static void header_check(const struct spotnik_part *part, const struct spotnik_registry *registry)
{
    size_t data = 0;
    json_t *header = spotnik_safetensors_parse(part->header, part->header_bytes, &data);
    uint64_t at = 0;

    assert_non_null(header);
    assert_int_equal(data, part->header_bytes);
    assert_int_equal(part->header_bytes % 8, 0);
    assert_int_equal(json_object_size(header), part->piece_count + 1);
    for (uint32_t i = 0; i < part->piece_count; i++) {
        const struct spotnik_tensor *tensor = &registry->tensor[part->piece[i].tensor];
        uint64_t one = spotnik_registry_element_bytes(tensor->dtype);
        json_t *offsets = json_object_get(json_object_get(header, tensor->name), "data_offsets");

        assert_int_equal(json_integer_value(json_array_get(offsets, 0)), at);
        assert_int_equal(at % one, 0);
        at += part->piece[i].count * one;
        assert_int_equal(json_integer_value(json_array_get(offsets, 1)), at);
    }
    assert_int_equal(at, part->data_bytes);
    json_decref(header);
}

static void one_way_of_cutting(struct spotnik_registry *registry, uint32_t parts)
{
    uint8_t covered[BYTES_MAX] = { 0 };
    uint64_t bytes = 0, empty = 0;
    struct spotnik_part part;

    memset(again, 0, sizeof again);
    for (uint32_t number = 0; number < parts; number++) {
        assert_int_equal(spotnik_part_init(&part, registry, parts, number), 0);
        header_check(&part, registry);
        spotnik_part_copy_out(&part, registry, SPOTNIK_REGISTRY_ALL, out);
        for (uint32_t i = 0; i < part.piece_count; i++) {
            const struct spotnik_tensor *tensor = &registry->tensor[part.piece[i].tensor];
            uint64_t one = spotnik_registry_element_bytes(tensor->dtype);

            empty += tensor->count == 0;
            if (tensor->bytes <= registry->bytes / parts)
                assert_int_equal(part.piece[i].count, tensor->count);
            for (uint64_t k = 0; k < part.piece[i].count * one; k++)
                assert_int_equal(covered[tensor->offset + part.piece[i].first * one + k]++, 0);
        }
        bytes += part.data_bytes;
        spotnik_part_done(&part);
    }
    assert_int_equal(bytes, registry->bytes);
    for (uint32_t i = 0; i < registry->count; i++)
        empty -= registry->tensor[i].count == 0;
    assert_int_equal(empty, 0);
}

TEST(every_byte_in_one_part)
{
    struct spotnik_registry registry;
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < 300; seed++) {
        spotnik_prng_seed(&prng, seed);
        registry_draw(&registry, &prng);
        for (uint32_t parts = 1; parts <= 9; parts++)
            one_way_of_cutting(&registry, parts);
        assert_int_equal(spotnik_layout_parts(&registry), 1);
        spotnik_registry_done(&registry);
    }
}

/* Out of one replica and, in pieces of any length, into another of the same shape. */
TEST(out_and_in)
{
    struct spotnik_registry registry, other;
    struct spotnik_prng prng;
    struct spotnik_part part;

    for (uint64_t seed = 0; seed < 100; seed++) {
        spotnik_prng_seed(&prng, seed);
        registry_draw(&registry, &prng);
        spotnik_registry_init(&other);
        for (uint32_t i = 0; i < registry.count; i++)
            assert_int_equal(spotnik_registry_add(&other, registry.tensor[i].name,
                                                  again + registry.tensor[i].offset,
                                                  registry.tensor[i].count,
                                                  registry.tensor[i].dtype),
                             0);
        for (int i = 0; i < BYTES_MAX; i++)
            memory[i] = (uint8_t)spotnik_prng_next(&prng);
        memset(again, 0, sizeof again);
        for (uint32_t number = 0; number < 5; number++) {
            assert_int_equal(spotnik_part_init(&part, &registry, 5, number), 0);
            spotnik_part_copy_out(&part, &registry, SPOTNIK_REGISTRY_ALL, out);
            for (uint64_t at = 0, some; at < part.data_bytes; at += some) {
                some = spotnik_prng_between(&prng, 1, part.data_bytes - at);
                spotnik_part_write_in(&part, &other, at, out + at, some);
            }
            spotnik_part_done(&part);
        }
        assert_memory_equal(again, memory, registry.bytes);
        spotnik_registry_done(&registry);
        spotnik_registry_done(&other);
    }
}

TEST(names)
{
    struct spotnik_registry registry;

    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "Gewicht \xc3\xa4", memory, 1, SPOTNIK_F32),
                     0);
    assert_int_equal(spotnik_layout_check(&registry), 0);
    assert_int_equal(spotnik_registry_add(&registry, "__metadata__", memory, 1, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_layout_check(&registry), SPOTNIK_ERR_ARGUMENT);
    spotnik_registry_done(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "\xff\xfe", memory, 1, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_layout_check(&registry), SPOTNIK_ERR_ARGUMENT);
    spotnik_registry_done(&registry);
}

TEST(blobs_file)
{
    static struct spotnik_blobs blobs, other;
    uint8_t *bytes;
    size_t size;

    assert_int_equal(spotnik_blobs_set(&blobs, "a \"quoted\" name", "\0\1\2", 3), 0);
    assert_int_equal(spotnik_blobs_set(&blobs, "none", "", 0), 0);
    assert_int_equal(spotnik_blobs_file(&blobs, &bytes, &size), 0);
    assert_int_equal(spotnik_blobs_file_read(&other, bytes, size), 0);
    assert_int_equal(other.count, 2);
    assert_memory_equal(spotnik_blobs_find(&other, "a \"quoted\" name")->bytes, "\0\1\2", 3);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(spotnik_blobs_file_read(&other, bytes, cut), SPOTNIK_ERR_PEERS);
    assert_int_equal(other.count, 2); /* what was there stays */
    free(bytes);
    spotnik_blobs_done(&blobs);
    spotnik_blobs_done(&other);
    assert_int_equal(spotnik_blobs_file(&blobs, &bytes, &size), 0); /* none at all */
    assert_int_equal(spotnik_blobs_file_read(&other, bytes, size), 0);
    assert_int_equal(other.count, 0);
    free(bytes);
}
