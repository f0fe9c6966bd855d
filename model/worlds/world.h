/* SPDX-License-Identifier: Apache-2.0 */
/* A small world of real cores as one value: a state that can be kept, restored and compared, and
 * the moves that are possible in it. member.c plays the driver and the caller; search.c tries every
 * order of moves; check.c knows the promises. */
#ifndef SPOTNIK_MODEL_WORLD_H
#define SPOTNIK_MODEL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "core/planted.h"

#define NODES 4
#define EPOCHS 16
#define STEPS 4
#define WIRE_BYTES 16384 /* of all that is on its way */

/* What may happen in a world, besides messages. */
struct bounds {
    uint32_t members;
    uint32_t deaths;
    uint32_t breaks; /* of links, without a death */
    bool in_order;   /* they end as if by a kernel: a proxy between the two starts again */
    bool for_good;   /* the two do not meet again */
    uint32_t leaves;
    uint32_t ticks; /* times that time passes, each when nothing else is left to happen */
    uint64_t steps;
    bool tree;     /* passes go by a tree, whatever the size */
    uint32_t bugs; /* rules of the core to break: enum spotnik_bug */
};

enum move_kind {
    MOVE_MESSAGE, /* b takes the next that a has said to it: a message, or the end of the link */
    MOVE_FRAME,   /* b takes the next data frame from a */
    MOVE_ANSWER,  /* what a has dialled, b, answers or refuses */
    MOVE_KILL,    /* a dies */
    MOVE_BREAK,   /* the link of a and b breaks; what was on its way on it is lost */
    MOVE_LEAVE,   /* a asks to leave */
    MOVE_TICK,    /* time passes until somebody has something to do */
};

struct move {
    uint8_t kind, a, b;
    /* the member that moves dies before its action of this number, from 1; 0: it does not */
    uint8_t dies_at;
};

struct node {
    bool alive, left, excluded;
    bool asked_to_leave;
    /* the caller: it waits for a step, has begun one, has sealed it */
    bool wants, begun, sealed;
    bool replay;
    uint64_t step, told;
    uint64_t committed;  /* as it was told: the core may be further within one event */
    uint64_t in, out[2]; /* the one bucket has one element: a sum of powers of 16, by member */
    uint64_t epoch;
    bool linked[NODES], dialling[NODES];
};

/* What has happened, for promises about the past. */
struct history {
    struct {
        bool known;
        uint8_t members; /* a set */
        uint64_t settled;
    } view[EPOCHS];
    struct {
        bool known;
        uint64_t result, epoch; /* and of the view in which it became so */
    } stable[STEPS + 1];
    uint64_t result[NODES][STEPS + 1]; /* what each member got; 0: nothing */
};

struct world {
    uint64_t now_ns;
    uint32_t deaths, breaks, leaves, ticks; /* so many are left */
    struct node node[NODES];
    bool up[NODES][NODES];  /* the connection exists, whatever its ends know */
    bool cut[NODES][NODES]; /* and will not again */
    struct history history;
    const char *broken; /* promise; NULL: none */
    uint32_t actions;   /* of the last move, by the member that moved */
    uint32_t dies_at;   /* the member that moves, before its action of this number; 0: never */
    uint32_t wire_used;
    unsigned char wire[WIRE_BYTES];
};

extern struct world world;
extern struct bounds bounds;

/* All members in one view, nothing on its way, no step begun. */
void world_make(const struct bounds *wanted);
void world_free(void);

/* The moves that are possible now; at most `max`. Returns their number. */
uint32_t world_moves(struct move *move, uint32_t max);

/* Does not look at promises. */
void world_move(const struct move *move);

/* A state as bytes: world_bytes() of them, at most world_bytes_max(). */
size_t world_bytes_max(void);
size_t world_bytes(void);
void world_keep(unsigned char *bytes);
void world_restore(const unsigned char *bytes);

/* Equal for states that behave alike. */
uint64_t world_hash(void);

/* What each core does, to stderr, from now on. */
void world_tell(bool told);

/* check.c: sets world.broken. */
void check_view(uint32_t node);
void check_commit(uint32_t node, uint64_t step);
void check_state(void);
/* nothing can happen any more */
void check_end(void);

struct spotnik_core *world_core(uint32_t node);
struct spotnik_core_status world_status(uint32_t node);
uint32_t world_index(struct spotnik_id id); /* NODES: nobody */

#endif
