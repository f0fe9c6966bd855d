/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ways through a bucket share, flat.c and the pipelined one of pipeline.c. Both look
 * at the others' sequence numbers, add up, and end a bucket alike. Private to src/shm. */
#ifndef SPOTNIK_SHM_SLICES_H
#define SPOTNIK_SHM_SLICES_H

#include "shm/flat.h"

static inline struct spotnik_shm_header_slot *
spotnik_flat_slot(const struct spotnik_flat *flat, uint32_t rank, uint32_t number, uint64_t step)
{
    return &flat->peer[rank].header->slot[number][step & 1];
}

static inline const uint8_t *spotnik_flat_memory(const struct spotnik_flat *flat, uint32_t rank)
{
    return (const uint8_t *)flat->peer[rank].header;
}

static inline bool spotnik_flat_is_within(const struct spotnik_flat_peer *peer, uint64_t offset,
                                          size_t bytes)
{
    return offset <= peer->bytes_max && bytes <= peer->bytes_max - offset;
}

/* flat.c */
void spotnik_flat_wake(struct spotnik_flat *flat);

/* MISMATCH: the bucket of that rank is another than ours. `slot` NULL: it has none. */
enum spotnik_flat_verdict spotnik_flat_differs(struct spotnik_flat *flat, uint32_t rank,
                                               const struct spotnik_shm_header_slot *slot);

/* One more of the others? BLOCKED: not yet. MORE: all are. */
enum spotnik_flat_verdict spotnik_flat_look_round(struct spotnik_flat *flat, uint32_t number,
                                                  struct spotnik_flat_bucket *bucket);

/* All inputs still hang there, so what was read of them is theirs. */
bool spotnik_flat_inputs_stood(const struct spotnik_flat *flat, uint32_t number,
                               const struct spotnik_flat_bucket *bucket);

uint64_t spotnik_flat_weights(const struct spotnik_flat *flat, uint32_t number,
                              const struct spotnik_flat_bucket *bucket);

/* Add up elements [from, to) of all inputs, to `out`. */
void spotnik_flat_add(struct spotnik_flat *flat, uint32_t number,
                      const struct spotnik_flat_bucket *bucket, uint8_t *out, uint64_t from,
                      uint64_t to);

enum spotnik_flat_verdict spotnik_flat_summed(struct spotnik_flat *flat,
                                              struct spotnik_flat_bucket *bucket);
enum spotnik_flat_verdict spotnik_flat_stale(struct spotnik_flat_bucket *bucket);

/* show.c: SERVED: is there more than we knew of? */
bool spotnik_flat_more_is_shown(const struct spotnik_flat *flat, uint32_t number,
                                struct spotnik_flat_bucket *bucket);

/* pipeline.c */
void spotnik_flat_pipeline_start(struct spotnik_flat *flat, uint32_t number,
                                 struct spotnik_flat_bucket *bucket, bool copied);
enum spotnik_flat_verdict spotnik_flat_pipeline_run(struct spotnik_flat *flat, uint32_t number,
                                                    struct spotnik_flat_bucket *bucket);
uint32_t spotnik_flat_pipeline_awaits(const struct spotnik_flat *flat, uint32_t number,
                                      const struct spotnik_flat_bucket *bucket,
                                      uint32_t ret_rank[2]);

#endif
