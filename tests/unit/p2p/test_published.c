/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in memory that others read. Claims: what is read is one whole publication, while its
 * owner writes as fast as it can and readers are killed in the midst of reading; who is overtaken
 * is told so, and nobody waits; whatever the bytes of a segment say, nothing outside of it is
 * touched. */
#include "p2p/published.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "tests.h"

enum { COPIES = 3, COUNT = 100003, BYTES = COUNT * 4, STRIDE = (BYTES / 64 + 2) * 64 };

struct place {
    uint8_t *base;
    size_t size;
    struct spotnik_published *published;
    struct spotnik_published_row *row;
};

static struct spotnik_published_copy *copy_of(const struct place *place, uint32_t i)
{
    return (struct spotnik_published_copy *)(void *)(place->base + sizeof *place->published
                                                     + (size_t)i * STRIDE);
}

static uint64_t offset_of(const struct place *place, uint32_t i)
{
    return (uint64_t)((const uint8_t *)copy_of(place, i) - place->base);
}

static struct place place_new(void)
{
    struct place place = { .size = sizeof *place.published + COPIES * (size_t)STRIDE };

    place.base = mmap(NULL, place.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(place.base != MAP_FAILED);
    place.published = (void *)place.base;
    spotnik_published_init(place.published);
    place.row = spotnik_published_add(place.published, "model", SPOTNIK_F32, BYTES);
    assert_non_null(place.row);
    return place;
}

static void place_free(const struct place *place)
{
    munmap(place->base, place->size);
}

static void write_in_turn(const struct place *place, float *data, uint64_t version)
{
    uint32_t i = (uint32_t)(version % COPIES);

    for (uint32_t k = 0; k < COUNT; k++)
        data[k] = (float)version;
    spotnik_published_write(copy_of(place, i), data, BYTES, version);
    spotnik_published_show(place->row, offset_of(place, i));
}

static struct spotnik_published_wanted wanted_of(const char *name, uint64_t version_min)
{
    struct spotnik_published_wanted wanted = { .dtype = SPOTNIK_F32,
                                               .bytes = BYTES,
                                               .version_min = version_min };

    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    return wanted;
}

static enum spotnik_published_sight look(const struct place *place,
                                         struct spotnik_published_wanted wanted, void *data,
                                         uint64_t *ret_version)
{
    return spotnik_published_look(place->base, place->size, &wanted, data, ret_version);
}

TEST(newest)
{
    struct place place = place_new();
    float *data = malloc(BYTES), *found = malloc(BYTES);
    uint64_t version = 0;

    assert_int_equal(look(&place, wanted_of("model", 0), found, &version), SPOTNIK_PUBLISHED_NONE);
    for (uint64_t i = 1; i <= 7; i++) {
        write_in_turn(&place, data, i);
        assert_int_equal(look(&place, wanted_of("model", i), found, &version),
                         SPOTNIK_PUBLISHED_READ);
        assert_int_equal(version, i);
        assert_memory_equal(found, data, BYTES);
        assert_int_equal(look(&place, wanted_of("model", i + 1), found, &version),
                         SPOTNIK_PUBLISHED_NONE);
    }
    assert_int_equal(look(&place, wanted_of("mode", 0), found, &version), SPOTNIK_PUBLISHED_NONE);
    struct spotnik_published_wanted other = wanted_of("model", 0);
    other.bytes -= 4;
    assert_int_equal(look(&place, other, found, &version), SPOTNIK_PUBLISHED_OTHER);
    other = wanted_of("model", 0);
    other.dtype = SPOTNIK_I32;
    assert_int_equal(look(&place, other, found, &version), SPOTNIK_PUBLISHED_OTHER);
    spotnik_published_show(place.row, SPOTNIK_PUBLISHED_ELSEWHERE);
    assert_int_equal(look(&place, wanted_of("model", 0), found, &version), SPOTNIK_PUBLISHED_WRONG);
    spotnik_published_show(place.row, SPOTNIK_PUBLISHED_NOTHING);
    assert_int_equal(look(&place, wanted_of("model", 0), found, &version), SPOTNIK_PUBLISHED_NONE);
    free(data);
    free(found);
    place_free(&place);
}

/* An owner that has died, or stands still, in the midst of writing. */
TEST(half_written)
{
    struct place place = place_new();
    float *data = malloc(BYTES);
    uint64_t version;

    write_in_turn(&place, data, 1);
    copy_of(&place, 1)->turn++;
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_TORN);
    write_in_turn(&place, data, 4); /* the same copy again */
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_READ);
    free(data);
    place_free(&place);
}

TEST(full)
{
    struct place place = place_new();
    char name[16];

    for (int i = 1; i < SPOTNIK_PUBLISHED_ROWS; i++) {
        snprintf(name, sizeof name, "row %d", i);
        assert_non_null(spotnik_published_add(place.published, name, SPOTNIK_U8, 1));
    }
    assert_null(spotnik_published_add(place.published, "one more", SPOTNIK_U8, 1));
    place_free(&place);
}

/* Each of them once, on a page behind which there is nothing. */
TEST(nonsense)
{
    struct place place = place_new();
    float *data = malloc(BYTES);
    uint64_t version, end = place.size;
    const uint64_t far[] = { end,
                             end - 64,
                             end - BYTES,
                             end & ~UINT64_C(63),
                             UINT64_C(1) << 63,
                             UINT64_MAX & ~UINT64_C(63) };

    write_in_turn(&place, data, 1);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        spotnik_published_show(place.row, far[i] & ~UINT64_C(63));
        assert_int_equal(look(&place, wanted_of("model", 0), data, &version),
                         SPOTNIK_PUBLISHED_SHORT);
    }
    spotnik_published_show(place.row, offset_of(&place, 1) + 8);
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_WRONG);
    spotnik_published_show(place.row, offset_of(&place, 1));
    copy_of(&place, 1)->bytes = UINT64_MAX;
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_WRONG);
    copy_of(&place, 1)->bytes = BYTES;
    copy_of(&place, 1)->version = 0;
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_WRONG);
    place.published->count = UINT64_MAX;
    assert_int_equal(look(&place, wanted_of("nobody", 0), data, &version), SPOTNIK_PUBLISHED_NONE);
    place.size = sizeof *place.published - 1;
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_WRONG);
    place.size = end;
    place.published->magic++;
    assert_int_equal(look(&place, wanted_of("model", 0), data, &version), SPOTNIK_PUBLISHED_WRONG);
    free(data);
    place_free(&place);
}

/* What is read is whole, and never older than what was there before. The number of those that were
 * whole goes to `count`. */
static void read_on(const struct place *place, uint64_t *count)
{
    float *found = malloc(BYTES);
    uint64_t version, last = 0;

    for (;;) {
        enum spotnik_published_sight sight = look(place, wanted_of("model", 0), found, &version);
        if (sight == SPOTNIK_PUBLISHED_TORN || sight == SPOTNIK_PUBLISHED_NONE)
            continue;
        if (sight != SPOTNIK_PUBLISHED_READ || version < last)
            _exit(1);
        last = version;
        for (uint32_t k = 0; k < COUNT; k++)
            if (found[k] != (float)version)
                _exit(1);
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    }
}

/* A reader after the other is killed while the owner goes on: any number of them costs it
 * nothing. */
TEST(readers_are_killed)
{
    struct place place = place_new();
    float *data = malloc(BYTES);
    uint64_t *count =
        mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t version = 0;

    assert_true(count != MAP_FAILED);
    for (int i = 0; i < 40; i++) {
        uint64_t before = __atomic_load_n(count, __ATOMIC_RELAXED);
        int status;
        pid_t child = fork();
        if (child == 0)
            read_on(&place, count);
        assert_true(child > 0);
        while (__atomic_load_n(count, __ATOMIC_RELAXED) < before + 5
               && waitpid(child, &status, WNOHANG) == 0)
            write_in_turn(&place, data, ++version);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
    write_in_turn(&place, data, ++version);
    assert_int_equal(look(&place, wanted_of("model", version), data, &version),
                     SPOTNIK_PUBLISHED_READ);
    munmap(count, sizeof *count);
    free(data);
    place_free(&place);
}
