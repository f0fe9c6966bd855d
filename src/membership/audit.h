/* SPDX-License-Identifier: Apache-2.0 */
/* The audit: is this member still right? Two machines, each with a struct of its own. `digests`
 * compares results with the ring neighbours (digest.c); `pause` finds out what a stopped member has
 * missed (pause_check.c). Neither knows the core. Each takes values and returns effects, which
 * apply.c applies. on_audit.c gives them their events. Rules: docs/protocol.md 9. */
#ifndef SPOTNIK_MEMBERSHIP_AUDIT_H
#define SPOTNIK_MEMBERSHIP_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "member/evidence.h"
#include "member/message.h"
#include "member/view.h"

#define DIGEST_CHAINS SPOTNIK_MESSAGE_DIGESTS /* of this view, and of the one before */
#define DIGESTS_KEPT 512                      /* steps: a heartbeat may be so late */

/* What we know of a neighbour's results, beside one of our chains. */
struct compared {
    struct spotnik_digest_claim claim; /* the last one it made */
    uint64_t same_step;                /* up to here its results are ours; 0: not known */
    uint64_t differs_step;             /* here they are known to differ; 0: they do not */
};

/* Digests of our results, each chained to the one before. */
struct chain {
    uint64_t epoch;
    uint64_t base;                /* the chain begins after this step */
    uint64_t last;                /* and goes to this one */
    bool torn;                    /* a result is missing: the chain ends */
    bool tied;                    /* one neighbour differs, the other agrees with us */
    uint64_t value[DIGESTS_KEPT]; /* by step */
};

struct digests {
    struct chain chain[DIGEST_CHAINS];
};

/* What the comparison with `count` neighbours found. */
struct digest_effects {
    bool diverged;             /* this member is the odd one: end it, */
    uint32_t neighbour;        /* which differs from this neighbour */
    uint64_t after_step, step; /* between these two steps */
    uint64_t compared_step;    /* all neighbours agree up to here */
};

struct pause {
    bool on; /* nothing is committed */
    bool ask_due;
    uint64_t serial;               /* of what we ask; only answers to the latest count */
    uint64_t since_ns;             /* we were last late then, */
    uint64_t noticed_ns;           /* by the clock alone */
    uint64_t until_ns;             /* patience with answers; NEVER: none is awaited */
    uint32_t again;                /* times late while in a pause check */
    struct spotnik_report *answer; /* per rank; promised: it has acknowledged us */
};

/* What a pause check reads of its member. */
struct pause_input {
    uint64_t now_ns;
    const struct spotnik_view *view;
    uint32_t rank;                        /* ours in the view */
    const struct spotnik_known *evidence; /* per rank */
    uint64_t silence_ns;                  /* the shorter silence floor of both ring neighbours */
    uint64_t retry_ns, stagger_ns;        /* as in spotnik_limits */
    bool frozen;                          /* a ballot is under way */
};

/* What a pause check wants done, in the order in which apply.c does it. */
struct pause_effects {
    bool started; /* count it */
    bool ask;     /* send PAUSE_CHECK to every linked member of the view */
    bool commit;  /* commits are allowed again */
    bool ballot;  /* no quorum has answered: start a ballot */
};

/* digest.c */
void digest_view(struct digests *digests, uint64_t epoch, uint64_t settled_step);
void digest_view_peer(struct compared compared[DIGEST_CHAINS]);
bool digest_add(struct digests *digests, uint64_t step, uint64_t digest);
void digest_claim(const struct digests *digests, struct spotnik_digest_claim claim[DIGEST_CHAINS]);
void digest_hear(const struct digests *digests, struct compared compared[DIGEST_CHAINS],
                 const struct spotnik_digest_claim claim[DIGEST_CHAINS]);
struct digest_effects digest_compare(struct digests *digests, struct compared *const neighbour[],
                                     uint32_t count);

/* pause_check.c */
void pause_check_init(struct pause *pause);
struct pause_effects pause_check_begin(struct pause *pause, const struct pause_input *in);
bool pause_check_late(struct pause *pause, const struct pause_input *in, uint64_t heartbeat_ns);
struct pause_effects pause_check_ask(struct pause *pause, const struct pause_input *in);
struct pause_effects pause_check_hear(struct pause *pause, const struct pause_input *in,
                                      uint32_t rank, uint64_t serial);
bool pause_check_ends_with(const struct pause *pause, uint64_t promised_ns,
                           struct spotnik_ballot promised, struct spotnik_ballot chosen);
void pause_check_view(struct pause *pause, const struct pause_input *in, bool ends);
struct pause_effects pause_check_expire(struct pause *pause, const struct pause_input *in);

#endif
