/* SPDX-License-Identifier: Apache-2.0 */
/* What will happen in a simulated world, in order of time. Two happenings of one instant come out
 * in the order in which they were put in. So a run never depends on the shape of the heap. Decides
 * nothing else. */
#ifndef SPOTNIK_SIM_QUEUE_H
#define SPOTNIK_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spotnik_sim_happening {
    uint64_t at_ns;
    uint64_t order; /* set by push */
    void *object;   /* owned by the handler of the event */
    uint64_t number;
    uint32_t kind;
    uint32_t process;
};

/* Invariant: a binary heap by (at_ns, order). */
struct spotnik_sim_queue {
    struct spotnik_sim_happening *heap;
    size_t count, capacity;
    uint64_t order;
};

/* Memory is taken on demand; running out of it is an assertion: the simulator is a test. */
void spotnik_sim_queue_push(struct spotnik_sim_queue *queue,
                            struct spotnik_sim_happening happening);
bool spotnik_sim_queue_pop(struct spotnik_sim_queue *queue, struct spotnik_sim_happening *ret);
void spotnik_sim_queue_free(struct spotnik_sim_queue *queue);

#endif
