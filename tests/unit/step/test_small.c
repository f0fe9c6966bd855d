/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets that do not go round the ring, played out by ranks only: every view from 2 to 6, all
 * schedules, a lot decides whose frame moves next. What a rank has put together is a set of
 * contributors. */
#include "step/transaction.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define N_MAX 6
#define QUEUE_MAX 64

struct frame {
    uint32_t from;
    uint64_t step, sequence;
};

struct rank {
    struct spotnik_transaction step;
    struct frame queue[N_MAX][QUEUE_MAX]; /* by sender */
    uint32_t begin[N_MAX], end[N_MAX];
};

static struct rank member[N_MAX];
static uint32_t size, frames, fan;

static void begin(uint32_t r, enum spotnik_schedule schedule)
{
    struct spotnik_transaction *step = &member[r].step;

    spotnik_transaction_begin(step);
    struct spotnik_bucket *bucket = spotnik_transaction_add(step, 0, 5, 0, 0, 4, 1);
    if (schedule == SPOTNIK_SCHEDULE_TREE)
        spotnik_transaction_start_tree(step, bucket,
                                       &(struct spotnik_tree){
                                           .size = size, .place = r, .fan = fan });
    else
        spotnik_transaction_start_small(step, bucket, schedule, size, r);
    step->sealed = true;
}

static void open_view(uint32_t members)
{
    memset(member, 0, sizeof member);
    size = members;
    frames = 0;
    for (uint32_t r = 0; r < size; r++)
        spotnik_transaction_init(&member[r].step, 10);
}

static bool send(uint32_t r, uint32_t to)
{
    struct frame frame = { .from = r };
    struct spotnik_towards towards = { .to = to, .successor = to == (r + 1) % size };
    uint32_t bucket;

    if (r == to || member[to].end[r] == QUEUE_MAX
        || !spotnik_transaction_next(&member[r].step, &towards, &frame.step, &bucket,
                                     &frame.sequence))
        return false;
    assert_int_equal(bucket, 0);
    member[to].queue[r][member[to].end[r]++] = frame;
    frames++;
    return true;
}

/* A frame of a step that is not the running one stays where it is. */
static void receive(uint32_t r, uint32_t from)
{
    struct rank *rank = &member[r];

    if (!rank->step.begun || rank->begin[from] == rank->end[from]
        || rank->queue[from][rank->begin[from]].step != rank->step.committed + 1)
        return;
    const struct frame *frame = &rank->queue[from][rank->begin[from]++];
    struct spotnik_bucket *bucket = spotnik_transaction_bucket(&rank->step, frame->step, 0);
    assert_int_equal(frame->sequence, spotnik_transaction_small_sequence(bucket, from, r));
    assert_true(spotnik_transaction_awaits(bucket, from));
    assert_int_equal(spotnik_transaction_small_source(bucket, frame->sequence), from);
    spotnik_transaction_receive_small(&rank->step, bucket, from);
    assert_false(spotnik_transaction_awaits(bucket, from));
}

static bool all_committed(uint64_t step)
{
    for (uint32_t r = 0; r < size; r++)
        if (member[r].step.committed < step)
            return false;
    return true;
}

static void play(uint64_t steps, enum spotnik_schedule schedule, uint64_t seed)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed);
    for (uint32_t moves = 0; !all_committed(10 + steps); moves++) {
        uint32_t r = (uint32_t)spotnik_prng_below(&prng, size),
                 other = (uint32_t)spotnik_prng_below(&prng, size);
        struct spotnik_transaction *step = &member[r].step;
        assert_true(moves < 100000);
        if (spotnik_prng_chance(&prng, 1, 2))
            send(r, other);
        else
            receive(r, other);
        if (!step->begun && step->committed < 10 + steps)
            begin(r, schedule);
        if (!spotnik_transaction_done(step))
            continue;
        /* whoever commits has everybody's contribution to this step, so nobody is two behind */
        for (uint32_t i = 0; i < size; i++)
            assert_true(member[i].step.committed >= step->committed);
        spotnik_transaction_commit(step);
    }
}

/* Claim: every order of arrival ends in a commit, and a step takes N(N-1) frames directly, 2(N-1)
 * through the hub, or up and down any tree. */
TEST(every_order)
{
    for (uint32_t n = 2; n <= N_MAX; n++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            open_view(n);
            play(5, SPOTNIK_SCHEDULE_DIRECT, seed);
            for (uint32_t r = 0; r < n; r++)
                for (uint32_t to = 0; to < n; to++)
                    while (send(r, to))
                        ;
            assert_int_equal(frames, 5 * n * (n - 1));
            open_view(n);
            play(5, SPOTNIK_SCHEDULE_HUB, seed);
            assert_int_equal(frames, 5 * 2 * (n - 1));
            fan = 1 + (uint32_t)seed % 5;
            open_view(n);
            play(5, SPOTNIK_SCHEDULE_TREE, seed);
            for (uint32_t r = 0; r < n; r++)
                for (uint32_t to = 0; to < n; to++)
                    while (send(r, to)) /* the last results */
                        ;
            assert_int_equal(frames, 5 * 2 * (n - 1));
        }
}

/* Claim: in a tree nothing goes up before all has come from below, and nothing down before the
 * result is there; between those who are no neighbours nothing goes at all. */
TEST(tree)
{
    fan = 2;
    open_view(6); /* 0: 1 2, 1: 3 4, 2: 5 */
    for (uint32_t r = 0; r < 6; r++)
        begin(r, SPOTNIK_SCHEDULE_TREE);
    assert_false(send(1, 0));
    assert_true(send(4, 1));
    receive(1, 4);
    assert_false(send(1, 0));
    assert_false(send(4, 1));
    assert_false(send(3, 0));
    assert_true(send(3, 1));
    receive(1, 3);
    assert_true(spotnik_transaction_gathered(spotnik_transaction_bucket(&member[1].step, 11, 0)));
    assert_false(spotnik_transaction_done(&member[1].step));
    assert_false(send(1, 3));
    assert_true(send(1, 0));
    receive(0, 1);
    assert_false(spotnik_transaction_done(&member[0].step));
    assert_false(send(0, 1));
    assert_true(send(5, 2));
    receive(2, 5);
    assert_true(send(2, 0));
    receive(0, 2);
    assert_true(spotnik_transaction_done(&member[0].step));
    assert_true(send(0, 1));
    assert_false(send(0, 3));
    receive(1, 0);
    assert_true(spotnik_transaction_done(&member[1].step));
    assert_true(send(1, 3));
}

/* Claim: what the last step still owes goes out before the running one; a new view makes it
 * void. */
TEST(remainder_first)
{
    uint64_t step, sequence;
    uint32_t bucket;

    open_view(3);
    begin(0, SPOTNIK_SCHEDULE_DIRECT);
    for (uint32_t from = 1; from < 3; from++)
        spotnik_transaction_receive_small(&member[0].step,
                                          spotnik_transaction_bucket(&member[0].step, 11, 0), from);
    spotnik_transaction_commit(&member[0].step);
    begin(0, SPOTNIK_SCHEDULE_DIRECT);
    assert_true(spotnik_transaction_next(&member[0].step, &(struct spotnik_towards){ .to = 2 },
                                         &step, &bucket, &sequence));
    assert_int_equal(step, 11);
    assert_true(spotnik_transaction_next(&member[0].step, &(struct spotnik_towards){ .to = 2 },
                                         &step, &bucket, &sequence));
    assert_int_equal(step, 12);
    assert_false(spotnik_transaction_next(&member[0].step, &(struct spotnik_towards){ .to = 2 },
                                          &step, &bucket, &sequence));
    spotnik_transaction_cut(&member[0].step);
    assert_false(spotnik_transaction_next(&member[0].step,
                                          &(struct spotnik_towards){ .to = 1, .successor = true },
                                          &step, &bucket, &sequence));
}

/* Claim: started again, a bucket has heard nobody and told nobody, complete or not. */
TEST(restart)
{
    open_view(3);
    begin(1, SPOTNIK_SCHEDULE_HUB);
    struct spotnik_transaction *step = &member[1].step;
    struct spotnik_bucket *bucket = spotnik_transaction_bucket(step, 11, 0);
    assert_true(send(1, 0));
    assert_false(send(1, 2));
    assert_true(spotnik_transaction_receive_small(step, bucket, 0));
    assert_true(spotnik_transaction_done(step));
    spotnik_transaction_start_small(step, bucket, SPOTNIK_SCHEDULE_DIRECT, 2, 0);
    assert_false(spotnik_transaction_done(step));
    assert_true(spotnik_transaction_awaits(bucket, 1));
    assert_true(spotnik_transaction_owes(bucket, 1));
    assert_true(spotnik_transaction_receive_small(step, bucket, 1));
    assert_true(spotnik_transaction_done(step));
}

/* Claim: the first row that fits counts, none means the ring, and the largest view of a size is
 * found. */
TEST(choice)
{
    static const struct spotnik_choice table[] = { { 2, 100, SPOTNIK_SCHEDULE_DIRECT, false },
                                                   { 5, 20, SPOTNIK_SCHEDULE_DIRECT, true },
                                                   { 5, 10, SPOTNIK_SCHEDULE_HUB, false },
                                                   { 0, 0, SPOTNIK_SCHEDULE_RING, false } };

    assert_int_equal(spotnik_choice_take(table, 2, false, 100), SPOTNIK_SCHEDULE_DIRECT);
    assert_int_equal(spotnik_choice_take(table, 2, false, 101), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_take(table, 3, false, 10), SPOTNIK_SCHEDULE_HUB);
    assert_int_equal(spotnik_choice_take(table, 3, false, 11), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_take(table, 6, false, 1), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_take(table, 3, true, 11), SPOTNIK_SCHEDULE_DIRECT);
    assert_int_equal(spotnik_choice_take(table, 3, true, 21), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_take(NULL, 2, false, 1), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_members(table, 0), 5);
    assert_int_equal(spotnik_choice_members(table, 21), 2);
    assert_int_equal(spotnik_choice_members(table, 101), 0);
    assert_int_equal(spotnik_choice_members(NULL, 0), 0);
    assert_true(spotnik_choice_members(spotnik_choice_measured, 0) <= SPOTNIK_SMALL_MEMBERS_MAX);
}

/* Claim: a tree is for views of any size, needs places for those below one, and no connections from
 * everybody to everybody. */
TEST(choice_of_trees)
{
    static const struct spotnik_choice table[] = { { 3, 50, SPOTNIK_SCHEDULE_HUB, false },
                                                   { SPOTNIK_CHOICE_ALL, 100, SPOTNIK_SCHEDULE_TREE,
                                                     false },
                                                   { 0, 0, SPOTNIK_SCHEDULE_RING, false } };

    assert_int_equal(spotnik_choice_take(table, 3, false, 50), SPOTNIK_SCHEDULE_HUB);
    assert_int_equal(spotnik_choice_take(table, 3, false, 51), SPOTNIK_SCHEDULE_TREE);
    assert_int_equal(spotnik_choice_take(table, 100000, true, 100), SPOTNIK_SCHEDULE_TREE);
    assert_int_equal(spotnik_choice_take(table, 4, false, 101), SPOTNIK_SCHEDULE_RING);
    assert_int_equal(spotnik_choice_members(table, 10), 3);
    assert_int_equal(spotnik_choice_members(table, 60), 0);
    assert_int_equal(spotnik_choice_places(table, 10), SPOTNIK_TREE_FAN_MAX + 1);
    assert_int_equal(spotnik_choice_places(table, 101), 0);
    assert_int_equal(spotnik_choice_places(NULL, 0), 0);
    assert_true(spotnik_choice_places(spotnik_choice_measured, 0) <= SPOTNIK_SMALL_MEMBERS_MAX);
}
