/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of stores implement. Private to the folder. */
#ifndef SPOTNIK_STORE_INSIDE_H
#define SPOTNIK_STORE_INSIDE_H

#include "store/store.h"

#define SPOTNIK_DELETE_IF_MAX 4096 /* the bytes of an object that is compared */

/* One for each call of store.h, which has the contracts. */
struct spotnik_objects_kind {
    bool is_billed;
    void (*close)(struct spotnik_objects *store);
    int (*put)(struct spotnik_objects *store, const char *name, uint64_t writer, const void *bytes,
               size_t size, bool if_absent);
    int (*get)(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
               size_t *ret_size, uint64_t *ret_version);
    int (*list)(struct spotnik_objects *store, int (*each)(void *context, const char *name),
                void *context);
    /* These three: NULL for a folder. */
    int (*put_pieces)(struct spotnik_objects *store, const char *name,
                      const struct spotnik_objects_pieces *pieces);
    int (*get_range)(struct spotnik_objects *store, const char *name, uint64_t offset, void *bytes,
                     size_t size, size_t *ret_size);
    int (*walk)(struct spotnik_objects *store, const char *prefix,
                int (*each)(void *context, const struct spotnik_object *object), void *context);
    int (*delete)(struct spotnik_objects *store, const char *name);
    int (*delete_if)(struct spotnik_objects *store, const char *name, uint64_t hash);
    bool (*take)(struct spotnik_objects *store, const char *name, uint64_t writer);
    int (*check)(struct spotnik_objects *store, uint64_t writer);
    bool (*is_writable_by_all)(struct spotnik_objects *store);
    bool (*has_registers)(struct spotnik_objects *store);
    int (*register_make)(struct spotnik_objects *store, const char *name, const char *text);
    bool (*register_advance)(struct spotnik_objects *store, const char *name, uint64_t number,
                             const char *text);
    void (*register_delete)(struct spotnik_objects *store, const char *name);
};

/* A kind's own struct begins with this one. */
struct spotnik_objects {
    const struct spotnik_objects_kind *kind;
};

int spotnik_objects_directory_open(const char *path, struct spotnik_objects **ret_store);
int spotnik_objects_bucket_open(const char *where, struct spotnik_objects **ret_store);

/* Before each call of store.h. */
void spotnik_objects_why_reset(void);
/* Sets what spotnik_objects_why() returns, and returns `rc`. */
int spotnik_objects_fail(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
