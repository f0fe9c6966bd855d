/* SPDX-License-Identifier: Apache-2.0 */
/* Control links, and connections on their way in or out, as other folders see them: opaque.
 * Functions run under the lock of the loop unless marked otherwise. The file named in a heading
 * defines them. */
#ifndef SPOTNIK_LINK_LINKS_H
#define SPOTNIK_LINK_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/answer.h"
#include "link/credentials.h"
#include "link/duplex.h"
#include "link/loop.h"
#include "link/seal.h"
#include "link/shake.h"
#include "wire/control.h"
#include "wire/frame.h"

struct spotnik_links;
struct spotnik_pending; /* a connection whose handshake is done, offered to what it was made for */

/* What the links ask of the floors above. */
struct spotnik_links_hooks {
    void *context;
    /* A connection for data or shared memory is here. Its socket is closed unless it is taken.
     * `dialled`: by us. */
    void (*adopt)(void *context, struct spotnik_pending *pending, enum spotnik_purpose purpose,
                  bool dialled);
    /* One that we dialled is not to be had. `name`: of the connection that it was to add to. */
    void (*failed)(void *context, enum spotnik_purpose purpose, const struct spotnik_member *peer,
                   const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
    /* Begin to connect to the memory of a member of this host: 0 or -errno. */
    int (*connect)(void *context, const struct spotnik_member *peer, int *ret_fd);
    /* Our place in our founding; and is the peer of another one, so that the core must hear nothing
     * of it? */
    void (*presence)(void *context, struct spotnik_presence *ret);
    bool (*differs)(void *context, const struct spotnik_shake *shake);
    /* What a process hears that looks for the job, and one that asks for a dump. */
    void (*answer)(void *context, const struct spotnik_member *asker, struct spotnik_answer *ret);
    void (*dump)(void *context, char *ret_line, size_t size);
    /* Without the lock: serve a connection of STATE or EXCHANGE; what is in `duplex` is the
     * callee's. */
    void (*service)(void *context, enum spotnik_purpose purpose, struct spotnik_duplex *duplex,
                    const struct spotnik_member *peer);
    /* Without the lock: the text for STATUS. */
    size_t (*status)(void *context, char *text, size_t size);
};

/* ---- life: links.c ---- */

/* `credentials` and `limits` stay the caller's; self.id may change. MEMORY. */
int spotnik_links_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials,
                      const struct spotnik_limits *limits, const struct spotnik_links_hooks *hooks,
                      struct spotnik_links **ret);
/* The progress thread is gone, or never was. Accepts NULL. */
void spotnik_links_free(struct spotnik_links *links);

/* ---- who dials us: acceptor.c; for the progress thread ---- */

/* *port: 0 for any; filled in. */
int spotnik_acceptor_listen(struct spotnik_links *links, const uint8_t address[16], uint16_t *port);
struct spotnik_socket *spotnik_acceptor_socket(struct spotnik_links *links);
/* Both without the lock. collect: accept those that dial us. */
bool spotnik_acceptor_is_due(const struct spotnik_links *links);
void spotnik_acceptor_collect(struct spotnik_links *links);
/* Give them a place, or send them away. */
void spotnik_acceptor_open(struct spotnik_links *links, const struct spotnik_view *view);
/* Both, for another listener. */
void spotnik_acceptor_turn(struct spotnik_links *links, const struct spotnik_view *view,
                           struct spotnik_socket *listener);

/* ---- connections before their handshake is done: pending.c ---- */

void spotnik_pending_dial(struct spotnik_links *links, const struct spotnik_member *peer,
                          enum spotnik_purpose purpose);
/* One more connection beside `name`, which leads from us to `peer`. */
void spotnik_pending_add_connection(struct spotnik_links *links, const struct spotnik_member *peer,
                                    const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);
/* The kernel there has answered the dial of a channel; its process, not yet. */
bool spotnik_pending_is_connected(const struct spotnik_links *links, struct spotnik_id peer);
void spotnik_pending_list_run(struct spotnik_links *links, uint64_t now_ns);
bool spotnik_pending_list_has_services(const struct spotnik_links *links);
void spotnik_pending_list_serve(struct spotnik_links *links); /* without the lock */
void spotnik_pending_list_cancel(struct spotnik_links *links);
uint64_t spotnik_pending_list_deadline(const struct spotnik_links *links);
/* The number of refusals at our acceptor, and the last one. */
uint64_t spotnik_pending_list_refusals(const struct spotnik_links *links, char *text, size_t size);

/* ---- for the new owner of a connection: pending.c ---- */

/* The socket, which is the caller's from now on. */
int spotnik_pending_take(struct spotnik_links *links, struct spotnik_pending *pending);
/* The member at the other end. */
const struct spotnik_member *spotnik_pending_peer(const struct spotnik_pending *pending);
/* The seal of what the client of the connection sends; of data, all there is. 0 or SYSTEM. */
int spotnik_pending_seal(const struct spotnik_pending *pending, struct spotnik_seal *ret);
/* The name of the connection, and of the one that it is added to. */
void spotnik_pending_name(const struct spotnik_pending *pending,
                          uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_pending_adds_connection(const struct spotnik_pending *pending,
                                     uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES]);

/* ---- control links: link.c ---- */

bool spotnik_link_is_up(const struct spotnik_links *links, struct spotnik_id peer);
void spotnik_link_send(struct spotnik_links *links, const struct spotnik_member *peer,
                       const struct spotnik_message *message);
void spotnik_link_hang_up(struct spotnik_links *links, const struct spotnik_member *peer,
                          enum spotnik_goodbye reason);
/* Say something that the kernel of the peer acknowledges. False: there is no link. */
bool spotnik_link_question(struct spotnik_links *links, struct spotnik_id peer);
/* It has, or may do so yet: no question has waited for longer than the limit. */
bool spotnik_link_is_heard(const struct spotnik_links *links, struct spotnik_id peer,
                           uint64_t limit_ns);
void spotnik_links_retire(struct spotnik_links *links, enum spotnik_goodbye reason);
bool spotnik_links_are_gone(const struct spotnik_links *links);
bool spotnik_links_read(struct spotnik_links *links);
/* Ask the kernels of peers that are quiet. */
void spotnik_links_ask(struct spotnik_links *links, struct spotnik_core *core);
void spotnik_links_flush(struct spotnik_links *links, uint64_t now_ns);
uint64_t spotnik_links_deadline(const struct spotnik_links *links);

#endif
