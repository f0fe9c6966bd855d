/* SPDX-License-Identifier: Apache-2.0 */
/* What a job leaves behind: nothing. Members keep no file outside the peers directory, so that
 * there is nothing to clean up after a SIGKILL; their shared memory and their sockets have no name
 * in a file system and end with the last process that has them open. So: no process, no file, and
 * no survivor that holds on to what the dead had. The records of the dead stay in the peers
 * directory, and are the business of src/discovery. */
#ifndef SPOTNIK_TESTS_LEFTOVERS_H
#define SPOTNIK_TESTS_LEFTOVERS_H

#include "cluster.h"

/* Before the first member is started: orphans become ours, temporary files go to a folder of the
 * test's own. */
void leftovers_watch(struct cluster *cluster);

/* For cluster_until(), with all members in one view: who has been there long has no more files
 * open, and no more memory shared, than who has just come, but for a few that come and go. */
bool leftovers_are_dropped(struct cluster *cluster);

/* Everybody has ended. Fails the test if anything is left. */
void leftovers_expect_none(struct cluster *cluster);

#endif
