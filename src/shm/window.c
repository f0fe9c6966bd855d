/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping shares side by side: mremap() of nothing makes another mapping of the same shared pages. */
#include "shm/window.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/copy.h"
#include "base/error.h"
#include "shm/segment.h"
#include "spotnik/spotnik.h"

static const struct spotnik_board_slot *slot_of(const struct spotnik_board *board, uint32_t number, uint32_t parity)
{
    return &board->slot[number][parity];
}

static uint64_t offset_of(const struct spotnik_window *window, const struct spotnik_board *board)
{
    return window->whole ? board->whole[window->number][window->parity].offset
                         : slot_of(board, window->number, window->parity)->result_offset;
}

/* The same pages at the same places as the last time? Then there is nothing to map. */
static bool is_mapped(const struct spotnik_window *window, const struct spotnik_flat *flat, size_t bytes, uint32_t size)
{
    if (window->base == NULL || window->bytes != bytes || window->size != size)
        return false;
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct spotnik_window_holder *holder = &window->holder[rank];
        if (holder->board != flat->peer[rank].board || holder->offset != offset_of(window, holder->board))
            return false;
    }
    return true;
}

static int space_get(struct spotnik_window *window, size_t bytes, uint32_t size)
{
    struct spotnik_window_holder *holder = realloc(window->holder, size * sizeof *holder);
    if (holder == NULL)
        return SPOTNIK_ERR_MEMORY;
    window->holder = holder;
    if (window->base != NULL && window->mapped >= bytes) /* all old shares at once: each alone would cost a flush */
        return mmap(window->base, window->mapped, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
                       == MAP_FAILED
                   ? SPOTNIK_ERR_SYSTEM
                   : 0;
    if (window->base != NULL)
        munmap(window->base, window->mapped);
    size_t pages = (bytes + SPOTNIK_SEGMENT_PAGE - 1) & ~(size_t)(SPOTNIK_SEGMENT_PAGE - 1);
    void *base = mmap(NULL, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    window->base = base == MAP_FAILED ? NULL : base;
    window->mapped = base == MAP_FAILED ? 0 : pages;
    return window->base != NULL ? 0 : SPOTNIK_ERR_SYSTEM;
}

static int share_map(struct spotnik_window *window, const struct spotnik_flat *flat, uint32_t rank, size_t bytes)
{
    size_t begin, end;
    struct spotnik_board *board = flat->peer[rank].board;
    uint64_t offset = offset_of(window, board);
    begin = 0;
    end = bytes;
    if (!window->whole)
        spotnik_flat_share(flat, bytes, rank, &begin, &end);
    window->holder[rank] = (struct spotnik_window_holder){ board, offset, begin, end };
    if (rank == flat->rank || window->whole) {
        window->own_begin = window->whole ? end : begin;
        window->own_end = end;
    }
    if (begin == end)
        return 0;
    size_t pages = (end - begin + SPOTNIK_SEGMENT_PAGE - 1) & ~(size_t)(SPOTNIK_SEGMENT_PAGE - 1);
    if (offset % SPOTNIK_SEGMENT_PAGE != 0 || offset > flat->peer[rank].bytes_max
        || pages > flat->peer[rank].bytes_max - offset)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "a member's share of a result lies outside its memory");
    void *got = mremap((uint8_t *)board + offset, 0, pages, MREMAP_MAYMOVE | MREMAP_FIXED, window->base + begin);
    if (got == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map a result: %m");
    if (rank == flat->rank)
        mprotect(got, pages, PROT_READ); /* theirs we have to read only */
    return 0;
}

int spotnik_window_show(struct spotnik_window *window, const struct spotnik_flat *flat, uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    window->ticket = bucket->order.ticket;
    window->number = number;
    window->parity = bucket->order.step & 1;
    window->streamed = spotnik_flat_is_streamed(flat, bucket->bytes);
    bool whole = bucket->order.part == SPOTNIK_FLAT_SERVED;
    uint32_t size = whole ? 1 : flat->size;
    if (window->whole == whole && is_mapped(window, flat, bucket->bytes, size))
        return 0;
    window->whole = whole;
    int rc = space_get(window, bucket->bytes, size);
    for (uint32_t rank = 0; rc == 0 && rank < size; rank++)
        rc = share_map(window, flat, rank, bucket->bytes);
    window->bytes = rc == 0 ? bucket->bytes : 0;
    window->size = size;
    return rc;
}

static void copy(const struct spotnik_window *window, uint8_t *to, const uint8_t *from, size_t bytes)
{
    spotnik_copy(to, from, bytes, window->streamed ? SPOTNIK_COPY_PAST_CACHES : 0);
}

void spotnik_window_copy(const struct spotnik_window *window, uint8_t *to)
{
    for (uint32_t rank = 0; rank < window->size; rank++) {
        const struct spotnik_window_holder *holder = &window->holder[rank];
        if (holder->begin != window->own_begin && holder->begin < holder->end)
            copy(window, to + holder->begin, (const uint8_t *)holder->board + holder->offset, holder->end - holder->begin);
    }
}

void spotnik_window_copy_own(const struct spotnik_window *window, uint8_t *to)
{
    if (window->own_begin < window->own_end)
        copy(window, to + window->own_begin, window->base + window->own_begin, window->own_end - window->own_begin);
}

const uint8_t *spotnik_window_shared(const struct spotnik_window *window)
{
    SPOTNIK_ASSERT(window->whole);
    return (const uint8_t *)window->holder[0].board + window->holder[0].offset;
}

bool spotnik_window_stands(const struct spotnik_window *window)
{
    for (uint32_t rank = 0; rank < window->size; rank++) {
        const struct spotnik_board *board = window->holder[rank].board;
        const uint64_t *ticket = window->whole ? &board->whole[window->number][window->parity].ticket
                                               : &slot_of(board, window->number, window->parity)->result;
        if (!spotnik_board_still_hangs(ticket, window->ticket))
            return false;
    }
    return true;
}

void spotnik_window_free(struct spotnik_window *window)
{
    if (window->base != NULL)
        munmap(window->base, window->mapped);
    free(window->holder);
    *window = (struct spotnik_window){ .base = NULL };
}
