/* SPDX-License-Identifier: Apache-2.0 */
/* What the metadata services of three clouds would answer, as a state that a script changes. Knows
 * nothing of sockets or of time but the instants that it is given. The rules (tokens, headers,
 * tags) are those of the real services, so that a client that passes here asks as they want to be
 * asked. */
#ifndef SPOTNIK_CLI_MOCK_CLOUD_H
#define SPOTNIK_CLI_MOCK_CLOUD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOCK_TOKENS 64
#define MOCK_EVENTS 16

struct mock_event {
    char id[40], type[24], status[16], resource[64],
        before[64]; /* before "": blank, as once it has started */
};

struct mock_cloud {
    bool aws, gcp, azure; /* which of them are here */
    char name[64];        /* of this machine */
    struct {
        char value[48];
        uint64_t until_ns;
    } token[MOCK_TOKENS];
    uint32_t tokens;
    uint64_t now_ns;                                      /* of the question; monotonic */
    int64_t now_ms;                                       /* and since 1970 */
    char action[24], action_time[40], rebalance_time[40]; /* "": none */
    bool preempted;
    char maintenance[40];
    uint64_t preempted_tag, maintenance_tag; /* change with the values */
    struct mock_event event[MOCK_EVENTS];
    uint32_t events, incarnation, acknowledged;
    uint64_t asked, tokens_given; /* so far */
    int fail;                     /* status to answer everything with; 0: none */
    bool hang;                    /* answer nothing at all */
};

struct mock_question {
    /* with what stands behind ? */
    char method[8], path[512];
    char token[64], ttl[16], flavor[16], metadata[16], forwarded[64]; /* headers; "" without */
};

struct mock_answer {
    int status;       /* 0: not yet, ask again when something has changed or after wait_ns */
    uint64_t wait_ns; /* patience of a client that asked for a change */
    const char *type;
    char headers[128]; /* each with its line end */
    char body[8192];
};

void mock_cloud_init(struct mock_cloud *cloud);

/* One line of a script, without its time. NULL, or what is wrong with it. */
const char *mock_cloud_order(struct mock_cloud *cloud, const char *line);

/* `asked_ns`: when the question came. */
void mock_cloud_answer(struct mock_cloud *cloud, const struct mock_question *question,
                       uint64_t asked_ns, struct mock_answer *ret);

#endif
