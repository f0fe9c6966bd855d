/* SPDX-License-Identifier: Apache-2.0 */
/* Finding shares and copying them out. The rank of its member identifies a share, never the place
 * where it begins: an empty share begins where the next one does. */
#include "shm/shares.h"

#include "base/copy.h"

uint32_t spotnik_shares_count(const struct spotnik_flat *flat, uint32_t number)
{
    return flat->bucket[number].order.part == SPOTNIK_FLAT_SERVED ? 1 : flat->size;
}

static struct spotnik_share_place place_of(const struct spotnik_shares *shares,
                                           const struct spotnik_flat *flat, uint32_t rank)
{
    const struct spotnik_shm_header *header = flat->peer[rank].header;
    struct spotnik_share_place place = { .header = header, .end = shares->bytes };
    if (shares->whole) {
        place.offset = header->whole[shares->number][shares->parity].offset;
        return place;
    }
    place.offset = header->slot[shares->number][shares->parity].result_offset;
    spotnik_flat_share(flat, shares->bytes, rank, &place.begin, &place.end);
    return place;
}

void spotnik_shares_find(struct spotnik_shares *shares, const struct spotnik_flat *flat,
                         uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    shares->sequence = bucket->order.sequence;
    shares->number = number;
    shares->parity = bucket->order.step & 1;
    shares->whole = bucket->order.part == SPOTNIK_FLAT_SERVED;
    shares->size = spotnik_shares_count(flat, number);
    shares->own = shares->whole ? shares->size : flat->rank;
    shares->streamed = spotnik_flat_is_streamed(flat, bucket->bytes);
    shares->bytes = bucket->bytes;
    for (uint32_t rank = 0; rank < shares->size; rank++)
        shares->place[rank] = place_of(shares, flat, rank);
}

static void copy_one(const struct spotnik_shares *shares, uint32_t rank, uint8_t *to)
{
    const struct spotnik_share_place *place = &shares->place[rank];
    if (place->begin < place->end)
        spotnik_copy(to + place->begin, spotnik_share_data(place), place->end - place->begin,
                     shares->streamed ? SPOTNIK_COPY_PAST_CACHES : 0);
}

void spotnik_shares_copy(const struct spotnik_shares *shares, uint8_t *to)
{
    for (uint32_t rank = 0; rank < shares->size; rank++)
        if (rank != shares->own)
            copy_one(shares, rank, to);
}

void spotnik_shares_copy_own(const struct spotnik_shares *shares, uint8_t *to)
{
    if (shares->own < shares->size)
        copy_one(shares, shares->own, to);
}

bool spotnik_shares_stand(const struct spotnik_shares *shares)
{
    for (uint32_t rank = 0; rank < shares->size; rank++) {
        const struct spotnik_shm_header *header = shares->place[rank].header;
        const uint64_t *sequence = shares->whole
                                       ? &header->whole[shares->number][shares->parity].sequence
                                       : &header->slot[shares->number][shares->parity].result;
        if (!spotnik_shm_header_still_hangs(sequence, shares->sequence))
            return false;
    }
    return true;
}
