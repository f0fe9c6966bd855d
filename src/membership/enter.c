/* SPDX-License-Identifier: Apache-2.0 */
/* Joiner: whom do we ask to let us in, and when? We ask one sponsor, again after every step that
 * we have replayed, and another one when it has long been silent. Rules: docs/protocol.md 11. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/admission.h"

#define ENTER_SPONSOR 20 /* heartbeats of patience with one sponsor */

void enter_init(struct entering *entering)
{
    entering->at_ns = SPOTNIK_NEVER;
}

/* The driver has copied the state, and names a member. */
void enter_begin(struct entering *entering, const struct spotnik_member *sponsor)
{
    entering->wanted = true;
    entering->guide = *sponsor;
    entering->unmet_ns = 0;
}

static void be_patient(struct entering *entering, const struct enter_input *in)
{
    entering->sponsor_until_ns = spotnik_time_add(in->now_ns, ENTER_SPONSOR * in->heartbeat_ns);
}

/* From now on this member is asked. */
void enter_ask(struct entering *entering, const struct enter_input *in, struct spotnik_id sponsor)
{
    SPOTNIK_ASSERT(entering->wanted);
    entering->sponsor = sponsor;
    be_patient(entering, in);
    entering->at_ns = spotnik_time_add(in->now_ns, in->heartbeat_ns);
}

/* It is time to ask. False: to ask another member. This one may be dead without a sound; that we
 * replay step after step must not hide it. */
bool enter_again(struct entering *entering, const struct enter_input *in)
{
    SPOTNIK_ASSERT(entering->wanted);
    entering->at_ns = spotnik_time_add(in->now_ns, in->heartbeat_ns);
    return in->now_ns < entering->sponsor_until_ns || in->view->size == 0;
}

/* A view with us in it would wait for a member that we do not reach, and leave one of us out. So we
 * do not ask before we reach all, and tell the sponsor what we wait for. The same word tells us the
 * view, if the sponsor has a later one. `unmet`: a member that we are not linked to; NULL: none. */
struct enter_effects enter_say(struct entering *entering, const struct enter_input *in,
                               const struct spotnik_member *unmet)
{
    SPOTNIK_ASSERT(entering->wanted);
    entering->unmet = (struct spotnik_id){ 0 };
    if (in->view->size == 0)
        return (struct enter_effects){ .say = SPOTNIK_MESSAGE_VIEW_ASK };
    if (!unmet) {
        entering->unmet_ns = 0;
        return (struct enter_effects){ .say = SPOTNIK_MESSAGE_ENTER };
    }
    if (!entering->unmet_ns)
        entering->unmet_ns = in->now_ns;
    if (in->now_ns - entering->unmet_ns < in->silence_ceiling_ns) /* the link may be on its way */
        return (struct enter_effects){ .say = SPOTNIK_MESSAGE_HEARTBEAT };
    entering->unmet = unmet->id;
    return (struct enter_effects){ .path_broken = true, .say = SPOTNIK_MESSAGE_ENTER };
}

/* A sponsor that holds its ballot back for a joiner answers ENTER with a heartbeat. Were we to turn
 * to another member now, the one that waits for us would not learn how near we have come. It would
 * wait in vain, with all members frozen, and so would the next one. */
void enter_answer(struct entering *entering, const struct enter_input *in, struct spotnik_id from)
{
    if (spotnik_id_equal(entering->sponsor, from))
        be_patient(entering, in);
}

/* The next member of the view as we last heard it, and after them the one that the driver has
 * named: all of that view may be dead. NULL: there is nothing to ask, or no view. */
const struct spotnik_member *enter_next(const struct entering *entering,
                                        const struct spotnik_view *view)
{
    if (!entering->wanted || !view->size)
        return NULL;
    uint32_t rank = spotnik_view_rank(view, entering->sponsor),
             next = rank == SPOTNIK_NO_RANK ? 0 : rank + 1;
    bool strange = spotnik_view_rank(view, entering->guide.id) == SPOTNIK_NO_RANK;
    return next == view->size && strange ? &entering->guide
                                         : &view->entry[next % view->size].member;
}

/* We are in. */
void enter_end(struct entering *entering)
{
    entering->wanted = false;
    entering->at_ns = SPOTNIK_NEVER;
}
