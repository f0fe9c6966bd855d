/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a group in one process: meet, map, watch; then the end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/time.h"
#include "group/futex_word.h"
#include "group/inside.h"
#include "group/notice_signal.h"
#include "group/rendezvous.h"
#include "spotnik/watch.h"

#define OPEN_NS (300 * SPOTNIK_S) /* programs that import a framework take their time */

int spotnik_group_handle_check(const struct spotnik_group *group)
{
    if (group == NULL)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no group was given");
    if (group->generation != spotnik_fork_generation())
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "the group belongs to the process that this one was forked "
                                    "from");
    return 0;
}

/* NAME:RANK:SIZE, where NAME may have colons. */
static int variable_read(char *name, size_t name_size, uint32_t *ret_rank, uint32_t *ret_size)
{
    const char *text = getenv("SPOTNIK_GROUP");
    unsigned rank, size;
    int end = -1;

    *ret_rank = 0;
    *ret_size = 1;
    snprintf(name, name_size, "%s", text != NULL ? text : "");
    if (text == NULL)
        return 0;
    char *last = strrchr(name, ':');
    if (last != NULL)
        *last = ' ';
    char *before = strrchr(name, ':');
    if (last == NULL || before == NULL || before == name
        || sscanf(before, ":%u %u%n", &rank, &size, &end) != 2 || before[end] != '\0')
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "SPOTNIK_GROUP=%s is not NAME:RANK:SIZE",
                                    text);
    *before = '\0';
    *ret_rank = rank;
    *ret_size = size;
    return 0;
}

static int memory_make(struct spotnik_group *group)
{
    group->memory = memfd_create("spotnik-group", MFD_CLOEXEC);
    if (group->memory < 0 || ftruncate(group->memory, sizeof *group->control) != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make shared memory: %m");
    return 0;
}

/* Address space for all pieces that will ever be taken. */
static int memory_map(struct spotnik_group *group)
{
    void *base = mmap(NULL, SPOTNIK_GROUP_BYTES_MAX, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, group->memory, 0);
    if (base == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map shared memory: %m");
    madvise(base, SPOTNIK_GROUP_BYTES_MAX, MADV_DONTDUMP);
    group->control = base;
    return 0;
}

static int meet(struct spotnik_group *group, const char *name, uint64_t until_ns)
{
    int rc;

    if (group->rank != 0) {
        rc = spotnik_rendezvous_follow(name, group->rank, group->size, until_ns, &group->memory);
        return rc != 0 ? rc : memory_map(group);
    }
    rc = memory_make(group);
    if (rc == 0)
        rc = memory_map(group);
    if (rc != 0)
        return rc;
    group->control->size = group->size;
    group->control->used = (sizeof *group->control + 4095) & ~(size_t)4095;
    return spotnik_rendezvous_lead(name, group->size, group->memory, until_ns);
}

/* Wait until every process can be watched. One that ends before is missing here. */
static int all_await(struct spotnik_group *group, uint64_t until_ns)
{
    uint32_t *here = &group->control->here, count;

    spotnik_futex_word_ring(here);
    while ((count = __atomic_load_n(here, __ATOMIC_SEQ_CST)) < group->size) {
        if (spotnik_clock_ns() > until_ns)
            return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                        "%u of the %u processes of the group have come",
                                        (unsigned)count, (unsigned)group->size);
        spotnik_futex_word_wait(here, count, until_ns);
    }
    return 0;
}

static int parts_open(struct spotnik_group *group, const char *name)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), OPEN_NS);
    int rc = meet(group, name, until_ns);

    if (rc == 0 && group->rank == 0)
        rc = spotnik_group_leader_new(group->control, &group->leader);
    if (rc == 0)
        rc = spotnik_process_watch_start(group->control, group->rank,
                                         group->leader ? spotnik_group_leader_notice : NULL,
                                         group->leader, &group->watch);
    if (rc == 0)
        rc = all_await(group, until_ns);
    if (rc == 0 && group->rank != 0)
        spotnik_notice_signal_open(group->control);
    return rc;
}

static void group_free(struct spotnik_group *group)
{
    if (group->control != NULL)
        spotnik_notice_signal_close(group->control);
    spotnik_process_watch_stop(group->watch);
    spotnik_group_leader_free(group->leader);
    if (group->control != NULL)
        munmap(group->control, SPOTNIK_GROUP_BYTES_MAX);
    if (group->memory >= 0)
        close(group->memory);
    free(group->state);
    free(group);
}

int spotnik_group_open(const char *name, uint32_t rank, uint32_t size, spotnik_group **ret_group)
{
    char said[1024];
    int rc = name == NULL ? variable_read(said, sizeof said, &rank, &size) : 0;

    if (rc != 0)
        return rc;
    if (size == 0 || size > SPOTNIK_GROUP_PROCESSES_MAX || rank >= size || ret_group == NULL)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "rank %u of a group of %u: a group has 1 to %d processes, with "
                                    "ranks from 0",
                                    (unsigned)rank, (unsigned)size, SPOTNIK_GROUP_PROCESSES_MAX);
    struct spotnik_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a group");
    *group = (struct spotnik_group){
        .rank = rank, .size = size, .generation = spotnik_fork_generation(), .memory = -1
    };
    rc = parts_open(group, name != NULL ? name : said);
    if (rc != 0) {
        group_free(group);
        return rc;
    }
    *ret_group = group;
    return 0;
}

uint32_t spotnik_group_rank(const spotnik_group *group)
{
    return group->rank;
}

uint32_t spotnik_group_size(const spotnik_group *group)
{
    return group->size;
}

void spotnik_group_notice(spotnik_group *group)
{
    if (group == NULL)
        return;
    __atomic_store_n(&group->control->noticed, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_wake(&group->control->noticed);
}

spotnik_job *spotnik_group_job(spotnik_group *group)
{
    return spotnik_group_handle_check(group) == 0 && group->leader != NULL
               ? spotnik_group_leader_job(group->leader)
               : NULL;
}

int spotnik_group_observe(spotnik_group *group, const char *name, double value)
{
    int rc = spotnik_group_handle_check(group);

    if (rc != 0)
        return rc;
    /* the leader's program is the only writer of these numbers, so its thread may call this */
    return group->leader != NULL
               ? spotnik_observe(spotnik_group_leader_job(group->leader), name, value)
               : 0;
}

static int end(struct spotnik_group *group, enum spotnik_group_kind kind)
{
    struct spotnik_group_call call = { .kind = kind };
    int rc = group != NULL ? spotnik_group_handle_check(group) : 0;

    if (group == NULL || rc != 0)
        return rc;
    rc = spotnik_group_ask(group, &call);
    if (rc != SPOTNIK_ERR_AGAIN && rc != SPOTNIK_ERR_MISMATCH)
        group_free(group);
    return rc;
}

int spotnik_group_leave(spotnik_group *group)
{
    return end(group, SPOTNIK_GROUP_LEAVE);
}

int spotnik_group_abandon(spotnik_group *group)
{
    return end(group, SPOTNIK_GROUP_ABANDON);
}
