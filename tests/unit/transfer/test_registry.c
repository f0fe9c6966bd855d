/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: a replica reads and writes as one run of bytes whatever its tensors; wrong registrations
 * and schemas are refused with the tensor's name. */
#include <string.h>

#include "base/hash.h"
#include "spotnik/spotnik.h"
#include "transfer/registry.h"
#include "tests.h"

static void fill(uint8_t *bytes, size_t size, uint8_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed + i * 7);
}

/* Every range of a replica of three tensors, one of them empty, is what a flat copy has there. */
TEST(every_range)
{
    uint8_t a[5], b[1], c[12], flat[17], out[17];
    struct spotnik_registry registry;

    fill(a, sizeof a, 1);
    fill(c, sizeof c, 100);
    memcpy(flat, a, 5);
    memcpy(flat + 5, c, 12);
    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "a", a, 5, SPOTNIK_U8), 0);
    assert_int_equal(spotnik_registry_add(&registry, "none", b, 0, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_registry_add(&registry, "c", c, 3, SPOTNIK_I32), 0);
    assert_int_equal(registry.bytes, 17);
    for (size_t from = 0; from <= 17; from++)
        for (size_t to = from; to <= 17; to++) {
            spotnik_registry_read(&registry, SPOTNIK_REGISTRY_ALL, from, out, to - from);
            assert_memory_equal(out, flat + from, to - from);
        }
    assert_int_equal(spotnik_registry_digest(&registry), spotnik_hash_bytes(flat, 17));
    fill(out, 17, 55);
    for (size_t at = 0; at < 17; at += 4)
        spotnik_registry_write(&registry, at, out + at, at + 4 <= 17 ? 4 : 17 - at);
    assert_memory_equal(a, out, 5);
    assert_memory_equal(c, out + 5, 12);
    spotnik_registry_done(&registry);
}

static uint8_t far[2][200];
static uint32_t calls;

static int far_read(void *context, uint64_t offset, void *out, size_t size)
{
    calls++;
    memcpy(out, &far[0][0] + offset, size);
    return context != NULL;
}

static int far_write(void *context, uint64_t offset, const void *bytes, size_t size)
{
    calls++;
    memcpy(&far[0][0] + offset, bytes, size);
    return context != NULL;
}

/* Two remote tensors between two near ones: one call moves what lies side by side; they are late,
 * and a call that fails leaves its mark. */
TEST(remote_tensors)
{
    uint8_t a[3] = { 1, 2, 3 }, z[2] = { 8, 9 }, flat[405], out[405];
    struct spotnik_registry registry;

    fill(&far[0][0], sizeof far, 7);
    memcpy(flat, a, 3);
    memcpy(flat + 3, far, 400);
    memcpy(flat + 403, z, 2);
    spotnik_registry_init(&registry);
    registry.reach = (struct spotnik_reach){ far_read, far_write, NULL };
    assert_int_equal(spotnik_registry_add(&registry, "a", a, 3, SPOTNIK_U8), 0);
    assert_false(spotnik_registry_has_late(&registry));
    assert_int_equal(spotnik_registry_add_remote(&registry, "b", 200, SPOTNIK_U8), 0);
    assert_int_equal(spotnik_registry_add_remote(&registry, "c", 200, SPOTNIK_U8), 0);
    assert_int_equal(spotnik_registry_add(&registry, "z", z, 2, SPOTNIK_U8), 0);
    assert_true(spotnik_registry_has_late(&registry));
    for (size_t from = 0; from <= 405; from += 5)
        for (size_t to = from; to <= 405; to++) {
            spotnik_registry_read(&registry, SPOTNIK_REGISTRY_ALL, from, out, to - from);
            assert_memory_equal(out, flat + from, to - from);
        }
    memset(out, 0, sizeof out);
    calls = 0;
    spotnik_registry_read(&registry, SPOTNIK_REGISTRY_EARLY, 0, out, 405);
    assert_memory_equal(out, a, 3);
    assert_int_equal(out[3] + out[402] + calls, 0);
    spotnik_registry_read(&registry, SPOTNIK_REGISTRY_LATE, 0, out, 405);
    assert_memory_equal(out, flat, 405);
    assert_int_equal(calls, 1);
    assert_int_equal(spotnik_registry_digest(&registry), spotnik_hash_bytes(flat, 405));
    fill(flat, 405, 99);
    spotnik_registry_write(&registry, 0, flat, 405);
    assert_memory_equal(far, flat + 3, 400);
    registry.at_once = true;
    assert_false(spotnik_registry_has_late(&registry));
    assert_false(spotnik_registry_is_failed(&registry));
    registry.reach.context = &registry;
    spotnik_registry_read(&registry, SPOTNIK_REGISTRY_ALL, 3, out, 1);
    assert_true(spotnik_registry_is_failed(&registry));
    assert_int_equal(spotnik_registry_digest(&registry), 0);
    spotnik_registry_done(&registry);
}

TEST(wrong_registrations)
{
    struct spotnik_registry registry;
    float w[2];

    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "w", w, 2, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_registry_add(&registry, "w", w, 2, SPOTNIK_F32), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "w"));
    assert_int_equal(spotnik_registry_add(&registry, "", w, 2, SPOTNIK_F32), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_registry_add(&registry, NULL, w, 2, SPOTNIK_F32),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_registry_add(&registry, "x", NULL, 2, SPOTNIK_F32),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_registry_add(&registry, "x", w, 2, 99), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_registry_add(&registry, "x", w, 2, SPOTNIK_Q8), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_registry_add(&registry, "x", w, SIZE_MAX / 2, SPOTNIK_F64),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(registry.count, 1);
    spotnik_registry_done(&registry);
}

/* Compare a registry of one tensor with the schema of another. */
static int compare(const char *our_name, size_t our_count, int our_type, const char *name,
                   size_t count, int type)
{
    struct spotnik_registry ours, theirs;
    struct spotnik_writer writer;
    struct spotnik_reader reader;
    double memory[8];
    uint8_t text[400];

    spotnik_registry_init(&ours);
    spotnik_registry_init(&theirs);
    if (our_name)
        assert_int_equal(spotnik_registry_add(&ours, our_name, memory, our_count, our_type), 0);
    if (name)
        assert_int_equal(spotnik_registry_add(&theirs, name, memory, count, type), 0);
    spotnik_writer_init(&writer, text, sizeof text);
    spotnik_registry_schema_write(&theirs, &writer);
    assert_int_equal(writer.at, spotnik_registry_schema_size(&theirs));
    spotnik_reader_init(&reader, text, writer.at);
    int rc = spotnik_registry_schema_check(&ours, &reader);
    /* and no prefix of it is taken for a schema */
    for (size_t cut = 0; cut < writer.at && rc == 0; cut++) {
        spotnik_reader_init(&reader, text, cut);
        assert_int_equal(spotnik_registry_schema_check(&ours, &reader), SPOTNIK_ERR_MISMATCH);
    }
    spotnik_registry_done(&ours);
    spotnik_registry_done(&theirs);
    return rc;
}

TEST(schema)
{
    assert_int_equal(compare("w", 4, SPOTNIK_F32, "w", 4, SPOTNIK_F32), 0);
    assert_int_equal(compare("w", 4, SPOTNIK_F32, "w", 5, SPOTNIK_F32), SPOTNIK_ERR_MISMATCH);
    assert_non_null(strstr(spotnik_last_error(), "tensor w has 4 elements here and 5 in the job"));
    assert_int_equal(compare("w", 4, SPOTNIK_F32, "w", 4, SPOTNIK_I32), SPOTNIK_ERR_MISMATCH);
    assert_int_equal(compare("w", 4, SPOTNIK_F32, "v", 4, SPOTNIK_F32), SPOTNIK_ERR_MISMATCH);
    assert_int_equal(compare(NULL, 0, 0, "v", 4, SPOTNIK_F32), SPOTNIK_ERR_MISMATCH);
    assert_non_null(strstr(spotnik_last_error(), "v"));
    assert_int_equal(compare("w", 4, SPOTNIK_F32, NULL, 0, 0), SPOTNIK_ERR_MISMATCH);
    assert_non_null(strstr(spotnik_last_error(), "w"));
}
