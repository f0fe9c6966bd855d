/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in a bucket. See checkpoint_bucket.h. */
#include "checkpoint/checkpoint_bucket.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "spotnik/spotnik.h"

#define GET_BYTES ((size_t)8 << 20)

/* ---- the stores of this process ----
 * A bucket is named anew in each call, as a folder is. Its connections and credentials are worth
 * keeping, and a process names few. */

struct opened {
    struct opened *next;
    struct spotnik_objects *objects;
    char where[];
};

static struct opened *opened;
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;

static int opened_add(const char *where, struct opened **ret)
{
    size_t size = strlen(where) + 1;
    struct opened *added = malloc(sizeof *added + size);
    if (added == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a bucket");
    int rc = spotnik_objects_open(where, &added->objects);
    if (rc != 0) {
        free(added);
        return rc;
    }
    memcpy(added->where, where, size);
    added->next = opened;
    *ret = opened = added;
    return 0;
}

static int objects_of(const char *where, struct spotnik_objects **ret_objects)
{
    int rc = 0;
    pthread_mutex_lock(&opened_lock);
    struct opened *at = opened;
    while (at != NULL && strcmp(at->where, where) != 0)
        at = at->next;
    if (at == NULL)
        rc = opened_add(where, &at);
    if (rc == 0)
        *ret_objects = at->objects;
    pthread_mutex_unlock(&opened_lock);
    return rc;
}

/* ---- one object ---- */

struct place {
    struct spotnik_objects *objects;
    char name[SPOTNIK_OBJECTS_NAME_MAX + 1];
};

static int place_find(const char *dir, const char *entry, const char *name, struct place *ret)
{
    int length = snprintf(ret->name, sizeof ret->name, "%s%s%s", entry != NULL ? entry : "",
                          entry != NULL ? "/" : "", name);
    if (length < 0 || (size_t)length >= sizeof ret->name)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "the name %.60s... is too long", name);
    return objects_of(dir, &ret->objects);
}

/* `rc` is of store.h. */
static int fail(int rc, const char *doing, const char *dir)
{
    if (rc == -ECANCELED)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "this member ended before it was written");
    return rc == 0 ? 0
                   : spotnik_error_return(rc == -ENOENT ? SPOTNIK_ERR_PEERS : SPOTNIK_ERR_SYSTEM,
                                          "cannot %s the checkpoint bucket %.100s: %s", doing, dir,
                                          spotnik_objects_why(rc));
}

/* Two members may think that they are rank 0: the first manifest counts. */
static int manifest_put(const struct place *place, const struct iovec *piece)
{
    int rc = spotnik_objects_put_if_absent(place->objects, place->name, 0, piece->iov_base,
                                           piece->iov_len);
    return rc == -EEXIST ? 0 : rc;
}

int spotnik_checkpoint_bucket_write(const char *dir, const char *entry, const char *name,
                                    const struct spotnik_objects_pieces *pieces)
{
    struct place place;
    int rc = place_find(dir, entry, name, &place);
    if (rc == 0)
        rc = fail(strcmp(name, SPOTNIK_MANIFEST_NAME) == 0
                      ? manifest_put(&place, pieces->piece)
                      : spotnik_objects_put_pieces(place.objects, place.name, pieces),
                  "write to", dir);
    errno = 0; /* a bucket is not full */
    return rc;
}

int spotnik_checkpoint_bucket_replace(const char *dir, const char *entry, const char *name,
                                      const void *bytes, size_t size)
{
    struct place place;
    int rc = place_find(dir, entry, name, &place);
    return rc != 0 ? rc
                   : fail(spotnik_objects_put(place.objects, place.name, 0, bytes, size),
                          "write to", dir);
}

int spotnik_checkpoint_bucket_read(const char *dir, const char *entry, const char *name,
                                   const struct spotnik_checkpoint_store_reader *reader)
{
    struct place place;
    int rc = place_find(dir, entry, name, &place);
    size_t got = reader->size;
    for (uint64_t at = 0; rc == 0 && got == reader->size; at += got) {
        int why = spotnik_objects_get_range(place.objects, place.name, at, reader->buffer,
                                            reader->size, &got);
        if (why == -ENOENT)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is missing", name);
        rc = fail(why, "read from", dir);
        if (rc == 0 && !reader->take(reader->context, reader->buffer, got))
            rc = spotnik_error_return(SPOTNIK_ERR_PEERS, "%s does not hold what its manifest says",
                                      name);
    }
    return rc;
}

struct whole {
    uint8_t *bytes;
    size_t size, size_max;
};

static bool whole_add(void *context, const uint8_t *bytes, size_t size)
{
    struct whole *whole = context;
    uint8_t *grown = size <= whole->size_max - whole->size
                         ? realloc(whole->bytes, whole->size + size + 1)
                         : NULL;
    if (grown == NULL)
        return false;
    whole->bytes = grown;
    memcpy(grown + whole->size, bytes, size);
    whole->size += size;
    return true;
}

int spotnik_checkpoint_bucket_get(const char *dir, const char *entry, const char *name,
                                  size_t size_max, uint8_t **ret_bytes, size_t *ret_size)
{
    struct whole whole = { .size_max = size_max };
    struct spotnik_checkpoint_store_reader reader = {
        .buffer = malloc(GET_BYTES), .size = GET_BYTES, .take = whole_add, .context = &whole
    };
    int rc = reader.buffer != NULL
                 ? spotnik_checkpoint_bucket_read(dir, entry, name, &reader)
                 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to read %s", name);
    free(reader.buffer);
    if (rc != 0)
        free(whole.bytes);
    *ret_bytes = rc == 0 ? whole.bytes : NULL;
    *ret_size = whole.size;
    return rc;
}

bool spotnik_checkpoint_bucket_has(const char *dir, const char *entry, const char *name)
{
    struct place place;
    char byte;
    size_t got;
    int rc = place_find(dir, entry, name, &place) != 0
                 ? SPOTNIK_ERR_SYSTEM
                 : fail(spotnik_objects_get_range(place.objects, place.name, 0, &byte, 1, &got),
                        "read from", dir);
    errno = rc == SPOTNIK_ERR_PEERS ? ENOENT : EIO;
    return rc == 0;
}

int spotnik_checkpoint_bucket_mark(const char *dir, const char *name)
{
    struct place place;
    int rc = place_find(dir, NULL, name, &place);
    return rc != 0
               ? rc
               : fail(spotnik_objects_put(place.objects, place.name, 0, "", 0), "write to", dir);
}

void spotnik_checkpoint_bucket_delete(const char *dir, const char *entry, const char *name)
{
    struct place place;
    if (place_find(dir, entry, name, &place) == 0)
        (void)spotnik_objects_delete(place.objects, place.name);
}

/* ---- several ---- */

struct walk {
    int (*each)(void *context, const struct spotnik_object *object);
    void *context;
    int rc; /* what each() returned; the store's own errors are others */
};

static int walk_each(void *context, const struct spotnik_object *object)
{
    struct walk *walk = context;
    walk->rc = walk->each(walk->context, object);
    return walk->rc != 0 ? -ECANCELED : 0;
}

int spotnik_checkpoint_bucket_walk(const char *dir, const char *prefix,
                                   int (*each)(void *context, const struct spotnik_object *object),
                                   void *context)
{
    struct walk walk = { .each = each, .context = context };
    struct spotnik_objects *objects;
    int rc = objects_of(dir, &objects);
    if (rc != 0)
        return rc;
    rc = spotnik_objects_walk(objects, prefix, walk_each, &walk);
    return walk.rc != 0 ? walk.rc : fail(rc == -ENOENT ? -EIO : rc, "list", dir);
}

static int nothing(void *context, const struct spotnik_object *object)
{
    (void)context, (void)object;
    return 0;
}

/* A store that is away may come back before the first checkpoint is due. */
int spotnik_checkpoint_bucket_open(const char *dir)
{
    struct spotnik_objects *objects;
    int rc = objects_of(dir, &objects);
    if (rc != 0)
        return rc;
    rc = spotnik_objects_walk(objects, "root-", nothing, NULL);
    return rc == -ETIMEDOUT ? 0 : fail(rc == -ENOENT ? -EIO : rc, "use", dir);
}

struct written {
    int64_t written_s;
    bool aside, any;
};

static int written_note(void *context, const struct spotnik_object *object)
{
    struct written *written = context;
    written->any = true;
    written->aside |= strcmp(object->name, SPOTNIK_CHECKPOINT_BUCKET_ASIDE) == 0;
    if (strcmp(object->name, SPOTNIK_MANIFEST_NAME) == 0)
        written->written_s = object->written_s > 0 ? object->written_s : 1;
    return 0;
}

int spotnik_checkpoint_bucket_written(const char *dir, const char *entry, int64_t *ret_written_s,
                                      bool *ret_aside)
{
    struct written written = { .written_s = 0 };
    char prefix[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 2];
    snprintf(prefix, sizeof prefix, "%s/", entry);
    int rc = spotnik_checkpoint_bucket_walk(dir, prefix, written_note, &written);
    *ret_written_s = written.written_s;
    *ret_aside = written.aside || !written.any; /* some servers keep empty folders for a while */
    return rc;
}

/* The manifest gets another name. Its parts stay, to be looked at. */
void spotnik_checkpoint_bucket_set_aside(const char *dir, const char *entry)
{
    struct place place;
    uint8_t *bytes;
    size_t size;
    if (place_find(dir, entry, SPOTNIK_CHECKPOINT_BUCKET_ASIDE, &place) != 0
        || spotnik_checkpoint_bucket_get(dir, entry, SPOTNIK_MANIFEST_NAME,
                                         SPOTNIK_MANIFEST_BYTES_MAX, &bytes, &size)
               != 0)
        return;
    if (spotnik_objects_put(place.objects, place.name, 0, bytes, size) == 0)
        spotnik_checkpoint_bucket_delete(dir, entry, SPOTNIK_MANIFEST_NAME);
    free(bytes);
}
