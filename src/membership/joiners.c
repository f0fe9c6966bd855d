/* SPDX-License-Identifier: Apache-2.0 */
/* Sponsor: which joiners ask, which of them is worth a view change, and how long all members wait
 * for it. A view change comes at a quiet moment of the sponsor: at once while its caller computes,
 * else right after its next commit. So no data already moved is reduced twice for the sake of a
 * joiner (P7). Rules: docs/protocol.md 11. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/admission.h"

enum {
    ENTER_NEAR = 2,       /* steps behind: the members wait for it */
    ENTER_FAR = 64,       /* steps behind: not even a try, unless they are quick ones */
    ENTER_FAR_PAUSE = 16, /* times enter_wait_ns between two tries for a far one */
    ENTER_STALLED = 8,    /* steps of ours in which it came no nearer */
    ENTER_PATIENCE = 2,   /* times as long as a step of ours that replaying one may take it */
    ENTER_REST = 8,       /* times as long as the wait for it was, when that was in vain; */
    ENTER_TRIES = 3,      /* doublings of our patience after that */
    ENTER_HEARD = 2,      /* heartbeats without a word: it asks another member */
};

void joiners_init(struct joiners *joiners)
{
    joiners->limit_ns = SPOTNIK_NEVER;
}

static uint64_t steps_behind(const struct joiners_input *in, const struct joiner *joiner)
{
    uint64_t its = joiner->enter.committed;
    return its < in->committed ? in->committed - its : 0;
}

/* NULL: it need not rest and never had to. */
static struct joiner_backoff *backoff_find(struct joiners *joiners, struct spotnik_id id)
{
    for (uint32_t i = 0; i < JOINER_BACKOFF_MAX; i++)
        if (spotnik_id_equal(joiners->backoff[i].id, id))
            return &joiners->backoff[i];
    return NULL;
}

/* One that replays no faster than we step will never come near while we go on. */
static bool stalled(const struct joiners_input *in, const struct joiner *joiner)
{
    SPOTNIK_ASSERT(joiner->nearest_step <= in->committed);
    SPOTNIK_ASSERT(joiner->nearest_ns <= in->now_ns);
    return in->committed - joiner->nearest_step >= ENTER_STALLED
           && in->now_ns - joiner->nearest_ns >= 2 * in->enter_wait_ns;
}

/* Waiting for it would hold us up for longer than a loss may. Quick steps count by their time: over
 * slow links a job of 2 ms steps is a hundred of them ahead before a joiner has copied its state
 * and met all members. */
static bool too_far(const struct joiners_input *in, uint64_t behind)
{
    return behind > ENTER_FAR && behind > in->silence_ceiling_ns / (in->step_ns + 1);
}

/* A joiner two steps behind will be near enough when PREPARE has gone round, or when it has
 * replayed the rest: all members wait for it. The same is done for one that comes no nearer, and
 * for one that we have waited for in vain: the next sponsor that it asks has not seen yet that
 * it comes no nearer, and would make the same short try for ever. Any other that looks further
 * behind may only be far away, in a job that steps faster than news travels: it is worth a try
 * now and then, with enter_wait_ns to make up for the rest. */
static bool worth_a_try(struct joiners *joiners, const struct joiners_input *in,
                        const struct joiner *joiner)
{
    const struct joiner_backoff *backoff = backoff_find(joiners, joiner->enter.member.id);
    uint64_t behind = steps_behind(in, joiner);

    joiners->deadline_ns = 0;
    if ((backoff && in->now_ns < backoff->until_ns) || too_far(in, behind))
        return false;
    if (behind <= ENTER_NEAR || backoff || stalled(in, joiner)) {
        uint64_t patience_ns = in->enter_wait_ns + behind * ENTER_PATIENCE * in->step_ns;
        joiners->deadline_ns =
            spotnik_time_add(in->now_ns, patience_ns << (backoff ? backoff->tries : 0));
        return true;
    }
    if (in->now_ns < joiners->far_ns)
        return false;
    joiners->far_ns = spotnik_time_add(in->now_ns, ENTER_FAR_PAUSE * in->enter_wait_ns);
    return true;
}

/* At a quiet moment: is one of them worth a view change? */
bool joiners_due(struct joiners *joiners, const struct joiners_input *in)
{
    for (uint32_t i = 0; i < joiners->count; i++)
        if (worth_a_try(joiners, in, &joiners->joiner[i]))
            return true;
    return false;
}

/* A joiner asks every heartbeat. One that has fallen silent would be let in dead, or keep us trying
 * for ever: the caller forgets it, and asks again. False: none has. */
bool joiners_silent(const struct joiners *joiners, const struct joiners_input *in,
                    struct spotnik_id *ret)
{
    for (uint32_t i = joiners->count; i-- > 0;)
        if (spotnik_time_since(in->now_ns, joiners->joiner[i].heard_ns) > in->silence_ceiling_ns) {
            *ret = joiners->joiner[i].enter.member.id;
            return true;
        }
    return false;
}

static struct joiner *find(struct joiners *joiners, struct spotnik_id id)
{
    SPOTNIK_ASSERT(joiners->count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < joiners->count; i++)
        if (spotnik_id_equal(joiners->joiner[i].enter.member.id, id))
            return &joiners->joiner[i];
    return NULL;
}

/* Has it asked us, of all members, after `since_ns`, and not long ago? It asks every heartbeat. */
bool joiners_heard(const struct joiners *joiners, const struct joiners_input *in,
                   struct spotnik_id id, uint64_t since_ns)
{
    SPOTNIK_ASSERT(joiners->count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < joiners->count; i++) {
        const struct joiner *joiner = &joiners->joiner[i];
        if (spotnik_id_equal(joiner->enter.member.id, id))
            return joiner->heard_ns > since_ns
                   && in->now_ns - joiner->heard_ns <= ENTER_HEARD * in->heartbeat_ns;
    }
    return false;
}

/* False: there is no place. It asks again, or another member. */
bool joiners_remember(struct joiners *joiners, const struct joiners_input *in,
                      const struct spotnik_enter *enter)
{
    struct joiner *joiner = find(joiners, enter->member.id);

    if (!joiner && joiners->count < SPOTNIK_JOINERS_MAX) {
        joiner = &joiners->joiner[joiners->count++];
        joiner->nearest = UINT64_MAX;
    }
    if (!joiner)
        return false;
    joiner->enter = *enter;
    joiner->heard_ns = in->now_ns;
    uint64_t behind = steps_behind(in, joiner);
    if (behind < joiner->nearest) {
        joiner->nearest = behind;
        joiner->nearest_step = in->committed;
        joiner->nearest_ns = in->now_ns;
    }
    return true;
}

void joiners_remove(struct joiners *joiners, struct spotnik_id id)
{
    struct joiner *joiner = find(joiners, id);

    if (joiner)
        *joiner = joiners->joiner[--joiners->count];
}

/* It could not catch up while all stood frozen for `took_ns`: it rests 8 times as long
 * (ENTER_REST). So a joiner that never catches up does not delay us again and again. */
void joiners_back_off(struct joiners *joiners, struct spotnik_id id, uint64_t now_ns,
                      uint64_t took_ns)
{
    struct joiner_backoff *backoff = backoff_find(joiners, id);

    SPOTNIK_ASSERT(took_ns > 0);
    if (!backoff) {
        backoff = &joiners->backoff[joiners->backoff_next++ % JOINER_BACKOFF_MAX];
        *backoff = (struct joiner_backoff){ .id = id };
    }
    backoff->until_ns = spotnik_time_add(now_ns, ENTER_REST * took_ns);
    backoff->tries += backoff->tries < ENTER_TRIES;
}

/* A loss is no time to wait for joiners. */
void joiners_hurry(struct joiners *joiners, uint64_t now_ns)
{
    joiners->deadline_ns = joiners->limit_ns = now_ns;
}

/* All members wait for a joiner. Returns until when: one wait for each epoch, however many ballots
 * it takes. */
uint64_t joiners_wait(struct joiners *joiners, uint64_t now_ns, uint64_t enter_wait_ns)
{
    if (joiners->limit_ns == SPOTNIK_NEVER) {
        uint64_t shortest_ns = spotnik_time_add(now_ns, enter_wait_ns);
        joiners->limit_ns = shortest_ns > joiners->deadline_ns ? shortest_ns : joiners->deadline_ns;
    }
    return joiners->limit_ns;
}

/* A view is installed: no joiner is waited for. */
void joiners_view(struct joiners *joiners)
{
    joiners->limit_ns = SPOTNIK_NEVER;
    joiners->deadline_ns = 0;
}
