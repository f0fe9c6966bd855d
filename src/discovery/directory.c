/* SPDX-License-Identifier: Apache-2.0 */
/* One round of the search in a directory. The process that makes genesis-<n> founds the job for the
 * n-th time. All others join by any member whose record lies there. genesis-<n + 1> follows only
 * when no process with a record there can be alive in a view (liveness.c). The rules, and why:
 * docs/design/0002-finding-the-job.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "link/address.h"
#include "discovery/inside.h"

#define PARKED_NS (10 * SPOTNIK_S) /* after T, until a parked member has gone on by itself */
/* So many quiet refreshes and rounds in a row come before a founding. A member rewrites its record
 * within a refresh, and may be entering a view right now. */
#define QUIET_REFRESHES 3
#define QUIET_ROUNDS 2

static bool has_founding_record(const struct spotnik_discovery_search *search)
{
    return search->watch.generation > 0
           && search->watch.founding_record.reading == SPOTNIK_READING_RECORD;
}

static bool is_own(const struct spotnik_discovery_search *search,
                   const struct spotnik_record *record)
{
    return spotnik_id_equal(record->member.id, search->self.self.id);
}

/* The lineage that the next founding follows. */
static struct spotnik_founding lineage_before(const struct spotnik_discovery_search *search)
{
    return search->status != NULL ? search->ours
                                  : spotnik_founding_record_lineage(&search->watch.founding_record,
                                                                    search->watch.generation);
}

/* ---- asking ---- */

static void question_make(struct spotnik_discovery_search *search,
                          const struct spotnik_watcher_entry *entry,
                          struct spotnik_question *question)
{
    bool seeks = entry->record.standing == SPOTNIK_STANDING_SEEKING;
    *question = (struct spotnik_question){ .expected = &entry->record.member, .name = entry->name };
    question->skipped = entry->reading != SPOTNIK_READING_RECORD || is_own(search, &entry->record)
                        || (seeks && search->status == NULL);
}

/* Another process, which is parked, has the address of one that is gone. It has a record of its
 * own, by which it is judged. */
static bool is_anothers(const struct spotnik_watcher *watch,
                        const struct spotnik_question *question)
{
    return question->reply == SPOTNIK_DISCOVERY_REPLY_PARKED
           && !spotnik_id_equal(question->answer.self.id, question->expected->id)
           && spotnik_watcher_find(watch, question->answer.self.id) != NULL;
}

bool spotnik_directory_ask(struct spotnik_discovery_search *search)
{
    struct spotnik_watcher *watch = &search->watch;
    struct spotnik_question *question = calloc((size_t)watch->count + 1, sizeof *question);
    if (question == NULL) {
        search->error = spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to search for the job");
        return false;
    }
    search->question = question;
    for (uint32_t i = 0; i < watch->count; i++)
        question_make(search, &watch->entry[i], &question[i]);
    question[watch->count].skipped = true;
    if (has_founding_record(search)
        && spotnik_watcher_find(watch, watch->founding_record.record.member.id) == NULL)
        question_make(search, &watch->founding_record, &question[watch->count]);
    struct spotnik_founding ours = lineage_before(search);
    spotnik_discovery_ask(&search->self, question, watch->count + 1, search->status == NULL, &ours);
    for (uint32_t i = 0; i <= watch->count; i++)
        if (is_anothers(watch, &question[i]))
            question[i].reply = SPOTNIK_DISCOVERY_REPLY_OTHER;
    return true;
}

/* ---- joining ---- */

/* A lineage that a younger one has replaced admits no member. */
static bool may_join(const struct spotnik_discovery_search *search,
                     const struct spotnik_record *record, const struct spotnik_answer *answer)
{
    return !spotnik_id_equal(record->member.id, answer->self.id) || record->generation == 0
           || !has_founding_record(search) || record->generation >= search->watch.generation;
}

static void sponsor_take(struct spotnik_discovery_search *search,
                         const struct spotnik_answer *answer)
{
    struct spotnik_discovery *discovery = search->discovery;
    search->sponsor = answer->self;
    pthread_mutex_lock(&discovery->lock);
    discovery->sponsors = answer->presence.founding;
    pthread_mutex_unlock(&discovery->lock);
}

static bool sponsor_find(struct spotnik_discovery_search *search)
{
    const struct spotnik_watcher *watch = &search->watch;
    for (uint32_t i = 0; i <= watch->count; i++) {
        const struct spotnik_question *question = &search->question[i];
        const struct spotnik_record *record =
            i < watch->count ? &watch->entry[i].record : &watch->founding_record.record;
        if (question->reply != SPOTNIK_DISCOVERY_REPLY_IN_VIEW)
            continue;
        if (!spotnik_discovery_may_follow(search->discovery, &question->answer)) {
            spotnik_discovery_say(search, "%.48s is of another job than this process was in",
                                  question->name);
            continue;
        }
        if (may_join(search, record, &question->answer)) {
            sponsor_take(search, &question->answer);
            return true;
        }
        spotnik_discovery_say(search,
                              "%.48s is of generation %llu, which a younger founding has replaced",
                              question->name, (unsigned long long)record->generation);
    }
    return false;
}

/* ---- may we found? ---- */

/* Ignore a refusal from an ended process's address: another job answers there. */
static void refusal_note(struct spotnik_discovery_search *search,
                         const struct spotnik_question *question,
                         enum spotnik_discovery_liveness liveness)
{
    if (question->refusal == 0 || liveness == SPOTNIK_DISCOVERY_LIVENESS_ENDED)
        return;
    search->refusal = question->refusal;
    snprintf(search->refused, sizeof search->refused, "%.120s (record %.48s)", question->text,
             question->name != NULL ? question->name : "of nobody");
}

/* It takes `for_ns` more, of `of_ns`. */
static void hope(struct spotnik_discovery_search *search, uint64_t for_ns, uint64_t of_ns)
{
    uint64_t until_ns = spotnik_discovery_clock_ns() + for_ns + 20 * SPOTNIK_DISCOVERY_AGAIN_NS;
    if (for_ns > search->remaining_ns) {
        search->remaining_ns = for_ns;
        search->whole_ns = of_ns;
    }
    if (for_ns != 0 && until_ns > search->time_left_ns)
        search->time_left_ns = until_ns;
}

static bool is_founder(const struct spotnik_discovery_search *search,
                       const struct spotnik_record *record)
{
    return has_founding_record(search)
           && spotnik_id_equal(record->member.id, search->watch.founding_record.record.member.id);
}

/* Has the member of this record seen the youngest founding? It looks as often as it refreshes its
 * record. Where that is as often as we do, is_quiet() is long enough. */
static bool has_seen(const struct spotnik_discovery_search *search,
                     const struct spotnik_record *record, const struct spotnik_question *question)
{
    uint64_t looks_ns = spotnik_record_stale_ns(record, 0),
             refresh_ns = search->discovery->times.refresh_ns;
    return question->reply != SPOTNIK_DISCOVERY_REPLY_IN_VIEW
           && (looks_ns <= 3 * refresh_ns
               || search->watch.founding_record.unchanged_ns >= looks_ns);
}

/* A member of a replaced lineage does not block a founding, once it has ended for it: a founding
 * that its maker has given up may have been written just now. The exception is a member that has
 * just replaced it from its memory, and has not yet written its record again. */
static bool is_past(const struct spotnik_discovery_search *search,
                    const struct spotnik_record *record, const struct spotnik_question *question)
{
    return has_founding_record(search) && record->generation != 0
           && record->generation < search->watch.generation && !is_founder(search, record)
           && has_seen(search, record, question);
}

/* A live writer would have written by now. */
static bool seems_dead(const struct spotnik_discovery_search *search,
                       const struct spotnik_watcher_entry *entry)
{
    return entry->unchanged_ns
           >= spotnik_time_min(search->watch.watched_ns, 3 * search->discovery->times.refresh_ns);
}

/* The parked member with the newest state goes first. True: that is us. */
static bool goes_after_us(const struct spotnik_discovery_search *search,
                          const struct spotnik_record *record)
{
    if (search->status == NULL || record->founding == 0 || record->founding != search->ours.id)
        return false;
    if (record->step != search->status->step_committed)
        return record->step < search->status->step_committed;
    return spotnik_id_compare(record->member.id, search->self.self.id) > 0;
}

/* A record names a later founding that is not in the directory. Its member may live: do not
 * found. */
static void missing_liveness_check(struct spotnik_discovery_search *search)
{
    for (uint32_t i = 0; i < search->watch.count && search->free; i++) {
        const struct spotnik_watcher_entry *entry = &search->watch.entry[i];
        if (entry->reading != SPOTNIK_READING_RECORD || is_own(search, &entry->record)
            || entry->record.generation <= search->watch.generation)
            continue;
        search->free = false;
        spotnik_discovery_say(
            search,
            "genesis-%llu is missing, and %.48s belongs to it: put the file back, or "
            "take an empty folder if no member of the job lives",
            (unsigned long long)entry->record.generation, entry->name);
    }
}

static void record_liveness_check(struct spotnik_discovery_search *search, uint32_t i)
{
    const struct spotnik_watcher_entry *entry = &search->watch.entry[i];
    const struct spotnik_question *question = &search->question[i];
    char why[400];
    uint64_t time_left_ns,
        stale_ns = spotnik_record_stale_ns(&entry->record, search->discovery->times.stale_ns);
    bool whole = entry->reading == SPOTNIK_READING_RECORD;
    if (whole && (is_own(search, &entry->record) || is_past(search, &entry->record, question)))
        return;
    enum spotnik_discovery_liveness liveness =
        spotnik_discovery_liveness_check(entry, question, &search->discovery->times, why,
                                         sizeof why, &time_left_ns);
    refusal_note(search, question, liveness);
    bool parked = liveness == SPOTNIK_DISCOVERY_LIVENESS_PARKED;
    if (liveness == SPOTNIK_DISCOVERY_LIVENESS_FREE && whole && is_founder(search, &entry->record)
        && question->reply == SPOTNIK_DISCOVERY_REPLY_IDLE)
        search->free = false; /* it is about to found */
    if ((liveness != SPOTNIK_DISCOVERY_LIVENESS_WAIT && !parked)
        || (parked && goes_after_us(search, &entry->record)))
        return;
    search->free = false;
    search->undecided += question->reply != SPOTNIK_DISCOVERY_REPLY_REFUSES;
    spotnik_discovery_say(search, "%s", why);
    hope(search, seems_dead(search, entry) ? time_left_ns : 0, stale_ns);
    if (parked) /* it goes on alone when no other can be alive */
        hope(search, spotnik_time_since(stale_ns + PARKED_NS, search->watch.watched_ns),
             stale_ns + PARKED_NS);
}

static bool is_there(const struct spotnik_discovery_search *search, const char *name)
{
    struct spotnik_record record;
    uint64_t print;
    return spotnik_record_read(&search->self, search->discovery->store, name, &record, &print, NULL)
           == SPOTNIK_READING_RECORD;
}

/* The life of the job that this founding began has ended in good order, with its work done or
 * not. */
static bool is_over(const struct spotnik_discovery_search *search, uint64_t founding)
{
    char over[64], stopped[64];
    snprintf(over, sizeof over, SPOTNIK_OVER_NAME, (unsigned long long)founding);
    snprintf(stopped, sizeof stopped, SPOTNIK_STOPPED_NAME, (unsigned long long)founding);
    return founding != 0 && (is_there(search, over) || is_there(search, stopped));
}

/* Its founder has left no record: it is not in the job any more, or lives and cannot write. */
static void founder_liveness_check(struct spotnik_discovery_search *search)
{
    const struct spotnik_watcher *watch = &search->watch;
    const struct spotnik_record *record = &watch->founding_record.record;
    const struct spotnik_question *question = &search->question[watch->count];
    char why[400];
    uint64_t time_left_ns;
    if (watch->generation == 0
        || (has_founding_record(search)
            && (is_own(search, record) || spotnik_watcher_find(watch, record->member.id) != NULL
                || is_over(search, record->founding) || spotnik_discovery_was_here(record))))
        return;
    enum spotnik_discovery_liveness liveness =
        spotnik_discovery_liveness_check(&watch->founding_record, question,
                                         &search->discovery->times, why, sizeof why, &time_left_ns);
    refusal_note(search, question, liveness);
    if (liveness == SPOTNIK_DISCOVERY_LIVENESS_FREE
        && question->reply == SPOTNIK_DISCOVERY_REPLY_IDLE)
        search->free = false; /* about to found, or to join those that went on without it */
    if (liveness != SPOTNIK_DISCOVERY_LIVENESS_WAIT
        && liveness != SPOTNIK_DISCOVERY_LIVENESS_PARKED)
        return;
    search->free = false;
    spotnik_discovery_say(search, "%s", why);
    hope(search, time_left_ns, search->discovery->times.stale_ns);
}

/* No member has stood in the way for long enough. Within that time, a living member writes a
 * vanished record again. */
static bool is_quiet(struct spotnik_discovery_search *search)
{
    uint64_t wanted_ns = QUIET_REFRESHES * search->discovery->times.refresh_ns
                         + QUIET_ROUNDS * SPOTNIK_DISCOVERY_AGAIN_NS,
             quiet_ns = spotnik_time_since(search->watch.watched_ns, search->busy_ns);
    if (quiet_ns >= wanted_ns)
        return true;
    spotnik_discovery_say(search, "nobody is in the job; watching for members that write again");
    hope(search, wanted_ns - quiet_ns, wanted_ns);
    return false;
}

bool spotnik_directory_liveness_check(struct spotnik_discovery_search *search)
{
    search->free = true;
    missing_liveness_check(search);
    for (uint32_t i = 0; i < search->watch.count; i++)
        record_liveness_check(search, i);
    founder_liveness_check(search);
    if (!search->free)
        search->busy_ns = search->watch.watched_ns;
    return search->free
           && ((search->claimant && search->watch.generation == 0) || is_quiet(search));
}

/* ---- founding ---- */

/* The file system lets only one process found this generation. */
int spotnik_directory_found(struct spotnik_discovery_search *search, uint64_t step)
{
    struct spotnik_discovery *discovery = search->discovery;
    struct spotnik_watcher *watch = &search->watch;
    struct spotnik_founding before = lineage_before(search), founding;
    uint64_t seen = watch->generation, highest;
    spotnik_discovery_founding_make(&before, seen + 1, &founding);
    search->busy_ns = watch->watched_ns; /* if it comes to nothing, watch again */
    int rc = spotnik_objects_check(discovery->store, search->self.self.id.low);
    if (rc == 0)
        rc = spotnik_founding_record_highest(discovery->store, &highest);
    if (rc == 0 && highest != seen)
        rc = -EEXIST; /* another process was first */
    if (rc != 0)
        return rc;
    (void)spotnik_witness_offer(discovery, &founding);
    rc = spotnik_founding_record_make(discovery, &founding, step);
    if (rc == 0
        && (spotnik_watcher_has_woken(watch, &search->self, discovery->store,
                                      discovery->times.stale_ns, seen + 1)
            || !spotnik_founding_record_stands(discovery, &founding))) {
        spotnik_founding_record_take_back(discovery, &founding);
        rc = -EAGAIN; /* somebody turned out to be alive, or has founded since */
    }
    spotnik_witness_remove(discovery->store, rc != 0 ? founding.id : before.id);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&discovery->lock);
    discovery->ours = founding;
    pthread_mutex_unlock(&discovery->lock);
    return 0;
}

static enum spotnik_discovery_round found_failed(struct spotnik_discovery_search *search, int rc)
{
    unsigned long long generation = search->watch.generation + 1;
    char why[300];
    snprintf(why, sizeof why, "%s", spotnik_objects_why(rc));
    (void)spotnik_discovery_entered_set(search->discovery, false);
    if (rc == -EEXIST || rc == -EAGAIN || rc == -ETIMEDOUT) {
        spotnik_discovery_say(search, "%s",
                              rc == -ETIMEDOUT
                                  ? why
                                  : "a member wrote its record again, or founded, just now");
        return SPOTNIK_DISCOVERY_AGAIN;
    }
    search->error =
        rc == -ERANGE
            ? spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                   "%s/genesis-%llu has the last number that there is, and was "
                                   "made by no founding: remove it",
                                   search->discovery->spec.location, generation - 1)
            : spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s/genesis-%llu: %s",
                                   search->discovery->spec.location, generation, why);
    return SPOTNIK_DISCOVERY_ERROR;
}

static enum spotnik_discovery_round found(struct spotnik_discovery_search *search)
{
    int rc = spotnik_discovery_entered_set(search->discovery, true);
    if (rc == 0)
        rc = spotnik_directory_found(search, 0);
    return rc == 0 ? SPOTNIK_DISCOVERY_FOUND : found_failed(search, rc);
}

/* The mark of a fresh directory goes to one process, which then knows that it is the first. */
static void claimant_try(struct spotnik_discovery_search *search)
{
    search->claimant = spotnik_objects_take(search->discovery->store, SPOTNIK_DISCOVERY_FRESH,
                                            search->self.self.id.low);
}

static enum spotnik_discovery_round conclude(struct spotnik_discovery_search *search)
{
    if (sponsor_find(search))
        return SPOTNIK_DISCOVERY_JOIN;
    if (!search->may_found) {
        if (search->said[0] == '\0')
            spotnik_discovery_say(
                search, "no member of the job that this process was in, or was joining, answers");
        return SPOTNIK_DISCOVERY_AGAIN;
    }
    if (search->watch.generation == 0 && !search->claimant)
        claimant_try(search);
    if (!spotnik_directory_liveness_check(search))
        return SPOTNIK_DISCOVERY_AGAIN;
    search->error = spotnik_discovery_done_check(search);
    return search->error != 0 ? SPOTNIK_DISCOVERY_ERROR : found(search);
}

/* A founding record with another key or job is an error at once. An unreadable one may be ours:
 * wait. */
static bool is_foreign(struct spotnik_discovery_search *search)
{
    const struct spotnik_watcher_entry *founding_record = &search->watch.founding_record;
    if (search->watch.generation == 0
        || (founding_record->reading != SPOTNIK_READING_KEY
            && founding_record->reading != SPOTNIK_READING_JOB))
        return false;
    bool job = founding_record->reading == SPOTNIK_READING_JOB;
    search->error =
        spotnik_error_return(job ? SPOTNIK_ERR_JOB : SPOTNIK_ERR_KEY, "%s/%s %s",
                             search->discovery->spec.location, founding_record->name,
                             job ? "belongs to another job: give each job its own directory"
                                 : "is signed with another job key");
    return true;
}

/* Unreadable from the start is an error; later it is one more thing to wait for. */
static enum spotnik_discovery_round unreadable(struct spotnik_discovery_search *search, int rc)
{
    search->busy_ns = search->watch.watched_ns;
    int error =
        spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the members' records in %s: %s",
                             search->discovery->spec.location, spotnik_objects_why(rc));
    spotnik_discovery_say(search, "%s", spotnik_last_error());
    search->error = search->opened ? 0 : error;
    return search->opened ? SPOTNIK_DISCOVERY_AGAIN : SPOTNIK_DISCOVERY_ERROR;
}

enum spotnik_discovery_round
spotnik_discovery_directory_round(struct spotnik_discovery_search *search)
{
    search->error = 0;
    int rc = spotnik_watcher_look(&search->watch, &search->self, search->discovery->store,
                                  spotnik_discovery_gap_max(search->discovery));
    if (rc != 0)
        return unreadable(search, rc);
    search->opened = true;
    if (is_foreign(search))
        return SPOTNIK_DISCOVERY_ERROR;
    enum spotnik_discovery_round round =
        spotnik_directory_ask(search) ? conclude(search) : SPOTNIK_DISCOVERY_ERROR;
    free(search->question);
    search->question = NULL;
    return round;
}
