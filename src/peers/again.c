/* SPDX-License-Identifier: Apache-2.0 */
/* A process that was in the job, was told that the others went on without it, and holds the state
 * of then. All others may end before it is in again. Then it founds the next generation of its own
 * lineage, where newcomers could: otherwise its memory would be lost, though nothing newer is left.
 * One that a younger founding has replaced founds nothing; it looks for a member to join. */
#include <stdio.h>

#include "peers/inside.h"

bool spotnik_peers_is_heir(const struct spotnik_peers_search *search)
{
    const struct spotnik_lookout *watch = &search->watch;
    uint64_t ours = search->past.generation;
    if (search->past.id == 0)
        return false;
    if (watch->generation < ours || watch->generation == 0)
        return true; /* a cleaner took our genesis: has_watched() waits for it */
    if (watch->genesis.reading != SPOTNIK_READING_RECORD)
        return watch->generation == ours; /* founder_judge() waits for T */
    return watch->genesis.record.founding == search->past.id;
}

/* Never of a number that our lineage has left behind, even where a cleaner has taken all files. */
void spotnik_peers_again_make(struct spotnik_peers_search *search, struct spotnik_founding *ret)
{
    uint64_t generation = spotnik_lookout_generation_next(&search->watch);
    if (generation <= search->past.generation)
        generation = search->past.generation + 1;
    spotnik_peers_founding_make(&search->past, generation, ret);
}

bool spotnik_peers_again_is_tried(const struct spotnik_peers_search *search)
{
    return search->tried.id != 0 && search->watch.generation == search->tried.generation
           && search->watch.genesis.record.founding == search->tried.id;
}

void spotnik_peers_again_told(struct spotnik_peers_search *search)
{
    struct spotnik_peers *peers = search->peers;
    pthread_mutex_lock(&peers->lock);
    snprintf(
        peers->advice, sizeof peers->advice,
        "founded the job again, alone, as generation %llu: the others had gone on without this "
        "member, and none of them is left; it holds step %llu",
        (unsigned long long)search->tried.generation, (unsigned long long)search->step);
    pthread_mutex_unlock(&peers->lock);
}

/* It lives, since it writes. The one with the newest state goes first, and any of them before a
 * newcomer. */
bool spotnik_peers_goes_first(const struct spotnik_peers_search *search,
                              const struct spotnik_sighting *entry)
{
    const struct spotnik_record *record = &entry->record;
    const struct spotnik_lookout *watch = &search->watch;
    if (entry->reading != SPOTNIK_READING_RECORD || !spotnik_record_holds(record)
        || entry->unchanged_ns >= SPOTNIK_PEERS_BACK_REFRESHES * search->peers->times.refresh_ns)
        return false;
    if (watch->generation > 0 && watch->genesis.reading == SPOTNIK_READING_RECORD
        && watch->genesis.record.founding != record->founding)
        return false; /* replaced: it founds nothing */
    if (search->again && record->step != search->step)
        return record->step > search->step;
    return !search->again || spotnik_id_compare(record->member.id, search->self.self.id) < 0;
}
