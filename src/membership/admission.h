/* SPDX-License-Identifier: Apache-2.0 */
/* The admission: who comes and who goes. Three machines, each with a struct of its own. `joiners`
 * are those that ask us to let them in (joiners.c); `entering` is our own way in (enter.c);
 * `leaving` our own way out (leave.c). None knows the core. Each takes values and returns what is
 * to be done. on_enter.c and on_leave.c give them their events. Rules: docs/protocol.md 11 and
 * 12. */
#ifndef SPOTNIK_MEMBERSHIP_ADMISSION_H
#define SPOTNIK_MEMBERSHIP_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "member/message.h"
#include "member/view.h"

/* A process outside the view that asked us to let it in. */
struct joiner {
    struct spotnik_enter enter;
    uint64_t heard_ns;                 /* when it last asked */
    uint64_t nearest;                  /* the fewest steps it was behind us, */
    uint64_t nearest_step, nearest_ns; /* at which step of ours, and when */
};

/* View changes waited for it in vain: it is not tried again before, and then with more patience. */
struct joiner_backoff {
    struct spotnik_id id;
    uint64_t until_ns;
    uint32_t tries;
};

#define JOINER_BACKOFF_MAX 16

struct joiners {
    struct joiner joiner[SPOTNIK_JOINERS_MAX];
    uint32_t count;
    struct joiner_backoff backoff[JOINER_BACKOFF_MAX];
    uint32_t backoff_next;
    uint64_t far_ns; /* no view change for a far joiner before */
    /* our ballot is for a joiner's sake: the end of all members' wait for it; 0: it is not */
    uint64_t deadline_ns;
    uint64_t limit_ns; /* when the wait of this epoch ends; NEVER: it has not begun */
};

/* What a sponsor reads of itself. */
struct joiners_input {
    uint64_t now_ns;
    uint64_t committed;                                       /* our last step */
    uint64_t step_ns;                                         /* a step of ours takes as long */
    uint64_t heartbeat_ns, silence_ceiling_ns, enter_wait_ns; /* as in spotnik_limits */
};

struct entering {
    bool wanted;
    /* the sponsor that the driver named last; it need not stand in the view as we last heard it */
    struct spotnik_member guide;
    struct spotnik_id sponsor;
    uint64_t at_ns;            /* when we ask again; NEVER: we do not */
    uint64_t sponsor_until_ns; /* then another is asked */
    uint64_t unmet_ns;         /* since when we are not linked to a member; 0: we are to all */
    struct spotnik_id unmet;   /* that member, once we tell of it */
};

/* What a joiner reads of itself. */
struct enter_input {
    uint64_t now_ns;
    const struct spotnik_view *view;           /* as last heard; size 0: never */
    uint64_t heartbeat_ns, silence_ceiling_ns; /* as in spotnik_limits */
};

/* What a joiner wants done, in the order in which apply.c does it. */
struct enter_effects {
    bool path_broken;              /* note that we do not reach the unmet member */
    enum spotnik_message_kind say; /* send this to the sponsor */
};

struct leaving {
    bool wanted;
    uint64_t at_ns; /* when we ask again; NEVER: we do not */
    uint32_t tries;
};

/* joiners.c */
void joiners_init(struct joiners *joiners);
bool joiners_due(struct joiners *joiners, const struct joiners_input *in);
bool joiners_silent(const struct joiners *joiners, const struct joiners_input *in,
                    struct spotnik_id *ret);
bool joiners_heard(const struct joiners *joiners, const struct joiners_input *in,
                   struct spotnik_id id, uint64_t since_ns);
bool joiners_remember(struct joiners *joiners, const struct joiners_input *in,
                      const struct spotnik_enter *enter);
void joiners_remove(struct joiners *joiners, struct spotnik_id id);
void joiners_back_off(struct joiners *joiners, struct spotnik_id id, uint64_t now_ns,
                      uint64_t took_ns);
void joiners_hurry(struct joiners *joiners, uint64_t now_ns);
uint64_t joiners_wait(struct joiners *joiners, uint64_t now_ns, uint64_t enter_wait_ns);
void joiners_view(struct joiners *joiners);

/* enter.c */
void enter_init(struct entering *entering);
void enter_begin(struct entering *entering, const struct spotnik_member *sponsor);
void enter_ask(struct entering *entering, const struct enter_input *in, struct spotnik_id sponsor);
bool enter_again(struct entering *entering, const struct enter_input *in);
struct enter_effects enter_say(struct entering *entering, const struct enter_input *in,
                               const struct spotnik_member *unmet);
void enter_answer(struct entering *entering, const struct enter_input *in, struct spotnik_id from);
const struct spotnik_member *enter_next(const struct entering *entering,
                                        const struct spotnik_view *view);
void enter_end(struct entering *entering);

/* leave.c */
void leave_init(struct leaving *leaving);
bool leave_begin(struct leaving *leaving, uint64_t now_ns, bool frozen);
bool leave_again(struct leaving *leaving, uint64_t now_ns, uint64_t stagger_ns, bool frozen);
void leave_view(struct leaving *leaving, uint64_t now_ns, uint64_t stagger_ns);

#endif
