/* SPDX-License-Identifier: Apache-2.0 */
/* A member that is cut off from its majority, with a directory: it looks where new members look.
 * Everybody it knew may be dead while the job goes on elsewhere; then it is introduced there. If no
 * other is left, it founds the next generation from its memory, by the rule and after the time of
 * newcomers. Newcomers wait for it that long, so that the newest state is the one that goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discovery/inside.h"

/* Its record, if any, names our lineage or none. */
static bool is_ours(const struct spotnik_discovery_search *search,
                    const struct spotnik_watcher_entry *entry)
{
    return entry == NULL || entry->record.founding == 0
           || entry->record.founding == search->ours.id;
}

/* True: a member of a later view knows of us now. */
static bool introduce(struct spotnik_discovery_search *search)
{
    const struct spotnik_watcher *watch = &search->watch;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct spotnik_answer *answer = &search->question[i].answer;
        if (search->question[i].reply == SPOTNIK_DISCOVERY_REPLY_IN_VIEW
            && answer->epoch > search->status->view_epoch
            && is_ours(search, spotnik_watcher_find(watch, answer->self.id))) {
            spotnik_runtime_greet(search->discovery->runtime, &answer->self);
            return true;
        }
    }
    return false;
}

/* From what we hold: the state after our last step, and where the data stand. */
static bool has_memory(const struct spotnik_discovery_search *search)
{
    struct spotnik_ledger ledger;
    return spotnik_runtime_ledger(search->discovery->runtime, search->status->step_committed,
                                  &ledger);
}

/* The newest committed step in any record of our lineage, and in ours. */
static uint64_t furthest_step(const struct spotnik_discovery_search *search)
{
    uint64_t step = search->status->step_committed;
    for (uint32_t i = 0; i < search->watch.count; i++) {
        const struct spotnik_watcher_entry *entry = &search->watch.entry[i];
        if (entry->reading == SPOTNIK_READING_RECORD && entry->record.founding == search->ours.id
            && entry->record.step > step)
            step = entry->record.step;
    }
    return step;
}

/* Somebody else lives, and waits for what we do. */
static bool has_company(const struct spotnik_discovery_search *search)
{
    for (uint32_t i = 0; i < search->watch.count; i++)
        if (search->question[i].reply == SPOTNIK_DISCOVERY_REPLY_PARKED
            || search->question[i].reply == SPOTNIK_DISCOVERY_REPLY_IDLE)
            return true;
    return false;
}

static void found(struct spotnik_discovery_search *search)
{
    struct spotnik_discovery *discovery = search->discovery;
    uint64_t step = search->status->step_committed, furthest = furthest_step(search);
    bool followed = has_company(search);
    if (spotnik_directory_found(search, step) != 0)
        return;
    pthread_mutex_lock(&discovery->lock);
    discovery->refounds = true;
    discovery->followed = followed;
    snprintf(discovery->advice, sizeof discovery->advice,
             "founded the job again, alone, as generation %llu: all others were silent, and had "
             "not written for %.0f s; "
             "this member had committed step %llu, the furthest of them %llu",
             (unsigned long long)discovery->ours.generation,
             (double)discovery->times.stale_ns / 1e9, (unsigned long long)step,
             (unsigned long long)furthest);
    pthread_mutex_unlock(&discovery->lock);
    spotnik_runtime_over(discovery->runtime);
}

static void waiting_set(struct spotnik_discovery *discovery, const char *why)
{
    pthread_mutex_lock(&discovery->lock);
    snprintf(discovery->waiting, sizeof discovery->waiting, "%s%.250s",
             *why != '\0' ? "cut off; goes on alone when nobody else can be alive: " : "", why);
    pthread_mutex_unlock(&discovery->lock);
}

void spotnik_discovery_unparked(struct spotnik_discovery *discovery)
{
    struct spotnik_discovery_search *search = &discovery->parked;
    if (search->watch.looked_ns == 0 && search->watch.entry == NULL)
        return;
    spotnik_watcher_done(&search->watch);
    search->busy_ns = 0;
    waiting_set(discovery, "");
}

/* May this member, which no other introduced to the job, found it? Members that can write have
 * written since we began to watch: one without a record by now lives nowhere that newcomers see. */
static bool may_found(struct spotnik_discovery_search *search)
{
    uint64_t stale_ns = search->discovery->times.stale_ns, watched_ns = search->watch.watched_ns;
    bool quiet = spotnik_directory_liveness_check(search);
    if (search->watch.generation < search->ours.generation)
        spotnik_discovery_say(search, "genesis-%llu, by which the job was founded, has vanished",
                              (unsigned long long)search->ours.generation);
    else if (search->free && watched_ns < stale_ns)
        spotnik_discovery_say(search, "watching the directory, for %.0f of %.0f s",
                              (double)watched_ns / 1e9, (double)stale_ns / 1e9);
    return quiet && watched_ns >= stale_ns && search->ours.generation != 0
           && search->watch.generation >= search->ours.generation && has_memory(search)
           && !spotnik_runtime_is_noticed(search->discovery
                                              ->runtime); /* the job would go with it */
}

void spotnik_discovery_parked(struct spotnik_discovery *discovery, const spotnik_job_status *status)
{
    struct spotnik_discovery_search *search = &discovery->parked;
    search->discovery = discovery;
    search->status = status;
    search->self = spotnik_discovery_introduction(discovery);
    search->ours = spotnik_discovery_lineage(discovery);
    search->said[0] = '\0';
    if (spotnik_discovery_refounds(discovery)
        || spotnik_watcher_look(&search->watch, &search->self, discovery->store,
                                spotnik_discovery_gap_max(discovery))
               != 0
        || !spotnik_directory_ask(search)) {
        search->busy_ns = search->watch.watched_ns;
    } else {
        bool met = introduce(search), founds = !met && may_found(search);
        search->busy_ns = met ? search->watch.watched_ns : search->busy_ns;
        waiting_set(discovery, search->said);
        if (founds)
            found(search);
    }
    free(search->question);
    search->question = NULL;
}
