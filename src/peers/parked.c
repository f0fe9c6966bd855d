/* SPDX-License-Identifier: Apache-2.0 */
/* A member that is cut off from its majority, with a directory: it looks where new members look.
 * Everybody it knew may be dead while the job goes on elsewhere; then it is introduced there. Or
 * nobody else is left. Then it founds the next generation from its memory, by the same rule as
 * newcomers, and after the same time. Newcomers wait for it that long, so that the newest state is
 * the one that goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers/inside.h"

/* Of our lineage, for all that its record says. */
static bool is_ours(const struct spotnik_peers_search *search, const struct spotnik_sighting *entry)
{
    return entry == NULL || entry->record.founding == 0
           || entry->record.founding == search->ours.id;
}

/* True: a member of a later view knows of us now. */
static bool introduce(struct spotnik_peers_search *search)
{
    const struct spotnik_lookout *watch = &search->watch;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct spotnik_answer *answer = &search->question[i].answer;
        if (search->question[i].reply == SPOTNIK_PEERS_REPLY_IN_VIEW
            && answer->epoch > search->status->view_epoch
            && is_ours(search, spotnik_lookout_find(watch, answer->self.id))) {
            spotnik_engine_greet(search->peers->engine, &answer->self);
            return true;
        }
    }
    return false;
}

/* From what we hold: the state after our last step, and where the data stand. */
static bool has_memory(const struct spotnik_peers_search *search)
{
    struct spotnik_ledger ledger;
    return spotnik_engine_ledger(search->peers->engine, search->status->step_committed, &ledger);
}

/* Of all that wrote a record in our lineage. */
static uint64_t furthest_step(const struct spotnik_peers_search *search)
{
    uint64_t step = search->status->step_committed;
    for (uint32_t i = 0; i < search->watch.count; i++) {
        const struct spotnik_sighting *entry = &search->watch.entry[i];
        if (entry->reading == SPOTNIK_READING_RECORD && entry->record.founding == search->ours.id
            && entry->record.step > step)
            step = entry->record.step;
    }
    return step;
}

/* Somebody else lives, and waits for what we do. */
static bool has_company(const struct spotnik_peers_search *search)
{
    for (uint32_t i = 0; i < search->watch.count; i++)
        if (search->question[i].reply == SPOTNIK_PEERS_REPLY_PARKED
            || search->question[i].reply == SPOTNIK_PEERS_REPLY_IDLE)
            return true;
    return false;
}

static void found(struct spotnik_peers_search *search)
{
    struct spotnik_peers *peers = search->peers;
    uint64_t step = search->status->step_committed, furthest = furthest_step(search);
    bool followed = has_company(search);
    if (spotnik_directory_found(search, step) != 0)
        return;
    pthread_mutex_lock(&peers->lock);
    peers->refounds = true;
    peers->followed = followed;
    snprintf(peers->advice, sizeof peers->advice,
             "founded the job again, alone, as generation %llu: all others were silent, and had "
             "not written for %.0f s; "
             "this member had committed step %llu, the furthest of them %llu",
             (unsigned long long)peers->ours.generation, (double)peers->times.stale_ns / 1e9,
             (unsigned long long)step, (unsigned long long)furthest);
    pthread_mutex_unlock(&peers->lock);
    spotnik_engine_over(peers->engine);
}

static void waiting_set(struct spotnik_peers *peers, const char *why)
{
    pthread_mutex_lock(&peers->lock);
    snprintf(peers->waiting, sizeof peers->waiting, "%s%.250s",
             *why != '\0' ? "cut off; goes on alone when nobody else can be alive: " : "", why);
    pthread_mutex_unlock(&peers->lock);
}

void spotnik_peers_unparked(struct spotnik_peers *peers)
{
    struct spotnik_peers_search *search = &peers->parked;
    if (search->watch.looked_ns == 0 && search->watch.entry == NULL)
        return;
    spotnik_lookout_done(&search->watch);
    search->busy_ns = 0;
    waiting_set(peers, "");
}

/* May this member, which nobody introduced to the job, found it? Members that can write have
 * written since we began to watch: one without a record by now lives nowhere that newcomers see. */
static bool may_found(struct spotnik_peers_search *search)
{
    uint64_t stale_ns = search->peers->times.stale_ns, watched_ns = search->watch.watched_ns;
    bool quiet = spotnik_directory_judge(search);
    if (search->watch.generation < search->ours.generation)
        spotnik_peers_say(search, "genesis-%llu, by which the job was founded, has vanished",
                          (unsigned long long)search->ours.generation);
    else if (search->free && watched_ns < stale_ns)
        spotnik_peers_say(search, "watching the directory, for %.0f of %.0f s",
                          (double)watched_ns / 1e9, (double)stale_ns / 1e9);
    return quiet && watched_ns >= stale_ns && search->ours.generation != 0
           && search->watch.generation >= search->ours.generation && has_memory(search)
           && !spotnik_engine_is_noticed(search->peers->engine); /* the job would go with it */
}

void spotnik_peers_parked(struct spotnik_peers *peers, const spotnik_job_status *status)
{
    struct spotnik_peers_search *search = &peers->parked;
    search->peers = peers;
    search->status = status;
    search->self = spotnik_peers_introduction(peers);
    search->ours = spotnik_peers_lineage(peers);
    search->said[0] = '\0';
    if (spotnik_peers_refounds(peers)
        || spotnik_lookout_look(&search->watch, &search->self, peers->spec.directory,
                                spotnik_peers_gap_max(peers))
               != 0
        || !spotnik_directory_ask(search)) {
        search->busy_ns = search->watch.watched_ns;
    } else {
        bool met = introduce(search), founds = !met && may_found(search);
        search->busy_ns = met ? search->watch.watched_ns : search->busy_ns;
        waiting_set(peers, search->said);
        if (founds)
            found(search);
    }
    free(search->question);
    search->question = NULL;
    explicit_bzero(search->self.key, sizeof search->self.key);
}
