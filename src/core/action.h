/* SPDX-License-Identifier: Apache-2.0 */
/* What the core wants done: a kind, and the arm that this kind has. A comment names the arm of each
 * kind; a kind without one says nothing more. */
#ifndef SPOTNIK_CORE_ACTION_H
#define SPOTNIK_CORE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "member/message.h"
#include "member/view.h"

enum spotnik_action_kind {
    SPOTNIK_ACTION_DIAL,    /* peer: open a control link; answer LINK_UP or DIAL_FAILED */
    SPOTNIK_ACTION_HANG_UP, /* peer: GOODBYE, then close */
    SPOTNIK_ACTION_SEND,    /* send: encode now, send on the control link */
    /* epoch: this view was installed; see spotnik_core_view() (a member alone may have gone on to a
     * later one in the same breath); data frames of older epochs, sent or received in part, must
     * not touch `in`/`out` any more */
    SPOTNIK_ACTION_VIEW,
    SPOTNIK_ACTION_FROZEN, /* the same for the running epoch: a recovery has begun */
    /* no quorum; `parked` of spotnik_core_status() until a VIEW follows */
    SPOTNIK_ACTION_PARKED,
    /* epoch: only half of the view is left: take the witness for that epoch -> WITNESS, at any
     * time, or never */
    SPOTNIK_ACTION_WITNESS,
    SPOTNIK_ACTION_STEP_BEGUN, /* begun, and the share by spotnik_core_share() */
    /* on the memory of a bucket: work, and the arm in it */
    SPOTNIK_ACTION_SCALE,    /* scale: out[step & 1] = weight * in over this segment */
    SPOTNIK_ACTION_COPY_OWN, /* copy_own: ring of one: out = in, of a weight or of none */
    SPOTNIK_ACTION_OFFER,    /* offer: offer[step & 1] = in: to be sent from there */
    /* sum: out[step & 1] = all inputs added up, ours from `in`, the others' where KEEP put them.
     * Segment j of the ring (ring.h) from rank j on */
    SPOTNIK_ACTION_SUM,
    /* gather: in this order, out[step & 1] = ours, `in` of this weight; and then what KEEP put to
     * places 1 to `children`, of MEAN weighted already */
    SPOTNIK_ACTION_GATHER,
    /* flat: reduce it by the flat algorithm with all of the view -> FLAT_DONE. `part` HOLDER,
     * SERVED: with the members of our host only; the first of them gets their sum (of MEAN without
     * the division) and SPREADs the result of all, which the others wait for */
    SPOTNIK_ACTION_FLAT,
    /* of a FLAT as HOLDER: out[step & 1] holds the result of all now; show it to our host */
    SPOTNIK_ACTION_SPREAD,
    /* its whole result was put up in the view before, by all of it: look -> FLAT_DONE, or
     * FLAT_FAILED and it is handed to us */
    SPOTNIK_ACTION_FLAT_LATE,
    /* of the step */
    /* step: out[step & 1] of every bucket will hold the result when all actions of this event are
     * done: say by DEAL how the next steps are dealt out, and it is committed */
    SPOTNIK_ACTION_DEAL,
    SPOTNIK_ACTION_COMMITTED, /* step: out[step & 1] of every bucket holds the result */
    /* peer: the new view sends data to it: open the data connection. Comes after VIEW, or at the
     * first use of a way that needs it. Close connections of the old view that VIEW does not
     * name */
    SPOTNIK_ACTION_LINK_EXPECT,
    SPOTNIK_ACTION_EXCLUDED,
    SPOTNIK_ACTION_LEFT,
    SPOTNIK_ACTION_FAILED, /* error */
};

#define SPOTNIK_ACTION_KINDS (SPOTNIK_ACTION_FAILED + 1)

/* Our part in the reduction on a host. */
enum spotnik_host_part {
    SPOTNIK_PART_ALL,    /* one of all members of the view */
    SPOTNIK_PART_HOLDER, /* of our host; the sum goes on to other hosts from here */
    SPOTNIK_PART_SERVED, /* of our host; the result comes from the holder */
};

/* On the memory of bucket `bucket`, in step `step`. */
struct spotnik_work {
    uint64_t step;
    uint32_t bucket;
    union {
        struct {
            uint64_t offset, count; /* elements */
            uint64_t weight;
        } scale;
        struct {
            uint64_t weight; /* 0: our input does not count */
        } copy_own;
        struct {
            uint64_t count; /* elements */
        } offer;
        struct {
            uint32_t rank, members;
            uint64_t weight; /* ours */
        } sum;
        struct {
            uint32_t children;
            bool summed;   /* ours is the sum of our host, in out */
            bool finishes; /* that is all of it: finish the mean */
            uint64_t weight;
        } gather;
        struct {
            enum spotnik_host_part part;
            /* how many hosts reduce it, and the place of ours among them; ALL: 1 */
            uint32_t hosts, host;
            uint64_t count, weight;
        } flat;
    };
};

struct spotnik_action {
    enum spotnik_action_kind kind;
    union {
        struct spotnik_member peer;
        struct {
            struct spotnik_member to;
            const struct spotnik_message *message;
        } send;
        uint64_t epoch;
        struct {
            uint64_t step;
            bool replay; /* its result will be handed to us */
        } begun;
        struct spotnik_work work;
        uint64_t step;
        int error;
    };
};

const char *spotnik_action_name(enum spotnik_action_kind kind);

/* The peer that the action is about; NULL: its kind has none. */
const struct spotnik_member *spotnik_action_peer(const struct spotnik_action *action);

/* For traces and records: the step, or the epoch, that the action is about, and the bucket; 0: its
 * kind has none. */
uint64_t spotnik_action_number(const struct spotnik_action *action);
uint32_t spotnik_action_bucket(const struct spotnik_action *action);

#endif
