/* SPDX-License-Identifier: Apache-2.0 */
/* Two rings, one for the caller's thread and one for the holder of the runtime's lock: so each has
 * one writer and needs no lock. A thread copies both to the file five times a second, and reads
 * nothing of what it copies. Where two members fill two processors, it takes its time from them. */
#include "record/tracer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

#define FLUSH_MS 200
#define HEAD_MAX 512

_Static_assert(sizeof(struct spotnik_trace_mark) == 48, "the reader counts on it");

/* One thread puts cells in, the writer takes them out. */
struct ring {
    uint64_t put, taken; /* cells, since the beginning */
    uint64_t lost, told; /* marks that found no room; those of them that the file tells of */
    struct spotnik_trace_cell cell[SPOTNIK_TRACE_CELLS];
};

struct spotnik_trace_file {
    struct ring ring[SPOTNIK_TRACE_RINGS];
    pthread_mutex_t lock; /* of `stopping` */
    pthread_cond_t over;
    bool stopping;
    pthread_t thread;

    /* the writer's thread */
    int file;
    off_t size;
    uint64_t refused, refused_told; /* marks that found no disk; those that the file tells of */
};

/* ---- marks ---- */

static bool ring_put(struct ring *ring, const struct spotnik_trace_cell *cells, unsigned count)
{
    uint64_t put = ring->put;

    if (put + count - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) > SPOTNIK_TRACE_CELLS) {
        __atomic_store_n(&ring->lost, ring->lost + 1, __ATOMIC_RELAXED);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        ring->cell[(put + i) % SPOTNIK_TRACE_CELLS] = cells[i];
    __atomic_store_n(&ring->put, put + count, __ATOMIC_RELEASE);
    return true;
}

bool spotnik_trace_put(struct spotnik_trace_file *file, enum spotnik_trace_ring which,
                       const struct spotnik_trace_cell *cell)
{
    return ring_put(&file->ring[which], cell, 1);
}

bool spotnik_trace_put_mark(struct spotnik_trace_file *file, enum spotnik_trace_ring which,
                            const struct spotnik_trace_mark *mark)
{
    struct spotnik_trace_cell cells[SPOTNIK_TRACE_MARK_CELLS];

    memcpy(cells, mark, sizeof cells);
    return ring_put(&file->ring[which], cells, SPOTNIK_TRACE_MARK_CELLS);
}

/* ---- the file ---- */

static int write_at(int file, off_t at, const void *data, size_t size)
{
    const char *from = data;

    while (size > 0) {
        ssize_t wrote = pwrite(file, from, size, at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        from += wrote;
        at += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* Whole or not at all: a file that ended within a mark would hide all that follow. What the disk
 * refuses is gone, and the job does not wait for it. */
static bool file_add(struct spotnik_trace_file *file, const struct spotnik_trace_cell *cells,
                     size_t count, const struct spotnik_trace_cell *wrapped, size_t more)
{
    size_t bytes = count * sizeof *cells, more_bytes = more * sizeof *wrapped;

    if (write_at(file->file, file->size, cells, bytes) != 0
        || write_at(file->file, file->size + (off_t)bytes, wrapped, more_bytes) != 0) {
        (void)!ftruncate(file->file, file->size);
        return false;
    }
    file->size += (off_t)(bytes + more_bytes);
    return true;
}

/* Marks in cells that begin with one: those of one cell are told by their kind. */
static uint64_t marks_in(const struct ring *ring, uint64_t from, uint64_t to)
{
    uint64_t marks = 0;

    for (uint64_t at = from; at < to; marks++) {
        uint64_t kind = ring->cell[at % SPOTNIK_TRACE_CELLS].what & 15;
        at += kind <= SPOTNIK_TRACE_TURN ? 1 : SPOTNIK_TRACE_MARK_CELLS;
    }
    return marks;
}

/* False: there is something to tell, and no disk for it. */
static bool lost_tell(struct spotnik_trace_file *file, bool refused, uint64_t lost, uint64_t *told)
{
    struct spotnik_trace_cell cells[SPOTNIK_TRACE_MARK_CELLS];

    if (lost == *told)
        return true;
    struct spotnik_trace_mark mark = {
        .cell = { spotnik_clock_ns(), spotnik_trace_what(SPOTNIK_TRACE_LOST, refused, 0) },
        .more = lost - *told
    };
    memcpy(cells, &mark, sizeof cells);
    if (!file_add(file, cells, SPOTNIK_TRACE_MARK_CELLS, NULL, 0))
        return false;
    *told = lost;
    return true;
}

/* Write the count of refused marks before any later mark. */
static void ring_write(struct spotnik_trace_file *file, struct ring *ring)
{
    uint64_t put = __atomic_load_n(&ring->put, __ATOMIC_ACQUIRE);
    size_t first = ring->taken % SPOTNIK_TRACE_CELLS, count = put - ring->taken;
    size_t straight = count <= SPOTNIK_TRACE_CELLS - first ? count : SPOTNIK_TRACE_CELLS - first;

    if (!lost_tell(file, true, file->refused, &file->refused_told)
        || !file_add(file, ring->cell + first, straight, ring->cell, count - straight))
        file->refused += marks_in(ring, ring->taken, put);
    __atomic_store_n(&ring->taken, put, __ATOMIC_RELEASE);
    lost_tell(file, false, __atomic_load_n(&ring->lost, __ATOMIC_RELAXED), &ring->told);
}

static bool wait_for_more(struct spotnik_trace_file *file)
{
    uint64_t until_ns = spotnik_clock_ns() + FLUSH_MS * SPOTNIK_MS;

    pthread_mutex_lock(&file->lock);
    if (!file->stopping)
        spotnik_cond_wait(&file->over, &file->lock, until_ns);
    bool goes_on = !file->stopping;
    pthread_mutex_unlock(&file->lock);
    return goes_on;
}

static void *writer_main(void *context)
{
    struct spotnik_trace_file *file = context;
    bool goes_on = true;

    while (goes_on) {
        goes_on = wait_for_more(file);
        for (unsigned i = 0; i < SPOTNIK_TRACE_RINGS; i++)
            ring_write(file, &file->ring[i]);
    }
    return NULL;
}

/* ---- begin and end ---- */

static int head_write(struct spotnik_trace_file *file, const struct spotnik_member *self,
                      uint64_t epoch_us)
{
    char head[HEAD_MAX];
    uint64_t now_ns = spotnik_clock_ns();
    const char *order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
    int size = snprintf(head, sizeof head,
                        "{\"spotnik_trace\":1,\"order\":\"%s\",\"version\":\"%s\","
                        "\"member\":\"%016" PRIx64 "\",\"host\":\"%016" PRIx64 "\","
                        "\"process\":%ld,\"date_us\":%" PRIu64 ",\"clock_us\":%.3f}\n",
                        order, SPOTNIK_VERSION, self->id.high, self->host, (long)getpid(),
                        epoch_us + now_ns / 1000, (double)now_ns / 1e3);

    file->size = size;
    return write_at(file->file, 0, head, (size_t)size);
}

static int file_open(struct spotnik_trace_file *file, const char *dir,
                     const struct spotnik_member *self, uint64_t epoch_us)
{
    char path[4096];

    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/spotnik-%08" PRIx64 "-%ld.trace", dir, self->id.high >> 32,
             (long)getpid());
    file->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->file >= 0 && head_write(file, self, epoch_us) == 0)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "cannot write the trace %.300s: %s; SPOTNIK_TRACE must name a "
                                "folder that can be written",
                                path, strerror(errno));
}

static void release(struct spotnik_trace_file *file)
{
    if (file->file >= 0)
        close(file->file);
    pthread_mutex_destroy(&file->lock);
    pthread_cond_destroy(&file->over);
    free(file);
}

static int begin(struct spotnik_trace_file *file, const char *dir,
                 const struct spotnik_member *self, uint64_t epoch_us)
{
    file->file = -1;
    spotnik_cond_init(&file->over);
    pthread_mutex_init(&file->lock, NULL);
    int rc = file_open(file, dir, self, epoch_us);
    if (rc != 0)
        return rc;
    rc = spotnik_thread_create(&file->thread, writer_main, file);
    return rc == 0 ? 0
                   : spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the trace's thread: %s",
                                          strerror(rc));
}

int spotnik_trace_file_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us,
                           struct spotnik_trace_file **ret)
{
    struct spotnik_trace_file *file = calloc(1, sizeof *file);

    if (file == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the trace");
    int rc = begin(file, dir, self, epoch_us);
    if (rc != 0)
        release(file);
    else
        *ret = file;
    return rc;
}

void spotnik_trace_file_free(struct spotnik_trace_file *file)
{
    pthread_mutex_lock(&file->lock);
    file->stopping = true;
    pthread_cond_signal(&file->over);
    pthread_mutex_unlock(&file->lock);
    pthread_join(file->thread, NULL);
    release(file);
}
