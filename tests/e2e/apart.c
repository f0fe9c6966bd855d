/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of a member that runs apart; see apart.h. */
#include "apart.h"

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

struct apart {
    spotnik_job *job;
    float model[COUNT], other[COUNT];
    float update[SLOTS], store[SLOTS];
    uint32_t slot, copies;
    uint64_t turns, random;
    struct book *book;
    uint32_t answered[SLOTS]; /* before a fetch */
    char wrong[200];
};

static uint32_t below(struct apart *apart, uint32_t bound)
{
    apart->random = apart->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((apart->random >> 33) % bound);
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

struct apart *apart_new(spotnik_job *job, uint32_t copies)
{
    struct apart *apart = calloc(1, sizeof *apart);

    if (!apart)
        return NULL;
    apart->job = job;
    apart->random = (uint64_t)getpid();
    apart->slot = (uint32_t)getpid() % SLOTS;
    apart->update[apart->slot] = 1;
    for (uint32_t i = 0; i < COUNT; i++)
        apart->model[i] = (float)apart->slot;
    apart->copies = copies;
    apart->book = book_open();
    if (apart->book)
        return apart;
    free(apart);
    return NULL;
}

void apart_free(struct apart *apart)
{
    if (apart)
        munmap(apart->book, sizeof *apart->book);
    free(apart);
}

static bool is_uniform(const float *data)
{
    for (uint32_t i = 1; i < COUNT; i++)
        if (data[i] != data[0])
            return false;
    return true;
}

/* Wait for a request that was started with `rc`. True: something came. */
static bool came(struct apart *apart, int rc, spotnik_request *request, const char *what)
{
    spotnik_arrival arrival = { .size = sizeof arrival };

    if (rc == 0) {
        rc = spotnik_request_wait(request, UINT64_MAX, &arrival);
        spotnik_request_free(request);
    }
    if (rc)
        snprintf(apart->wrong, sizeof apart->wrong, "%s: %d, %s", what, rc, spotnik_last_error());
    return rc == 0 && arrival.version != 0;
}

static void check(struct apart *apart, bool right, const char *what)
{
    if (!right && !apart->wrong[0])
        snprintf(apart->wrong, sizeof apart->wrong, "%s", what);
}

static void pull(struct apart *apart, uint32_t size)
{
    spotnik_request *request = NULL;
    int rc = spotnik_pull(apart->job, "model", below(apart, size), 0, apart->other, COUNT,
                          SPOTNIK_F32, 0, &request);

    if (came(apart, rc, request, "pull"))
        check(apart, is_uniform(apart->other), "a pull brought parts of two models");
}

/* What the store has of each member's pushes, alive or dead: all that were answered before we
 * looked, and none twice. */
static void compare(struct apart *apart)
{
    for (uint32_t i = 0; i < SLOTS && !apart->wrong[0]; i++) {
        uint32_t begun = __atomic_load_n(&apart->book->begun[i], __ATOMIC_ACQUIRE);
        if (apart->store[i] >= (float)apart->answered[i] && apart->store[i] <= (float)begun)
            continue;
        snprintf(apart->wrong, sizeof apart->wrong,
                 "element %u counts %g pushes; %u were answered, %u begun", i,
                 (double)apart->store[i], apart->answered[i], begun);
    }
}

static void push(struct apart *apart)
{
    spotnik_request *request = NULL;
    int rc;

    if (apart->turns > 0) {
        __atomic_fetch_add(&apart->book->begun[apart->slot], 1, __ATOMIC_RELEASE);
        rc = spotnik_push(apart->job, "store", apart->update, SLOTS, 0, &request);
        check(apart, came(apart, rc, request, "push"), "a push was given up");
        if (!apart->wrong[0])
            __atomic_fetch_add(&apart->book->answered[apart->slot], 1, __ATOMIC_RELEASE);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        apart->answered[i] = __atomic_load_n(&apart->book->answered[i], __ATOMIC_ACQUIRE);
    rc = spotnik_fetch(apart->job, "store", apart->store, SLOTS, 0, &request);
    check(apart, came(apart, rc, request, "fetch"), "a fetch was given up");
    compare(apart);
}

const char *apart_turn(struct apart *apart, uint32_t size)
{
    /* In the midst of steps: others have pushed long before we come to this. */
    if (apart->turns == 0)
        check(apart,
              spotnik_store_open(apart->job, "store", apart->store, SLOTS, apart->copies) == 0,
              "store_open");
    int rc =
        spotnik_publish(apart->job, "model", apart->model, COUNT, SPOTNIK_F32, apart->turns + 1);

    check(apart, rc == 0, "publish");
    pull(apart, size);
    push(apart);
    apart->turns++;
    return apart->wrong[0] ? apart->wrong : NULL;
}
