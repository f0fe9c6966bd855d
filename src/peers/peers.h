/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a first live member, and founding the job (docs/design/0002-finding-the-job.md).
 *
 * A spec is "host:port,host:port,..." or "file:DIR". "Join existing" wins over "form new". A job is
 * founded once: by the process that creates the file DIR/genesis-<n>, or that all listed processes
 * vote for. It knows nothing of what happens inside the job. */
#ifndef SPOTNIK_PEERS_PEERS_H
#define SPOTNIK_PEERS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "member/view.h"

struct spotnik_peers;

/* Parse `spec` and make this process findable. With "file:DIR" the directory must exist and be
 * writable. Our file is written now, and a thread of its own refreshes it every second (T/20 where
 * that is less). `engine` (role IDLE is enough) is borrowed until _free. Blocking: resolves host
 * names. Errors: ARGUMENT, PEERS (name not resolved), SYSTEM (directory), MEMORY. */
int spotnik_peers_new(const char *spec, struct spotnik_engine *engine,
                      struct spotnik_peers **ret_peers);

/* Find the job: *ret_found true: found it (spotnik_engine_found()); else *ret_sponsor is a live
 * member in a view. `may_found` false: only look (a member that was in the job already never founds
 * it again). Blocking, at most timeout_ns; `stop`, if not NULL, is asked now and then and ends the
 * search. Errors: PEERS (no member answered in time: the detail lists those asked and their
 * answers), DONE (none did, and the end of the job is on record), KEY, JOB, VERSION, SYSTEM. */
int spotnik_peers_find(struct spotnik_peers *peers, bool may_found, uint64_t timeout_ns,
                       bool (*stop)(void *context), void *context, bool *ret_found,
                       struct spotnik_member *ret_sponsor);

/* We are about to ask to be let in, as the member that the engine says we are. Before it can be in
 * a view it must be in the directory: the file is there when this returns. Accepts NULL. Errors:
 * PEERS (it is not, and must be). */
int spotnik_peers_renew(struct spotnik_peers *peers);

/* Our lineage, as _find() or a new founding from memory has made it; without a directory only after
 * the latter. id 0: none. */
struct spotnik_founding spotnik_peers_lineage(struct spotnik_peers *peers);

/* A name for a lineage that begins now: after `before` (NULL: after none), as generation
 * `generation`. */
void spotnik_peers_founding_make(const struct spotnik_founding *before, uint64_t generation,
                                 struct spotnik_founding *ret);

/* Parked, and nobody else can be alive: the next generation was founded from our memory. We are
 * excluded from the view that cannot go on, and the caller shall begin anew, alone, with the state
 * it holds. Then say that it has. */
bool spotnik_peers_refounds(struct spotnik_peers *peers);
void spotnik_peers_refounded(struct spotnik_peers *peers);
/* Until when those that lived as we founded it may come for the state that we hold, by the clock of
 * the process; 0: there was nobody. Whoever leaves before takes the newest state with it. */
uint64_t spotnik_peers_followers_ns(struct spotnik_peers *peers);

/* A younger founding has taken the place of our lineage. Any thread. */
bool spotnik_peers_is_superseded(struct spotnik_peers *peers);
/* No younger founding has taken the place of our lineage, as far as can be known now. Blocking;
 * what our lineage publishes depends on it. */
bool spotnik_peers_is_youngest(struct spotnik_peers *peers);

/* Our lineage, by that number: the one that the next two are about. 0: none yet. */
void spotnik_peers_founding_set(struct spotnik_peers *peers, uint64_t founding);

/* All members have left in good order, we with the last of them. Say so in the directory: members
 * that were cut off would otherwise wait for ever. `interrupted`: we were told to go before the
 * work was done. Then members that were cut off are told nothing, and go on when nobody else can be
 * alive. Newcomers need not wait for us in either case. With a list there is no place to say it. */
void spotnik_peers_over_set(struct spotnik_peers *peers, bool interrupted);

/* Has it been said that the work is done? */
bool spotnik_peers_is_over(struct spotnik_peers *peers);

/* The end of the job on record (done.c), in the peers directory or, with a list, in `folder` (NULL:
 * nowhere). The agent writes it: 0 or minus an errno. *ret_print differs whenever it was written
 * anew. */
int spotnik_peers_done_write(const char *folder, const struct spotnik_credentials *self,
                             uint64_t step);
bool spotnik_peers_done_read(const char *folder, const struct spotnik_credentials *self,
                             uint64_t *ret_step, uint64_t *ret_print);
/* Before _find(): where the record of a list is, and how many steps our program wants; 0: it does
 * not say. */
void spotnik_peers_done_at(struct spotnik_peers *peers, const char *folder, uint64_t steps_max);

/* What is wrong with the directory just now (full, vanished), what we wait for, or what could be
 * better; "" when there is nothing to say. Training does not depend on it. */
void spotnik_peers_warning(struct spotnik_peers *peers, char *text, size_t size);

/* Stop the thread and take our file away: nobody looks for us any more. Accepts NULL. */
void spotnik_peers_withdraw(struct spotnik_peers *peers);

/* That, and the rest. Accepts NULL. */
void spotnik_peers_free(struct spotnik_peers *peers);

/* Make a directory for one job alone, or mark one just made. The first member then need not wait to
 * see whether others put a lost genesis back. 0, or -1 with errno. Never for a directory that a job
 * has used. */
int spotnik_peers_fresh(const char *directory);

/* For tools that are no members: the addresses `spec` names now (ids are none with a list). Returns
 * 0 or the errors of _new; *ret_count <= max. Records not signed with the job key are left out. */
int spotnik_peers_list(const char *spec, const struct spotnik_credentials *credentials,
                       struct spotnik_member *ret, uint32_t max, uint32_t *ret_count);

#endif
