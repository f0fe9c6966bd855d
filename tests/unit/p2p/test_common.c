/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that members of one host have in common. Claims: it is one memory, made by the first and
 * given to the others, with what the first began with; the loss of the one that made it, and of any
 * other, changes nothing in it; who comes when its maker is gone has it from another; another size,
 * and a transport without shared memory, are refused with words. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gathering.h"
#include "spotnik/p2p.h"
#include "tests.h"

enum { COUNT = 70001, MEMBERS = 3 };

static float *common_of(struct gathering *gathering, uint32_t rank, float initial)
{
    float *begin = malloc(COUNT * sizeof *begin), *memory = NULL;

    for (uint32_t i = 0; i < COUNT; i++)
        begin[i] = initial;
    int rc = spotnik_common(gathering->job[gathering_of_rank(gathering, rank)], "w", begin, COUNT,
                            &memory);
    if (rc)
        fail_msg("rank %u: %s", rank, spotnik_last_error());
    free(begin);
    return memory;
}

static void put(float *memory, uint32_t i, float value)
{
    __atomic_store(memory + i, &value, __ATOMIC_RELAXED);
}

static float get(const float *memory, uint32_t i)
{
    float value;

    __atomic_load(memory + i, &value, __ATOMIC_RELAXED);
    return value;
}

TEST(one_memory)
{
    struct gathering gathering;
    float *memory[MEMBERS];

    gathering_begin(&gathering, MEMBERS, "auto");
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        memory[rank] = common_of(&gathering, rank, 10 + (float)rank);
    assert_ptr_equal(common_of(&gathering, 1, 99), memory[1]); /* asked again: the same */
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        assert_true(get(memory[rank], 0) == 10 && get(memory[rank], COUNT - 1) == 10);
        for (uint32_t other = 0; other < rank; other++)
            assert_ptr_not_equal(memory[rank], memory[other]); /* mapped by each for itself */
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        put(memory[rank], 1000 + rank, (float)rank + 0.5f);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        for (uint32_t other = 0; other < MEMBERS; other++)
            assert_true(get(memory[rank], 1000 + other) == (float)other + 0.5f);
    gathering_end(&gathering);
}

TEST(outlives_its_maker)
{
    struct gathering gathering;
    float *memory[2];

    gathering_begin(&gathering, MEMBERS, "auto");
    memory[0] = common_of(&gathering, 0, 1);
    memory[1] = common_of(&gathering, 1, 2);
    put(memory[0], 7, 42);
    gathering_lose(&gathering, gathering_of_rank(&gathering, 0));
    assert_true(get(memory[1], 7) == 42 && get(memory[1], 8) == 1);
    float *late = common_of(&gathering, 2, 3); /* from the only other one that has it */
    assert_true(get(late, 7) == 42 && get(late, 8) == 1);
    put(late, 9, 43);
    gathering_lose(&gathering, gathering_of_rank(&gathering, 1));
    assert_true(get(late, 9) == 43);
    gathering_end(&gathering);
}

TEST(another_size)
{
    struct gathering gathering;
    float few[2] = { 0 }, *memory = NULL;

    gathering_begin(&gathering, 2, "auto");
    common_of(&gathering, 0, 1);
    spotnik_job *first = gathering.job[gathering_of_rank(&gathering, 0)];
    spotnik_job *second = gathering.job[gathering_of_rank(&gathering, 1)];
    assert_int_equal(spotnik_common(first, "w", few, 2, &memory), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_common(second, "w", few, 2, &memory), SPOTNIK_ERR_MISMATCH);
    assert_int_equal(spotnik_common(second, "w", few, 0, &memory), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_common(second, "", few, 2, &memory), SPOTNIK_ERR_ARGUMENT);
    assert_null(memory);
    gathering_end(&gathering);
}

TEST(no_memory_over_tcp)
{
    struct gathering gathering;
    float few[2] = { 0 }, *memory = NULL;

    gathering_begin(&gathering, 2, "tcp");
    assert_int_equal(spotnik_common(gathering.job[0], "w", few, 2, &memory), SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "SPOTNIK_TRANSPORT"));
    gathering_end(&gathering);
}
