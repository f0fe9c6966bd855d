/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner that replays no faster than the members step stays as far behind as its copy of the
 * state took, for ever. Decides when the member that streams to it waits at a boundary, which holds
 * up all of them, until it is near: once, while it comes nearer; then rarely. It does the same for
 * one that the log would drop, once it has dropped one. What becomes of one that is near is the
 * core's (src/membership/joiners.c), which does the same for the last steps
 * (docs/design/0003-state-transfer.md, catching up). */

#include "base/clock.h"
#include "base/time.h"
#include "transfer/donor_inside.h"

#define FAR_STEPS 64 /* behind; fewer are the core's */
#define NEAR_STEPS 2
/* over which it is seen whether it comes nearer; not less than SPOTNIK_DONOR_WINDOW_NS */
#define WINDOW_STEPS 64
#define GAIN_SHIFT 3 /* left to itself while it makes an eighth more steps than we */
#define WINDOWS 32   /* that a wait lasts at most, since it makes up this part in each */
#define REST 8       /* times as long as a wait that was in vain */

static uint64_t behind(const struct spotnik_donor *donor, const struct spotnik_session *session)
{
    return session->needed < donor->committed ? donor->committed - session->needed : 0;
}

static bool is_far(const struct spotnik_donor *donor, const struct spotnik_session *session)
{
    return session->following && !session->dropped && behind(donor, session) > FAR_STEPS;
}

/* At the end of a window: has it made too few steps in it? */
static bool is_stalled(const struct spotnik_donor *donor, struct spotnik_session *session,
                       uint64_t now_ns)
{
    if (!is_far(donor, session)) {
        session->window_ns = 0;
        return false;
    }
    uint64_t far = behind(donor, session), made = donor->committed - session->window_step;
    bool open = session->window_ns != 0;

    if (open && (now_ns - session->window_ns < SPOTNIK_DONOR_WINDOW_NS || made < WINDOW_STEPS))
        return false;
    bool stalled = open && far + (made >> GAIN_SHIFT) > session->window_behind
                   && now_ns >= session->rest_until_ns;

    session->window_ns = now_ns;
    session->window_step = donor->committed;
    session->window_behind = far;
    return stalled;
}

/* The log dropped one before, and fills up again for this one. Where the members fill it in less
 * time than a copy and an entry take, each attempt would end so. */
static bool is_dropped_next(const struct spotnik_donor *donor,
                            const struct spotnik_session *session, uint64_t now_ns)
{
    return donor->log_wait_from_ns != 0 && now_ns >= donor->log_wait_from_ns
           && donor->log.bytes > donor->log_bytes_max / 2 && session->snapshot && !session->dropped
           && session->needed <= donor->log.first->step;
}

/* It may end while the lock is given up. */
static bool is_there(const struct spotnik_donor *donor, const struct spotnik_session *session)
{
    for (const struct spotnik_session *at = donor->session; at; at = at->next)
        if (at == session)
            return !session->dropped && !donor->stopping;
    return false;
}

/* True: it is near, or it has ended and must not be touched. False: a window has passed. One that
 * `enters` is waited for until it ends: before its word that it is near has come, the members would
 * be far again. */
static bool is_over_in_time(struct spotnik_donor *donor, const struct spotnik_session *session,
                            bool enters)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), SPOTNIK_DONOR_WINDOW_NS);
    bool there, far = true, late = false;

    while ((there = is_there(donor, session))
           && (far = enters || behind(donor, session) > NEAR_STEPS) && !late)
        late = !spotnik_cond_wait(&donor->nearer, &donor->lock, until_ns);
    return !there || !far;
}

/* Our own time for a step says nothing of how fast it replays one: a job of one that does nothing
 * else steps in microseconds, and a joiner on a busy host would never be in. Its own progress
 * decides. */
static void await(struct spotnik_donor *donor, struct spotnik_session *session, uint64_t begun_ns,
                  bool enters)
{
    uint64_t least = behind(donor, session) / WINDOWS + 1, before, pieces;

    do {
        before = behind(donor, session);
        pieces = session->pieces;
        if (is_over_in_time(donor, session, enters)) {
            donor->log_wait_from_ns = enters ? 0 : donor->log_wait_from_ns;
            return;
        }
    } while (before - behind(donor, session) >= least || session->pieces > pieces);
    uint64_t ended_ns = spotnik_clock_ns();
    session->rest_until_ns = spotnik_time_add(ended_ns, REST * (ended_ns - begun_ns));
    if (enters)
        donor->log_wait_from_ns = session->rest_until_ns;
}

void spotnik_donor_await(struct spotnik_donor *donor)
{
    for (struct spotnik_session *session = donor->session; session; session = session->next) {
        uint64_t now_ns = spotnik_clock_ns();
        bool enters = is_dropped_next(donor, session, now_ns);

        if (enters || is_stalled(donor, session, now_ns)) {
            await(donor, session, now_ns, enters);
            return; /* the list may have changed; another comes at another boundary */
        }
    }
}
