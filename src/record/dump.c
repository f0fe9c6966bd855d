/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of the flight recorder: where they go, the copy that a thread writes, and what an assertion
 * writes by itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/time.h"
#include "record/inside.h"
#include "spotnik/spotnik.h"

/* A piece of a dump, in order. */
struct piece {
    const void *bytes;
    size_t size;
};

#define PATIENCE_S 5
#define PIECES (1 + 3 * SPOTNIK_DUMP_PARTS)

/* ---- what is in it ---- */

static void head_fill(const struct spotnik_recorder *recorder, const char *reason,
                      struct spotnik_dump_head *head)
{
    memset(head, 0, sizeof *head);
    memcpy(head->magic, SPOTNIK_DUMP_MAGIC, sizeof head->magic);
    snprintf(head->version, sizeof head->version, "%s", SPOTNIK_VERSION);
    snprintf(head->reason, sizeof head->reason, "%s", reason);
    head->event_bytes = sizeof(struct spotnik_event);
    head->record_bytes = sizeof(struct spotnik_record);
    head->entry_bytes = sizeof(struct spotnik_entry);
    head->parts = recorder->older ? 2 : 1;
    head->saved_bytes = recorder->saved_bytes;
    head->now_ns = recorder->now_ns;
    head->self = recorder->self;
    head->choice = recorder->choice;
    head->limits = recorder->limits;
}

static uint32_t pieces_of(const struct spotnik_recorder *recorder,
                          const struct spotnik_dump_head *head,
                          struct spotnik_dump_part part[SPOTNIK_DUMP_PARTS],
                          struct piece piece[PIECES])
{
    uint32_t count = 0;

    piece[count++] = (struct piece){ head, sizeof *head };
    for (uint32_t i = 0; i < head->parts; i++) {
        const struct spotnik_half *half =
            &recorder->half[head->parts == 2 ? i ^ recorder->at ^ 1 : recorder->at];
        part[i] = (struct spotnik_dump_part){ .bytes = half->used, .torn = half->torn };
        piece[count++] = (struct piece){ &part[i], sizeof part[i] };
        piece[count++] = (struct piece){ half->saved, recorder->saved_bytes };
        piece[count++] = (struct piece){ half->records, half->used };
    }
    return count;
}

static bool write_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        ssize_t some = write(fd, at, size);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        at += some;
        size -= (size_t)some;
    }
    return true;
}

/* ---- where it goes ---- */

static const char *temporary_dir(void)
{
    const char *dir = getenv("TMPDIR");

    return dir != NULL && *dir ? dir : "/tmp";
}

static void path_make(struct spotnik_recorder *recorder, bool asked, char *path, size_t size)
{
    const char *dir = recorder->dir[0] || !asked ? recorder->dir : temporary_dir();

    snprintf(path, size, "%s/spotnik-%08" PRIx32 "-%ld-%u.dump", dir,
             (uint32_t)(recorder->self.id.high >> 32), (long)getpid(), recorder->dumps);
}

/* Others of the host must not read addresses, nor lay a link in our way. */
static int path_open(const char *dir, const char *path)
{
    if (dir[0])
        mkdir(dir, 0700);
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* ---- by a thread ---- */

struct copy {
    char dir[SPOTNIK_DUMP_DIR_MAX], path[SPOTNIK_DUMP_DIR_MAX + 64];
    size_t size;
    uint8_t bytes[];
};

static void *copy_write(void *context)
{
    struct copy *copy = context;
    char draft[sizeof copy->path + 8];

    snprintf(draft, sizeof draft, "%s.part", copy->path);
    int fd = path_open(copy->dir, draft);
    if (fd >= 0) {
        bool whole = write_all(fd, copy->bytes, copy->size);
        whole = close(fd) == 0 && whole && rename(draft, copy->path) == 0;
        if (!whole)
            unlink(draft);
    }
    free(copy);
    return NULL;
}

static struct copy *copy_make(const struct spotnik_recorder *recorder, const char *reason)
{
    struct spotnik_dump_head head;
    struct spotnik_dump_part part[SPOTNIK_DUMP_PARTS];
    struct piece piece[PIECES];
    size_t size = 0, at = 0;

    head_fill(recorder, reason, &head);
    uint32_t count = pieces_of(recorder, &head, part, piece);
    for (uint32_t i = 0; i < count; i++)
        size += piece[i].size;
    struct copy *copy = malloc(sizeof *copy + size);
    for (uint32_t i = 0; copy != NULL && i < count; at += piece[i++].size)
        memcpy(copy->bytes + at, piece[i].bytes, piece[i].size);
    if (copy != NULL)
        copy->size = size;
    return copy;
}

/* A thread that still writes has not been joined; one that has ended is joined at once. */
static bool is_free(struct spotnik_recorder *recorder)
{
    if (recorder->writing && pthread_tryjoin_np(recorder->writer, NULL) == 0)
        recorder->writing = false;
    return !recorder->writing;
}

/* A folder whose server is gone must not hold up the end of the process: the thread has a copy of
 * its own. */
void spotnik_recorder_join(struct spotnik_recorder *recorder)
{
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_S * SPOTNIK_S;
    struct timespec moment = { .tv_nsec = SPOTNIK_MS };

    /* glibc 2.28 joins with a limit by the wall clock alone, which steps. */
    while (!is_free(recorder) && spotnik_clock_ns() < until_ns)
        nanosleep(&moment, NULL);
    if (recorder->writing)
        pthread_detach(recorder->writer);
    recorder->writing = false;
}

bool spotnik_recorder_dump(struct spotnik_recorder *recorder, const char *reason, bool asked,
                           char *ret_line, size_t size)
{
    snprintf(ret_line, size, "keeps no record: SPOTNIK_DUMP is off");
    if (recorder == NULL)
        return false;
    snprintf(ret_line, size, "writes a dump already, or has written enough");
    if ((!asked && (!recorder->dir[0] || recorder->dumps >= SPOTNIK_DUMPS_MAX))
        || !is_free(recorder))
        return false;
    struct copy *copy = copy_make(recorder, reason);
    snprintf(ret_line, size, "has no memory for a copy");
    if (copy == NULL)
        return false;
    snprintf(copy->dir, sizeof copy->dir, "%s", recorder->dir);
    path_make(recorder, asked, copy->path, sizeof copy->path);
    snprintf(ret_line, size, "%s", copy->path);
    recorder->writing = spotnik_thread_create(&recorder->writer, copy_write, copy) == 0;
    if (!recorder->writing)
        free(copy);
    recorder->dumps += recorder->writing;
    return recorder->writing;
}

/* ---- by an assertion ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct spotnik_recorder *list;

/* No lock and no memory: the code that broke the rule may hold or have spoilt both. */
static void last_words(const char *what)
{
    for (struct spotnik_recorder *recorder = list; recorder != NULL; recorder = recorder->next) {
        char path[SPOTNIK_DUMP_DIR_MAX + 64];
        struct spotnik_dump_head head;
        struct spotnik_dump_part part[SPOTNIK_DUMP_PARTS];
        struct piece piece[PIECES];
        if (!recorder->dir[0])
            continue;
        head_fill(recorder, what, &head);
        uint32_t count = pieces_of(recorder, &head, part, piece);
        path_make(recorder, false, path, sizeof path);
        int fd = path_open(recorder->dir, path);
        for (uint32_t i = 0; fd >= 0 && i < count; i++)
            if (!write_all(fd, piece[i].bytes, piece[i].size))
                break;
        if (fd >= 0)
            close(fd);
    }
}

void spotnik_recorder_enlist(struct spotnik_recorder *recorder)
{
    pthread_mutex_lock(&list_lock);
    recorder->next = list;
    list = recorder;
    spotnik_assert_last_words = last_words;
    pthread_mutex_unlock(&list_lock);
}

void spotnik_recorder_delist(struct spotnik_recorder *recorder)
{
    pthread_mutex_lock(&list_lock);
    struct spotnik_recorder **at = &list;
    while (*at != NULL && *at != recorder)
        at = &(*at)->next;
    if (*at != NULL)
        *at = recorder->next;
    pthread_mutex_unlock(&list_lock);
}
