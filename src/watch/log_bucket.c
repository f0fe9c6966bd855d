/* SPDX-License-Identifier: Apache-2.0 */
/* The event log in a bucket: what one member wrote, as objects MEMBER.NNNNNN.jsonl of whole lines.
 * The watcher appends to a file in memory, as to any event log (log_file.c). A thread of its own
 * sends what is new there, so no other thread waits for the bucket. A line that is to last goes at
 * once, and samples go with it, or after PART_NS. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "store/store.h"
#include "transfer/thread.h"
#include "watch/inside.h"

#define PART_NS (300 * SPOTNIK_S)
#define AGAIN_NS (10 * SPOTNIK_S) /* after a part that could not be put */

struct spotnik_watch_uploader {
    struct spotnik_objects *store;
    char member[SPOTNIK_OBJECTS_NAME_MAX - 16];
    int file, error; /* error: atomic, an errno; 0: the last part was put */
    bool stopping;   /* atomic */
    /* [0, sent) of the file is in the bucket. A part that may have been put, though no answer came,
     * is put again as it was: [sent, tried). */
    off_t sent, tried;
    unsigned number;
    struct spotnik_flag wake;
    pthread_t thread;
};

/* Where the whole lines end: at most SPOTNIK_WATCH_PART_MAX bytes behind `sent`. */
static off_t lines_end(const struct spotnik_watch_uploader *uploader, char *bytes)
{
    ssize_t size = pread(uploader->file, bytes, SPOTNIK_WATCH_PART_MAX, uploader->sent);
    const char *last = size > 0 ? memrchr(bytes, '\n', (size_t)size) : NULL;

    return uploader->sent + (last ? last + 1 - bytes : 0);
}

/* True: a part was put, and there may be more. */
static bool part_put(struct spotnik_watch_uploader *uploader, char *bytes)
{
    char name[SPOTNIK_OBJECTS_NAME_MAX + 1];
    off_t end = lines_end(uploader, bytes);

    if (uploader->tried == uploader->sent)
        uploader->tried = end;
    if (uploader->tried == uploader->sent)
        return false;
    snprintf(name, sizeof name, SPOTNIK_WATCH_PART_NAME, uploader->member, uploader->number);
    int rc = spotnik_objects_put_if_absent(uploader->store, name, 0, bytes,
                                           (size_t)(uploader->tried - uploader->sent));
    __atomic_store_n(&uploader->error, -rc, __ATOMIC_RELEASE);
    if (rc)
        return false;
    uploader->sent = uploader->tried;
    uploader->number++;
    /* gives the memory back */
    (void)!fallocate(uploader->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, uploader->sent);
    return true;
}

static void *upload(void *context)
{
    struct spotnik_watch_uploader *uploader = context;
    char *bytes = malloc(SPOTNIK_WATCH_PART_MAX);
    bool stopping = !bytes;

    pthread_setname_np(pthread_self(), "spotnik-events");
    while (!stopping) {
        stopping = __atomic_load_n(&uploader->stopping, __ATOMIC_ACQUIRE);
        while (part_put(uploader, bytes)) {}
        if (!stopping)
            spotnik_flag_wait(&uploader->wake, uploader->error ? AGAIN_NS : PART_NS);
    }
    free(bytes);
    return NULL;
}

static void uploader_free(struct spotnik_watch_uploader *uploader)
{
    if (uploader->file >= 0)
        close(uploader->file);
    spotnik_objects_close(uploader->store);
    spotnik_flag_destroy(&uploader->wake);
    free(uploader);
}

static int uploader_start(struct spotnik_watch_uploader *uploader, const char *where)
{
    int rc = spotnik_objects_open(where, &uploader->store);

    if (rc)
        return rc;
    uploader->file = memfd_create("spotnik-events", MFD_CLOEXEC);
    if (uploader->file < 0 || fcntl(uploader->file, F_SETFL, O_APPEND))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "no memory for the event log: %m");
    return spotnik_thread_start(upload, uploader, &uploader->thread);
}

int spotnik_watch_uploader_new(const char *where, const char *member,
                               struct spotnik_watch_uploader **ret)
{
    struct spotnik_watch_uploader *uploader = calloc(1, sizeof *uploader);

    if (!uploader)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the event log");
    uploader->file = -1;
    spotnik_flag_init(&uploader->wake);
    snprintf(uploader->member, sizeof uploader->member, "%s", member);
    int rc = uploader_start(uploader, where);

    if (rc)
        uploader_free(uploader);
    else
        *ret = uploader;
    return rc;
}

bool spotnik_watch_uploader_write(struct spotnik_watch_uploader *uploader, const char *line,
                                  bool lasting)
{
    bool written = spotnik_watch_log_write(uploader->file, line, false);
    int error = __atomic_load_n(&uploader->error, __ATOMIC_ACQUIRE);

    if (lasting)
        spotnik_flag_raise(&uploader->wake);
    errno = written ? error : errno;
    return written && !error;
}

void spotnik_watch_uploader_quit(struct spotnik_watch_uploader *uploader)
{
    if (!uploader)
        return;
    __atomic_store_n(&uploader->stopping, true, __ATOMIC_RELEASE);
    spotnik_flag_raise(&uploader->wake);
    pthread_join(uploader->thread, NULL);
    uploader_free(uploader);
}
