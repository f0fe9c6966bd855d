/* SPDX-License-Identifier: Apache-2.0 */
/* The borders. Constants come from src/ where a header has them, or from a running runtime; those
 * that are private to a file are named with it here, and must follow it. */
#include "limits.h"

#include "base/copy.h"
#include "transport/early.h"
#include "ring/choice.h"
#include "shm/segment.h"

/* src/runtime/caller.c: more is left to the progress thread */
#define INLINE_BYTES ((size_t)64 << 10)
#define PIECE_BYTES ((size_t)128 << 10) /* src/transport/deliver.c: moved early at a time */
/* src/runtime/progress.c, data_poller.c: of data, before control */
#define PORTION_BYTES ((size_t)1 << 20)
#define PIECES_MAX 16 /* src/shm/pipeline.c */
#define SHOWS_MAX 32  /* src/shm/show.c */
#define CACHE_LINE 64

enum unit { BYTES, ELEMENTS };

struct border {
    const char *name;
    enum unit unit;
    size_t (*at)(const struct limits_place *place);
};

#define AT(name, value)                                                                            \
    static size_t name(const struct limits_place *place)                                           \
    {                                                                                              \
        (void)place;                                                                               \
        return (value);                                                                            \
    }

AT(at_none, 0)
AT(at_member, place->members)
AT(at_host, place->host_members)
AT(at_line, CACHE_LINE)
AT(at_page, place->page_bytes)
AT(at_small, place->small_bytes)
AT(at_inline, INLINE_BYTES)
AT(at_pages_few, place->members / 2 * place->page_bytes)
AT(at_pages_less, (place->members - 1) * place->page_bytes)
AT(at_pages_each, place->members * place->page_bytes)
AT(at_pages_host, place->host_members * place->page_bytes)
AT(at_pages_more, 2 * place->members * place->page_bytes + place->page_bytes)
AT(at_slice, place->slice_bytes)
AT(at_slice_each, place->members * place->slice_bytes)
AT(at_piece, PIECE_BYTES)
AT(at_chunk, place->chunk_bytes)
AT(at_chunk_each, (size_t)place->members * place->chunk_bytes)
AT(at_chunk_host, (size_t)place->hosts * place->chunk_bytes)
AT(at_chunk_two, (size_t)2 * place->members * place->chunk_bytes)
AT(at_pieces, (size_t)PIECES_MAX * place->hosts * place->chunk_bytes)
AT(at_shows, (size_t)SHOWS_MAX * place->chunk_bytes)
AT(at_choice_near, spotnik_choice_measured[1].bytes_max)
AT(at_choice_far, spotnik_choice_measured[2].bytes_max)
AT(at_early, SPOTNIK_EARLY_LEAST)
AT(at_portion, PORTION_BYTES)
AT(at_stream, place->stream_bytes / place->members)
AT(at_caches, SPOTNIK_COPY_PAST_CACHES)

static const struct border borders[] = {
    { "nothing", ELEMENTS, at_none },
    { "an element a member", ELEMENTS, at_member },
    { "an element a member of a host", ELEMENTS, at_host },
    { "cache line", BYTES, at_line },
    { "page", BYTES, at_page },
    { "fewer pages than members", BYTES, at_pages_few },
    { "a page less than members", BYTES, at_pages_less },
    { "a page a member", BYTES, at_pages_each },
    { "a page a member of a host", BYTES, at_pages_host },
    { "two pages a member and one", BYTES, at_pages_more },
    { "small in memory", BYTES, at_small },
    { "direct, tree between hosts", BYTES, at_choice_far },
    { "left to the progress thread", BYTES, at_inline },
    { "slice", BYTES, at_slice },
    { "piece moved early", BYTES, at_piece },
    { "chunk", BYTES, at_chunk },
    { "hub, tree", BYTES, at_choice_near },
    { "moved early", BYTES, at_early },
    { "a chunk a host", BYTES, at_chunk_host },
    { "a chunk a member", BYTES, at_chunk_each },
    { "two chunks a member", BYTES, at_chunk_two },
    { "a slice a member", BYTES, at_slice_each },
    { "portion", BYTES, at_portion },
    { "as many shows as there may be", BYTES, at_shows },
    { "as many pieces as there may be", BYTES, at_pieces },
    { "past the caches, added up", BYTES, at_stream },
    { "past the caches, copied", BYTES, at_caches },
};

uint32_t limits_count(void)
{
    return sizeof borders / sizeof borders[0];
}

const char *limits_name(uint32_t border)
{
    return borders[border].name;
}

uint64_t limits_elements(const struct limits_place *place, uint32_t border, uint32_t near,
                         size_t one)
{
    size_t at = borders[border].at(place);
    uint64_t elements = borders[border].unit == ELEMENTS ? at : (at + one - 1) / one;
    return elements + near > 0 ? elements + near - 1 : 0;
}
