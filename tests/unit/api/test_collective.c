/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a step, in a job of one and among members that are threads of this process with
 * runtimes of their own, over TCP and over shared memory. Claims: every member receives the same
 * bits, whatever they mean; a member lost in mid-step is missing from all collectives of the step
 * alike, and a broadcast of it is an error and not zeros; a joiner that repeats steps receives what
 * the others had; a step writes nothing where only earlier ones did; wrong calls start nothing. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/collective.h"
#include "base/hash.h"
#include "place.h"
#include "reduce/compress.h"
#include "spotnik/spotnik.h"
#include "tests.h"

enum { MEMBERS = 3, SLOTS = 5, ROW = 7, LARGE = 300001, SUMS = 1003 };

struct meeting {
    struct place place;
    pthread_barrier_t begun;
    struct member *third;       /* who may come later */
    _Atomic uint64_t digest[4]; /* by step: of what had travelled as bytes, by whoever was first */
};

struct member {
    struct meeting *meeting;
    pthread_t thread;
    spotnik_job *job;
    spotnik_step step;
    uint8_t *bytes; /* broadcast: LARGE */
    uint16_t row[ROW], table[SLOTS * ROW];
    float sums[SUMS];
    spotnik_range part;
    char failure[256];
};

/* Every byte, so every NaN and every zero, of any type. */
static uint8_t byte_of(uint64_t step, uint32_t root, size_t at)
{
    return (uint8_t)((step * 7919 + root * 104729 + at * 31 + (at >> 8)) % 256);
}

static void join(struct member *member, uint32_t members_min)
{
    spotnik_config config;

    place_config(&member->meeting->place, &config);
    config.members_min = members_min;
    config.members_max = SLOTS;
    member->bytes = malloc(LARGE);
    EXPECT(member, member->bytes && spotnik_join(&config, &member->job) == 0);
}

/* One of each, from what the members have put in. */
static void start_all(struct member *member, uint32_t root, size_t bytes)
{
    const spotnik_step *step = &member->step;
    bool is_root = step->shares && step->share == root;

    memset(member->table, 0xee, sizeof member->table);
    for (size_t i = 0; i < bytes; i++)
        member->bytes[i] = is_root ? byte_of(step->number, root, i) : 0x5a;
    for (uint32_t i = 0; i < ROW; i++)
        member->row[i] = (uint16_t)(1000 * step->share + 10 * step->number + i);
    for (uint32_t i = 0; i < SUMS; i++)
        member->sums[i] = (float)(step->share + 1);
    EXPECT(member, spotnik_reduce_scatter(member->job, 3, member->sums, SUMS, SPOTNIK_F32,
                                          SPOTNIK_SUM, &member->part)
                       == 0);
    EXPECT(member, spotnik_broadcast(member->job, 0, member->bytes, bytes, SPOTNIK_U8, root) == 0);
    EXPECT(member,
           spotnik_allgather(member->job, 2, member->row, ROW, SPOTNIK_U16, member->table, SLOTS)
               == 0);
}

static void check_table(struct member *member, const uint32_t *share, uint32_t count)
{
    for (uint32_t i = 0; i < SLOTS * ROW; i++) {
        uint16_t expected =
            i / ROW < count ? (uint16_t)(1000 * share[i / ROW] + 10 * member->step.number + i % ROW)
                            : 0xeeee;
        EXPECT(member, member->table[i] == expected);
    }
}

static void check_sums(struct member *member, const uint32_t *share, uint32_t count)
{
    float whole = 0;
    uint32_t own = count;

    for (uint32_t i = 0; i < count; i++) {
        whole += (float)(share[i] + 1);
        own = member->step.shares && share[i] == member->step.share ? i : own;
    }
    spotnik_range part = own < count ? spotnik_part_of(SUMS, own, count) : (spotnik_range){ 0, 0 };
    EXPECT(member, member->part.begin == part.begin && member->part.end == part.end);
    for (uint32_t i = 0; i < SUMS; i++)
        EXPECT(member,
               member->sums[i]
                   == (i >= part.begin && i < part.end ? whole : (float)(member->step.share + 1)));
    const float *result = spotnik_result(member->job, 3);
    EXPECT(member, result && result[0] == whole && result[SUMS - 1] == whole);
}

static void check_all(struct member *member, uint32_t root, size_t bytes, uint32_t contributors)
{
    uint32_t share[SLOTS] = { 0 }, count = spotnik_contributors(member->job, share, SLOTS);

    EXPECT(member, count == contributors);
    for (size_t i = 0; i < bytes; i++)
        EXPECT(member, member->bytes[i] == byte_of(member->step.number, root, i));
    check_table(member, share, count);
    check_sums(member, share, count);
}

static void *calm(void *context)
{
    struct member *member = context;

    join(member, MEMBERS);
    for (uint32_t i = 0; i < 8 && !member->failure[0]; i++) {
        size_t bytes = i % 2 ? LARGE : 13;
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        EXPECT(member, member->step.shares == MEMBERS);
        EXPECT(member, spotnik_broadcast(member->job, 0, member->bytes, 1, SPOTNIK_U8, MEMBERS)
                           == SPOTNIK_ERR_ARGUMENT);
        EXPECT(member, spotnik_allgather(member->job, 2, member->row, ROW, SPOTNIK_U16,
                                         member->table, MEMBERS - 1)
                           == SPOTNIK_ERR_LIMIT);
        start_all(member, i % MEMBERS, bytes);
        EXPECT(member, spotnik_step_commit(member->job) == 0);
        check_all(member, i % MEMBERS, bytes, MEMBERS);
        EXPECT(member, spotnik_barrier(member->job) == 0);
        EXPECT(member, spotnik_contributors(member->job, NULL, 0) == 0);
    }
    EXPECT(member, spotnik_leave(member->job) == 0);
    return NULL;
}

/* A bucket that a step leaves out: where it went in earlier steps belongs to the program again, or
 * to nobody. */
static void *frugal(void *context)
{
    struct member *member = context;

    join(member, MEMBERS);
    for (uint32_t i = 0; i < 12 && !member->failure[0]; i++) {
        bool whole = i < 6;
        memset(member->bytes, whole ? 1 : 0x77, LARGE);
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        if (whole)
            EXPECT(member,
                   spotnik_allreduce(member->job, 0, member->bytes, LARGE, SPOTNIK_U8, SPOTNIK_SUM)
                       == 0);
        EXPECT(member,
               spotnik_allreduce(member->job, 1, member->row, ROW, SPOTNIK_U16, SPOTNIK_MAX) == 0);
        EXPECT(member, spotnik_step_commit(member->job) == 0);
        for (size_t at = 0; at < LARGE; at++)
            EXPECT(member, member->bytes[at] == (whole ? MEMBERS : 0x77));
    }
    EXPECT(member, spotnik_leave(member->job) == 0);
    return NULL;
}

/* The time that small steps take elsewhere: who makes none at all cannot be caught up with. */
static void compute(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

/* Until all are there: shares are those of the step, so all members stop at the same one. */
static void begin_together(struct member *member)
{
    while (!member->failure[0]) {
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        if (member->step.shares == MEMBERS)
            break;
        EXPECT(member, spotnik_step_commit(member->job) == 0);
        compute();
    }
}

/* What the survivors of a lost root have: everything but its broadcast. */
static void check_bereaved(struct member *member, float sum)
{
    uint32_t share[SLOTS] = { 0 };

    EXPECT(member, sum == 2);
    for (size_t i = 0; i < LARGE; i++)
        EXPECT(member, member->bytes[i] == 0x5a);
    EXPECT(member,
           spotnik_contributors(member->job, share, SLOTS) == 2 && share[0] == 1 && share[1] == 2);
    check_table(member, share, 2);
    check_sums(member, share, 2);
}

/* Halves hold small integers; a third is rounded alike by everybody, to the bits of
 * spotnik_result(). */
static void check_halves(struct member *member, const float *sums, const float *mean)
{
    float widened[SUMS];

    for (uint32_t i = 0; i < SUMS; i++)
        EXPECT(member, sums[i] == 6);
    spotnik_compress_widen(widened, spotnik_result(member->job, 5), SUMS, SPOTNIK_F16);
    EXPECT(member, memcmp(widened, mean, sizeof widened) == 0);
    EXPECT(member, mean[0] == 0.66650390625f && mean[SUMS - 1] == mean[0]); /* 2/3 of 11 bits */
}

/* Rounded at most once for each member's input and once a hop; and to the same bits by everybody
 * (the digest of whoever was first). */
static void check_bytes(struct member *member, const float *bytes, uint32_t step)
{
    float decoded[SUMS];
    uint64_t none = 0, own = spotnik_hash_bytes(bytes, SUMS * sizeof *bytes) | 1;

    for (uint32_t k = 0; k < SUMS; k++)
        EXPECT(member, fabsf(bytes[k] - 6 * (float)((int)k % 9 - 4)) <= 2 * MEMBERS * 24.0f / 249);
    spotnik_quant_decode(decoded, spotnik_result(member->job, 6), SUMS);
    EXPECT(member, memcmp(decoded, bytes, sizeof decoded) == 0);
    EXPECT(member, atomic_compare_exchange_strong(&member->meeting->digest[step], &none, own)
                       || none == own);
}

/* A caller that packs for itself gets the same bits, as blocks. */
static void check_packed(struct member *member, const uint8_t *packed, const float *bytes)
{
    float decoded[SUMS];

    spotnik_quant_decode(decoded, packed, SUMS);
    EXPECT(member, memcmp(decoded, bytes, sizeof decoded) == 0);
}

static void *halved(void *context)
{
    struct member *member = context;
    float sums[SUMS], mean[SUMS], bytes[SUMS];
    uint8_t packed[(SUMS / SPOTNIK_QUANT_BLOCK + 1) * SPOTNIK_QUANT_BLOCK_BYTES];

    join(member, MEMBERS);
    for (uint32_t i = 0; i < 4 && !member->failure[0]; i++) {
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        for (uint32_t k = 0; k < SUMS; k++) {
            sums[k] = (float)(member->step.share + 1);
            mean[k] = (float)(member->step.share % 2 + 1) * 0.5f;
            bytes[k] = (float)(member->step.share + 1) * (float)((int)k % 9 - 4);
        }
        spotnik_quant_pack(packed, bytes, SUMS);
        EXPECT(member, spotnik_allreduce(member->job, 7, packed, spotnik_quant_blocks(SUMS),
                                         SPOTNIK_Q8, SPOTNIK_SUM)
                           == 0);
        EXPECT(member,
               spotnik_allreduce_compressed(member->job, 4, sums, SUMS, SPOTNIK_BF16, SPOTNIK_SUM)
                   == 0);
        EXPECT(member,
               spotnik_allreduce_compressed(member->job, 5, mean, SUMS, SPOTNIK_F16, SPOTNIK_MEAN)
                   == 0);
        EXPECT(member,
               spotnik_allreduce_compressed(member->job, 6, bytes, SUMS, SPOTNIK_Q8, SPOTNIK_SUM)
                   == 0);
        EXPECT(member, spotnik_step_commit(member->job) == 0);
        check_halves(member, sums, mean);
        check_bytes(member, bytes, i);
        check_packed(member, packed, bytes);
    }
    EXPECT(member, spotnik_leave(member->job) == 0);
    return NULL;
}

/* Everybody has begun; then the root goes without a word. */
static void *bereaved(void *context)
{
    struct member *member = context;
    float sum = 1;

    join(member, 1);
    begin_together(member);
    pthread_barrier_wait(&member->meeting->begun);
    if (member->step.share == 0) {
        spotnik_abandon(member->job);
        return NULL;
    }
    start_all(member, 0, LARGE);
    EXPECT(member, spotnik_allreduce(member->job, 9, &sum, 1, SPOTNIK_F32, SPOTNIK_SUM) == 0);
    EXPECT(member, spotnik_step_commit(member->job) == SPOTNIK_ERR_ROOT);
    check_bereaved(member, sum);
    EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
    EXPECT(member, member->step.shares == 2);
    start_all(member, 0, LARGE); /* root 0 is somebody else now */
    EXPECT(member, spotnik_step_commit(member->job) == 0);
    check_all(member, 0, LARGE, 2);
    EXPECT(member, spotnik_leave(member->job) == 0);
    return NULL;
}

static void *late(void *context);

/* A founder brings in the latecomer. */
static void founder_goes_on(struct member *member, uint32_t made)
{
    if (made == 10 && member->step.share == 0) {
        struct member *third = member->meeting->third;
        EXPECT(member, pthread_create(&third->thread, NULL, late, third) == 0);
    }
    compute();
}

/* Until the latecomer, with a share of its own by then, says that it has seen enough. */
static void follow(struct member *member, bool is_late)
{
    uint32_t own = 0;
    int32_t enough = 0;

    for (uint32_t made = 1; !enough && !member->failure[0]; made++) {
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        own += member->step.share < member->step.shares;
        enough = is_late && own > 3;
        start_all(member, 0, LARGE);
        EXPECT(member,
               spotnik_allreduce(member->job, 9, &enough, 1, SPOTNIK_I32, SPOTNIK_SUM) == 0);
        EXPECT(member, spotnik_step_commit(member->job) == 0);
        check_all(member, 0, LARGE, spotnik_contributors(member->job, NULL, 0));
        if (!is_late)
            founder_goes_on(member, made);
    }
    EXPECT(member, spotnik_contributors(member->job, NULL, 0) == MEMBERS);
    EXPECT(member, spotnik_leave(member->job) == 0);
}

static void *early(void *context)
{
    struct member *member = context;

    join(member, 2);
    follow(member, false);
    return NULL;
}

static void *late(void *context)
{
    struct member *member = context;

    join(member, 1);
    follow(member, true);
    return NULL;
}

/* ---- the tests ---- */

static void clear_environment(void)
{
    static const char *const names[] = { "SPOTNIK_JOB",        "SPOTNIK_KEY_FILE",
                                         "SPOTNIK_PEERS",      "SPOTNIK_MIN",
                                         "SPOTNIK_MAX",        "SPOTNIK_TRANSPORT",
                                         "SPOTNIK_CHECKPOINT", "SPOTNIK_BIND" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void meet(struct meeting *meeting, const char *transport)
{
    clear_environment();
    setenv("SPOTNIK_TRANSPORT", transport, 1);
    memset(meeting->digest, 0, sizeof meeting->digest);
    place_open(&meeting->place);
    assert_int_equal(pthread_barrier_init(&meeting->begun, NULL, MEMBERS), 0);
}

static void part(struct meeting *meeting)
{
    pthread_barrier_destroy(&meeting->begun);
    place_close(&meeting->place);
    clear_environment();
}

/* `started` of them here; the others by them. */
static void together(void *(*life)(void *), uint32_t started, const char *transport)
{
    struct meeting meeting;
    struct member member[MEMBERS] = { 0 };

    meet(&meeting, transport);
    meeting.third = &member[MEMBERS - 1];
    for (uint32_t i = 0; i < MEMBERS; i++)
        member[i].meeting = &meeting;
    for (uint32_t i = 0; i < started; i++)
        assert_int_equal(pthread_create(&member[i].thread, NULL, life, &member[i]), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_join(member[i].thread, NULL), 0);
        free(member[i].bytes);
    }
    part(&meeting);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_string_equal(member[i].failure, "");
}

TEST(calm)
{
    together(calm, MEMBERS, "tcp");
    together(calm, MEMBERS, "auto");
}

TEST(left_out)
{
    together(frugal, MEMBERS, "tcp");
    together(frugal, MEMBERS, "auto");
}

TEST(compressed)
{
    together(halved, MEMBERS, "tcp");
    together(halved, MEMBERS, "auto");
}

TEST(lost_root)
{
    together(bereaved, MEMBERS, "tcp");
    together(bereaved, MEMBERS, "auto");
}

TEST(latecomer)
{
    together(early, MEMBERS - 1, "tcp");
    together(early, MEMBERS - 1, "auto");
}

static spotnik_job *join_alone(void)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    clear_environment();
    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    return job;
}

/* Alone everybody is the root, the only row and the owner of all parts. */
TEST(alone)
{
    spotnik_job *job = join_alone();
    float data[3] = { 1, 2, 3 }, out[3] = { 0 };
    spotnik_range part = { 9, 9 };
    spotnik_step step;
    uint32_t share = 9;

    assert_int_equal(spotnik_contributors(job, &share, 1), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        assert_int_equal(spotnik_broadcast(job, 0, data, 3, SPOTNIK_F32, 0), 0);
        assert_int_equal(spotnik_allgather(job, 1, data, 3, SPOTNIK_F32, out, 1), 0);
        assert_int_equal(spotnik_reduce_scatter(job, 2, data, 3, SPOTNIK_F32, SPOTNIK_MEAN, &part),
                         0);
        assert_int_equal(spotnik_step_commit(job), 0);
        assert_memory_equal(data, out, sizeof data);
        assert_int_equal(part.begin, 0);
        assert_int_equal(part.end, 3);
        assert_int_equal(spotnik_contributors(job, &share, 1), 1);
        assert_int_equal(share, 0);
    }
    assert_int_equal(spotnik_barrier(job), 0);
    assert_int_equal(spotnik_barrier(NULL), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_leave(job), 0);
}

TEST(wrong_calls)
{
    spotnik_job *job = join_alone();
    uint8_t data[2] = { 1, 2 };
    float values[2] = { 1, 2 };
    spotnik_step step;

    assert_int_equal(spotnik_broadcast(NULL, 0, data, 2, SPOTNIK_U8, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_broadcast(job, 0, data, 2, SPOTNIK_U8, 0), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_allgather(job, 0, data, 2, SPOTNIK_U8, data, 1), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_reduce_scatter(job, 0, data, 2, SPOTNIK_U8, SPOTNIK_SUM, NULL),
                     SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_barrier(job), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_broadcast(job, 256, data, 2, SPOTNIK_U8, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_broadcast(job, 0, data, 2, SPOTNIK_U8, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_broadcast(job, 0, NULL, 2, SPOTNIK_U8, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_broadcast(job, 0, data, 2, (enum spotnik_dtype)99, 0),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allgather(job, 0, data, 2, SPOTNIK_U8, data, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allgather(job, 0, data, 2, SPOTNIK_U8, data, 1025),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allgather(job, 0, data, 2, SPOTNIK_U8, NULL, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce_compressed(job, 0, values, 2, SPOTNIK_F32, SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce_compressed(job, 256, values, 2, SPOTNIK_F16, SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_allreduce_compressed(job, 0, NULL, 2, SPOTNIK_F16, SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_reduce_scatter(job, 0, data, 1, SPOTNIK_Q8, SPOTNIK_SUM, NULL),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_broadcast(job, 0, data, 1, SPOTNIK_Q8, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_reduce_scatter(job, 0, data, 2, SPOTNIK_U8, SPOTNIK_SUM, NULL), 0);
    assert_int_equal(spotnik_reduce_scatter(job, 0, data, 2, SPOTNIK_U8, SPOTNIK_SUM, NULL),
                     SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_non_null(spotnik_result(job, 0));
    assert_null(spotnik_result(job, 255)); /* the library's numbers are not the caller's to see */
    assert_int_equal(spotnik_leave(job), 0);
}

/* Parts follow each other, cover everything, and differ by one at most. */
TEST(parts)
{
    for (uint32_t parts = 1; parts <= 9; parts++)
        for (size_t count = 0; count <= 3 * parts + 1; count++) {
            uint64_t at = 0;
            for (uint32_t i = 0; i < parts; i++) {
                spotnik_range one = spotnik_part_of(count, i, parts);
                assert_int_equal(one.begin, at);
                assert_in_range(one.end - one.begin, count / parts, count / parts + 1);
                at = one.end;
            }
            assert_int_equal(at, count);
        }
}

TEST(census)
{
    uint64_t census[SPOTNIK_CENSUS_WORDS] = { 0x8000000000000001u, 2 };

    assert_true(spotnik_census_has(census, 0) && spotnik_census_has(census, 63)
                && spotnik_census_has(census, 65));
    assert_false(spotnik_census_has(census, 64));
    assert_int_equal(spotnik_census_count(census, 0), 0);
    assert_int_equal(spotnik_census_count(census, 63), 1);
    assert_int_equal(spotnik_census_count(census, 64), 2);
    assert_int_equal(spotnik_census_count(census, 66), 3);
    assert_int_equal(spotnik_census_count(census, SPOTNIK_CENSUS_SHARES), 3);
}
