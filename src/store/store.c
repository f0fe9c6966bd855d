/* SPDX-License-Identifier: Apache-2.0 */
/* Which kind of store it is, and the way to it. See store.h. */
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "store/inside.h"

/* The kind of the store, for a call that begins now. */
static const struct spotnik_objects_kind *begin(const struct spotnik_objects *store)
{
    spotnik_objects_why_reset();
    return store->kind;
}

int spotnik_objects_open(const char *where, struct spotnik_objects **ret_store)
{
    return spotnik_objects_is_bucket(where) ? spotnik_objects_bucket_open(where, ret_store)
                                            : spotnik_objects_directory_open(where, ret_store);
}

bool spotnik_objects_is_foreign(const char *where)
{
    size_t scheme = strspn(where, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    return !spotnik_objects_is_bucket(where) && strncmp(where, "file:", 5) != 0 && scheme > 0
           && strncmp(where + scheme, "://", 3) == 0;
}

bool spotnik_objects_is_bucket(const char *where)
{
    return strncmp(where, "s3://", 5) == 0 || strncmp(where, "gs://", 5) == 0
           || strncmp(where, "az://", 5) == 0;
}

void spotnik_objects_close(struct spotnik_objects *store)
{
    if (store != NULL)
        store->kind->close(store);
}

int spotnik_objects_put(struct spotnik_objects *store, const char *name, uint64_t writer,
                        const void *bytes, size_t size)
{
    return begin(store)->put(store, name, writer, bytes, size, false);
}

int spotnik_objects_put_if_absent(struct spotnik_objects *store, const char *name, uint64_t writer,
                                  const void *bytes, size_t size)
{
    return begin(store)->put(store, name, writer, bytes, size, true);
}

int spotnik_objects_get(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
                        size_t *ret_size, uint64_t *ret_version)
{
    return begin(store)->get(store, name, bytes, size, ret_size, ret_version);
}

int spotnik_objects_list(struct spotnik_objects *store,
                         int (*each)(void *context, const char *name), void *context)
{
    return begin(store)->list(store, each, context);
}

int spotnik_objects_put_pieces(struct spotnik_objects *store, const char *name,
                               const struct spotnik_objects_pieces *pieces)
{
    const struct spotnik_objects_kind *kind = begin(store);
    return kind->put_pieces != NULL ? kind->put_pieces(store, name, pieces) : -ENOTSUP;
}

int spotnik_objects_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size)
{
    const struct spotnik_objects_kind *kind = begin(store);
    return kind->get_range != NULL ? kind->get_range(store, name, offset, bytes, size, ret_size)
                                   : -ENOTSUP;
}

int spotnik_objects_walk(struct spotnik_objects *store, const char *prefix,
                         int (*each)(void *context, const struct spotnik_object *object),
                         void *context)
{
    const struct spotnik_objects_kind *kind = begin(store);
    return kind->walk != NULL ? kind->walk(store, prefix, each, context) : -ENOTSUP;
}

int spotnik_objects_delete(struct spotnik_objects *store, const char *name)
{
    return begin(store)->delete(store, name);
}

int spotnik_objects_delete_if(struct spotnik_objects *store, const char *name, uint64_t hash)
{
    return begin(store)->delete_if(store, name, hash);
}

bool spotnik_objects_take(struct spotnik_objects *store, const char *name, uint64_t writer)
{
    return begin(store)->take(store, name, writer);
}

int spotnik_objects_check(struct spotnik_objects *store, uint64_t writer)
{
    return begin(store)->check(store, writer);
}

bool spotnik_objects_is_billed(struct spotnik_objects *store)
{
    return store->kind->is_billed;
}

bool spotnik_objects_is_writable_by_all(struct spotnik_objects *store)
{
    return begin(store)->is_writable_by_all(store);
}

bool spotnik_objects_has_registers(struct spotnik_objects *store)
{
    return begin(store)->has_registers(store);
}

int spotnik_objects_register_make(struct spotnik_objects *store, const char *name, const char *text)
{
    return begin(store)->register_make(store, name, text);
}

bool spotnik_objects_register_advance(struct spotnik_objects *store, const char *name,
                                      uint64_t number, const char *text)
{
    return begin(store)->register_advance(store, name, number, text);
}

void spotnik_objects_register_delete(struct spotnik_objects *store, const char *name)
{
    begin(store)->register_delete(store, name);
}
