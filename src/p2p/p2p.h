/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point between members, outside of steps: published snapshots, pulls
 * (docs/design/0008-adaptive.md). The caller publishes and starts requests. Threads of this layer
 * serve others and carry requests out, so that neither the caller nor the progress thread waits.
 *
 *     snapshot.c     what is published under one name: buffers, readers' pins
 *     serve.c     a thread for each connection that others have opened to us
 *     request.c   a thread for each request of ours; pull.c: what it says
 *     common.c    memory that members of one host write to together
 *     param_store.c     the parameter store that all members share: param_store.h
 *     published.c     snapshots in memory that members of this host read themselves: export.c,
 *                     ours; import.c, another's
 *     targets.c   the next member to ask; connections kept      pipe.c   bytes over a connection,
 *                 with patience
 *
 * Decides nothing of views and needs no detection of its own. A connection that ends, a member that
 * leaves the view, or silence turns a request to the next member. */
#ifndef SPOTNIK_P2P_P2P_H
#define SPOTNIK_P2P_P2P_H

#include <stdint.h>

#include "runtime/runtime.h"
#include "spotnik/p2p.h"

struct spotnik_p2p;

#define SPOTNIK_P2P_MEMBERS_MAX 1024 /* of the job: larger ones have no exchange */
#define SPOTNIK_P2P_COPIES_MAX 8     /* of a part of a store */

/* Errors: MEMORY. `silence_ns`: how long a member that is spoken to may say nothing. */
int spotnik_p2p_new(uint64_t silence_ns, struct spotnik_p2p **ret_p2p);

/* [caller] The runtime exists; before that, nothing may be asked for. */
void spotnik_p2p_attach(struct spotnik_p2p *p2p, struct spotnik_runtime *runtime);

/* Hooks of the runtime: [progress thread] a connection, which is ours from now on; [any] a new
 * view. */
void spotnik_p2p_accept(struct spotnik_p2p *p2p, struct spotnik_duplex *duplex,
                        const struct spotnik_member *peer);
void spotnik_p2p_view(struct spotnik_p2p *p2p);

/* [caller] We were excluded, and the model is about to be replaced: what was published here
 * is void. */
void spotnik_p2p_reset(struct spotnik_p2p *p2p);

/* [any] The calls of the public API, which has the words; arguments have been checked. */
int spotnik_p2p_publish(struct spotnik_p2p *p2p, const char *name, const void *data, uint64_t count,
                        enum spotnik_dtype dtype, uint64_t version);
int spotnik_p2p_pull(struct spotnik_p2p *p2p, const char *name, uint32_t rank, uint64_t version_min,
                     void *data, uint64_t count, enum spotnik_dtype dtype, uint64_t timeout_ns,
                     struct spotnik_request **ret_request);

int spotnik_p2p_store_open(struct spotnik_p2p *p2p, const char *name, const float *initial,
                           uint64_t count, uint32_t copies);
/* [caller] As long as we are the only member there has been: the store begins with `data` instead,
 * as many elements. */
void spotnik_p2p_store_set(struct spotnik_p2p *p2p, const char *name, const float *data);
int spotnik_p2p_push(struct spotnik_p2p *p2p, const char *name, const float *update, uint64_t count,
                     uint64_t timeout_ns, struct spotnik_request **ret_request);
int spotnik_p2p_fetch(struct spotnik_p2p *p2p, const char *name, float *data, uint64_t count,
                      uint64_t timeout_ns, struct spotnik_request **ret_request);

/* [caller] Memory that the members of this host have in common, filled from `initial` where there
 * is none yet. Handing it over may take a while. Errors: ARGUMENT (another size before), MISMATCH
 * (with the others), SYSTEM (no such memory here), MEMORY. */
int spotnik_p2p_common(struct spotnik_p2p *p2p, const char *name, const float *initial,
                       uint64_t count, float **ret_memory);

/* [any] How many members of the view are on this host, we among them. */
uint32_t spotnik_p2p_neighbours(struct spotnik_p2p *p2p);

/* [caller] Let go of it: it is asked for anew when it is wanted again. */
void spotnik_p2p_common_leave(struct spotnik_p2p *p2p, const char *name);

/* [caller] End all sessions and requests, wait for their threads, refuse new ones: before the
 * runtime is freed. */
void spotnik_p2p_stop(struct spotnik_p2p *p2p);

/* After _stop, and after the runtime was freed. Requests that were not freed are freed with it.
 * Accepts NULL. */
void spotnik_p2p_free(struct spotnik_p2p *p2p);

#endif
