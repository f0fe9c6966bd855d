/* SPDX-License-Identifier: Apache-2.0 */
/* The file that decides ties: in a real directory, with members that ask at once. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discovery/inside.h"
#include "tests.h"

#define FOUNDING UINT64_C(0x1234567)
#define ASKERS 8
#define EPOCHS 200

static char directory[64], other[64];
static struct spotnik_objects *store, *other_store;

static int directories_make(void **state)
{
    (void)state;
    /* XXXXXX: mkdtemp() replaces it */
    snprintf(directory, sizeof directory, "/tmp/spotnik-witness-XXXXXX");
    snprintf(other, sizeof other, "/tmp/spotnik-witness-XXXXXX");
    return mkdtemp(directory) == NULL || mkdtemp(other) == NULL
           || spotnik_objects_open(directory, &store) != 0
           || spotnik_objects_open(other, &other_store) != 0;
}

static int directories_remove(void **state)
{
    (void)state;
    spotnik_witness_remove(store, FOUNDING);
    spotnik_witness_remove(other_store, FOUNDING);
    spotnik_objects_close(store);
    spotnik_objects_close(other_store);
    return rmdir(directory) != 0 || rmdir(other) != 0; /* nothing else was left in them */
}

static struct spotnik_id id_of(uint64_t number)
{
    return (struct spotnik_id){ .high = 7, .low = number };
}

/* As the founder makes it. */
static void found(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/witness-%016llx.0.%016llx%016llx", directory,
             (unsigned long long)FOUNDING, 7ULL, 1ULL);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0666);
    assert_true(fd >= 0);
    close(fd);
}

/* Claim: who has it for an epoch keeps it for that one, however often it asks; nobody else gets it
 * for that epoch, or for an earlier one. */
TEST_WITH(one_for_an_epoch, directories_make, directories_remove)
{
    found();
    assert_true(spotnik_witness_take(store, FOUNDING, 5, id_of(2)));
    assert_true(spotnik_witness_take(store, FOUNDING, 5, id_of(2)));
    assert_false(spotnik_witness_take(store, FOUNDING, 5, id_of(1)));
    assert_false(spotnik_witness_take(store, FOUNDING, 4, id_of(1)));
    assert_true(spotnik_witness_take(store, FOUNDING, 6, id_of(3)));
    assert_false(spotnik_witness_take(store, FOUNDING, 6, id_of(2)));
}

struct asker {
    uint64_t number;
    bool named[EPOCHS];
    pthread_t thread;
};

static void *asker_main(void *context)
{
    struct asker *asker = context;
    for (uint64_t i = 0; i < EPOCHS; i++)
        asker->named[i] = spotnik_witness_take(store, FOUNDING, i + 1, id_of(asker->number));
    return NULL;
}

/* Claim: of many that ask at once for the same epochs, each as fast as it can, no two are named for
 * one, and somebody is for some. */
TEST_WITH(many_at_once, directories_make, directories_remove)
{
    static struct asker asker[ASKERS];
    uint32_t all = 0;
    found();
    for (uint64_t i = 0; i < ASKERS; i++) {
        asker[i].number = i + 1;
        assert_int_equal(pthread_create(&asker[i].thread, NULL, asker_main, &asker[i]), 0);
    }
    for (uint64_t i = 0; i < ASKERS; i++)
        pthread_join(asker[i].thread, NULL);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t named = 0;
        for (uint64_t i = 0; i < ASKERS; i++)
            named += asker[i].named[epoch];
        assert_in_range(named, 0, 1);
        all += named;
    }
    assert_true(all > 0);
}

/* Claim: a file that was removed, one of another founding, and a folder of the same name
 * that is not the same folder name nobody. */
TEST_WITH(not_there, directories_make, directories_remove)
{
    assert_false(spotnik_witness_take(store, FOUNDING, 1, id_of(1)));
    found();
    assert_false(spotnik_witness_take(other_store, FOUNDING, 1, id_of(1)));
    assert_false(spotnik_witness_take(store, FOUNDING + 2, 1, id_of(1)));
    spotnik_witness_remove(store, FOUNDING);
    assert_false(spotnik_witness_take(store, FOUNDING, 1, id_of(1)));
    struct spotnik_objects *nowhere;
    assert_int_equal(spotnik_objects_open("/tmp/spotnik-no-such-folder", &nowhere), 0);
    assert_false(spotnik_witness_take(nowhere, FOUNDING, 1, id_of(1)));
    spotnik_objects_close(nowhere);
}
