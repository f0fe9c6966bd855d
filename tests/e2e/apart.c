/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of a member that runs apart; see apart.h. */
#include "apart.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 50021, SLOTS = 40009 };

struct apart {
    spotnik_job *job;
    float model[COUNT], other[COUNT], change[COUNT];
    float update[SLOTS], store[SLOTS];
    uint32_t slot, copies;
    uint64_t turns, pushes, random;
    float base; /* of our element, before our first push */
    char wrong[200];
};

static uint32_t below(struct apart *apart, uint32_t bound)
{
    apart->random = apart->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((apart->random >> 33) % bound);
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
    return apart;
}

void apart_free(struct apart *apart)
{
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
    int rc = spotnik_pull(apart->job, "model", below(apart, size), 0, apart->other, COUNT, SPOTNIK_F32, 0, &request);

    if (came(apart, rc, request, "pull"))
        check(apart, is_uniform(apart->other), "a pull brought parts of two models");
}

static void exchange(struct apart *apart, uint32_t size)
{
    spotnik_request *request = NULL;

    for (uint32_t i = 0; i < COUNT; i++)
        apart->change[i] = apart->model[i];
    int rc = spotnik_exchange(apart->job, "model", below(apart, size), apart->change, COUNT, 0, &request);
    if (came(apart, rc, request, "exchange"))
        for (uint32_t i = 0; i < COUNT; i++)
            apart->model[i] += apart->change[i];
    check(apart, is_uniform(apart->model), "an exchange was added in part");
    rc = spotnik_settle(apart->job, "model", apart->model, COUNT, NULL);
    check(apart, rc == 0 && is_uniform(apart->model), "half an exchange of another was left");
}

/* Our own element is what it was at first, and one more for each push. */
static void push(struct apart *apart)
{
    spotnik_request *request = NULL;
    int rc;

    if (apart->turns > 0) {
        rc = spotnik_push(apart->job, "store", apart->update, SLOTS, 0, &request);
        check(apart, came(apart, rc, request, "push"), "a push was given up");
        apart->pushes++;
    }
    rc = spotnik_fetch(apart->job, "store", apart->store, SLOTS, 0, &request);
    check(apart, came(apart, rc, request, "fetch"), "a fetch was given up");
    float found = apart->store[apart->slot];
    if (apart->turns == 0)
        apart->base = found;
    if (found != apart->base + (float)apart->pushes && !apart->wrong[0])
        snprintf(apart->wrong, sizeof apart->wrong, "the store counts %g of %llu pushes", (double)(found - apart->base),
                 (unsigned long long)apart->pushes);
}

const char *apart_turn(struct apart *apart, uint32_t size)
{
    /* In the midst of steps: others have pushed long before we come to this. */
    if (apart->turns == 0)
        check(apart, spotnik_store_open(apart->job, "store", apart->store, SLOTS, apart->copies) == 0, "store_open");
    int rc = spotnik_publish(apart->job, "model", apart->model, COUNT, SPOTNIK_F32, apart->turns + 1);

    check(apart, rc == 0, "publish");
    pull(apart, size);
    exchange(apart, size);
    push(apart);
    apart->turns++;
    return apart->wrong[0] ? apart->wrong : NULL;
}
