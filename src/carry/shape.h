/* SPDX-License-Identifier: Apache-2.0 */
/* A tool for tests and demonstrations. It limits the bytes per second that all bulk connections of
 * this process (data, exchange, state) send together: as if its host had a slow card. So a cluster
 * on one machine behaves like one behind slow links. Control messages are not held up. Off, it
 * costs a look at one variable.
 *
 * One for the process: SPOTNIK_SHAPE, e.g. "1gbit". Any thread. Decides when bytes may leave; sends
 * none. */
#ifndef SPOTNIK_CARRY_SHAPE_H
#define SPOTNIK_CARRY_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spotnik_shape {
    uint64_t bytes_per_s; /* 0: as fast as it goes */
    uint64_t free_ns;     /* when all that was let go will have left */
    /* until then the link has not been idle, for want of processors only; NEVER: a sender was told
     * to wait and has not come back */
    uint64_t busy_ns;
};

/* The link itself. Returns how many of `wanted` bytes may go now; they count as sent. 0: ask again
 * at *ret_again_ns. */
size_t spotnik_shape_let(struct spotnik_shape *shape, size_t wanted, uint64_t now_ns,
                         uint64_t *ret_again_ns);

/* These have not gone after all. */
void spotnik_shape_undo(struct spotnik_shape *shape, size_t bytes);

/* "300kbit", "100mbit", "2.5gbit": bits a second; "" and NULL: 0. False: it is none of them. */
bool spotnik_shape_parse(const char *text, uint64_t *ret_bytes_per_s);

/* ---- That of this process ---- */

extern struct spotnik_shape spotnik_shape_process;

static inline bool spotnik_shape_is_on(void)
{
    return __builtin_expect(__atomic_load_n(&spotnik_shape_process.bytes_per_s, __ATOMIC_RELAXED)
                                != 0,
                            0);
}

/* From now on; NULL: as fast as it goes. Errors: ARGUMENT. */
int spotnik_shape_set(const char *text);

/* As above, on the clock of this process. */
size_t spotnik_shape_take(size_t wanted, uint64_t *ret_again_ns);
void spotnik_shape_give_back(size_t bytes);

/* Asleep until `bytes` may go; for threads that send with blocking calls. */
void spotnik_shape_wait(size_t bytes);

#endif
