/* SPDX-License-Identifier: Apache-2.0 */
/* Our place in our founding, and members of another founding of the same name that we meet. No
 * link to them is made; both jobs go on, and the user gets one message. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/inside.h"
#include "link/address.h"

/* ---- our place ---- */

void spotnik_presence_get(const struct spotnik_runtime *runtime, struct spotnik_presence *ret)
{
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    bool none = status.role != SPOTNIK_ROLE_MEMBER || runtime->ended != 0 || runtime->excluded;
    *ret = none ? (struct spotnik_presence){ .size = 0 }
                : (struct spotnik_presence){ .founding = view->founding,
                                             .step = status.committed,
                                             .size = view->size };
}

void spotnik_runtime_presence(struct spotnik_runtime *runtime, struct spotnik_presence *ret)
{
    spotnik_runtime_lock(runtime);
    spotnik_presence_get(runtime, ret);
    spotnik_runtime_unlock(runtime);
}

void spotnik_past_note(struct spotnik_runtime *runtime)
{
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    if (view->founding.id != 0)
        runtime->past = view->founding;
}

struct spotnik_founding spotnik_runtime_past(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    struct spotnik_founding past = runtime->past;
    spotnik_runtime_unlock(runtime);
    return past;
}

/* ---- the user's message ---- */

void spotnik_presence_describe(const struct spotnik_presence *presence, char *text, size_t size)
{
    time_t seconds = (time_t)(presence->founding.founded_at_ms / 1000);
    char founded[32] = "at an unknown time";
    struct tm utc;
    if (presence->founding.founded_at_ms != SPOTNIK_BORN_UNKNOWN
        && gmtime_r(&seconds, &utc) != NULL)
        strftime(founded, sizeof founded, "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(text, size, "%016" PRIx64 " (founded %s, %" PRIu32 " member%s, step %" PRIu64 ")",
             presence->founding.id, founded, presence->size, presence->size == 1 ? "" : "s",
             presence->step);
}

static void tell(struct spotnik_runtime *runtime, const char *text)
{
    snprintf(runtime->lineage_text, sizeof runtime->lineage_text, "%s", text);
    runtime->lineages_told++;
}

/* Those we meet we may meet every second. */
static void foreign_note(struct spotnik_runtime *runtime, const struct spotnik_presence *ours,
                         const struct spotnik_presence *theirs, const struct spotnik_member *peer)
{
    char at[SPOTNIK_ADDRESS_TEXT], their_text[120], our_text[120], text[400];
    if (runtime->foreign == theirs->founding.id)
        return;
    runtime->foreign = theirs->founding.id;
    spotnik_presence_describe(theirs, their_text, sizeof their_text);
    spotnik_presence_describe(ours, our_text, sizeof our_text);
    snprintf(text, sizeof text,
             "%s is a member of another job of this name, %s; ours is %s. Both go on. End one of "
             "them, or start it again with another SPOTNIK_JOB",
             spotnik_address_format(at, peer->address, peer->port), their_text, our_text);
    tell(runtime, text);
}

static bool is_foreign(struct spotnik_runtime *runtime, const struct spotnik_presence *theirs,
                       const struct spotnik_member *peer)
{
    struct spotnik_presence ours;
    spotnik_presence_get(runtime, &ours);
    if (!spotnik_founding_is_foreign(&ours.founding, &theirs->founding))
        return false;
    foreign_note(runtime, &ours, theirs, peer);
    return true;
}

bool spotnik_shake_differs(struct spotnik_runtime *runtime, const struct spotnik_shake *shake)
{
    const struct spotnik_presence *theirs = &shake->wire.peer_presence;
    struct spotnik_presence ours;
    spotnik_presence_get(runtime, &ours);
    return is_foreign(runtime, theirs, &shake->wire.peer)
           || spotnik_founding_differs(&ours.founding, &theirs->founding);
}

bool spotnik_runtime_is_foreign(struct spotnik_runtime *runtime,
                                const struct spotnik_answer *answer)
{
    spotnik_runtime_lock(runtime);
    bool foreign = is_foreign(runtime, &answer->presence, &answer->self);
    spotnik_runtime_unlock(runtime);
    return foreign;
}

void spotnik_runtime_lineage_tell(struct spotnik_runtime *runtime, const char *text)
{
    spotnik_runtime_lock(runtime);
    tell(runtime, text);
    spotnik_runtime_unlock(runtime);
}

uint64_t spotnik_runtime_lineage_told(struct spotnik_runtime *runtime, char *text, size_t size)
{
    spotnik_runtime_lock(runtime);
    uint64_t told = runtime->lineages_told;
    snprintf(text, size, "%s", runtime->lineage_text);
    spotnik_runtime_unlock(runtime);
    return told;
}
