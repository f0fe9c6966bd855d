/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a first live member, and founding the job (docs/design/0002-finding-the-job.md).
 *
 * A spec is "host:port,host:port,...", "file:DIR" or a bucket. "Join existing" wins over "form new". A job is
 * founded once: by the process that creates the file DIR/genesis-<n>, or that all listed processes
 * vote for. It knows nothing of what happens inside the job. */
#ifndef SPOTNIK_DISCOVERY_DISCOVERY_H
#define SPOTNIK_DISCOVERY_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "member/view.h"

struct spotnik_discovery;

/* Parse `spec` and make this process findable. With "file:DIR" the directory must exist and be
 * writable. Our file is written now, and a thread of its own refreshes it every second (T/20 where
 * that is less). `runtime` (role IDLE is enough) is borrowed until _free. Blocking: resolves host
 * names. Errors: ARGUMENT, PEERS (name not resolved), SYSTEM (directory), MEMORY. */
int spotnik_discovery_new(const char *spec, struct spotnik_runtime *runtime,
                          struct spotnik_discovery **ret_discovery);

/* Find the job: *ret_found true: found it (spotnik_runtime_found()); else *ret_sponsor is a live
 * member in a view. `may_found` false: only look (a member that was in the job already never founds
 * it again). Blocking, at most timeout_ns; `stop`, if not NULL, is asked now and then and ends the
 * search. Errors: PEERS (no member answered in time: the detail lists those asked and their
 * answers), DONE (none did, and the end of the job is on record), KEY, JOB, VERSION, SYSTEM. */
int spotnik_discovery_find(struct spotnik_discovery *discovery, bool may_found, uint64_t timeout_ns,
                           bool (*stop)(void *context), void *context, bool *ret_found,
                           struct spotnik_member *ret_sponsor);

/* We are about to ask to be let in, as the member that the runtime says we are. Before it can be in
 * a view it must be in the directory: the file is there when this returns. Accepts NULL. Errors:
 * PEERS (it is not, and must be). */
int spotnik_discovery_renew(struct spotnik_discovery *discovery);

/* Our lineage, as _find() or a new founding from memory has made it; without a directory only after
 * the latter. id 0: none. */
struct spotnik_founding spotnik_discovery_lineage(struct spotnik_discovery *discovery);

/* A name for a lineage that begins now: after `before` (NULL: after none), as generation
 * `generation`. */
void spotnik_discovery_founding_make(const struct spotnik_founding *before, uint64_t generation,
                                     struct spotnik_founding *ret);

/* We are parked, no other can be alive, and we founded the next generation from our memory. The
 * caller shall begin anew, alone, with the state it holds, and then call refounded(). */
bool spotnik_discovery_refounds(struct spotnik_discovery *discovery);
void spotnik_discovery_refounded(struct spotnik_discovery *discovery);
/* Until this time of the process's clock, members that lived at our founding may come for our
 * state; 0: there were none. If we leave earlier, the newest state is lost. */
uint64_t spotnik_discovery_followers_ns(struct spotnik_discovery *discovery);

/* A younger founding has taken the place of our lineage. Any thread. */
bool spotnik_discovery_is_superseded(struct spotnik_discovery *discovery);
/* No younger founding has taken the place of our lineage, as far as can be known now. Blocking;
 * what our lineage publishes depends on it. */
bool spotnik_discovery_is_youngest(struct spotnik_discovery *discovery);

/* Our lineage, by that number: the one that the next two are about. 0: none yet. */
void spotnik_discovery_founding_set(struct spotnik_discovery *discovery, uint64_t founding);

/* All members have left in good order, we with the last of them. Record it in the directory:
 * members that were cut off would otherwise wait for ever. `interrupted`: a notice ended our work
 * early. Then members that were cut off go on when no other can be alive. Newcomers need not wait
 * for us in either case. With a list there is no place to say it. */
void spotnik_discovery_over_set(struct spotnik_discovery *discovery, bool interrupted);

/* Has it been said that the work is done? */
bool spotnik_discovery_is_over(struct spotnik_discovery *discovery);

/* The end of the job on record (done.c), in the peers directory or, with a list, in `folder` (NULL:
 * nowhere). The agent writes it: 0 or minus an errno. *ret_print differs whenever it was written
 * anew. */
int spotnik_discovery_done_write(const char *folder, const struct spotnik_credentials *self,
                                 uint64_t step);
bool spotnik_discovery_done_read(const char *folder, const struct spotnik_credentials *self,
                                 uint64_t *ret_step, uint64_t *ret_print);
/* Before _find(): where the record of a list is, and how many steps our program wants; 0: it does
 * not say. */
void spotnik_discovery_done_at(struct spotnik_discovery *discovery, const char *folder,
                               uint64_t steps_max);

/* What is wrong with the directory just now (full, vanished), what we wait for, or what could be
 * better; "" when there is nothing to say. Training does not depend on it. */
void spotnik_discovery_warning(struct spotnik_discovery *discovery, char *text, size_t size);

/* Stop the thread and take our file away, so that others stop looking for us. Accepts NULL. */
void spotnik_discovery_withdraw(struct spotnik_discovery *discovery);

/* That, and the rest. Accepts NULL. */
void spotnik_discovery_free(struct spotnik_discovery *discovery);

/* Make a directory for one job alone, or mark one just made. The first member then need not wait to
 * see whether others put a lost founding record back. 0, or -1 with errno. Never for a directory
 * that a job has used. */
int spotnik_discovery_fresh(const char *directory);

/* For tools that are no members: the addresses `spec` names now (ids are none with a list). Returns
 * 0 or the errors of _new; *ret_count <= max. Records not signed with the job key are left out. */
int spotnik_discovery_list(const char *spec, const struct spotnik_credentials *credentials,
                           struct spotnik_member *ret, uint32_t max, uint32_t *ret_count);

#endif
