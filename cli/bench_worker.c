/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of the recovery benchmark, and the parent's side of them. */
#include "bench_worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "discovery/discovery.h"

uint64_t bench_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SPOTNIK_S + (uint64_t)time.tv_nsec;
}

/* ---- in the worker ---- */

static void tell(struct bench_board *board)
{
    __atomic_add_fetch(&board->news, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &board->news, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void report_view(struct bench_board *board, struct bench_report *report, spotnik_job *job)
{
    spotnik_job_status status;

    spotnik_status(job, &status);
    __atomic_add_fetch(&report->recoveries, 1, __ATOMIC_SEQ_CST);
    if (status.recovery_count)
        report->recovery = status.recovery[status.recovery_count - 1];
    report->recovery_size = status.size;
    __atomic_store_n(&report->size, status.size, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&report->recoveries, 1, __ATOMIC_SEQ_CST);
    tell(board);
}

/* The recovery record of a view is complete once this member has committed in it. A view that
 * replaces another before that is reported with the next commit. */
static int work(struct bench_board *board, struct bench_report *report, spotnik_job *job,
                float *data, size_t count)
{
    uint64_t epoch = 0;
    spotnik_step step;
    int rc;

    while ((rc = spotnik_step_begin(job, &step)) == 0) {
        uint64_t begun_ns = bench_now_ns();
        rc = spotnik_allreduce(job, 0, data, count, SPOTNIK_F32, SPOTNIK_MEAN);
        if (rc == 0)
            rc = spotnik_step_commit(job);
        if (rc == SPOTNIK_ERR_EXCLUDED) /* on a busy machine: it is no survivor until it is back */
            __atomic_store_n(&report->size, 0, __ATOMIC_SEQ_CST);
        if (rc)
            continue;
        spotnik_job_status status;
        spotnik_status(job, &status);
        report->step_ns[report->steps % BENCH_STEPS_KEPT] = bench_now_ns() - begun_ns;
        __atomic_add_fetch(&report->steps, 1, __ATOMIC_SEQ_CST);
        if (status.view_epoch != epoch)
            report_view(board, report, job);
        epoch = status.view_epoch;
    }
    return rc;
}

/* As of a program that has filled it. NULL: none is wanted. */
static char *touched(uint64_t bytes)
{
    char *memory = bytes ? malloc(bytes) : NULL;

    if (memory)
        memset(memory, 1, bytes);
    __asm__ volatile("" ::"r"(memory) : "memory"); /* the compiler may not leave it out */
    return memory;
}

static void worker_main(const struct bench_crew *crew, uint32_t place)
{
    spotnik_config config;
    spotnik_job *job;
    size_t count = crew->bytes / sizeof(float);
    float *data = calloc(count ? count : 1, sizeof(*data));
    char *state = touched(crew->state_bytes);

    touched(crew->resident_bytes);
    spotnik_config_init(&config);
    int rc = data ? spotnik_join(&config, &job) : SPOTNIK_ERR_MEMORY;
    if (rc == 0 && state)
        rc = spotnik_state_add(job, "state", state, crew->state_bytes, SPOTNIK_U8);
    if (rc == 0)
        rc = work(crew->board, &crew->board->report[place], job, data, count);
    fprintf(stderr, "bench: worker %u: %s: %s\n", place, spotnik_strerror(rc),
            spotnik_last_error());
    tell(crew->board);
    _exit(1);
}

/* ---- in the parent ---- */

bool bench_crew_init(struct bench_crew *crew, uint32_t places, uint64_t bytes, uint64_t state_bytes,
                     uint64_t resident_bytes)
{
    char text[96];

    *crew = (struct bench_crew){ .places = places,
                                 .bytes = bytes,
                                 .state_bytes = state_bytes,
                                 .resident_bytes = resident_bytes,
                                 .slots_fd = -1 };
    strcpy(crew->folder, "/tmp/spotnik-bench-XXXXXX");
    crew->board =
        mmap(NULL, sizeof(*crew->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crew->board == MAP_FAILED || spotnik_slots_new(places, &crew->slots_fd, &crew->slots)
        || !mkdtemp(crew->folder))
        return false;
    snprintf(text, sizeof(text), "%s/peers", crew->folder);
    if (spotnik_discovery_fresh(text))
        return false;
    snprintf(text, sizeof(text), "file:%s/peers", crew->folder);
    setenv("SPOTNIK_PEERS", text, 1);
    snprintf(text, sizeof(text), "%s/key", crew->folder);
    setenv("SPOTNIK_KEY_FILE", text, 1);
    setenv("SPOTNIK_MIN", "1", 1);
    return spotnik_key_create(text) == 0;
}

void bench_crew_done(struct bench_crew *crew)
{
    char command[128];

    for (uint32_t i = 0; i < crew->places; i++)
        if (crew->pid[i]) {
            kill(crew->pid[i], SIGKILL);
            waitpid(crew->pid[i], NULL, 0);
        }
    snprintf(command, sizeof(command), "rm -rf -- %s", crew->folder);
    if (strlen(crew->folder) && system(command))
        fprintf(stderr, "bench: could not remove %s\n", crew->folder);
    spotnik_slots_unmap(crew->slots);
    if (crew->slots_fd >= 0)
        close(crew->slots_fd);
    munmap(crew->board, sizeof(*crew->board));
}

bool bench_crew_start(struct bench_crew *crew, uint32_t place)
{
    char text[16];

    memset(&crew->board->report[place], 0, sizeof(crew->board->report[place]));
    spotnik_slots_assign(crew->slots, place);
    fflush(NULL);
    crew->pid[place] = fork();
    if (crew->pid[place] == 0) {
        snprintf(text, sizeof(text), "%d", crew->slots_fd);
        setenv("SPOTNIK_SLOTS_FD", text, 1);
        snprintf(text, sizeof(text), "%u", place);
        setenv("SPOTNIK_SLOT", text, 1);
        worker_main(crew, place);
    }
    return crew->pid[place] > 0;
}

uint64_t bench_crew_kill(struct bench_crew *crew, const uint32_t *place, uint32_t count)
{
    uint64_t at_ns = bench_now_ns();
    for (uint32_t i = 0; i < count; i++)
        kill(crew->pid[place[i]], SIGKILL);
    return at_ns;
}

void bench_crew_reap(struct bench_crew *crew, const uint32_t *place, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        waitpid(crew->pid[place[i]], NULL, 0);
        crew->pid[place[i]] = 0;
    }
}

static bool together(const struct bench_crew *crew, uint32_t size)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < crew->places; i++)
        if (crew->pid[i])
            there += __atomic_load_n(&crew->board->report[i].size, __ATOMIC_SEQ_CST) == size;
    return there == size;
}

bool bench_crew_await(struct bench_crew *crew, uint32_t size, uint64_t limit_ns)
{
    uint64_t until_ns = bench_now_ns() + limit_ns;

    for (;;) {
        uint32_t seen = __atomic_load_n(&crew->board->news, __ATOMIC_SEQ_CST);
        if (together(crew, size))
            return true;
        if (bench_now_ns() >= until_ns)
            return false;
        struct timespec wait = { .tv_nsec = 100000000 };
        syscall(SYS_futex, &crew->board->news, FUTEX_WAIT, seen, &wait, NULL, 0);
    }
}

spotnik_recovery bench_crew_recovery(const struct bench_crew *crew, uint32_t place)
{
    const struct bench_report *report = &crew->board->report[place];
    spotnik_recovery copy;
    uint32_t before, after;

    do {
        before = __atomic_load_n(&report->recoveries, __ATOMIC_SEQ_CST);
        copy = report->recovery;
        after = __atomic_load_n(&report->recoveries, __ATOMIC_SEQ_CST);
    } while (before != after || (before & 1));
    return copy;
}
