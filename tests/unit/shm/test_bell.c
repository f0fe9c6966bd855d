/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: two processes hand a step back and forth, always asleep in between, and none is ever
 * left sleeping. */
#include "shm/futex.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "shm/segment.h"
#include "tests.h"

#define STEPS 2000
#define PATIENCE_NS (20 * SPOTNIK_S)

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

/* One of two members; never spins. True: all steps were done in time. */
static bool member(const struct spotnik_flat_peer *peer, uint8_t *area[2], uint32_t rank)
{
    static struct spotnik_flat flat;
    struct spotnik_reduce_source source[2];
    struct spotnik_futexes futexes;
    uint32_t word = 0;
    uint64_t until_ns = clock_ns() + PATIENCE_NS;
    float in[8] = { (float)rank }, out[8];
    flat.limits = (struct spotnik_flat_limits){ 4096, 4096, 4096, 0 };
    spotnik_flat_view(&flat, peer, source, rank, 2);
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct spotnik_flat_order order = { .sequence = spotnik_shm_header_sequence(1, step),
                                            .step = step,
                                            .count = 8,
                                            .weight = 1,
                                            .dtype = SPOTNIK_F32,
                                            .op = SPOTNIK_SUM,
                                            .in = in,
                                            .input_area = area[rank] + (step & 1) * 4096,
                                            .out = out };
        spotnik_flat_start(&flat, 0, &order);
        spotnik_futexes_wake(&flat);
        while (flat.bucket[0].phase != SPOTNIK_FLAT_DONE) {
            spotnik_futexes_listen(&flat, &futexes);
            if (spotnik_flat_run(&flat, 0) == SPOTNIK_FLAT_BLOCKED)
                spotnik_futexes_wait(&futexes, &word, 0, 0, until_ns);
            spotnik_futexes_ignore(peer[rank].header);
            if (clock_ns() > until_ns)
                return false;
        }
        if (out[0] != 1)
            return false;
        spotnik_flat_commit(&flat);
    }
    return true;
}

TEST(nobody_oversleeps)
{
    struct spotnik_segment segment[2];
    struct spotnik_flat_peer peer[2];
    uint8_t *area[2];
    int status;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(spotnik_segment_new(&segment[i]), 0);
        peer[i] =
            (struct spotnik_flat_peer){ spotnik_segment_take(&segment[i],
                                                             sizeof(struct spotnik_shm_header)),
                                        segment[i].reserved };
        area[i] = spotnik_segment_take(&segment[i], 8192);
        spotnik_shm_header_init(peer[i].header, 1, (uint64_t)i, 0);
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(member(peer, area, 1) ? 0 : 1);
    assert_true(member(peer, area, 0));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++)
        spotnik_segment_free(&segment[i]);
}

/* Claim: a change of the word ends a wait for futex words that never ring. */
TEST(word)
{
    struct spotnik_shm_header *header = calloc(1, sizeof *header);
    struct spotnik_futexes futexes = { .count = 1 };
    uint32_t word = 5;
    futexes.of[0].futex = &header->futex;
    futexes.of[0].heard = header->futex;
    assert_false(spotnik_futexes_rang(&futexes, &word, 5));
    uint64_t before_ns = clock_ns();
    /* it has changed already: returns at once */
    spotnik_futexes_wait(&futexes, &word, 4, 0, before_ns + PATIENCE_NS);
    assert_true(clock_ns() - before_ns < PATIENCE_NS / 2);
    header->futex++;
    assert_true(spotnik_futexes_rang(&futexes, &word, 5));
    free(header);
}

/* Claim: who looks is told nothing and finds the sequence number itself, gives up in time, and
 * hears of what changes in its own process. */
TEST(look)
{
    uint64_t sequence[2] = { 0, 0 };
    struct spotnik_watch watch = { .count = 2, .of = { { &sequence[0], 7 }, { &sequence[1], 9 } } };
    uint32_t word = 5;
    assert_false(spotnik_watch_glance(&watch));
    uint64_t before_ns = clock_ns();
    assert_false(spotnik_watch_look(&watch, &word, 5, 50 * SPOTNIK_US));
    assert_true(clock_ns() - before_ns >= 50 * SPOTNIK_US);
    assert_true(spotnik_watch_look(&watch, &word, 4, PATIENCE_NS));
    spotnik_shm_header_put_up(&sequence[1], 8);
    assert_false(spotnik_watch_glance(&watch));
    spotnik_shm_header_put_up(&sequence[1], 9);
    assert_true(spotnik_watch_glance(&watch));
    assert_true(spotnik_watch_look(&watch, &word, 5, PATIENCE_NS));
}

/* Claim: a futex word is rung for who has said that it waits, and for nobody else. */
TEST(rung_when_wanted)
{
    struct spotnik_shm_header *header[2] = { calloc(1, sizeof *header[0]),
                                             calloc(1, sizeof *header[1]) };
    struct spotnik_flat_peer peer[2] = { { header[0], sizeof *header[0] },
                                         { header[1], sizeof *header[1] } };
    struct spotnik_flat *flat = calloc(1, sizeof *flat);
    struct spotnik_reduce_source source[2];
    spotnik_flat_view(flat, peer, source, 0, 2);
    spotnik_futexes_wake(flat);
    assert_int_equal(header[0]->futex, 0);
    header[0]->waiting = 1; /* we ourselves */
    spotnik_futexes_wake(flat);
    assert_int_equal(header[0]->futex, 0);
    header[1]->waiting = 1;
    spotnik_futexes_wake(flat);
    assert_int_equal(header[0]->futex, 1);
    free(flat);
    free(header[0]);
    free(header[1]);
}
