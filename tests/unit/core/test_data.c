/* SPDX-License-Identifier: Apache-2.0 */
/* Where a data frame belongs: by epoch, step, bucket and number, never by when it comes. */
#include "base/time.h"
#include "pair_fixture.h"

/* Three members, settled; node 1 has begun step 1 and started its buckets, its predecessor 0 has
 * not. */
static void assemble(void)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair_assemble(&pair);
    pair.node[1].goal = 1;
    pair_run(&pair, SPOTNIK_MS);
}

/* The first frame that node 0 would send to node 1. */
static struct spotnik_chunk_header frame(void)
{
    return (struct spotnik_chunk_header){ .dtype = SPOTNIK_F64,
                                          .op = SPOTNIK_SUM,
                                          .epoch = pair_status(&pair, 1).epoch,
                                          .step = 1,
                                          .count = COUNT,
                                          .weight = 1 };
}

static enum spotnik_verdict place(uint32_t from, struct spotnik_chunk_header header)
{
    return spotnik_core_place(pair.node[1].core, pair.node[from].member.id, &header).verdict;
}

/* Claim: the next frame of the predecessor is taken; of anybody else, out of turn or of no bucket
 * there is, it is a breach. */
TEST_PAIR(take)
{
    struct spotnik_chunk_header header;

    assemble();
    assert_int_equal(place(0, frame()), SPOTNIK_VERDICT_TAKE);
    assert_int_equal(place(2, frame()), SPOTNIK_VERDICT_BAD);
    header = frame();
    header.sequence = 1;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_BAD);
    header = frame();
    header.bucket = SPOTNIK_BUCKETS_MAX;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_BAD);
    header = frame();
    header.step = 3;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_BAD);
}

/* Claim: a frame of an older epoch is dropped, one of a later epoch waits. */
TEST_PAIR(epochs)
{
    struct spotnik_chunk_header header = { 0 };

    assemble();
    header = frame();
    header.epoch--;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_DROP);
    header.epoch += 2;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_WAIT);
    assert_int_equal(place(2, header), SPOTNIK_VERDICT_WAIT); /* it may be our predecessor there */
}

/* Claim: while a recovery is decided frames of the running epoch are dropped, and nothing is
 * sent. */
TEST_PAIR(frozen)
{
    struct spotnik_transfer transfer;
    struct spotnik_chunk_header header;

    assemble();
    pair_cut(&pair, 1, 0, true);
    pair_cut(&pair, 1, 2, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_true(pair_status(&pair, 1).frozen);
    assert_int_equal(place(0, frame()), SPOTNIK_VERDICT_DROP);
    header = frame();
    header.epoch++;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_WAIT);
    assert_false(spotnik_core_send_next(pair.node[1].core, pair.node[2].member.id, &transfer));
}

/* Claim: a payload that was being read when the recovery began does not count. */
TEST_PAIR(done_too_late)
{
    assemble();
    struct spotnik_chunk_header header = frame();
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_TAKE);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHANNEL_DOWN,
                                       .peer = pair.node[2].member });
    pair_run(&pair, SPOTNIK_S);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHUNK_DONE, .chunk.header = header });
    assert_int_equal(place(0, frame()), SPOTNIK_VERDICT_TAKE); /* still number 0 */
}

/* Claim: a frame for a bucket that the caller has not started, or of a step it has not begun,
 * waits; of a step committed already it is dropped. */
TEST_PAIR(caller_is_behind)
{
    struct spotnik_chunk_header header;

    pair_open(&pair, 3, 1, 0, 0);
    pair_assemble(&pair);
    assert_int_equal(place(0, frame()), SPOTNIK_VERDICT_WAIT);
    pair.node[1].hold = true;
    pair.node[1].goal = 1;
    pair_run(&pair, SPOTNIK_MS);
    assert_int_equal(place(0, frame()), SPOTNIK_VERDICT_WAIT);
    pair.node[1].hold = false;
    pair_goal(&pair, 1);
    pair_run(&pair, SPOTNIK_MS);
    header = frame();
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_DROP);
    header.step = 2;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_WAIT);
}

/* Two members of which `odd` has another bucket size, or a bucket more; they go on to step `goal`,
 * and who is done leaves if it `leaves`. */
static void run_different(uint32_t odd, bool size, uint64_t goal, bool leaves)
{
    pair_open(&pair, 2, 1, 0, 0);
    pair_assemble(&pair);
    pair.node[odd].count[0] -= size;
    pair.node[odd].buckets += !size;
    pair_goal(&pair, goal);
    for (int turn = 0; turn < 200; turn++) {
        pair_run(&pair, SPOTNIK_MS);
        for (uint32_t i = 0; i < 2; i++)
            if (leaves && !pair.node[i].left && pair_status(&pair, i).committed == goal)
                pair_event(&pair, i, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LEAVE });
    }
}

/* Claim: programs that differ in the size or the number of buckets are told so, both of them, also
 * in the last step of the job, which the one with fewer buckets commits before anybody can tell. */
TEST_PAIR(mismatch)
{
    for (uint32_t kind = 0; kind < 24; kind++) {
        uint32_t odd = kind & 1;
        run_different(odd, kind & 2, 1 + kind / 8, kind & 4);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(pair.node[i].failed, 1);
            assert_int_equal(pair.node[i].error, SPOTNIK_ERR_MISMATCH);
        }
        assert_false(pair.node[odd].has[1]);
        pair_close(&pair);
    }
}

/* Claim: the same where the frames that would show it are lost with a view change: the hand-over
 * says how many buckets the step has. */
TEST_PAIR(mismatch_handed_over)
{
    pair_open(&pair, 2, 1, 0, 0);
    pair_assemble(&pair);
    pair.node[1].buckets++;
    pair.node[1].hold = true; /* starts its buckets late: its extra one when node 0 is leaving */
    pair_goal(&pair, 1);
    pair_run(&pair, SPOTNIK_MS);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_BUCKET_START,
                                       .start = { .bucket = 0,
                                                  .count = pair.node[1].count[0],
                                                  .dtype = SPOTNIK_F64,
                                                  .op = SPOTNIK_SUM,
                                                  .element_bytes = 8 } });
    pair_run(&pair, SPOTNIK_MS);
    assert_int_equal(pair_status(&pair, 0).committed, 1);
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LEAVE });
    pair_run(&pair, 20 * SPOTNIK_MS);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_BUCKET_START,
                                       .start = { .bucket = 1,
                                                  .count = pair.node[1].count[1],
                                                  .dtype = SPOTNIK_F64,
                                                  .op = SPOTNIK_SUM,
                                                  .element_bytes = 8 } });
    pair_event(&pair, 1, (struct spotnik_event){ .kind = SPOTNIK_EVENT_STEP_SEAL });
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pair.node[i].error, SPOTNIK_ERR_MISMATCH);
}

/* Claim: a bucket of other type or operation is a mismatch too. */
TEST_PAIR(layout)
{
    for (int kind = 0; kind < 2; kind++) {
        assemble();
        struct spotnik_chunk_header header = frame();
        header.dtype = kind ? SPOTNIK_F32 : SPOTNIK_F64;
        header.op = kind ? SPOTNIK_SUM : SPOTNIK_MAX;
        assert_int_equal(place(0, header), SPOTNIK_VERDICT_DROP);
        assert_int_equal(pair_status(&pair, 1).role, SPOTNIK_ROLE_FAILED);
        pair_close(&pair);
    }
}

enum difference { SMALLER, ONE_MORE, ONE_LESS, OTHER_OP, DIFFERENCES };

static void make_odd(struct node *node, enum difference how)
{
    if (how == SMALLER)
        node->count[0]--;
    else if (how == OTHER_OP)
        node->op = SPOTNIK_MAX;
    else
        node->buckets += how == ONE_MORE ? 1 : -1;
}

/* Members step to 3; those that fail end, as processes do. */
static void run_to_the_end(uint32_t count)
{
    pair_goal(&pair, 3);
    for (int turn = 0; turn < 3000; turn++) {
        pair_run(&pair, SPOTNIK_MS);
        for (uint32_t i = 0; i < count; i++)
            if (pair.node[i].alive && pair.node[i].failed)
                pair_kill(&pair, i);
    }
}

/* Claim: whichever member is the odd one, and however it differs: all end, and all name two
 * members, of which one is the odd one, and what each of these has. */
TEST_PAIR(all_end)
{
    for (uint32_t kind = 0; kind < 5 * DIFFERENCES; kind++) {
        uint32_t count = kind / DIFFERENCES < 3 ? 3 : 5, odd = kind / DIFFERENCES % count;

        pair_open(&pair, count, 1, 0, 0);
        pair_assemble(&pair);
        for (uint32_t i = 0; i < count; i++)
            pair.node[i].buckets = 2;
        make_odd(&pair.node[odd], (enum difference)(kind % DIFFERENCES));
        run_to_the_end(count);
        struct spotnik_id id = pair.node[odd].member.id;
        const struct spotnik_mismatch *told = spotnik_core_mismatch(pair.node[odd].core);
        const struct spotnik_held *a = &told->held[0], *b = &told->held[1];
        assert_true(spotnik_id_equal(a->member, id) != spotnik_id_equal(b->member, id));
        assert_true(a->has != b->has || a->count != b->count || a->op != b->op);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(pair.node[i].error, SPOTNIK_ERR_MISMATCH);
            assert_false(pair.node[i].has[2]);
            told = spotnik_core_mismatch(pair.node[i].core);
            assert_true(spotnik_id_equal(told->held[0].member, id)
                        != spotnik_id_equal(told->held[1].member, id));
        }
        pair_close(&pair);
    }
}

/* Claim: a finished result offered to a member that has to reduce the step itself is dropped. */
TEST_PAIR(unwanted_handover)
{
    struct spotnik_chunk_header header;

    assemble();
    header = frame();
    header.handover = 1;
    assert_int_equal(place(0, header), SPOTNIK_VERDICT_DROP);
}
