/* SPDX-License-Identifier: Apache-2.0 */
/* One donor, a joiner by hand, state that the program's calls copy. Claims: step_begin does not
 * wait for that copy, and the commit does. The joiner hears of the snapshot when copy and program
 * are through. A state that the program changed in between is not given. Where the session is held
 * up, the commit copies. A program that waits in step_begin copies there. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "tests.h"
#include "transfer/donor_inside.h"
#include "transfer/memory.h"
#include "transfer/thread.h"

static struct spotnik_credentials credentials;
static struct spotnik_registry registry;
static struct spotnik_donor *donor;
static struct spotnik_duplex ours;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;   /* a copy goes through it */
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER; /* and so does a second piece */
static uint64_t far_bytes;
static uint8_t far_memory = 1;
static uint32_t copies;
static pthread_t copied_by;

/* ---- the runtime, as far as donors ask it ---- */

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    (void)runtime;
    return &credentials;
}

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    (void)runtime;
    memset(ret, 0, sizeof *ret);
    ret->size = 1;
    ret->step_stable = 100;
}

uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch)
{
    (void)runtime, (void)ret, (void)max;
    *ret_epoch = 1;
    return 0;
}

void spotnik_runtime_wake(struct spotnik_runtime *runtime)
{
    (void)runtime;
}

/* ---- the program ---- */

static int far_read(void *context, uint64_t offset, void *out, size_t size)
{
    (void)context;
    pthread_mutex_t *through = offset ? &second : &gate;

    pthread_mutex_lock(through);
    copies++;
    copied_by = pthread_self();
    memset(out, far_memory, size);
    pthread_mutex_unlock(through);
    return 0;
}

static int setup(void **state)
{
    int pair[2];

    (void)state;
    copies = 0;
    spotnik_registry_init(&registry);
    registry.reach.read = far_read;
    assert_int_equal(spotnik_registry_add_remote(&registry, "far", far_bytes ? far_bytes : 100,
                                                 SPOTNIK_U8),
                     0);
    assert_int_equal(spotnik_donor_new(&registry, 65536, &donor), 0);
    spotnik_donor_attach(donor, (struct spotnik_runtime *)(void *)&credentials);
    spotnik_donor_seal(donor);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ours = spotnik_duplex_bare(pair[0]);
    struct spotnik_duplex theirs = spotnik_duplex_bare(pair[1]);
    spotnik_donor_accept(donor, &theirs);
    assert_int_equal(spotnik_packet_send_u64(&ours, SPOTNIK_PACKET_SNAPSHOT, 0), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(ours.fd);
    spotnik_donor_stop(donor);
    spotnik_donor_free(donor);
    spotnik_registry_done(&registry);
    far_bytes = 0;
    return 0;
}

static enum spotnik_snapshot_phase phase(void)
{
    pthread_mutex_lock(&donor->lock);
    enum spotnik_snapshot_phase now =
        donor->snapshot ? donor->snapshot->phase : SPOTNIK_SNAPSHOT_DUE;
    pthread_mutex_unlock(&donor->lock);
    return now;
}

static bool has_word(void)
{
    char byte;

    return recv(ours.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* The boundary after `step`, again and again until the snapshot is begun. One that is void from
 * the start may be gone before we look: it has been answered. */
static void begin(uint64_t step, bool waiting)
{
    bool begun = false;

    while (!begun) {
        spotnik_donor_boundary(donor, step, waiting);
        pthread_mutex_lock(&donor->lock);
        begun = donor->snapshot != NULL;
        pthread_mutex_unlock(&donor->lock);
        begun |= registry.failed && has_word();
    }
}

static uint32_t hear(void)
{
    struct spotnik_packet packet = { 0 };
    uint32_t kind = SPOTNIK_PACKET_WAIT;

    while (kind == SPOTNIK_PACKET_WAIT) {
        assert_int_equal(spotnik_packet_receive(&ours, &packet, SPOTNIK_PACKET_BYTES_MAX), 0);
        kind = packet.kind;
    }
    spotnik_packet_done(&packet);
    return kind;
}

/* As setup(), with two pieces; the second is copied when `second` is free. */
static int setup_two(void **state)
{
    far_bytes = SPOTNIK_MEMORY_PIECE_BYTES + 1;
    return setup(state);
}

/* Claim: between two pieces of a copy the joiner hears that the donor lives. A word before it is of
 * the memory that is made ready. */
TEST_WITH(the_joiner_hears_of_a_donor_that_copies, setup_two, teardown)
{
    struct spotnik_packet packet = { 0 };
    int heard[2];

    spotnik_packet_patience(ours.fd, 20 * SPOTNIK_S);
    pthread_mutex_lock(&second);
    for (int word = 0; word < 2; word++) {
        heard[word] = spotnik_packet_receive(&ours, &packet, SPOTNIK_PACKET_BYTES_MAX);
        heard[word] += packet.kind != SPOTNIK_PACKET_WAIT;
        if (word == 0)
            begin(7, false);
    }
    pthread_mutex_unlock(&second);
    spotnik_packet_done(&packet);
    assert_true(heard[0] == 0 && heard[1] == 0);
    spotnik_donor_confirm(donor);
    assert_int_equal(hear(), SPOTNIK_PACKET_TAKEN);
    assert_int_equal(copies, 2);
}

static void count(void *context)
{
    ++*(uint32_t *)context;
}

TEST(memory_is_made_ready_in_pieces)
{
    uint64_t bytes = 2 * SPOTNIK_MEMORY_PIECE_BYTES + 1;
    uint32_t times = 0;
    void *memory = spotnik_memory_warm(bytes, count, &times);

    assert_non_null(memory);
    assert_int_equal(times, 2);
    munmap(memory, bytes);
}

TEST_WITH(the_commit_waits, setup, teardown)
{
    pthread_mutex_lock(&gate);
    begin(7, false); /* comes back, though nothing can be copied */
    while (phase() != SPOTNIK_SNAPSHOT_COPYING)
        sched_yield();
    pthread_mutex_unlock(&gate);
    while (phase() != SPOTNIK_SNAPSHOT_COPIED)
        sched_yield();
    assert_false(has_word()); /* the program may yet say that it has changed the state */
    spotnik_donor_committed(donor, 8, 0, NULL);
    assert_int_equal(hear(), SPOTNIK_PACKET_TAKEN);
    assert_int_equal(copies, 1);
}

static void *open_gate(void *unused)
{
    (void)unused;
    while (phase() != SPOTNIK_SNAPSHOT_COPYING)
        sched_yield();
    pthread_mutex_unlock(&gate);
    return NULL;
}

/* What the commit lets go on to write is not in the copy. */
TEST_WITH(what_follows_the_commit_is_not_in_it, setup, teardown)
{
    pthread_t opener;

    far_memory = 1;
    pthread_mutex_lock(&gate);
    begin(7, false);
    assert_int_equal(spotnik_thread_start(open_gate, NULL, &opener), 0);
    spotnik_donor_committed(donor, 8, 0, NULL);
    far_memory = 2;
    pthread_join(opener, NULL);
    assert_int_equal(donor->snapshot->data[0] + donor->snapshot->data[99], 2);
}

TEST_WITH(a_changed_state_is_not_given, setup, teardown)
{
    begin(7, false);
    spotnik_donor_spoil(donor);
    spotnik_donor_settle(donor);
    spotnik_donor_committed(donor, 8, 0, NULL);
    assert_int_equal(hear(), SPOTNIK_PACKET_SORRY);
}

TEST_WITH(a_copy_that_fails_is_not_given, setup, teardown)
{
    registry.failed = true;
    begin(7, false);
    assert_int_equal(hear(), SPOTNIK_PACKET_SORRY);
}

TEST_WITH(a_program_that_waits_copies, setup, teardown)
{
    begin(7, true);
    assert_int_equal(hear(), SPOTNIK_PACKET_TAKEN);
    assert_true(pthread_equal(copied_by, pthread_self()));
}

/* Its joiner has sent half of a packet: the session's thread waits for the rest. */
TEST_WITH(a_session_that_is_held_up, setup, teardown)
{
    uint8_t half[2] = { 0 };

    assert_int_equal(send(ours.fd, half, 1, 0), 1);
    begin(7, false);
    spotnik_donor_committed(donor, 8, 0, NULL);
    assert_int_equal(phase(), SPOTNIK_SNAPSHOT_COPIED);
    assert_int_equal(copies, 1);
}
