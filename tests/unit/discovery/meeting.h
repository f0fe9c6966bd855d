/* SPDX-License-Identifier: Apache-2.0 */
/* A peers directory of a test's own, members in it that are threads of this process, and records of
 * members that only seem to be. Hosts are told apart by what records say. Test code only. */
#ifndef TESTS_UNIT_DISCOVERY_MEETING_H
#define TESTS_UNIT_DISCOVERY_MEETING_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/error.h"
#include "discovery/inside.h"
#include "tests.h"

#define SECOND UINT64_C(1000000000)
#define STALE_MS 2000
#define STALE_NS (STALE_MS * UINT64_C(1000000))
#define MARGIN_NS (20 * SECOND) /* of machines that are busy */

static char directory[64], spec[80];
static struct spotnik_objects *store; /* on it */

static inline int directory_make(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/spotnik-founding-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(spec, sizeof spec, "file:%s", directory);
    return spotnik_objects_open(directory, &store);
}

static inline int directory_clear(void **state)
{
    (void)state;
    char command[96];
    spotnik_objects_close(store);
    snprintf(command, sizeof command, "rm -rf -- %s", directory);
    return system(command);
}

/* ---- members ---- */

struct seeker {
    struct spotnik_runtime *runtime;
    struct spotnik_discovery *discovery;
    int rc;
    bool found;
    struct spotnik_member sponsor;
    uint64_t took_ns;
};

static inline void seeker_open(struct seeker *seeker, uint64_t number, uint8_t key)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(number);
    config.credentials.key[0] ^= key;
    seeker->discovery = NULL;
    assert_int_equal(spotnik_runtime_new(&config, &seeker->runtime), 0);
}

static inline void seeker_close(struct seeker *seeker)
{
    spotnik_discovery_free(seeker->discovery);
    spotnik_runtime_free(seeker->runtime, true);
}

static inline void seek(struct seeker *seeker, uint64_t number, uint64_t patience_ns)
{
    seeker_open(seeker, number, 0);
    assert_int_equal(spotnik_discovery_new(spec, seeker->runtime, &seeker->discovery), 0);
    uint64_t begun_ns = spotnik_discovery_clock_ns();
    seeker->rc = spotnik_discovery_find(seeker->discovery, true, patience_ns, NULL, NULL,
                                        &seeker->found, &seeker->sponsor);
    seeker->took_ns = spotnik_discovery_clock_ns() - begun_ns;
}

/* It founds, and not because time has passed: T is an hour. */
static inline void seek_without_time(struct seeker *seeker, uint64_t number)
{
    char before[16];
    snprintf(before, sizeof before, "%s", getenv("SPOTNIK_STALE_MS"));
    setenv("SPOTNIK_STALE_MS", "3600000", 1);
    seek(seeker, number, 60 * SECOND);
    setenv("SPOTNIK_STALE_MS", before, 1);
    assert_int_equal(seeker->rc, 0);
    assert_true(seeker->found);
}

/* A member of the job, alone in its view. */
static inline void founder_start(struct seeker *seeker, uint64_t number)
{
    seek(seeker, number, 10 * SECOND);
    assert_int_equal(seeker->rc, 0);
    assert_true(seeker->found);
    spotnik_runtime_found(seeker->runtime, NULL, NULL);
}

/* ---- records ---- */

static inline void path_make(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", directory, name);
}

static inline bool is_there(const char *name)
{
    char path[256];
    path_make(path, name);
    return access(path, F_OK) == 0;
}

static inline void until_there(const char *name)
{
    while (!is_there(name))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* A port of this host where nobody listens. */
static inline uint16_t port_unused(void)
{
    struct seeker probe;
    seeker_open(&probe, 99, 0);
    uint16_t port = spotnik_runtime_credentials(probe.runtime)->self.port;
    spotnik_runtime_free(probe.runtime, true);
    return port;
}

/* A process of another machine that may be in a view, or was: its address is refused here. */
static inline struct spotnik_record stranger_make(uint64_t number)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    struct spotnik_record record = { .member = config.credentials.self,
                                     .process = { .boot = 5, .pid = 1, .start = 1, .space = 1 },
                                     .counter = 1,
                                     .standing = SPOTNIK_STANDING_ENTERED };
    record.member.id = cluster_id(number);
    record.member.host = 77;
    record.member.port = port_unused();
    return record;
}

static inline void record_put(const struct spotnik_record *record)
{
    struct spotnik_runtime_config config;
    char name[64];
    cluster_config(&config, 1);
    spotnik_record_name(record->member.id, name);
    assert_int_equal(spotnik_record_write(&config.credentials, record, store, name, false), 0);
}

static inline void founding_record_put(const struct spotnik_record *record)
{
    struct spotnik_runtime_config config;
    struct spotnik_record first = *record;
    first.generation = 1;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &first, store, "genesis-1", true),
                     0);
}

/* Somebody on another machine who is alive: writes its record, or a torn one, again and again. */
struct writer {
    struct spotnik_record record;
    bool torn;
    bool stop; /* __atomic */
    pthread_t thread;
};

static inline void torn_put(unsigned turn)
{
    char path[256], temporary[256];
    path_make(path, "member-torn");
    path_make(temporary, ".torn");
    FILE *file = fopen(temporary, "w");
    if (file == NULL)
        return;
    fprintf(file, "spotnik 1\njob %u", turn);
    fclose(file);
    (void)!rename(temporary, path);
}

static inline void *write_on(void *context)
{
    struct writer *writer = context;
    for (unsigned turn = 0; !__atomic_load_n(&writer->stop, __ATOMIC_SEQ_CST); turn++) {
        if (writer->torn) {
            torn_put(turn);
        } else {
            writer->record.counter++;
            record_put(&writer->record);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    return NULL;
}

static inline void writer_start(struct writer *writer)
{
    if (writer->torn)
        torn_put(0);
    else
        record_put(&writer->record);
    assert_int_equal(pthread_create(&writer->thread, NULL, write_on, writer), 0);
}

static inline void writer_end(struct writer *writer)
{
    __atomic_store_n(&writer->stop, true, __ATOMIC_SEQ_CST);
    pthread_join(writer->thread, NULL);
}

#endif
