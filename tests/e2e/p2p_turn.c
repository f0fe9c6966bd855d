/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of a member that runs apart; see p2p_turn.h. */
#include "p2p_turn.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 50021, SLOTS = 40009 };

/* What all members that ever were have pushed, in a file that outlives them. */
struct book {
    uint32_t begun[SLOTS], answered[SLOTS];
};

struct p2p_turn {
    spotnik_job *job;
    float model[COUNT], other[COUNT];
    float update[SLOTS], store[SLOTS];
    uint32_t slot, copies;
    uint64_t turns, random;
    struct book *book;
    uint32_t answered[SLOTS]; /* before a fetch */
    char wrong[200];
};

static uint32_t below(struct p2p_turn *turn, uint32_t bound)
{
    turn->random = turn->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((turn->random >> 33) % bound);
}

/* Beside the key of the job. NULL: it cannot be. */
static struct book *book_open(void)
{
    const char *key = getenv("SPOTNIK_KEY_FILE"), *slash = key ? strrchr(key, '/') : NULL;
    char path[512];

    snprintf(path, sizeof path, "%.*s/pushed", slash ? (int)(slash - key) : 1, slash ? key : ".");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct book *book = MAP_FAILED;
    if (ftruncate(fd, sizeof *book) == 0)
        book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return book == MAP_FAILED ? NULL : book;
}

struct p2p_turn *p2p_turn_new(spotnik_job *job, uint32_t copies)
{
    struct p2p_turn *turn = calloc(1, sizeof *turn);

    if (!turn)
        return NULL;
    turn->job = job;
    turn->random = (uint64_t)getpid();
    turn->slot = (uint32_t)getpid() % SLOTS;
    turn->update[turn->slot] = 1;
    for (uint32_t i = 0; i < COUNT; i++)
        turn->model[i] = (float)turn->slot;
    turn->copies = copies;
    turn->book = book_open();
    if (turn->book)
        return turn;
    free(turn);
    return NULL;
}

void p2p_turn_free(struct p2p_turn *turn)
{
    if (turn)
        munmap(turn->book, sizeof *turn->book);
    free(turn);
}

static bool is_uniform(const float *data)
{
    for (uint32_t i = 1; i < COUNT; i++)
        if (data[i] != data[0])
            return false;
    return true;
}

/* Wait for a request that was started with `rc`. True: something came. */
static bool came(struct p2p_turn *turn, int rc, spotnik_request *request, const char *what)
{
    spotnik_arrival arrival = { .size = sizeof arrival };

    if (rc == 0) {
        rc = spotnik_request_wait(request, UINT64_MAX, &arrival);
        spotnik_request_free(request);
    }
    if (rc)
        snprintf(turn->wrong, sizeof turn->wrong, "%s: %d, %s", what, rc, spotnik_last_error());
    return rc == 0 && arrival.version != 0;
}

static void check(struct p2p_turn *turn, bool right, const char *what)
{
    if (!right && !turn->wrong[0])
        snprintf(turn->wrong, sizeof turn->wrong, "%s", what);
}

static void pull(struct p2p_turn *turn, uint32_t size)
{
    spotnik_request *request = NULL;
    int rc = spotnik_pull(turn->job, "model", below(turn, size), 0, turn->other, COUNT, SPOTNIK_F32,
                          0, &request);

    if (came(turn, rc, request, "pull"))
        check(turn, is_uniform(turn->other), "a pull brought parts of two models");
}

/* What the store has of each member's pushes, alive or dead: all that were answered before we
 * looked, and none twice. */
static void compare(struct p2p_turn *turn)
{
    for (uint32_t i = 0; i < SLOTS && !turn->wrong[0]; i++) {
        uint32_t begun = __atomic_load_n(&turn->book->begun[i], __ATOMIC_ACQUIRE);
        if (turn->store[i] >= (float)turn->answered[i] && turn->store[i] <= (float)begun)
            continue;
        snprintf(turn->wrong, sizeof turn->wrong,
                 "element %u counts %g pushes; %u were answered, %u begun", i,
                 (double)turn->store[i], turn->answered[i], begun);
    }
}

static void push(struct p2p_turn *turn)
{
    spotnik_request *request = NULL;
    int rc;

    if (turn->turns > 0) {
        __atomic_fetch_add(&turn->book->begun[turn->slot], 1, __ATOMIC_RELEASE);
        rc = spotnik_push(turn->job, "store", turn->update, SLOTS, 0, &request);
        check(turn, came(turn, rc, request, "push"), "a push was given up");
        if (!turn->wrong[0])
            __atomic_fetch_add(&turn->book->answered[turn->slot], 1, __ATOMIC_RELEASE);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        turn->answered[i] = __atomic_load_n(&turn->book->answered[i], __ATOMIC_ACQUIRE);
    rc = spotnik_fetch(turn->job, "store", turn->store, SLOTS, 0, &request);
    check(turn, came(turn, rc, request, "fetch"), "a fetch was given up");
    compare(turn);
}

const char *p2p_turn_take(struct p2p_turn *turn, uint32_t size)
{
    /* In the midst of steps: others have pushed long before we come to this. */
    if (turn->turns == 0)
        check(turn, spotnik_store_open(turn->job, "store", turn->store, SLOTS, turn->copies) == 0,
              "store_open");
    int rc = spotnik_publish(turn->job, "model", turn->model, COUNT, SPOTNIK_F32, turn->turns + 1);

    check(turn, rc == 0, "publish");
    pull(turn, size);
    push(turn);
    turn->turns++;
    return turn->wrong[0] ? turn->wrong : NULL;
}
