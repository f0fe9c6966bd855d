/* SPDX-License-Identifier: Apache-2.0 */
/* Pause check: have the others decided without us while we were stopped?
 * (docs/design/0014-ties.md)
 *
 * Data from before the stop may complete a step that the others repeat without us, since they took
 * us for lost. So a member whose own clock is late asks all members it is linked to. It commits
 * nothing until a quorum of the view has answered that it has promised nothing in our epoch. A
 * member that has gone on answers with its view, by a rule that holds anyway, so we learn it at
 * once. If no quorum answers, a ballot finds out. Decides only when to hold commits back; no
 * promise of safety rests on it. Rules: docs/protocol.md 9. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "member/lineage.h"
#include "membership/audit.h"

/* In large rings no member has links to a quorum; this number is enough. */
#define ASSURED_ENOUGH 32
#define AGAIN_MAX 4

void pause_check_init(struct pause *pause)
{
    pause->until_ns = SPOTNIK_NEVER;
}

/* How late we may be: half of what makes others suspect us. Those of our own host are more patient.
 * One in a pause check that is late again and again, on a host that is too busy, is believed sooner
 * or later. */
static uint64_t patience_ns(const struct pause *pause, const struct pause_input *in)
{
    SPOTNIK_ASSERT(in->view->size >= 2);
    SPOTNIK_ASSERT(pause->again <= AGAIN_MAX);
    return in->silence_ns / 2 << pause->again;
}

static void arm(struct pause *pause, const struct pause_input *in)
{
    uint64_t wait_ns = in->retry_ns + in->view->size * SPOTNIK_MS + in->rank * in->stagger_ns;

    SPOTNIK_ASSERT(in->rank < in->view->size);
    pause->until_ns = spotnik_time_add(in->now_ns, wait_ns);
}

static bool assured(struct pause *pause, const struct pause_input *in)
{
    uint32_t count = 0;

    SPOTNIK_ASSERT(pause->on);
    for (uint32_t rank = 0; rank < in->view->size; rank++) {
        pause->answer[rank].evidence = in->evidence[rank].evidence;
        count += pause->answer[rank].promised;
    }
    return count > ASSURED_ENOUGH || spotnik_lineage_allows(in->view, pause->answer, false);
}

static void end(struct pause *pause)
{
    SPOTNIK_ASSERT(pause->on);
    pause->on = false;
    pause->again = 0;
    pause->until_ns = SPOTNIK_NEVER;
}

/* True: the answers suffice. */
static bool settle(struct pause *pause, const struct pause_input *in)
{
    if (!assured(pause, in))
        return false;
    end(pause);
    return true;
}

/* What was answered before counts no more. */
static void forget_answers(struct pause *pause, const struct pause_input *in)
{
    SPOTNIK_ASSERT(in->rank < in->view->size);
    SPOTNIK_ASSERT(pause->on);
    pause->serial++;
    pause->ask_due = true;
    memset(pause->answer, 0, in->view->size * sizeof(*pause->answer));
    pause->answer[in->rank].promised = 1;
}

/* At the end of an event, which may have been the end of a link, and of our membership: then `in`
 * is NULL. */
struct pause_effects pause_check_ask(struct pause *pause, const struct pause_input *in)
{
    SPOTNIK_ASSERT(pause->ask_due);
    pause->ask_due = false;
    if (!in || !pause->on)
        return (struct pause_effects){ 0 };
    return (struct pause_effects){ .ask = true, .commit = settle(pause, in) };
}

struct pause_effects pause_check_begin(struct pause *pause, const struct pause_input *in)
{
    SPOTNIK_ASSERT(in->view->size >= 2);
    if (!pause->on)
        arm(pause, in);
    else if (pause->again < AGAIN_MAX)
        pause->again++;
    pause->on = true;
    pause->since_ns = in->now_ns;
    forget_answers(pause, in);
    return (struct pause_effects){ .started = true };
}

/* Before every event, whatever it is: the first that we see after we were stopped shows it.
 * `heartbeat_ns`: when our heartbeat was due. We may be stopped again before the tick that sends
 * it. Then what we asked may have been answered before the second stop. True: begin. */
bool pause_check_late(struct pause *pause, const struct pause_input *in, uint64_t heartbeat_ns)
{
    SPOTNIK_ASSERT(heartbeat_ns < in->now_ns);
    uint64_t from_ns = heartbeat_ns > pause->noticed_ns ? heartbeat_ns : pause->noticed_ns;
    if (spotnik_time_since(in->now_ns, from_ns) < patience_ns(pause, in))
        return false;
    pause->noticed_ns = in->now_ns;
    return true;
}

/* A view that was chosen in a ballot which we promised since we are in a pause check was chosen
 * since. Any other may have been on its way to us. */
bool pause_check_ends_with(const struct pause *pause, uint64_t promised_ns,
                           struct spotnik_ballot promised, struct spotnik_ballot chosen)
{
    return promised_ns >= pause->since_ns && spotnik_ballot_compare(promised, chosen) == 0;
}

/* A view is installed. */
void pause_check_view(struct pause *pause, const struct pause_input *in, bool ends)
{
    if (pause->on && ends) {
        end(pause);
    } else if (pause->on) {
        arm(pause, in);
        forget_answers(pause, in);
    }
}

/* No quorum has answered: a ballot is one way to reach all members. */
struct pause_effects pause_check_expire(struct pause *pause, const struct pause_input *in)
{
    SPOTNIK_ASSERT(in->now_ns >= pause->until_ns);
    arm(pause, in);
    return (struct pause_effects){ .ballot = !in->frozen };
}

/* The member at `rank` has promised nothing in our epoch, as it answered to `serial`. */
struct pause_effects pause_check_hear(struct pause *pause, const struct pause_input *in,
                                      uint32_t rank, uint64_t serial)
{
    SPOTNIK_ASSERT(rank < in->view->size);
    if (!pause->on || serial != pause->serial)
        return (struct pause_effects){ 0 };
    pause->answer[rank].promised = 1;
    return (struct pause_effects){ .commit = settle(pause, in) };
}
