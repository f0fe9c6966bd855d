/* SPDX-License-Identifier: Apache-2.0 */
/* The whole way of a joiner, against real donors and a runtime played by this file: three members
 * step in one thread, the joiner copies and follows. Claims: it ends with the members' very bits,
 * whatever donors do to it; donors are not held up by it and forget it when it is in or gone. One
 * that has asked to be let in waits for that without any donor, but not for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "spotnik/spotnik.h"
#include "tests.h"
#include "transfer/donor.h"
#include "transfer/joiner.h"
#include "transfer/packet.h"
#include "transfer/standing.h"
#include "turn.h"

enum {
    MEMBERS = 3,
    HOLD_STEP = 5,
    WORDS = 700001,
    BIG = 70000,
    SMALL = 10,
    CHUNK_BYTES = 65536,
    STEPS_MAX = 100000
};

struct replica {
    uint64_t *word;
    int64_t step;
    struct spotnik_registry registry;
};

/* What a step adds to the replica: all that its two results determine. */
struct update {
    int64_t big[BIG];
    float small[SMALL];
};

struct spotnik_runtime {
    struct spotnik_credentials credentials;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool joining, entered;
    bool settled; /* a view was installed at the last step: it is stable though no other followed */
    uint64_t committed, got[2];
    struct update update;
    struct replica *replica;
};

enum fault { HONEST, SILENT, CORRUPTS, DIES, MUTE };

static struct replica replica[MEMBERS + 1];
static struct spotnik_donor *donor[MEMBERS];
static struct spotnik_runtime runtime_of[MEMBERS + 1];
static enum fault fault_of[MEMBERS];
static pthread_t liar_thread;
static int mute_fd;             /* the other end of the connection that nothing comes through */
static bool over, held, copied; /* over, held, copied: under the joiner's lock */
static uint32_t pieces_asked_of_liar;
/* the only donor ends when it has been asked to let the joiner in; the others do not */
static bool leaving, shuts_out;
static bool left, told_lost; /* under the joiner's lock */
static int dialled[2];       /* ends of the last connection: the joiner's, its donor's */
static uint32_t looks;       /* of the joiner at its own standing; under its lock */

#include "played.h"
#include "liar.h"

/* Tags as between hosts. */
static struct spotnik_duplex sealed(int fd, bool server)
{
    static const uint8_t key[2][32] = { { 1 }, { 2 } };
    struct spotnik_duplex duplex = { .fd = fd };

    assert_int_equal(spotnik_seal_init(&duplex.send, key[server]), 0);
    assert_int_equal(spotnik_seal_init(&duplex.receive, key[!server]), 0);
    return duplex;
}

/* A donor's end of a connection. */
static void donor_take(int fd)
{
    struct spotnik_duplex duplex = spotnik_duplex_bare(fd);

    spotnik_donor_accept(donor[0], &duplex);
}

int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                     uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                     struct spotnik_duplex *ret, struct spotnik_member *ret_peer)
{
    int pair[2], member = port - 1000;

    (void)credentials, (void)address, (void)timeout_ns;
    assert_int_equal(purpose, SPOTNIK_PURPOSE_STATE);
    if (fault_of[member] == SILENT)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "refused");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    mute_fd = pair[1];
    if (fault_of[member] == HONEST) {
        struct spotnik_duplex duplex = sealed(pair[1], true);

        spotnik_donor_accept(donor[member], &duplex);
    } else if (fault_of[member] != MUTE) {
        struct liar *liar = malloc(sizeof *liar);

        *liar = (struct liar){ sealed(pair[1], true), member };
        assert_false(lying); /* one at a time */
        lying = true;
        assert_int_equal(pthread_create(&liar_thread, NULL, lie, liar), 0);
    }
    *ret = sealed(pair[0], false);
    dialled[0] = pair[0];
    dialled[1] = pair[1];
    for (int i = 0; i < 2; i++)
        spotnik_fork_note(pair[i]);
    *ret_peer = runtime_of[member].credentials.self;
    return 0;
}

/* ---- the members, in one thread ---- */

enum { LOOKS_MORE = 3 };

static void on_lost(void *context)
{
    struct spotnik_runtime *joiner = context;

    pthread_mutex_lock(&joiner->lock);
    told_lost = true;
    pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
}

/* Then the joiner looks about, and is let in; or gives up. */
static void donor_leaves(uint64_t step)
{
    struct spotnik_runtime *joiner = &runtime_of[MEMBERS];

    pthread_mutex_lock(&joiner->lock);
    bool leaves = leaving && !left && joiner->entered && joiner->committed + 1 >= step;
    left |= leaves;
    pthread_mutex_unlock(&joiner->lock);
    if (!leaves)
        return;
    spotnik_donor_stop(donor[0]);
    pthread_mutex_lock(&joiner->lock);
    looks = 0;
    while (!told_lost && (shuts_out || looks < LOOKS_MORE))
        pthread_cond_wait(&joiner->changed, &joiner->lock);
    pthread_mutex_unlock(&joiner->lock);
}

/* The members take it in at their step, or one behind: then its predecessor hands it the last
 * result. */
static void let_in(uint64_t step, const struct update *last)
{
    struct spotnik_runtime *joiner = &runtime_of[MEMBERS];

    pthread_mutex_lock(&joiner->lock);
    if (joiner->entered && joiner->committed + 1 >= step && !shuts_out && left == leaving) {
        joiner->joining = false;
        if (joiner->committed < step)
            update_apply(joiner->replica, last);
    }
    over = !joiner->joining || told_lost;
    pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
}

static bool is_over(void)
{
    struct spotnik_runtime *joiner = &runtime_of[MEMBERS];

    pthread_mutex_lock(&joiner->lock);
    bool result = over;
    pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
    return result;
}

static void members_at(uint64_t step, bool settled)
{
    for (int i = 0; i < MEMBERS; i++) {
        pthread_mutex_lock(&runtime_of[i].lock);
        runtime_of[i].committed = step;
        runtime_of[i].settled = settled;
        pthread_mutex_unlock(&runtime_of[i].lock);
    }
}

/* A liar cannot know at which step the honest copy, so all wait at the boundary after HOLD_STEP, as
 * step_begin does when members are too few, until the joiner has its copy. */
static void hold(void)
{
    struct spotnik_runtime *joiner = &runtime_of[MEMBERS];
    bool go_on = false;

    members_at(HOLD_STEP, true);
    while (!go_on) {
        for (int i = 0; i < MEMBERS; i++)
            spotnik_donor_boundary(donor[i], HOLD_STEP, true);
        pthread_mutex_lock(&joiner->lock);
        go_on = copied;
        held = true;
        pthread_cond_broadcast(&joiner->changed);
        pthread_mutex_unlock(&joiner->lock);
    }
}

static void *members_run(void *argument)
{
    static struct update update;
    struct spotnik_bucket_result result[8] = { [0] = { update.big, BIG, SPOTNIK_I64, SPOTNIK_SUM },
                                               [7] = { update.small, SMALL, SPOTNIK_F32,
                                                       SPOTNIK_MEAN } };

    bool holding = *(bool *)argument;
    for (uint64_t step = 1; !is_over() && step < STEPS_MAX; step++) {
        if (holding && step == HOLD_STEP + 1)
            hold();
        for (int i = 0; i < MEMBERS; i++)
            spotnik_donor_boundary(donor[i], step - 1, false);
        update_make(&update, step);
        for (int i = 0; i < MEMBERS; i++) {
            spotnik_donor_committed(donor[i], step, 8, result);
            update_apply(&replica[i], &update);
        }
        members_at(step, false);
        donor_leaves(step);
        let_in(step, &update);
    }
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    over = held = copied = lying = liar_had_its_turn = leaving = shuts_out = left = told_lost =
        false;
    pieces_asked_of_liar = 0;
    for (int i = 0; i <= MEMBERS; i++) {
        struct spotnik_runtime *runtime = &runtime_of[i];

        memset(runtime, 0, sizeof *runtime);
        pthread_mutex_init(&runtime->lock, NULL);
        pthread_cond_init(&runtime->changed, NULL);
        runtime->credentials.self =
            (struct spotnik_member){ .id = { 1, (uint64_t)i + 1 }, .port = (uint16_t)(1000 + i) };
        runtime->joining = i == MEMBERS;
        replica_new(&replica[i]);
        runtime->replica = &replica[i];
    }
    for (int i = 0; i < MEMBERS; i++) {
        fault_of[i] = HONEST;
        assert_int_equal(spotnik_donor_new(&replica[i].registry, CHUNK_BYTES, &donor[i]), 0);
        spotnik_donor_attach(donor[i], &runtime_of[i]);
        spotnik_donor_seal(donor[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (lying)
        pthread_join(liar_thread, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        spotnik_donor_stop(donor[i]);
        spotnik_donor_free(donor[i]);
    }
    for (int i = 0; i <= MEMBERS; i++) {
        spotnik_registry_done(&replica[i].registry);
        free(replica[i].word);
    }
    return 0;
}

static void wait_until_in(void)
{
    struct spotnik_runtime *joiner = &runtime_of[MEMBERS];

    pthread_mutex_lock(&joiner->lock);
    while (joiner->joining && !told_lost)
        pthread_cond_wait(&joiner->changed, &joiner->lock);
    pthread_mutex_unlock(&joiner->lock);
}

/* The blobs are those of the boundary at which the tensors were copied. */
static void expect_extra(struct replica *copy, uint64_t step)
{
    struct replica model = { .step = (int64_t)step };
    const struct spotnik_blob *ours = spotnik_blobs_find(&copy->registry.blobs, "loop");

    refresh(&model);
    const struct spotnik_blob *expected = spotnik_blobs_find(&model.registry.blobs, "loop");
    assert_non_null(ours);
    assert_int_equal(copy->registry.founding, 4711);
    assert_int_equal(ours->size, expected->size);
    assert_memory_equal(ours->bytes, expected->bytes, ours->size);
    spotnik_blobs_done(&model.registry.blobs);
}

/* The joiner's life: copy, follow, be in; then its replica is what the members' was after that
 * step. */
static void join_and_compare(void)
{
    struct spotnik_runtime *runtime = &runtime_of[MEMBERS];
    struct spotnik_joiner_config config = { .registry = &replica[MEMBERS].registry,
                                            .runtime = runtime,
                                            .patience_ns = UINT64_C(500000000),
                                            .lost = on_lost,
                                            .context = runtime };
    struct spotnik_joiner *joiner;
    bool holding = fault_of[1] > SILENT || fault_of[2] > SILENT;
    pthread_t members;

    replica[MEMBERS].registry.founding = 0;
    /* nothing but the copy can make it right */
    memset(replica[MEMBERS].word, 0, WORDS * sizeof(uint64_t));
    assert_int_equal(pthread_create(&members, NULL, members_run, &holding), 0);
    pthread_mutex_lock(&runtime->lock);
    while (holding && !held)
        pthread_cond_wait(&runtime->changed, &runtime->lock);
    pthread_mutex_unlock(&runtime->lock);
    assert_int_equal(spotnik_joiner_new(&config, &joiner), 0);
    assert_int_equal(spotnik_joiner_copy(joiner, &runtime_of[0].credentials.self,
                                         &runtime->committed),
                     0);
    assert_int_equal(replica[MEMBERS].step, runtime->committed);
    expect_extra(&replica[MEMBERS], runtime->committed);
    assert_true(!holding || runtime->committed == HOLD_STEP);
    pthread_mutex_lock(&runtime->lock);
    copied = true;
    pthread_mutex_unlock(&runtime->lock);
    assert_int_equal(spotnik_joiner_follow(joiner), 0);
    wait_until_in();
    spotnik_joiner_free(joiner);
    pthread_join(members, NULL);
    assert_int_equal(told_lost, shuts_out);
    if (shuts_out)
        return;
    assert_int_equal(replica[MEMBERS].step, replica[0].step);
    assert_int_equal(spotnik_registry_digest(&replica[MEMBERS].registry),
                     spotnik_registry_digest(&replica[0].registry));
}

TEST_WITH(join_while_training, setup, teardown)
{
    join_and_compare();
}

/* A donor takes the connection, and nothing comes: the joiner gives it up. */
TEST_WITH(a_silent_donor_is_noticed, setup, teardown)
{
    struct spotnik_joiner_config config = { .registry = &replica[MEMBERS].registry,
                                            .runtime = &runtime_of[MEMBERS] };
    struct spotnik_joiner *joiner;
    uint64_t step;
    fault_of[0] = MUTE;
    assert_int_equal(spotnik_joiner_new(&config, &joiner), 0);
    assert_int_equal(spotnik_joiner_copy(joiner, &runtime_of[0].credentials.self, &step),
                     SPOTNIK_ERR_PEERS);
    spotnik_joiner_free(joiner);
    close(mute_fd);
}

/* The state came, and none of the results after it does. */
TEST_WITH(results_that_do_not_come, setup, teardown)
{
    struct spotnik_joiner_config config = { .registry = &replica[MEMBERS].registry,
                                            .runtime = &runtime_of[MEMBERS],
                                            .lost = on_lost,
                                            .context = &runtime_of[MEMBERS] };
    struct spotnik_joiner *joiner;
    bool holding = true;
    pthread_t members;
    int mute[2];
    fault_of[1] = fault_of[2] = SILENT;
    assert_int_equal(pthread_create(&members, NULL, members_run, &holding), 0);
    assert_int_equal(spotnik_joiner_new(&config, &joiner), 0);
    assert_int_equal(spotnik_joiner_copy(joiner, &runtime_of[0].credentials.self,
                                         &runtime_of[MEMBERS].committed),
                     0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, mute), 0);
    dup2(mute[0], dialled[0]);
    close(mute[0]);
    assert_int_equal(spotnik_joiner_follow(joiner), 0);
    wait_until_in();
    assert_true(told_lost);
    spotnik_joiner_free(joiner);
    pthread_mutex_lock(&runtime_of[MEMBERS].lock);
    copied = true;
    pthread_mutex_unlock(&runtime_of[MEMBERS].lock);
    pthread_join(members, NULL);
    close(mute[1]);
}

TEST_WITH(donor_unreachable, setup, teardown)
{
    fault_of[1] = SILENT;
    join_and_compare();
}

/* A member that holds the key is believed. What another says in its place is not. */
TEST_WITH(donor_is_altered, setup, teardown)
{
    uint64_t before = spotnik_seal_failures();
    fault_of[2] = CORRUPTS;
    join_and_compare();
    assert_int_equal(spotnik_seal_failures() - before, 1);
    assert_true(__atomic_load_n(&pieces_asked_of_liar, __ATOMIC_SEQ_CST) > 0);
}

TEST_WITH(donor_dies_while_copying, setup, teardown)
{
    fault_of[1] = DIES;
    join_and_compare();
    assert_true(__atomic_load_n(&pieces_asked_of_liar, __ATOMIC_SEQ_CST) > 0);
}

/* A view may hold the joiner before it hears of it. Were it to start over because its donor leaves,
 * that view would lose a member. */
TEST_WITH(donor_leaves_when_asked, setup, teardown)
{
    fault_of[1] = fault_of[2] = SILENT;
    leaving = true;
    join_and_compare();
    assert_true(left);
}

TEST_WITH(nobody_lets_in, setup, teardown)
{
    fault_of[1] = fault_of[2] = SILENT;
    leaving = shuts_out = true;
    join_and_compare();
    assert_true(left);
}

/* A program that registers something else is told which tensor it is, and the donors never
 * notice. */
TEST_WITH(schema_mismatch, setup, teardown)
{
    struct spotnik_joiner_config config = { .registry = &replica[MEMBERS].registry,
                                            .runtime = &runtime_of[MEMBERS] };
    struct spotnik_joiner *joiner;
    uint64_t step;
    int extra;
    assert_int_equal(spotnik_registry_add(&replica[MEMBERS].registry, "adam.m", &extra, 1,
                                          SPOTNIK_I32),
                     0);
    assert_int_equal(spotnik_joiner_new(&config, &joiner), 0);
    assert_int_equal(spotnik_joiner_copy(joiner, &runtime_of[0].credentials.self, &step),
                     SPOTNIK_ERR_MISMATCH);
    assert_non_null(strstr(spotnik_last_error(), "adam.m"));
    spotnik_joiner_free(joiner);
}

/* ---- one session by hand ---- */

static int talk(uint8_t kind, uint64_t number, struct spotnik_duplex *duplex, uint8_t expect,
                struct spotnik_packet *packet)
{
    int rc = kind == SPOTNIK_PACKET_ASK
                 ? spotnik_packet_send(duplex, SPOTNIK_PACKET_ASK, NULL, 0, NULL, 0)
                 : spotnik_packet_send_u64(duplex, kind, number);

    do {
        rc = rc ? rc : spotnik_packet_receive(duplex, packet, SPOTNIK_PACKET_BYTES_MAX);
    } while (!rc && packet->kind == SPOTNIK_PACKET_WAIT);
    return rc ? rc : packet->kind != expect;
}

static void commit_big(uint64_t step, int64_t *data, uint64_t count)
{
    struct spotnik_bucket_result result = { data, count, SPOTNIK_I64, SPOTNIK_SUM };

    spotnik_donor_committed(donor[0], step, 1, &result);
}

/* A joiner that took a snapshot and acknowledges nothing is dropped when the log has its bound. It
 * is told so, and where the members are; all is freed. */
TEST_WITH(slow_joiner_is_dropped, setup, teardown)
{
    enum { COUNT = 1 << 20 };
    struct spotnik_donor_status status;
    struct spotnik_packet packet = { 0 };
    int64_t *data = calloc(COUNT, sizeof *data);
    struct spotnik_duplex ours;
    uint64_t step = 1;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    donor_take(pair[1]);
    ours = spotnik_duplex_bare(pair[0]);
    assert_int_equal(spotnik_packet_send_u64(&ours, SPOTNIK_PACKET_SNAPSHOT, 0), 0);
    do
        spotnik_donor_boundary(donor[0], 0, true); /* as step_begin does while it waits */
    while (recv(pair[0], &packet, 1, MSG_PEEK | MSG_DONTWAIT) != 1);
    assert_int_equal(spotnik_packet_receive(&ours, &packet, SPOTNIK_PACKET_BYTES_MAX), 0);
    assert_int_equal(packet.kind, SPOTNIK_PACKET_TAKEN);
    do {
        commit_big(step++, data, COUNT);
        spotnik_donor_status(donor[0], &status);
        assert_true(status.log_bytes <= (UINT64_C(64) << 20));
    } while (status.dropped == 0 && step < 100);
    assert_int_equal(status.dropped, 1);
    do
        assert_int_equal(spotnik_packet_receive(&ours, &packet, SPOTNIK_PACKET_BYTES_MAX), 0);
    while (packet.kind == SPOTNIK_PACKET_WAIT);
    assert_int_equal(packet.kind, SPOTNIK_PACKET_DROPPED);
    /* the last but one is stable */
    assert_true(packet.size == sizeof step && packet.body[0] == step - 2);
    spotnik_donor_stop(donor[0]); /* waits for the session's end */
    spotnik_donor_status(donor[0], &status);
    assert_true(!status.sessions && !status.log_bytes && !status.snapshot_bytes);
    spotnik_packet_done(&packet);
    close(pair[0]);
    free(data);
}

/* Frames that no joiner sends end the session with words, or at once. */
TEST_WITH(strange_requests, setup, teardown)
{
    static const uint8_t kinds[] = {
        0, SPOTNIK_PACKET_FETCH, SPOTNIK_PACKET_STREAM, SPOTNIK_PACKET_PIECE, 99, 255
    };
    struct spotnik_packet packet = { 0 };
    struct spotnik_duplex ours;
    int pair[2];
    for (size_t i = 0; i < sizeof kinds; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        donor_take(pair[1]);
        ours = spotnik_duplex_bare(pair[0]);
        assert_int_equal(talk(SPOTNIK_PACKET_ASK, 0, &ours, SPOTNIK_PACKET_VIEW, &packet), 0);
        assert_int_equal(talk(kinds[i], 3, &ours, SPOTNIK_PACKET_SORRY, &packet), 0);
        assert_int_equal(spotnik_packet_receive(&ours, &packet, 64), SPOTNIK_ERR_PEERS);
        close(pair[0]);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    donor_take(pair[1]);
    ours = spotnik_duplex_bare(pair[0]);
    assert_int_equal(send(pair[0], "\xff\xff\xff\xff\x01................", 21, 0),
                     21); /* a body of 4 GiB */
    assert_int_equal(spotnik_packet_receive(&ours, &packet, 64), SPOTNIK_ERR_PEERS);
    close(pair[0]);
    spotnik_packet_done(&packet);
}
