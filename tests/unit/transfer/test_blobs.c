/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: blobs keep copies under their names, change their lengths, come through packing
 * unchanged, and no cut or changed packing replaces what was there. */
#include <stdlib.h>
#include <string.h>

#include "spotnik/spotnik.h"
#include "transfer/blobs.h"
#include "tests.h"

static void expect(const struct spotnik_blobs *blobs, const char *name, const char *bytes)
{
    const struct spotnik_blob *blob = spotnik_blobs_find(blobs, name);

    assert_non_null(blob);
    assert_int_equal(blob->size, strlen(bytes));
    assert_memory_equal(blob->bytes, bytes, blob->size);
}

TEST(set_and_replace)
{
    static struct spotnik_blobs blobs;
    char text[] = "first";

    assert_int_equal(spotnik_blobs_set(&blobs, "a", text, 5), 0);
    memset(text, 'x', 5); /* ours is a copy */
    expect(&blobs, "a", "first");
    assert_int_equal(spotnik_blobs_set(&blobs, "b", NULL, 0), 0);
    expect(&blobs, "b", "");
    assert_int_equal(spotnik_blobs_set(&blobs, "a", "a longer one", 12), 0);
    expect(&blobs, "a", "a longer one");
    assert_int_equal(blobs.bytes, 12);
    assert_null(spotnik_blobs_find(&blobs, "c"));
    spotnik_blobs_done(&blobs);
}

TEST(wrong_calls)
{
    static struct spotnik_blobs blobs;
    char name[SPOTNIK_BLOB_NAME_MAX + 2];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(spotnik_blobs_set(&blobs, name, "", 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_blobs_set(&blobs, "", "", 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_blobs_set(&blobs, NULL, "", 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_blobs_set(&blobs, "a", NULL, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_blobs_set(&blobs, "a", "", SPOTNIK_BLOBS_BYTES_MAX + 1),
                     SPOTNIK_ERR_LIMIT);
    for (int i = 0; i < SPOTNIK_BLOBS_MAX; i++) {
        name[0] = (char)('0' + i);
        name[1] = 0;
        assert_int_equal(spotnik_blobs_set(&blobs, name, "x", 1), 0);
    }
    assert_int_equal(spotnik_blobs_set(&blobs, "one more", "x", 1), SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_blobs_set(&blobs, "0", "yy", 2), 0);
    assert_int_equal(blobs.bytes, SPOTNIK_BLOBS_MAX + 1);
    spotnik_blobs_done(&blobs);
}

static uint8_t *pack(const struct spotnik_blobs *blobs, size_t *ret_size)
{
    struct spotnik_writer writer;
    uint8_t *bytes = malloc(*ret_size = spotnik_blobs_packed_size(blobs));

    assert_non_null(bytes);
    spotnik_writer_init(&writer, bytes, *ret_size);
    spotnik_blobs_write(blobs, &writer);
    assert_true(!writer.failed && writer.at == writer.size);
    return bytes;
}

static int unpack(struct spotnik_blobs *blobs, const uint8_t *bytes, size_t size)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, size);
    return spotnik_blobs_read(blobs, &reader);
}

TEST(packing)
{
    static struct spotnik_blobs blobs, other;
    size_t size;

    assert_int_equal(spotnik_blobs_set(&blobs, "scheduler", "epoch 3", 7), 0);
    assert_int_equal(spotnik_blobs_set(&blobs, "rng", "", 0), 0);
    assert_int_equal(spotnik_blobs_set(&other, "old", "stays until then", 16), 0);
    uint8_t *bytes = pack(&blobs, &size);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(unpack(&other, bytes, cut), SPOTNIK_ERR_PEERS);
        expect(&other, "old", "stays until then");
    }
    assert_int_equal(unpack(&other, bytes, size), 0);
    assert_int_equal(other.count, 2);
    expect(&other, "scheduler", "epoch 3");
    expect(&other, "rng", "");
    bytes[4]--; /* the first name one shorter: what follows does not add up */
    assert_int_equal(unpack(&other, bytes, size), SPOTNIK_ERR_PEERS);
    expect(&other, "scheduler", "epoch 3");
    free(bytes);
    spotnik_blobs_done(&blobs);
    spotnik_blobs_done(&other);
}
