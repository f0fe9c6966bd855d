/* SPDX-License-Identifier: Apache-2.0 */
/* Other lineages of our job: our own identity, the lineages we have met, and the words of members
 * and operators about them (docs/design/0028-lineages.md). Decides only which lineage is foreign;
 * src/peers, which keeps our place, acts on it. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/inside.h"

/* ---- our identity ---- */

void spotnik_presence_get(const struct spotnik_engine *engine, struct spotnik_presence *ret)
{
    spotnik_core_presence(engine->core, ret);
    if (engine->ended != 0 || engine->excluded || engine->left || engine->gives_way)
        *ret = (struct spotnik_presence){ .epoch = 0 };
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

/* ---- lineages that we meet ---- */

/* That we yield is told first; of the rest the newest. Members of a history that ends end one after
 * the other, so those that are left make views of their own. Such a view has a higher epoch: were
 * it heard by the other side, or met, that one would step aside for it, and nobody would go on. */
static void note(struct spotnik_engine *engine, const struct spotnik_encounter *encounter)
{
    engine->encounters++;
    engine->gives_way |= encounter->fork && encounter->meeting == SPOTNIK_MEETING_YIELD;
    if (engine->encounter.meeting != SPOTNIK_MEETING_YIELD)
        engine->encounter = *encounter;
}

static enum spotnik_meeting meet(struct spotnik_engine *engine,
                                 const struct spotnik_presence *theirs,
                                 const struct spotnik_member *peer)
{
    struct spotnik_encounter encounter = { .theirs = *theirs, .peer = *peer };
    spotnik_presence_get(engine, &encounter.ours);
    encounter.meeting =
        spotnik_founding_meet(&encounter.ours, theirs, spotnik_core_chains(engine->core));
    encounter.fork = encounter.ours.founding.id == theirs->founding.id;
    if (encounter.fork && engine->config.limits.minority_continues)
        encounter.meeting = SPOTNIK_MEETING_NOTHING; /* asked for */
    if (encounter.meeting != SPOTNIK_MEETING_NOTHING)
        note(engine, &encounter);
    return encounter.meeting;
}

bool spotnik_meet_is_foreign(struct spotnik_engine *engine, const struct spotnik_shake *shake)
{
    return meet(engine, &shake->wire.peer_presence, &shake->wire.peer) != SPOTNIK_MEETING_NOTHING;
}

enum spotnik_meeting spotnik_engine_meet(struct spotnik_engine *engine,
                                         const struct spotnik_answer *answer)
{
    spotnik_engine_lock(engine);
    enum spotnik_meeting meeting = meet(engine, &answer->presence, &answer->self);
    spotnik_engine_unlock(engine);
    return meeting;
}

bool spotnik_engine_encounter_take(struct spotnik_engine *engine, struct spotnik_encounter *ret)
{
    spotnik_engine_lock(engine);
    bool any = engine->encounter.meeting != SPOTNIK_MEETING_NOTHING || engine->encounter.forced;
    *ret = engine->encounter;
    engine->encounter = (struct spotnik_encounter){ .meeting = SPOTNIK_MEETING_NOTHING };
    spotnik_engine_unlock(engine);
    return any;
}

void spotnik_engine_lineage_tell(struct spotnik_engine *engine, const char *text)
{
    spotnik_engine_lock(engine);
    snprintf(engine->lineage_text, sizeof engine->lineage_text, "%s", text);
    engine->lineages_told++;
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

/* ---- words ---- */

/* Of two histories the one with the higher epoch stands. So what was true of an earlier view of
 * ours need not be of this one: then we find out by meeting the other. */
static const char *yield_take(struct spotnik_engine *engine, uint64_t argument, bool fork,
                              const struct spotnik_shake *shake)
{
    struct spotnik_encounter encounter = {
        .meeting = SPOTNIK_MEETING_YIELD, .told = true, .fork = fork, .peer = shake->wire.peer
    };
    spotnik_presence_get(engine, &encounter.ours);
    encounter.theirs.founding.id = fork ? encounter.ours.founding.id : argument;
    if (encounter.ours.founding.id == 0)
        return "is in no lineage";
    if (fork ? encounter.ours.chain != argument || argument == 0
             : encounter.ours.founding.id == argument)
        return "stands";
    encounter.argument = argument;
    note(engine, &encounter);
    return "yields";
}

static const char *force_take(struct spotnik_engine *engine)
{
    struct spotnik_presence ours;
    spotnik_presence_get(engine, &ours);
    if (ours.founding.id == 0 || !ours.parked)
        return "is not parked: nothing was done";
    engine->encounter.forced = true;
    return "goes on alone";
}

/* The words stand in the nonce of HELLO (link/shake.h). */
void spotnik_word_take(struct spotnik_engine *engine, const struct spotnik_shake *shake,
                       char *ret_line, size_t size)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_reader reader;
    spotnik_shake_answers(shake, name);
    spotnik_reader_init(&reader, name, sizeof name);
    uint64_t word = spotnik_reader_u64(&reader), argument = spotnik_reader_u64(&reader);
    if (word == SPOTNIK_WORD_DUMP) {
        spotnik_recorder_dump(engine->recorder, "spotnik status --dump asked", true, ret_line,
                              size);
        return;
    }
    const char *answer = "does not know this word";
    if (word == SPOTNIK_WORD_STANDS || word == SPOTNIK_WORD_FORK)
        answer = yield_take(engine, argument, word == SPOTNIK_WORD_FORK, shake);
    else if (word == SPOTNIK_WORD_FORCE)
        answer = force_take(engine);
    snprintf(ret_line, size, "%s", answer);
}
