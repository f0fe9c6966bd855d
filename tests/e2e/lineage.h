/* SPDX-License-Identifier: Apache-2.0 */
/* What the reports of the members must say; see cluster.h. */
#ifndef SPOTNIK_TESTS_LINEAGE_H
#define SPOTNIK_TESTS_LINEAGE_H

#include "cluster.h"

/* A line from a worker. Fails the test when it breaks a promise. */
void lineage_event(struct cluster *cluster, struct worker *worker, const char *line);

/* Now and then: fails the test if a member was excluded and nothing has been told since that
 * explains it. */
void lineage_judge(struct cluster *cluster);

/* The worker has ended: its last commit counts if it ended in good order. */
void lineage_end(struct cluster *cluster, struct worker *worker);

#endif
