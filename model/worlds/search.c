/* SPDX-License-Identifier: Apache-2.0 */
/* Every order of moves of small worlds of real cores, and whether a promise breaks in one.
 *
 *     worlds            # the table: about half a minute; part of `make test`
 *     worlds long       # and the large ones
 *     worlds show NAME  # one world; tells the moves that lead to a broken promise
 *
 * Depth first, with the hashes of states that were seen. Ends with 1 if a promise was broken, or a
 * rule of the core was and no promise was. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "world.h"

#define DEPTH_MAX 400
#define MOVES_MAX 64

struct table {
    uint64_t *slot; /* 0: free */
    uint64_t size, used;
};

static struct table seen;
static struct move path[DEPTH_MAX];
static uint32_t depth, deepest;
static uint64_t states_max;
static unsigned char *kept[DEPTH_MAX];
static bool ended; /* at a broken promise, or at the bound */

static void table_grow(void)
{
    struct table old = seen;

    seen.size = old.size ? 2 * old.size : 1 << 16;
    seen.slot = calloc(seen.size, sizeof *seen.slot);
    SPOTNIK_ASSERT(seen.slot != NULL);
    for (uint64_t i = 0; i < old.size; i++)
        if (old.slot[i]) {
            uint64_t at = old.slot[i] & (seen.size - 1);
            while (seen.slot[at])
                at = (at + 1) & (seen.size - 1);
            seen.slot[at] = old.slot[i];
        }
    free(old.slot);
}

/* True: the state is new. */
static bool note(uint64_t hash)
{
    hash += hash == 0;
    if (2 * seen.used >= seen.size)
        table_grow();
    uint64_t at = hash & (seen.size - 1);
    while (seen.slot[at] && seen.slot[at] != hash)
        at = (at + 1) & (seen.size - 1);
    if (seen.slot[at])
        return false;
    seen.slot[at] = hash;
    seen.used++;
    return true;
}

static const char *const move_name[] = {
    [MOVE_MESSAGE] = "takes a message of", [MOVE_FRAME] = "takes a frame of",
    [MOVE_ANSWER] = "has dialled",         [MOVE_KILL] = "dies",
    [MOVE_BREAK] = "loses its link to",    [MOVE_LEAVE] = "asks to leave",
    [MOVE_TICK] = "time passes",
};

static void move_print(const struct move *move)
{
    bool takes = move->kind == MOVE_MESSAGE || move->kind == MOVE_FRAME;

    if (move->kind == MOVE_TICK)
        fprintf(stderr, "time passes\n");
    else
        fprintf(stderr, "%u %s %u%s", takes ? move->b : move->a, move_name[move->kind],
                takes ? move->a : move->b, move->dies_at ? ", and dies in the midst\n" : "\n");
}

static void search(void);

/* One move from the state that is kept at this depth, and all that follows. Returns the number of
 * actions of the member that moved. */
static uint32_t tried(const struct move *move)
{
    SPOTNIK_ASSERT(depth < DEPTH_MAX);
    path[depth++] = *move;
    world_move(move);
    uint32_t actions = world.actions;
    check_state();
    if (world.broken == NULL && note(world_hash()))
        search();
    ended = ended || world.broken != NULL || seen.used >= states_max;
    if (world.broken == NULL)
        depth--;
    return actions;
}

/* The same move, and its member dies before one of its actions: what it had sent by then is on its
 * way. Before the first one is as good as before the move. */
static void tried_dying(const struct move *move, uint32_t actions)
{
    for (uint32_t at = 2; !ended && world.deaths && at <= actions; at++) {
        struct move dying = { move->kind, move->a, move->b, (uint8_t)at };
        tried(&dying);
        if (!ended)
            world_restore(kept[depth]);
    }
}

static bool may_die(const struct move *move)
{
    return move->kind <= MOVE_ANSWER || move->kind == MOVE_LEAVE;
}

/* Nothing happens by itself any more. */
static bool is_quiet(const struct move *move, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (move[i].kind != MOVE_KILL && move[i].kind != MOVE_LEAVE)
            return false;
    return true;
}

static void search(void)
{
    struct move move[MOVES_MAX];
    uint32_t count = world_moves(move, MOVES_MAX);

    deepest = depth > deepest ? depth : deepest;
    if (bounds.breaks == 0 && is_quiet(move, count))
        check_end();
    if (kept[depth] == NULL)
        kept[depth] = malloc(world_bytes_max());
    SPOTNIK_ASSERT(kept[depth] != NULL);
    world_keep(kept[depth]);
    for (uint32_t i = 0; i < count && !ended && world.broken == NULL; i++) {
        uint32_t actions = tried(&move[i]);
        if (!ended)
            world_restore(kept[depth]);
        if (may_die(&move[i]))
            tried_dying(&move[i], actions);
    }
}

/* ---- the table ---- */

struct line {
    const char *name;
    struct bounds bounds;
    bool is_long;
};

/* A line with a broken rule is to break a promise: the search would be blind otherwise. */
#define W(...) { __VA_ARGS__ }
static const struct line lines[] = {
    { "2 members, 1 death, 3 steps", W(.members = 2, .deaths = 1, .ticks = 12, .steps = 3), false },
    { "3 members, 1 death, 2 steps", W(.members = 3, .deaths = 1, .ticks = 12, .steps = 2), false },
    { "3 members, 2 deaths, 1 step", W(.members = 3, .deaths = 2, .ticks = 12, .steps = 1), false },
    { "3 members, 1 leaves, 1 death",
      W(.members = 3, .deaths = 1, .leaves = 1, .ticks = 12, .steps = 1), true },
    { "3 members, 2 leave", W(.members = 3, .leaves = 2, .ticks = 12, .steps = 1), true },
    { "3 members, 1 break, 1 death",
      W(.members = 3, .deaths = 1, .breaks = 1, .ticks = 12, .steps = 1), true },
    { "3 members, 2 breaks", W(.members = 3, .breaks = 2, .ticks = 12, .steps = 1), true },
    { "3 members, 2 paths cut",
      W(.members = 3, .breaks = 2, .for_good = true, .ticks = 12, .steps = 1), true },
    { "3 members, 2 breaks by a proxy",
      W(.members = 3, .breaks = 2, .in_order = true, .ticks = 12, .steps = 1), true },
    { "3 by a tree, 1 death, 2 steps",
      W(.members = 3, .tree = true, .deaths = 1, .ticks = 12, .steps = 2), false },
    { "3 by a tree, 2 deaths, 1 step",
      W(.members = 3, .tree = true, .deaths = 2, .ticks = 12, .steps = 1), false },
    { "3 by a tree, 1 break, 1 death",
      W(.members = 3, .tree = true, .deaths = 1, .breaks = 1, .ticks = 12, .steps = 1), true },
    { "3 by a tree, 1 leaves, 1 death",
      W(.members = 3, .tree = true, .deaths = 1, .leaves = 1, .ticks = 12, .steps = 1), true },
    { "3 by a tree, 2 paths cut",
      W(.members = 3, .tree = true, .breaks = 2, .for_good = true, .ticks = 12, .steps = 1), true },
    { "4 by a tree, 1 death, 1 step",
      W(.members = 4, .tree = true, .deaths = 1, .ticks = 12, .steps = 1), true },
    { "4 members, 1 death, 1 step", W(.members = 4, .deaths = 1, .ticks = 12, .steps = 1), true },
    { "bug: commits after a promise",
      W(.members = 3, .deaths = 1, .ticks = 12, .steps = 2,
        .bugs = SPOTNIK_BUG_COMMIT_AFTER_PROMISE),
      false },
    { "bug: accepted proposals ignored",
      W(.members = 3, .deaths = 2, .ticks = 12, .steps = 1, .bugs = SPOTNIK_BUG_IGNORE_ACCEPTED),
      false },
    { "bug: the same, by a tree",
      W(.members = 3, .tree = true, .deaths = 2, .ticks = 12, .steps = 1,
        .bugs = SPOTNIK_BUG_IGNORE_ACCEPTED),
      false },
    { "bug: any quorum will do",
      W(.members = 3, .breaks = 2, .for_good = true, .ticks = 12, .steps = 1,
        .bugs = SPOTNIK_BUG_ANY_QUORUM),
      false },
    { "bug: laggards not served",
      W(.members = 3, .deaths = 1, .ticks = 12, .steps = 2, .bugs = SPOTNIK_BUG_SKIP_HANDOVER),
      false },
    { "bug: the end of a link is a death",
      W(.members = 3, .breaks = 2, .in_order = true, .ticks = 12, .steps = 1,
        .bugs = SPOTNIK_BUG_END_IS_GONE),
      false },
};

static const struct line *shown; /* in the story of a broken promise */

static void story(void)
{
    struct bounds told = bounds;
    uint32_t length = depth;

    world_free();
    world_make(&told);
    world_tell(true);
    for (uint32_t i = 0; i < length; i++) {
        move_print(&path[i]);
        world_move(&path[i]);
    }
}

static void abort_tell(int number)
{
    (void)number;
    for (uint32_t i = 0; i < depth; i++)
        move_print(&path[i]);
    _Exit(1);
}

static bool run(const struct line *line, uint64_t max)
{
    struct bounds wanted = line->bounds;

    world_make(&wanted);
    depth = deepest = 0;
    ended = false;
    states_max = max;
    free(seen.slot);
    seen = (struct table){ 0 };
    search();
    printf("%-36s %10" PRIu64 " states %5u deep  %s%s\n", line->name, seen.used, deepest,
           world.broken ? world.broken
           : ended      ? "not all of them"
                        : "holds",
           "");
    fflush(stdout);
    if (world.broken != NULL && shown == line)
        story();
    bool holds = (world.broken == NULL) == (line->bounds.bugs == 0);
    world_free();
    return holds;
}

int main(int argc, char **argv)
{
    bool failed = false;
    const char *what = argc > 1 ? argv[1] : "short";
    uint64_t max = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;

    signal(SIGABRT, abort_tell);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const struct line *line = &lines[i];
        bool named = !strcmp(what, "show") && argc > 2 && !strcmp(argv[2], line->name);
        if (named)
            shown = line;
        if (named || (strcmp(what, "show") && (!line->is_long || !strcmp(what, "long"))))
            failed |= !run(line, max);
    }
    return failed;
}
