/* SPDX-License-Identifier: Apache-2.0 */
/* What makes up a replica: the tensors, and beside them the blobs. Tensors are seen as one run of
 * bytes, in order of registration. A joiner receives that run, and a digest covers it. Knows names,
 * types and places; it never owns the memory of tensors. Others decide when that may be read (the
 * caller's thread at a boundary) or written (a joiner inside step_begin).
 *
 * Invariant: tensor[i].offset is the sum of the sizes before it; `bytes` the sum of all. Sealed: no
 * more tensors. */
#ifndef SPOTNIK_TRANSFER_REGISTRY_H
#define SPOTNIK_TRANSFER_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "transfer/blobs.h"

#define SPOTNIK_TENSORS_MAX 4096
#define SPOTNIK_TENSOR_NAME_MAX 255

/* Calls of the program for remote tensors, whose memory this process cannot address: an
 * accelerator's say. `offset` counts the bytes of remote tensors alone. From any thread. Not 0: the
 * bytes were not moved. */
struct spotnik_reach {
    int (*read)(void *context, uint64_t offset, void *out, size_t size);
    int (*write)(void *context, uint64_t offset, const void *bytes, size_t size);
    void *context;
};

struct spotnik_tensor {
    char name[SPOTNIK_TENSOR_NAME_MAX + 1];
    uint8_t *data;
    uint64_t count, bytes, offset;
    uint8_t dtype;
    bool remote;        /* no data: the program's calls move the bytes, */
    uint64_t remote_at; /* from this offset on */
};

struct spotnik_registry {
    struct spotnik_tensor *tensor;
    uint32_t count, capacity;
    uint64_t bytes, remote_bytes;
    struct spotnik_reach reach;
    struct spotnik_blobs blobs;
    /* random number of the founding of the job, 0: not known yet; travels with the state */
    uint64_t founding;
    /* the program changes tensors while a step is begun: none is late */
    bool at_once;
    bool failed; /* a call of the program has: read by any thread */
    /* the program brings tensors and blobs up to date; NULL: they are */
    void (*refresh)(void *context);
    void *refresh_context;
};

void spotnik_registry_init(struct spotnik_registry *registry);
void spotnik_registry_done(struct spotnik_registry *registry);

/* Bytes of one element, 0 for an unknown dtype. */
uint32_t spotnik_registry_element_bytes(int dtype);

/* Errors: ARGUMENT (name, type, duplicate, overflow), LIMIT, MEMORY; the detail names the
 * tensor. */
int spotnik_registry_add(struct spotnik_registry *registry, const char *name, void *data,
                         size_t count, int dtype);

/* The same for a remote tensor. */
int spotnik_registry_add_remote(struct spotnik_registry *registry, const char *name, uint64_t count,
                                int dtype);

/* The same for a tensor that only has a shape, as a file describes it: its bytes can be neither
 * read nor written. */
int spotnik_registry_add_shape(struct spotnik_registry *registry, const char *name, uint64_t count,
                               int dtype);

/* The tensors that a copy takes along. LATE ones may be copied beside the program, until the step
 * that was begun commits: large ones and remote ones. */
enum spotnik_registry_part { SPOTNIK_REGISTRY_ALL, SPOTNIK_REGISTRY_EARLY, SPOTNIK_REGISTRY_LATE };

/* Is there a late one? */
bool spotnik_registry_has_late(const struct spotnik_registry *registry);

/* Copy bytes [offset, offset + size) of the replica out or in. The range must lie inside. What is
 * not of `part` stays as it is in `out`. Where a call of the program fails, the registry has
 * failed. */
void spotnik_registry_read(struct spotnik_registry *registry, enum spotnik_registry_part part,
                           uint64_t offset, void *out, size_t size);
void spotnik_registry_write(struct spotnik_registry *registry, uint64_t offset, const void *bytes,
                            size_t size);

/* Has a call of the program failed? Copies from then on are void. */
bool spotnik_registry_is_failed(const struct spotnik_registry *registry);

/* [caller, at a boundary] Before a copy is taken. */
void spotnik_registry_refresh(const struct spotnik_registry *registry);

/* What travels beside the tensors, as bytes: u64 founding, and the blobs. */
size_t spotnik_registry_extra_size(const struct spotnik_registry *registry);
void spotnik_registry_extra_write(const struct spotnik_registry *registry,
                                  struct spotnik_writer *writer);

/* Replace ours. Errors: PEERS (unreadable), MEMORY; nothing is changed then. */
int spotnik_registry_extra_read(struct spotnik_registry *registry, struct spotnik_reader *reader);

/* XXH3-64 over all tensors in order; 0: no memory, or a call of the program failed. */
uint64_t spotnik_registry_digest(struct spotnik_registry *registry);

/* Names, types and counts as bytes: what both sides of a copy must agree on. */
size_t spotnik_registry_schema_size(const struct spotnik_registry *registry);
void spotnik_registry_schema_write(const struct spotnik_registry *registry,
                                   struct spotnik_writer *writer);

/* Compare ours with those of a checkpoint. 0, or SPOTNIK_ERR_MISMATCH with a detail that names the
 * tensor. */
int spotnik_registry_compare(const struct spotnik_registry *registry,
                             const struct spotnik_registry *other);

/* Compare ours with the schema of a donor. 0, or SPOTNIK_ERR_MISMATCH with a detail that names the
 * tensor. */
int spotnik_registry_schema_check(const struct spotnik_registry *registry,
                                  struct spotnik_reader *reader);

#endif
