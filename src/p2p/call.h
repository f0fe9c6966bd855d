/* SPDX-License-Identifier: Apache-2.0 */
/* One question to one member, and its answer, over a kept connection or a new one. Decides nothing
 * about either. */
#ifndef SPOTNIK_P2P_CALL_H
#define SPOTNIK_P2P_CALL_H

#include "p2p/inside.h"

/* On whose behalf. */
struct spotnik_caller {
    struct spotnik_p2p *p2p;
    int wake_fd;
    uint64_t until_ns;
    bool (*goes_on)(void *context);
    void *context;
};

/* Memory that grows; free(bytes) at the end. */
struct spotnik_body {
    uint8_t *bytes;
    uint64_t size, capacity;
};

/* Room for `size` bytes. 0, or SPOTNIK_ERR_MEMORY. */
int spotnik_body_reserve(struct spotnik_body *body, uint64_t size);

/* `payload` may be NULL. An answer with payload, of body_max bytes at most, has it in `body` (NULL:
 * none is expected). 0, or SPOTNIK_ERR_PEERS: the member is of no use now. Answers of kind WAIT are
 * waited through. */
int spotnik_call(const struct spotnik_caller *caller, const struct spotnik_member *peer,
                 const struct spotnik_p2p_head *question, const void *payload,
                 struct spotnik_p2p_head *ret_answer, struct spotnik_body *body, uint64_t body_max);

#endif
