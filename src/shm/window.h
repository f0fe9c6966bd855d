/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a large bucket as one piece of memory: the members' shares, which lie in their segments, mapped one behind
 * the other. The mapping keeps the pages, whatever becomes of their owners. */
#ifndef SPOTNIK_SHM_WINDOW_H
#define SPOTNIK_SHM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/flat.h"

struct spotnik_window {
    uint8_t *base; /* NULL: none */
    size_t bytes, mapped;
    size_t own_begin, own_end; /* our share; of a whole result of one member, an empty one at its end */
    uint64_t ticket;
    uint32_t number, parity, size;
    bool streamed; /* it is copied past the caches */
    bool whole; /* the result of all hosts, as their holder has put it up, and not the shares of all members */
    struct spotnik_window_holder {
        const struct spotnik_board *board;
        uint64_t offset;
        size_t begin, end; /* its share */
    } *holder; /* by rank */
};

/* Show the result of a bucket that is READY. 0, SPOTNIK_ERR_MEMORY or _SYSTEM. */
int spotnik_window_show(struct spotnik_window *window, const struct spotnik_flat *flat, uint32_t number);

/* Copy the shares of all others, from where they lie: having the window's own pages at hand would cost more than the copy. */
void spotnik_window_copy(const struct spotnik_window *window, uint8_t *to);

/* The same with our own share. */
void spotnik_window_copy_own(const struct spotnik_window *window, uint8_t *to);

/* The whole result, where it lies in its holder's memory: of a window that shows one (`whole`). */
const uint8_t *spotnik_window_shared(const struct spotnik_window *window);

/* Is what it shows still that result? The holders' boards must be mapped. */
bool spotnik_window_stands(const struct spotnik_window *window);

void spotnik_window_free(struct spotnik_window *window);

#endif
