/* SPDX-License-Identifier: Apache-2.0 */
/* The lineages of a job: from members that answer, the records of a folder, and checkpoints. For
 * cmd_lineage.c. */
#ifndef SPOTNIK_CLI_LINEAGES_H
#define SPOTNIK_CLI_LINEAGES_H

#include "engine/engine.h"
#include "question.h"

#define LINEAGES_MAX 64

struct lineage_row {
    struct spotnik_founding founding; /* root 0: only its id is known */
    uint32_t members, parked;         /* that answer */
    uint32_t records;
    uint64_t step;            /* the furthest of members and records */
    struct spotnik_member at; /* one that answers, an unparked one if there is any */
    bool is_genesis;          /* the folder's youngest */
    uint32_t checkpoints;
    uint64_t checkpoint_step;
    bool yielded;
};

struct lineages {
    struct lineage_row row[LINEAGES_MAX]; /* with members first, then by step */
    uint32_t count;
    struct spotnik_answer *answer;
    uint32_t answer_count;
};

/* `checkpoint` may be NULL. Blocking: asks every named member. 0, or an error whose detail says
 * why. */
int lineages_find(const struct job_at *at, const struct spotnik_credentials *credentials,
                  const char *checkpoint, struct lineages *ret);
void lineages_done(struct lineages *found);

/* NULL: there is none. */
const struct lineage_row *lineage_find(const struct lineages *found, uint64_t id);

/* In folder and checkpoints this one is the job from now on. 0 or an error. */
int lineages_choose(const struct lineages *found, const struct spotnik_credentials *credentials,
                    const char *peers, const char *checkpoint, const struct lineage_row *chosen);

#endif
