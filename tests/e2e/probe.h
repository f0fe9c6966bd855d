/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at members from outside, as an operator does: what their status says, how many files they
 * hold open, what a worker is told that does not get in. */
#ifndef SPOTNIK_TESTS_PROBE_H
#define SPOTNIK_TESTS_PROBE_H

#include "cluster.h"
#include "runtime/runtime.h"

/* What a member of the job would show at the door: the right key, the right job, a fresh id, no
 * port. */
void probe_credentials(struct cluster *cluster, struct spotnik_credentials *ret);

/* Where the member at `place` listens, from its record in the peers directory. Fails the test when
 * there is none. */
struct spotnik_member probe_member(struct cluster *cluster, uint32_t place);
/* The same; false: there is none, for example not yet. */
bool probe_member_find(struct cluster *cluster, uint32_t place, struct spotnik_member *ret);

/* The status JSON of `member`, asked in the network of `place`. False: no answer. */
bool probe_status(struct cluster *cluster, uint32_t place, const struct spotnik_member *member,
                  char *text, size_t size);

/* Turn until the status shows `what`; fails the test after limit_ms. *text is the last answer. */
void probe_until(struct cluster *cluster, uint32_t place, const struct spotnik_member *member,
                 const char *what, uint64_t limit_ms, char *text, size_t size);

/* Run a worker with another key file, job or peers until it ends: all that it said. */
void probe_told(struct cluster *cluster, const char *key, const char *job, const char *peers,
                char *text, size_t size);

/* The same; it must say nothing but error `code`, and words that have `why` in them. */
void probe_fails(struct cluster *cluster, const char *key, const char *job, const char *peers,
                 int code, const char *why);

/* Open files of a process; -1: it is not there. */
int probe_files(pid_t pid);

#endif
