/* SPDX-License-Identifier: Apache-2.0 */
/* One round of the search in a directory. The process that makes genesis-<n> founds the job for the
 * n-th time. All others join by any member whose record lies there. genesis-<n + 1> follows only
 * when no process with a record there can be alive in a view (judge.c). The rules, and why:
 * docs/design/0002-finding-the-job.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "link/address.h"
#include "peers/inside.h"

#define PARKED_NS (10 * SPOTNIK_S) /* after T, until a parked member has gone on by itself */

/* What one round has found. */
struct findings {
    /* one for each record, and the last for the founder without one */
    struct spotnik_question *question;
    uint32_t count;
    bool free;    /* nobody stands in the way of founding, */
    bool at_once; /* and nothing needs to be waited for */
};

static bool may_join(const struct spotnik_peers_search *search, const struct spotnik_record *record,
                     const struct spotnik_answer *answer)
{
    /* A lineage that a younger one has replaced takes nobody in. */
    return !spotnik_id_equal(record->member.id, answer->self.id) || record->generation == 0
           || search->watch.genesis.reading != SPOTNIK_READING_RECORD
           || record->generation >= search->watch.generation;
}

static bool is_own(const struct spotnik_peers_search *search, const struct spotnik_record *record)
{
    return spotnik_id_equal(record->member.id, search->self.self.id);
}

/* ---- asking ---- */

static void question_make(struct spotnik_peers_search *search, const struct spotnik_sighting *entry,
                          struct spotnik_question *question)
{
    *question = (struct spotnik_question){ .expected = &entry->record.member, .name = entry->name };
    question->skipped = entry->reading != SPOTNIK_READING_RECORD || is_own(search, &entry->record)
                        || entry->record.standing == SPOTNIK_STANDING_SEEKING;
}

/* One for each record; the founder too, where its own record is gone. Those whose records change
 * come first, so that a crowd of dead ones does not hide them. */
static bool ask_all(struct spotnik_peers_search *search, struct findings *findings)
{
    struct spotnik_lookout *watch = &search->watch;
    struct spotnik_question *question = calloc((size_t)watch->count + 1, sizeof *question);
    if (question == NULL) {
        search->error = spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to search for the job");
        return false;
    }
    findings->question = question;
    findings->count = watch->count;
    for (uint32_t i = 0; i < watch->count; i++)
        question_make(search, &watch->entry[i], &question[i]);
    question[watch->count].skipped = true;
    if (watch->generation > 0 && watch->genesis.reading == SPOTNIK_READING_RECORD
        && spotnik_lookout_find(watch, watch->genesis.record.member.id) == NULL)
        question_make(search, &watch->genesis, &question[watch->count]);
    spotnik_peers_ask(&search->self, question, watch->count + 1, true);
    return true;
}

static const struct spotnik_record *record_of(const struct spotnik_peers_search *search, uint32_t i)
{
    const struct spotnik_lookout *watch = &search->watch;
    return i < watch->count ? &watch->entry[i].record : &watch->genesis.record;
}

static void sponsor_take(struct spotnik_peers_search *search, const struct spotnik_answer *answer)
{
    struct spotnik_peers *peers = search->peers;
    const struct spotnik_sighting *entry = spotnik_lookout_find(&search->watch, answer->self.id);
    search->sponsor = answer->self;
    pthread_mutex_lock(&peers->lock);
    peers->sponsor_founding = entry != NULL ? entry->record.founding : 0;
    peers->sponsor_generation = entry != NULL ? entry->record.generation : 0;
    pthread_mutex_unlock(&peers->lock);
}

static bool sponsor_find(struct spotnik_peers_search *search, const struct findings *findings)
{
    for (uint32_t i = 0; i <= findings->count; i++) {
        const struct spotnik_question *question = &findings->question[i];
        if (question->reply != SPOTNIK_PEERS_REPLY_IN_VIEW)
            continue;
        if (!spotnik_peers_may_follow(search->peers, &question->answer)) {
            spotnik_peers_say(search, "%.48s is of another lineage than this process was in",
                              question->name);
            continue;
        }
        if (may_join(search, record_of(search, i), &question->answer)) {
            sponsor_take(search, &question->answer);
            return true;
        }
        spotnik_peers_say(search,
                          "%.48s is of generation %llu, which a younger founding has replaced",
                          question->name, (unsigned long long)record_of(search, i)->generation);
    }
    return false;
}

/* ---- may we found? ---- */

/* Whoever has the address of a process that has ended speaks of another job. */
static void refusal_note(struct spotnik_peers_search *search,
                         const struct spotnik_question *question,
                         enum spotnik_peers_verdict verdict)
{
    if (question->refusal == 0 || verdict == SPOTNIK_PEERS_VERDICT_ENDED)
        return;
    search->refusal = question->refusal;
    snprintf(search->refused, sizeof search->refused, "%.120s (record %.48s)", question->text,
             question->name != NULL ? question->name : "of nobody");
}

/* It takes `for_ns` more, of `of_ns`. */
static void hope(struct spotnik_peers_search *search, uint64_t for_ns, uint64_t of_ns)
{
    uint64_t until_ns = spotnik_peers_clock_ns() + for_ns + 20 * SPOTNIK_PEERS_AGAIN_NS;
    if (for_ns > search->remaining_ns) {
        search->remaining_ns = for_ns;
        search->whole_ns = of_ns;
    }
    if (for_ns != 0 && until_ns > search->hope_ns)
        search->hope_ns = until_ns;
}

static bool is_founder(const struct spotnik_peers_search *search,
                       const struct spotnik_record *record)
{
    return search->watch.generation > 0 && search->watch.genesis.reading == SPOTNIK_READING_RECORD
           && spotnik_id_equal(record->member.id, search->watch.genesis.record.member.id);
}

/* A member of a replaced lineage does not block a founding. The exception is a member that has just
 * replaced it from its memory, and has not yet written its record again. */
static bool is_past(const struct spotnik_peers_search *search, const struct spotnik_record *record)
{
    return search->watch.generation > 0 && search->watch.genesis.reading == SPOTNIK_READING_RECORD
           && record->generation != 0 && record->generation < search->watch.generation
           && !is_founder(search, record);
}

/* A live writer would have written by now. */
static bool seems_dead(const struct spotnik_peers_search *search,
                       const struct spotnik_sighting *entry)
{
    return entry->unchanged_ns
           >= spotnik_time_min(search->watch.watched_ns, 3 * search->peers->times.refresh_ns);
}

static void record_judge(struct spotnik_peers_search *search, struct findings *findings, uint32_t i)
{
    const struct spotnik_sighting *entry = &search->watch.entry[i];
    const struct spotnik_question *question = &findings->question[i];
    char why[400];
    uint64_t hope_ns, stale_ns = search->peers->times.stale_ns;
    if (entry->reading == SPOTNIK_READING_RECORD
        && (is_own(search, &entry->record) || is_past(search, &entry->record)))
        return;
    enum spotnik_peers_verdict verdict =
        spotnik_peers_judge(entry, question, &search->peers->times, why, sizeof why, &hope_ns);
    refusal_note(search, question, verdict);
    bool founder = entry->reading == SPOTNIK_READING_RECORD && is_founder(search, &entry->record);
    if (verdict == SPOTNIK_PEERS_VERDICT_FREE && founder
        && question->reply == SPOTNIK_PEERS_REPLY_IDLE) {
        findings->free = false; /* it is about to found */
        return;
    }
    if (verdict == SPOTNIK_PEERS_VERDICT_WAIT || verdict == SPOTNIK_PEERS_VERDICT_PARKED) {
        findings->free = false;
        search->undecided += question->reply != SPOTNIK_PEERS_REPLY_REFUSES;
        spotnik_peers_say(search, "%s", why);
        hope(search, seems_dead(search, entry) ? hope_ns : 0, stale_ns);
        /* it goes on by itself when nobody else can be alive */
        if (verdict == SPOTNIK_PEERS_VERDICT_PARKED)
            hope(search, spotnik_time_since(stale_ns + PARKED_NS, search->watch.watched_ns),
                 stale_ns + PARKED_NS);
    }
}

static bool is_there(const struct spotnik_peers_search *search, const char *name)
{
    struct spotnik_record record;
    uint64_t print;
    return spotnik_record_read(&search->self, search->peers->spec.directory, name, &record, &print,
                               NULL)
           == SPOTNIK_READING_RECORD;
}

/* The life of the job that this founding began has ended in good order, with its work done or
 * not. */
static bool is_over(const struct spotnik_peers_search *search, uint64_t founding)
{
    char over[64], stopped[64];
    snprintf(over, sizeof over, SPOTNIK_OVER_NAME, (unsigned long long)founding);
    snprintf(stopped, sizeof stopped, SPOTNIK_STOPPED_NAME, (unsigned long long)founding);
    return founding != 0 && (is_there(search, over) || is_there(search, stopped));
}

/* Its founder has left no record: it has left the job, or a cleaner took the record. Then others
 * that live put theirs back within moments. */
static void founder_judge(struct spotnik_peers_search *search, struct findings *findings)
{
    const struct spotnik_lookout *watch = &search->watch;
    const struct spotnik_question *question = &findings->question[findings->count];
    char why[400];
    uint64_t hope_ns;
    if (watch->generation == 0
        || (watch->genesis.reading == SPOTNIK_READING_RECORD
            && (is_own(search, &watch->genesis.record)
                || spotnik_lookout_find(watch, watch->genesis.record.member.id) != NULL)))
        return;
    if (watch->genesis.reading == SPOTNIK_READING_RECORD
        && (is_over(search, watch->genesis.record.founding)
            || spotnik_peers_was_here(&watch->genesis.record)))
        return; /* it left, and we know of it */
    findings->at_once = false;
    enum spotnik_peers_verdict verdict =
        spotnik_peers_judge(&watch->genesis, question, &search->peers->times, why, sizeof why,
                            &hope_ns);
    refusal_note(search, question, verdict);
    if (verdict == SPOTNIK_PEERS_VERDICT_FREE && question->reply == SPOTNIK_PEERS_REPLY_IDLE)
        findings->free = false; /* about to found, or to join those that went on without it */
    if (verdict != SPOTNIK_PEERS_VERDICT_WAIT && verdict != SPOTNIK_PEERS_VERDICT_PARKED)
        return;
    findings->free = false;
    spotnik_peers_say(search, "%s", why);
    hope(search, hope_ns, search->peers->times.stale_ns);
}

/* The newest view in any record had more members than there are records of its lineage. So a
 * cleaner has taken some, and a member that lives puts its own back. */
static bool records_lack(const struct spotnik_lookout *watch)
{
    uint64_t founding = watch->genesis.record.founding, epoch = 0, size = 0, count = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct spotnik_record *record = &watch->entry[i].record;
        if (watch->entry[i].reading != SPOTNIK_READING_RECORD || record->founding != founding
            || record->standing == SPOTNIK_STANDING_SEEKING)
            continue;
        count++;
        if (record->epoch > epoch || (record->epoch == epoch && record->size > size)) {
            epoch = record->epoch;
            size = record->size;
        }
    }
    return founding != 0 && size > count;
}

static void judge_all(struct spotnik_peers_search *search, struct findings *findings)
{
    findings->free = true;
    findings->at_once = search->watch.generation > 0 || search->heir;
    for (uint32_t i = 0; i < findings->count; i++)
        record_judge(search, findings, i);
    founder_judge(search, findings);
    findings->at_once = findings->at_once && !records_lack(&search->watch);
}

/* ---- founding ---- */

/* A copy of a genesis under such a name: members take its number for theirs, and their records
 * outlive it. */
static int no_number_left(const struct spotnik_peers_search *search)
{
    char names[360];
    spotnik_lookout_highest(&search->watch, names, sizeof names);
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "no number is left for another founding in %s; no founding made "
                                "the last one: remove %s",
                                search->peers->spec.directory, names);
}

static enum spotnik_peers_round found_failed(struct spotnik_peers_search *search,
                                             uint64_t generation, int rc)
{
    (void)spotnik_peers_entered_set(search->peers, false);
    if (rc == -EEXIST)
        return SPOTNIK_PEERS_AGAIN;
    errno = -rc;
    search->error =
        rc == -ERANGE
            ? no_number_left(search)
            : spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s/genesis-%llu: %m",
                                   search->peers->spec.directory, (unsigned long long)generation);
    return SPOTNIK_PEERS_ERROR;
}

/* Somebody turned out to be alive. */
static enum spotnik_peers_round take_back(struct spotnik_peers_search *search,
                                          const struct spotnik_founding *founding)
{
    struct spotnik_peers *peers = search->peers;
    spotnik_genesis_take_back(peers, founding->generation, founding->id);
    search->taken_back = founding->generation;
    (void)spotnik_peers_entered_set(peers, false);
    search->quiet = 0;
    spotnik_peers_say(search, "a member wrote its record again, or founded, just now");
    return SPOTNIK_PEERS_AGAIN;
}

/* Try to found a generation: the file system lets only one process succeed. */
static enum spotnik_peers_round found(struct spotnik_peers_search *search)
{
    struct spotnik_peers *peers = search->peers;
    uint64_t generation = spotnik_lookout_generation_next(&search->watch);
    struct spotnik_founding before = spotnik_genesis_lineage(&search->watch.genesis,
                                                             search->watch.generation),
                            founding;
    spotnik_peers_founding_make(&before, generation, &founding);
    int rc = spotnik_peers_entered_set(peers, true);
    if (rc == 0 && spotnik_genesis_is_contested(peers->spec.directory, search->watch.generation, 0))
        rc = -EEXIST;
    if (rc == 0) {
        (void)spotnik_witness_offer(peers, &founding);
        search->tried = founding;
        search->seen = search->watch.generation;
        rc = spotnik_genesis_make(peers, &founding, 0);
    }
    if (rc != 0) {
        spotnik_witness_remove(peers->spec.directory, founding.id);
        return found_failed(search, generation, rc);
    }
    if (spotnik_lookout_has_woken(&search->watch, &search->self, peers->spec.directory,
                                  peers->times.stale_ns, generation))
        return take_back(search, &founding);
    spotnik_witness_remove(peers->spec.directory, before.id);
    return SPOTNIK_PEERS_FOUND;
}

/* The mark of a fresh directory goes to one process, which then knows that nobody was there
 * before. */
static void heir_try(struct spotnik_peers_search *search)
{
    const char *directory = search->peers->spec.directory;
    char from[PATH_MAX], to[PATH_MAX];
    snprintf(from, sizeof from, "%s/" SPOTNIK_PEERS_FRESH, directory);
    snprintf(to, sizeof to, "%s/.fresh.%016llx", directory,
             (unsigned long long)search->self.self.id.low);
    if (rename(from, to) != 0)
        return;
    search->heir = true;
    unlink(to);
}

/* A record has gone before our eyes: its member has left, or a cleaner took it from one that cannot
 * write at this moment. That one is gone after T, as if its record still lay there. */
static bool has_vanished(struct spotnik_peers_search *search)
{
    const struct spotnik_lookout *watch = &search->watch;
    uint64_t stale_ns = search->peers->times.stale_ns;
    if (watch->kept_ns >= watch->watched_ns || watch->kept_ns >= stale_ns)
        return false;
    spotnik_peers_say(search, "a record is gone, and nobody can know whether its member is");
    hope(search, stale_ns - watch->kept_ns, stale_ns);
    return true;
}

/* Members restore what is missing within one refresh, so a process that sees nothing for three has
 * not come in between. The same holds when a record or a genesis has gone before our eyes. A
 * cleaner may have taken that of a member that we cannot reach. */
static bool has_watched(struct spotnik_peers_search *search, const struct findings *findings)
{
    const struct spotnik_lookout *watch = &search->watch;
    uint64_t wanted_ns = SPOTNIK_PEERS_BACK_REFRESHES * search->peers->times.refresh_ns;
    bool gone = watch->settled_ns < watch->watched_ns;
    if (has_vanished(search))
        return false;
    if (watch->settled_ns >= wanted_ns || (findings->at_once && !gone))
        return true;
    spotnik_peers_say(
        search,
        gone ? "a record is gone; watching for its member to put it back"
        : watch->generation > 0
            ? "the founder has left no record; watching for members that put theirs back"
            : "nobody has founded the job here; watching for members that put their genesis back");
    hope(search, wanted_ns - watch->settled_ns, wanted_ns);
    return false;
}

static enum spotnik_peers_round conclude(struct spotnik_peers_search *search,
                                         struct findings *findings)
{
    if (sponsor_find(search, findings))
        return SPOTNIK_PEERS_JOIN;
    if (!search->may_found) {
        if (search->said[0] == '\0')
            spotnik_peers_say(
                search, "no member of the job that this process was in, or was joining, answers");
        return SPOTNIK_PEERS_AGAIN;
    }
    if (search->watch.generation == 0 && !search->heir)
        heir_try(search);
    judge_all(search, findings);
    bool quiet = findings->free && has_watched(search, findings);
    search->quiet = quiet ? search->quiet + 1 : 0;
    if (quiet)
        hope(search, SPOTNIK_PEERS_AGAIN_NS, SPOTNIK_PEERS_AGAIN_NS);
    if (!quiet || (search->quiet < SPOTNIK_PEERS_QUIET_ROUNDS && !search->heir))
        return SPOTNIK_PEERS_AGAIN;
    return found(search);
}

/* A genesis of somebody else is an error at once: nobody gets any further here. One that cannot be
 * read may yet be. */
static bool is_foreign(struct spotnik_peers_search *search)
{
    const struct spotnik_sighting *genesis = &search->watch.genesis;
    if (search->watch.generation == 0
        || (genesis->reading != SPOTNIK_READING_KEY && genesis->reading != SPOTNIK_READING_JOB))
        return false;
    bool job = genesis->reading == SPOTNIK_READING_JOB;
    search->error =
        spotnik_error_return(job ? SPOTNIK_ERR_JOB : SPOTNIK_ERR_KEY, "%s/%s %s",
                             search->peers->spec.directory, genesis->name,
                             job ? "belongs to another job: give each job its own directory"
                                 : "is signed with another job key");
    return true;
}

/* Unreadable from the start is an error; later it is one more thing to wait for. */
static enum spotnik_peers_round unreadable(struct spotnik_peers_search *search, int rc)
{
    search->quiet = 0;
    errno = -rc;
    int error = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the peers directory %s: %m",
                                     search->peers->spec.directory);
    spotnik_peers_say(search, "%s", spotnik_last_error());
    search->error = search->opened ? 0 : error;
    return search->opened ? SPOTNIK_PEERS_AGAIN : SPOTNIK_PEERS_ERROR;
}

/* We made it, though the file system said otherwise. */
static enum spotnik_peers_round found_after_all(struct spotnik_peers_search *search)
{
    struct spotnik_peers *peers = search->peers;
    if (search->tried.id != 0 && search->watch.genesis.record.founding == search->tried.id
        && spotnik_genesis_is_contested(peers->spec.directory, search->seen,
                                        search->tried.generation))
        return take_back(search, &search->tried);
    if (spotnik_peers_entered_set(peers, true) != 0)
        return SPOTNIK_PEERS_AGAIN;
    spotnik_genesis_adopt(peers, search->watch.generation, search->watch.genesis.record.founding);
    pthread_mutex_lock(&peers->lock);
    peers->made = spotnik_genesis_lineage(&search->watch.genesis, search->watch.generation);
    pthread_mutex_unlock(&peers->lock);
    return SPOTNIK_PEERS_FOUND;
}

enum spotnik_peers_round spotnik_peers_directory_round(struct spotnik_peers_search *search)
{
    struct findings findings = { .question = NULL };
    search->error = 0;
    int rc = spotnik_lookout_look(&search->watch, &search->self, search->peers->spec.directory,
                                  spotnik_peers_gap_max(search->peers));
    if (rc != 0)
        return unreadable(search, rc);
    search->opened = true;
    if (is_foreign(search))
        return SPOTNIK_PEERS_ERROR;
    const struct spotnik_sighting *genesis = &search->watch.genesis;
    if (search->may_found && search->watch.generation > 0
        && genesis->reading == SPOTNIK_READING_RECORD && is_own(search, &genesis->record)
        && search->watch.generation != search->taken_back)
        return found_after_all(search);
    enum spotnik_peers_round round = SPOTNIK_PEERS_ERROR;
    if (ask_all(search, &findings))
        round = conclude(search, &findings);
    free(findings.question);
    return round;
}
