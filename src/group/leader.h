/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's thread: it makes the group's calls on the job, and starts buckets whose parts all
 * lie there. It sleeps meanwhile. */
#ifndef SPOTNIK_GROUP_LEADER_H
#define SPOTNIK_GROUP_LEADER_H

#include "group/control.h"

struct spotnik_group_leader;

/* `control` is the start of the group's memory. Errors: SYSTEM, MEMORY. */
int spotnik_group_leader_new(struct spotnik_group_control *control,
                             struct spotnik_group_leader **ret_leader);

/* Before the leader's own process asks to join: the settings, borrowed until the answer. */
void spotnik_group_leader_config(struct spotnik_group_leader *leader, const spotnik_config *config);

/* The group has a notice. Any thread. */
void spotnik_group_leader_notice(void *leader);

spotnik_job *spotnik_group_leader_job(struct spotnik_group_leader *leader);

/* Ends the thread, and abandons a job that was not left. NULL is allowed. */
void spotnik_group_leader_free(struct spotnik_group_leader *leader);

#endif
