/* SPDX-License-Identifier: Apache-2.0 */
/* struct spotnik_links and the vocabulary of its files. Private to them.
 *
 *     acceptor.c    limits on unauthenticated peers            pending.c  connections on their way
 *                   in or out, until
 *               the handshake is done
 *     link.c    control links                  control_tx.c    the half we speak on
 *               control_rx.c    the half we hear
 *     links.c   begin and end */
#ifndef SPOTNIK_LINK_INSIDE_H
#define SPOTNIK_LINK_INSIDE_H

#include "base/clock.h"
#include "link/auth.h"
#include "link/backoff.h"
#include "link/links.h"

#define SPOTNIK_OPENING_NS (5 * UINT64_C(1000000000)) /* patience with a handshake */
#define SPOTNIK_DOOR_PLACES 256   /* for unauthenticated peers at the acceptor (acceptor.c) */
#define SPOTNIK_DOOR_OF_ORIGIN 64 /* for those of one origin */
/* connections taken before all else has its turn again */
#define SPOTNIK_DOOR_TURN 32

/* Where a connection comes from, as far as places at the acceptor go. */
struct spotnik_origin {
    uint8_t bytes[16];
};

/* One that has been accepted, and nothing else. */
struct spotnik_accepted {
    int fd;
    struct spotnik_origin origin;
};

/* A connection before it is one of the others. */
struct spotnik_pending {
    struct spotnik_socket socket;
    struct spotnik_pending *next;
    bool dialled, connecting;
    bool wants_hook;   /* STATE, EXCHANGE, STATUS: to be served without the lock */
    int error;         /* errno of a failed connect */
    uint64_t start_ns; /* connect then; 0: has been done */
    enum spotnik_purpose purpose;
    struct spotnik_member peer;   /* dialled: the expected member */
    struct spotnik_origin origin; /* not dialled; */
    bool kept;                    /* and of a member's address, or of our own user */
    uint64_t deadline_ns;
    /* BACK, ADD_CONNECTION: of the connection that we answer, or add to */
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_shake shake;
    char *reply; /* STATUS, PEERS, DUMP: what is still to be written */
    size_t reply_at, reply_size;
};

/* The half of a link that we dialled and speak on. */
struct spotnik_control_tx {
    struct spotnik_socket socket;
    bool broken;       /* no thread reads it any more */
    bool clogged;      /* a frame found no room: what we say is not all of it any more */
    bool resets;       /* closed now, it ends with RST */
    uint64_t asked_ns; /* when we last said something with all before it acknowledged */
    uint64_t said_ns;  /* when we last said anything; */
    uint64_t owed_ns;  /* for how long an acknowledgement was owed then; */
    /* how many packets had been sent twice when an acknowledgement was last seen */
    uint32_t sent_again;
    /* the longest time after which one came all the same: forgotten as in member/detector.h */
    uint64_t longest_ns;
    struct spotnik_auth auth;
    uint64_t sequence;
    uint8_t *out;
    size_t out_size, out_at, out_have;
};

/* The half that the peer dialled and speaks on. */
struct spotnik_control_rx {
    struct spotnik_socket socket;
    /* both ends see the same addresses and ports: no proxy and no NAT between them */
    bool direct;
    struct spotnik_auth auth;
    uint64_t sequence;
    uint8_t *in;
    size_t in_size, in_at, in_have;
};

enum spotnik_hearing {
    SPOTNIK_HEARING_NOTHING, /* for the moment */
    SPOTNIK_HEARING_MORE,
    SPOTNIK_HEARING_END, /* in order: the peer has said all it had to say */
    SPOTNIK_HEARING_BROKEN,
};

enum spotnik_link_state {
    SPOTNIK_LINK_CALLING, /* our tx connection stands: waits for the peer to dial back */
    SPOTNIK_LINK_CALLED,  /* our rx connection stands: we dial back, then wait for the first word */
    SPOTNIK_LINK_UP,      /* the core has it; one for each peer at most */
    SPOTNIK_LINK_RETIRING, /* GOODBYE is on its way out */
};

/* A control link: two connections, one for each direction (link.c). */
struct spotnik_link {
    struct spotnik_control_tx tx; /* first: its socket is what is buried */
    struct spotnik_control_rx rx;
    struct spotnik_link *next;
    enum spotnik_link_state state;
    bool dialled; /* by us first */
    bool heard;   /* the peer has spoken on it */
    /* called while another link to the peer was up and had been heard: the peer has given that
     * up */
    bool again;
    bool beside;  /* calling, while another link to the peer stands that nothing comes through */
    bool awaited; /* called, and our own call was given up for it: our core waits for this one */
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]; /* of the connection that was dialled first */
    struct spotnik_member peer;
    uint64_t deadline_ns; /* the end of patience with its present state; NEVER: none is needed */
    uint64_t beside_ns;   /* no call beside it before that */
};

struct spotnik_links {
    struct spotnik_loop *loop;
    struct spotnik_links_hooks hooks;
    const struct spotnik_credentials *credentials;
    const struct spotnik_limits *limits;
    void *storage_memory;
    struct spotnik_wire_storage *storage;
    struct spotnik_socket listener;
    struct spotnik_accepted accepted[SPOTNIK_DOOR_TURN]; /* the progress thread's own */
    uint32_t accepted_list;
    /* NEVER, or when to try again: at once, or after running out of file descriptors */
    uint64_t accept_ns;
    struct spotnik_pending *pending_list;
    bool services; /* a pending connection is to be served without the lock */
    uint64_t refusals;
    char refusal[256];
    struct spotnik_link *first;
    uint64_t answers_late_ns; /* the latest answer of a kernel that any tx connection remembers */
    /* after a breach of protocol, or of another version: not dialled before then */
    struct spotnik_backoff backed_off;
};

/* An event of a peer, for the core. */
void spotnik_links_tell_ended(struct spotnik_links *links, enum spotnik_event_kind kind,
                              const struct spotnik_member *peer, enum spotnik_proof proof);

/* pending.c */
/* NULL: fd is still the caller's */
struct spotnik_pending *spotnik_pending_admit(struct spotnik_links *links, int fd);
void spotnik_pending_close(struct spotnik_links *links, struct spotnik_pending *pending);
/* service.c: send what is left of its reply, as far as the socket takes it; closed at the end. */
void spotnik_pending_reply(struct spotnik_links *links, struct spotnik_pending *pending);
/* The bytes, and a MAC under the key of this connection that lets the asker see that they are ours,
 * and all of them. Without memory the connection ends. */
void spotnik_pending_reply_make(struct spotnik_links *links, struct spotnik_pending *pending,
                                const void *bytes, size_t size);
void spotnik_pending_answer(struct spotnik_links *links, const struct spotnik_member *peer,
                            const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_pending_beside(struct spotnik_links *links, const struct spotnik_member *peer);
void spotnik_pending_cancel(struct spotnik_links *links, struct spotnik_id peer);

/* control_tx.c; what is opened takes the socket out of the pending connection, unless it fails
 * before */
int spotnik_control_tx_open(struct spotnik_loop *loop, struct spotnik_control_tx *tx,
                            struct spotnik_pending *pending);
void spotnik_places_of(int fd, struct spotnik_places *ret);
void spotnik_control_tx_place(struct spotnik_control_tx *tx);
void spotnik_control_tx_say(struct spotnik_control_tx *tx, const struct spotnik_message *message,
                            size_t queue_max);
void spotnik_control_tx_goodbye(struct spotnik_control_tx *tx, enum spotnik_goodbye reason);
void spotnik_control_tx_flush(struct spotnik_control_tx *tx);
void spotnik_control_tx_look(struct spotnik_control_tx *tx);
bool spotnik_control_tx_is_heard(const struct spotnik_control_tx *tx, uint64_t now_ns,
                                 uint64_t limit_ns);
bool spotnik_control_tx_is_answered(const struct spotnik_control_tx *tx, uint64_t limit_ns);
bool spotnik_control_tx_is_done(const struct spotnik_control_tx *tx);
void spotnik_control_tx_close(struct spotnik_loop *loop, struct spotnik_control_tx *tx);
void spotnik_control_tx_free(struct spotnik_control_tx *tx);

/* control_rx.c; `pass` counts bytes. A frame and its payload are valid until the next read or next.
 * */
int spotnik_control_rx_open(struct spotnik_loop *loop, struct spotnik_control_rx *rx,
                            struct spotnik_pending *pending);
void spotnik_control_rx_place(struct spotnik_control_rx *rx,
                              const uint8_t payload[SPOTNIK_PLACES_BYTES]);
enum spotnik_hearing spotnik_control_rx_read(struct spotnik_control_rx *rx, size_t *pass);
enum spotnik_hearing spotnik_control_rx_next(struct spotnik_control_rx *rx,
                                             const struct spotnik_limits *limits,
                                             struct spotnik_frame *ret_frame,
                                             const uint8_t **ret_payload);
void spotnik_control_rx_close(struct spotnik_loop *loop, struct spotnik_control_rx *rx);
void spotnik_control_rx_free(struct spotnik_control_rx *rx);

/* link.c; call to answered: connections whose handshake is done, which stay the pending
 * connection's when they are not wanted */
struct spotnik_link *spotnik_link_find(const struct spotnik_links *links, struct spotnik_id peer);
bool spotnik_link_is_called(const struct spotnik_links *links, struct spotnik_id peer);
bool spotnik_link_is_calling(const struct spotnik_links *links, struct spotnik_id peer);
void spotnik_link_call(struct spotnik_links *links, struct spotnik_pending *pending);
void spotnik_link_called(struct spotnik_links *links, struct spotnik_pending *pending);
void spotnik_link_answer(struct spotnik_links *links, struct spotnik_pending *pending);
void spotnik_link_back_off(struct spotnik_links *links, struct spotnik_id peer);
void spotnik_link_unanswered(struct spotnik_links *links,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_link_answered(struct spotnik_links *links, struct spotnik_pending *pending);
void spotnik_links_close(struct spotnik_links *links);

#endif
