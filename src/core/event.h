/* SPDX-License-Identifier: Apache-2.0 */
/* What enters the core: a kind, an instant, and the arm that this kind has. A comment names the arm
 * of each kind; a kind without one says nothing more. */
#ifndef SPOTNIK_CORE_EVENT_H
#define SPOTNIK_CORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "member/founding.h"
#include "member/message.h"
#include "member/view.h"

enum spotnik_event_kind {
    /* once */
    SPOTNIK_EVENT_FOUND, /* found: become the only member of epoch 1 */
    /* resume: the founder goes on from a checkpoint; before any member has joined and before its
     * first step */
    SPOTNIK_EVENT_RESUME,
    SPOTNIK_EVENT_JOIN, /* join: become a joiner */
    /* links: control links only; a peer is known by its descriptor after the handshake */
    SPOTNIK_EVENT_LINK_UP,   /* peer: authenticated both ways, usable */
    SPOTNIK_EVENT_LINK_DOWN, /* ended: all that the peer said was delivered before */
    /* ended: PROOF_GONE when the host it lived on refuses, or has another member there;
     * PROOF_LIKELY when a process answered and hung up; else PROOF_NONE */
    SPOTNIK_EVENT_DIAL_FAILED,
    /* death: certificate of the peer's host (robust futex, reaped by its agent) that it has
     * ended */
    SPOTNIK_EVENT_DEATH,
    SPOTNIK_EVENT_MESSAGE, /* message */
    /* peer: the data connection to it broke while its control link lives; the step is reduced
     * again */
    SPOTNIK_EVENT_CHANNEL_DOWN,
    /* peer: no data to it arrive, for longer than a silence; perhaps only the path is broken */
    SPOTNIK_EVENT_PATH_DOWN,
    /* peer: spotnik_core_is_quiet(), but its kernel has acknowledged just now what we said: its
     * machine and the path are well. Before each TICK that it is true of */
    SPOTNIK_EVENT_KERNEL,
    SPOTNIK_EVENT_TICK, /* time has passed; deliver received messages first */
    /* the host was suspended, and the clock does not show for how long: as if we were late */
    SPOTNIK_EVENT_WOKEN,
    SPOTNIK_EVENT_WITNESS, /* witness: the answer to the action WITNESS */
    /* shared: the memory of a peer and ours are open to each other, or not any more */
    SPOTNIK_EVENT_SHARED,
    /* the caller's side; answered by an action, at once or later */
    /* -> STEP_BEGUN when stable enough (view >= members_min, no recovery under way) */
    SPOTNIK_EVENT_STEP_BEGIN,
    /* weight: of our contributions in the begun step; before the first BUCKET_START */
    SPOTNIK_EVENT_WEIGHT,
    /* the begun step consumes no samples; before the first BUCKET_START, on all members or none */
    SPOTNIK_EVENT_DECLINE,
    SPOTNIK_EVENT_BUCKET_START, /* start: `in` of this bucket is ready */
    /* no further buckets in this step -> COMMITTED. Without any bucket the core adds number
     * SPOTNIK_BUCKET_BARRIER of 0 elements: a step always synchronises */
    SPOTNIK_EVENT_STEP_SEAL,
    SPOTNIK_EVENT_DEAL,        /* deal: the answer to the action DEAL, before any other event */
    SPOTNIK_EVENT_LEAVE,       /* -> LEFT */
    SPOTNIK_EVENT_ENTER_READY, /* peer: a joiner asks it, the sponsor, for admission from now on */
    /* data */
    /* chunk: the payload is at the place that spotnik_core_place() gave */
    SPOTNIK_EVENT_CHUNK_DONE,
    /* flat: we hold the whole result of a FLAT, safe from any death. To the holder of a host's
     * stream: the sum over the host is in `out`, as far as `chunks` says, and further each time */
    SPOTNIK_EVENT_FLAT_DONE,
    SPOTNIK_EVENT_FLAT_FAILED, /* failure: a FLAT has failed: MISMATCH, else it is reduced again */
    /* result: what the caller got; after every commit, before the next STEP_BEGIN */
    SPOTNIK_EVENT_RESULT,
};

#define SPOTNIK_EVENT_KINDS (SPOTNIK_EVENT_RESULT + 1)

/* What the end of a link proves. */
enum spotnik_proof {
    SPOTNIK_PROOF_NONE,
    /* the peer has ended: the last frame on its tx connection proves it by the key, or its
     * kernel does, which is ours */
    SPOTNIK_PROOF_GONE,
    /* its tx connection has ended in order: by its kernel, or a proxy between us */
    SPOTNIK_PROOF_END,
    /* the same, without a proxy between us: GONE if the next answered dial is refused */
    SPOTNIK_PROOF_LIKELY,
};

/* Header of a data frame. `weight`: sum of the weights of the contributions inside. */
struct spotnik_chunk_header {
    uint8_t handover; /* 0: all-reduce stream; 1: finished result handed to a laggard or joiner */
    uint8_t dtype, op;
    uint8_t sharing;  /* all-reduce: every contributor so far shares memory with the whole view */
    uint8_t schedule; /* all-reduce: enum spotnik_schedule */
    uint32_t bucket;
    uint64_t epoch; /* of the view; ignored by joiners for handover */
    uint64_t step;
    /* all-reduce: chunk number in the stream round the ring; or, of a small bucket, the sender's
     * rank for an input and the size of the view for the result; in a tree the sender's slot at
     * the receiver; handover: chunk number in the bucket */
    uint64_t sequence;
    uint64_t count;  /* elements of the whole bucket */
    uint64_t weight; /* in a handover among members: buckets of the step */
};

/* A bucket of one step, in one view. */
struct spotnik_bucket_at {
    uint64_t epoch, step;
    uint32_t bucket;
};

struct spotnik_event_found {
    const struct spotnik_ledger *ledger;     /* where the data begin; NULL: as in init */
    const struct spotnik_founding *founding; /* NULL: a lineage without a name */
};

struct spotnik_event_resume {
    uint64_t committed;                  /* the last step of the checkpoint */
    const struct spotnik_ledger *ledger; /* the data as they were then */
};

struct spotnik_event_join {
    uint64_t committed; /* the step whose state was copied; 0: initial state */
};

struct spotnik_event_ended {
    struct spotnik_member peer;
    enum spotnik_proof proof;
};

struct spotnik_event_death {
    struct spotnik_member peer;
    uint64_t epoch; /* of the latest view that it had voted for or installed */
};

struct spotnik_event_message {
    struct spotnik_member from;
    const struct spotnik_message *body;
};

struct spotnik_event_witness {
    uint64_t epoch;
    bool named; /* it names us for this epoch; else it does not, or that is not known */
};

struct spotnik_event_shared {
    struct spotnik_member peer;
    bool open;
};

struct spotnik_event_start {
    uint32_t bucket;
    uint8_t dtype, op;
    uint32_t element_bytes;
    uint64_t count; /* elements */
};

struct spotnik_event_deal {
    /* for the shares of the running step, made of its results as they are now */
    const uint32_t *weight_of;
    uint64_t count; /* fewer than there are shares: deal evenly */
};

struct spotnik_event_chunk {
    struct spotnik_member from; /* none: read from a donor's stream of state */
    struct spotnik_chunk_header header;
};

struct spotnik_event_flat {
    struct spotnik_bucket_at at;
    uint64_t weight; /* for a holder: of the sum over its host; */
    /* and how many chunks of every segment of the ring of hosts it holds, from the first */
    uint64_t chunks;
};

struct spotnik_event_failure {
    struct spotnik_bucket_at at;
    int error;
    struct spotnik_held other; /* MISMATCH: by whom, and what it has */
};

struct spotnik_event_result {
    uint64_t committed, digest;
};

/* Each arm that names a peer begins with it: spotnik_event_peer(). */
struct spotnik_event {
    enum spotnik_event_kind kind;
    uint64_t now_ns;
    union {
        struct spotnik_event_found found;
        struct spotnik_event_resume resume;
        struct spotnik_event_join join;
        struct spotnik_member peer;
        struct spotnik_event_ended ended;
        struct spotnik_event_death death;
        struct spotnik_event_message message;
        struct spotnik_event_witness witness;
        struct spotnik_event_shared shared;
        uint64_t weight;
        struct spotnik_event_start start;
        struct spotnik_event_deal deal;
        struct spotnik_event_chunk chunk;
        struct spotnik_event_flat flat;
        struct spotnik_event_failure failure;
        struct spotnik_event_result result;
    };
};

const char *spotnik_event_name(enum spotnik_event_kind kind);

/* The peer that the event is about; NULL: its kind has none. */
const struct spotnik_member *spotnik_event_peer(const struct spotnik_event *event);

/* Bytes of the arm that events of this kind have; 0: none. */
size_t spotnik_event_arm_bytes(enum spotnik_event_kind kind);

#endif
