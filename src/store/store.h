/* SPDX-License-Identifier: Apache-2.0 */
/* Small named objects that the machines of a job share, in a folder (store_directory.c) or a
 * bucket (store_bucket.c); see docs/design/0041-stores.md. A name has no slash, and at most
 * SPOTNIK_OBJECTS_NAME_MAX bytes. An object appears whole or not at all. All calls block, and any
 * thread may call them at any time. They return 0 or -errno; spotnik_objects_why() words the
 * error. */
#ifndef SPOTNIK_STORE_STORE_H
#define SPOTNIK_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define SPOTNIK_OBJECTS_NAME_MAX 127
#define SPOTNIK_OBJECTS_TEXT_MAX 63 /* of a register */
#define SPOTNIK_OBJECTS_URLS "s3://BUCKET/NAME, gs://BUCKET/NAME or az://CONTAINER/NAME"

struct spotnik_objects;

/* `where`: SPOTNIK_OBJECTS_URLS, or the path of a folder, which must exist for the other calls.
 * *ret_store is the caller's until _close(). Errors, by spotnik_error_return(): ARGUMENT, MEMORY,
 * SYSTEM (no libcurl or expat; the detail says what to install). A call to a bucket ends within
 * 10 s; one to a folder ends when its file system does. */
int spotnik_objects_open(const char *where, struct spotnik_objects **ret_store);
bool spotnik_objects_is_bucket(const char *where);
bool spotnik_objects_is_foreign(const char *where);        /* a URL that no kind of store takes */
void spotnik_objects_close(struct spotnik_objects *store); /* accepts NULL */

/* Why this thread's last call failed with `rc`. Valid until the thread's next call. */
const char *spotnik_objects_why(int rc);

/* No two processes share `writer`. put_if_absent: -EEXIST where there is an object of that name; of
 * any number of processes, on any machines, one succeeds. */
int spotnik_objects_put(struct spotnik_objects *store, const char *name, uint64_t writer,
                        const void *bytes, size_t size);
int spotnik_objects_put_if_absent(struct spotnik_objects *store, const char *name, uint64_t writer,
                                  const void *bytes, size_t size);

/* The first `size` bytes of an object at most; *ret_size: how many they are. *ret_version differs
 * whenever the object was written anew, also where it cannot be read; 0: not even that is known.
 * -ENOENT: there is none. -EINVAL: something else has the name. */
int spotnik_objects_get(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
                        size_t *ret_size, uint64_t *ret_version);

/* Call each() with every name, in any order. A name that is replaced meanwhile may come twice, or
 * not at all. each() returns 0, or what ends the list and is returned. */
int spotnik_objects_list(struct spotnik_objects *store,
                         int (*each)(void *context, const char *name), void *context);

int spotnik_objects_delete(struct spotnik_objects *store, const char *name);

/* Remove the object if `hash` is spotnik_hash_bytes() of what it holds, 4,096 bytes at most. A
 * request that reaches a bucket late removes nothing that was put behind it, where the server knows
 * conditional deletes. -EEXIST: it holds something else. */
int spotnik_objects_delete_if(struct spotnik_objects *store, const char *name, uint64_t hash);

/* Remove the object. One of all processes that try sees true. */
bool spotnik_objects_take(struct spotnik_objects *store, const char *name, uint64_t writer);

/* Before a founding: does the store keep the promise of put_if_absent? -ENOTSUP: it does not. No
 * two processes share `writer`. */
int spotnik_objects_check(struct spotnik_objects *store, uint64_t writer);

/* Does each request cost money? Then members ask no more often than they must. */
bool spotnik_objects_is_billed(struct spotnik_objects *store);

/* May other users of this machine write to it? */
bool spotnik_objects_is_writable_by_all(struct spotnik_objects *store);

/* ---- large objects, in folders of a bucket: a name has a slash between the two ----
 * A store that is a folder of a file system returns -ENOTSUP: its files are used as such. */

/* Several pieces of memory as one object, in several requests at once where it is large. The store
 * checks a digest of each. is_stopped() is asked by several threads: when it is true the call ends
 * with -ECANCELED. A call takes 10 s, and a second more for every 256 KiB of 16 MiB, at most before
 * it gives up a request. */
struct spotnik_objects_pieces {
    const struct iovec *piece;
    int count;
    bool (*is_stopped)(void *context); /* may be NULL */
    void *context;
};
int spotnik_objects_put_pieces(struct spotnik_objects *store, const char *name,
                               const struct spotnik_objects_pieces *pieces);

/* Bytes [offset, offset + size) of an object, or what of them it has: *ret_size. */
int spotnik_objects_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size);

/* Call each() for what begins with `prefix`, without it. A folder, "name/", comes once, with size
 * and time 0; what is in it does not. */
struct spotnik_object {
    const char *name;
    uint64_t size;
    int64_t written_s; /* Unix time */
};
int spotnik_objects_walk(struct spotnik_objects *store, const char *prefix,
                         int (*each)(void *context, const struct spotnik_object *object),
                         void *context);

/* ---- registers: a number that only grows, and a text by whoever made it grow ---- */

/* Are two that advance one register at one moment never both told that they did? False for a
 * folder on a file system that does not promise it. */
bool spotnik_objects_has_registers(struct spotnik_objects *store);

/* With number 0. -EEXIST: there is one. */
int spotnik_objects_register_make(struct spotnik_objects *store, const char *name,
                                  const char *text);

/* From a smaller number to `number` and `text`. True: the register shows both now, by whichever
 * call they came; no other text is ever shown with this number. False: it shows others, was not
 * made, or cannot be read. */
bool spotnik_objects_register_advance(struct spotnik_objects *store, const char *name,
                                      uint64_t number, const char *text);

void spotnik_objects_register_delete(struct spotnik_objects *store, const char *name);

#endif
