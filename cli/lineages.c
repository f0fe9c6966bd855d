/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering what is known of lineages, and writing down a choice; see lineages.h. */
#include "lineages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "peers/lookout.h"
#include "peers/peers.h"
#include "checkpoint/shelf.h"

#define ASK_NS (500 * SPOTNIK_MS)

static struct lineage_row *row_of(struct lineages *found, uint64_t id)
{
    for (uint32_t i = 0; i < found->count; i++)
        if (found->row[i].founding.id == id)
            return &found->row[i];
    if (id == 0 || found->count == LINEAGES_MAX)
        return NULL;
    found->row[found->count] = (struct lineage_row){ .founding.id = id };
    return &found->row[found->count++];
}

const struct lineage_row *lineage_find(const struct lineages *found, uint64_t id)
{
    for (uint32_t i = 0; i < found->count; i++)
        if (found->row[i].founding.id == id)
            return &found->row[i];
    return NULL;
}

/* ---- members ---- */

static void take_answer(struct lineages *found, const struct spotnik_answer *answer)
{
    const struct spotnik_presence *presence = &answer->presence;
    struct lineage_row *row = row_of(found, presence->founding.id);

    if (!row)
        return;
    row->founding = presence->founding;
    if (!row->members || !presence->parked)
        row->at = answer->self;
    row->members++;
    row->parked += presence->parked;
    row->step = presence->step > row->step ? presence->step : row->step;
}

static int ask_all(const struct job_at *at, const struct spotnik_credentials *credentials,
                   struct lineages *found)
{
    struct spotnik_member *named = calloc(QUESTION_MEMBERS_MAX, sizeof *named);
    uint32_t count = 0;

    found->answer = calloc(QUESTION_MEMBERS_MAX, sizeof *found->answer);
    if (!named || !found->answer || !question_members(at, credentials, named, &count)) {
        free(named);
        return SPOTNIK_ERR_PEERS;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct spotnik_answer *answer = &found->answer[found->answer_count];
        if (named[i].port == 0
            || spotnik_net_ask(credentials, named[i].address, named[i].port, ASK_NS, answer, NULL))
            continue;
        found->answer_count++;
        take_answer(found, answer);
    }
    free(named);
    return 0;
}

/* ---- the folder ---- */

static const char *folder_of(const char *peers)
{
    return strncmp(peers, "file:", 5) ? NULL : peers + 5;
}

static void take_record(struct lineages *found, const struct spotnik_record *record,
                        uint64_t genesis)
{
    struct lineage_row *row = row_of(found, record->founding);

    if (!row)
        return;
    if (!row->founding.root)
        row->founding = (struct spotnik_founding){ record->founding, record->root, record->born_ms,
                                                   genesis ? genesis : record->generation };
    row->is_genesis |= genesis != 0;
    row->records += !genesis;
    row->step = record->step > row->step ? record->step : row->step;
}

static int look_at_folder(const char *folder, const struct spotnik_credentials *credentials,
                          struct lineages *found)
{
    struct spotnik_lookout watch = { .count = 0 };
    int rc = folder ? spotnik_lookout_look(&watch, credentials, folder, 0) : 0;

    errno = -rc;
    if (rc)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the folder %s: %m", folder);
    for (uint32_t i = 0; i < watch.count; i++)
        if (watch.entry[i].reading == SPOTNIK_READING_RECORD)
            take_record(found, &watch.entry[i].record, 0);
    if (watch.generation && watch.genesis.reading == SPOTNIK_READING_RECORD)
        take_record(found, &watch.genesis.record, watch.generation);
    spotnik_lookout_done(&watch);
    return 0;
}

/* ---- checkpoints ---- */

static void look_at_checkpoints(const char *dir, struct lineages *found)
{
    struct spotnik_shelf_list shelf;

    if (!dir || !*dir || spotnik_shelf_list(dir, &shelf))
        return; /* not made yet */
    for (uint32_t i = 0; i < shelf.count; i++) {
        struct lineage_row *row =
            shelf.entry[i].written_s ? row_of(found, shelf.entry[i].founding) : NULL;
        if (!row)
            continue;
        row->checkpoints++;
        row->checkpoint_step =
            shelf.entry[i].step > row->checkpoint_step ? shelf.entry[i].step : row->checkpoint_step;
        row->yielded = spotnik_shelf_has_yielded(dir, row->founding.id);
    }
    spotnik_shelf_list_done(&shelf);
}

static int by_life(const void *a, const void *b)
{
    const struct lineage_row *left = a, *right = b;

    if ((left->members != 0) != (right->members != 0))
        return left->members ? -1 : 1;
    return left->step < right->step ? 1 : left->step > right->step ? -1 : 0;
}

int lineages_find(const struct job_at *at, const struct spotnik_credentials *credentials,
                  const char *checkpoint, struct lineages *ret)
{
    memset(ret, 0, sizeof *ret);
    int rc = ask_all(at, credentials, ret);

    if (!rc)
        rc = look_at_folder(folder_of(at->peers), credentials, ret);
    if (rc) {
        lineages_done(ret);
        return rc;
    }
    look_at_checkpoints(checkpoint, ret);
    qsort(ret->row, ret->count, sizeof *ret->row, by_life);
    return 0;
}

void lineages_done(struct lineages *found)
{
    free(found->answer);
    found->answer = NULL;
}

/* ---- a choice ---- */

/* Members of all other lineages find a younger founding, and end. Without a living member of the
 * chosen one there is none to point at; then the next newcomer founds, from the chosen
 * checkpoints. */
static int folder_choose(const char *folder, const struct spotnik_credentials *credentials,
                         const struct lineage_row *chosen)
{
    struct spotnik_record record = { .member = chosen->at,
                                     .counter = 1,
                                     .founding = chosen->founding.id,
                                     .root = chosen->founding.root,
                                     .born_ms = chosen->founding.born_ms,
                                     .step = chosen->step,
                                     .standing = SPOTNIK_STANDING_ENTERED };
    struct spotnik_lookout watch = { .count = 0 };
    char name[64];

    if (!folder || !chosen->members || chosen->is_genesis)
        return 0;
    int rc = spotnik_lookout_look(&watch, credentials, folder, 0);
    record.generation = watch.generation + 1;
    spotnik_lookout_done(&watch);
    spotnik_genesis_name(record.generation, name);
    if (!rc)
        rc = spotnik_record_write(credentials, &record, folder, name, true);
    errno = -rc;
    return rc ? spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s/%s: %m", folder, name)
              : 0;
}

int lineages_choose(const struct lineages *found, const struct spotnik_credentials *credentials,
                    const char *peers, const char *checkpoint, const struct lineage_row *chosen)
{
    int rc = folder_choose(folder_of(peers), credentials, chosen);

    for (uint32_t i = 0; !rc && i < found->count; i++) {
        const struct lineage_row *row = &found->row[i];
        if (row->checkpoints)
            rc = row == chosen ? spotnik_shelf_choose(checkpoint, row->founding.id)
                               : spotnik_shelf_yield(checkpoint, row->founding.id);
    }
    return rc;
}
