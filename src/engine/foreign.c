/* SPDX-License-Identifier: Apache-2.0 */
/* Our place in our founding, and members of another founding of the same name that we meet. No
 * link to them is made; both jobs go on, and the user is told once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/inside.h"
#include "link/address.h"

/* ---- our place ---- */

void spotnik_presence_get(const struct spotnik_engine *engine, struct spotnik_presence *ret)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    bool none = status.role != SPOTNIK_ROLE_MEMBER || engine->ended != 0 || engine->excluded;
    *ret = none ? (struct spotnik_presence){ .size = 0 }
                : (struct spotnik_presence){ .founding = view->founding,
                                             .step = status.committed,
                                             .size = view->size };
}

void spotnik_engine_presence(struct spotnik_engine *engine, struct spotnik_presence *ret)
{
    spotnik_engine_lock(engine);
    spotnik_presence_get(engine, ret);
    spotnik_engine_unlock(engine);
}

void spotnik_past_note(struct spotnik_engine *engine)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    if (view->founding.id != 0)
        engine->past = view->founding;
}

struct spotnik_founding spotnik_engine_past(struct spotnik_engine *engine)
{
    spotnik_engine_lock(engine);
    struct spotnik_founding past = engine->past;
    spotnik_engine_unlock(engine);
    return past;
}

/* ---- what the user is told ---- */

void spotnik_presence_describe(const struct spotnik_presence *presence, char *text, size_t size)
{
    time_t seconds = (time_t)(presence->founding.born_ms / 1000);
    char founded[32] = "at an unknown time";
    struct tm utc;
    if (presence->founding.born_ms != SPOTNIK_BORN_UNKNOWN && gmtime_r(&seconds, &utc) != NULL)
        strftime(founded, sizeof founded, "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(text, size, "%016" PRIx64 " (founded %s, %" PRIu32 " member%s, step %" PRIu64 ")",
             presence->founding.id, founded, presence->size, presence->size == 1 ? "" : "s",
             presence->step);
}

static void tell(struct spotnik_engine *engine, const char *text)
{
    snprintf(engine->lineage_text, sizeof engine->lineage_text, "%s", text);
    engine->lineages_told++;
}

/* Those we meet we may meet every second. */
static void foreign_note(struct spotnik_engine *engine, const struct spotnik_presence *ours,
                         const struct spotnik_presence *theirs, const struct spotnik_member *peer)
{
    char at[SPOTNIK_ADDRESS_TEXT], their_text[120], our_text[120], text[400];
    if (engine->foreign == theirs->founding.id)
        return;
    engine->foreign = theirs->founding.id;
    spotnik_presence_describe(theirs, their_text, sizeof their_text);
    spotnik_presence_describe(ours, our_text, sizeof our_text);
    snprintf(text, sizeof text,
             "%s is a member of another job of this name, %s; ours is %s. Both go on. End one of "
             "them, or start it again with another SPOTNIK_JOB",
             spotnik_address_format(at, peer->address, peer->port), their_text, our_text);
    tell(engine, text);
}

static bool is_foreign(struct spotnik_engine *engine, const struct spotnik_presence *theirs,
                       const struct spotnik_member *peer)
{
    struct spotnik_presence ours;
    spotnik_presence_get(engine, &ours);
    if (!spotnik_founding_is_foreign(&ours.founding, &theirs->founding))
        return false;
    foreign_note(engine, &ours, theirs, peer);
    return true;
}

bool spotnik_shake_differs(struct spotnik_engine *engine, const struct spotnik_shake *shake)
{
    const struct spotnik_presence *theirs = &shake->wire.peer_presence;
    struct spotnik_presence ours;
    spotnik_presence_get(engine, &ours);
    return is_foreign(engine, theirs, &shake->wire.peer)
           || spotnik_founding_differs(&ours.founding, &theirs->founding);
}

bool spotnik_engine_is_foreign(struct spotnik_engine *engine, const struct spotnik_answer *answer)
{
    spotnik_engine_lock(engine);
    bool foreign = is_foreign(engine, &answer->presence, &answer->self);
    spotnik_engine_unlock(engine);
    return foreign;
}

void spotnik_engine_lineage_tell(struct spotnik_engine *engine, const char *text)
{
    spotnik_engine_lock(engine);
    tell(engine, text);
    spotnik_engine_unlock(engine);
}

uint64_t spotnik_engine_lineage_told(struct spotnik_engine *engine, char *text, size_t size)
{
    spotnik_engine_lock(engine);
    uint64_t told = engine->lineages_told;
    snprintf(text, size, "%s", engine->lineage_text);
    spotnik_engine_unlock(engine);
    return told;
}
