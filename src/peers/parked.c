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

/* Enough to stand for one look. */
struct survey {
    struct spotnik_peers *peers;
    struct spotnik_credentials self;
    const spotnik_job_status *status;
    struct spotnik_question *question;
    uint64_t founding, generation;
    bool met;   /* a member of a later view knows of us now */
    bool alone; /* nobody else can be alive and go on, or should go first */
    char why[240];
};

static void ask_all(struct survey *survey)
{
    struct spotnik_lookout *watch = &survey->peers->watch;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct spotnik_sighting *entry = &watch->entry[i];
        survey->question[i] =
            (struct spotnik_question){ .expected = &entry->record.member, .name = entry->name };
        survey->question[i].skipped =
            entry->reading != SPOTNIK_READING_RECORD
            || spotnik_id_equal(entry->record.member.id, survey->self.self.id);
    }
    spotnik_peers_ask(&survey->self, survey->question, watch->count, false);
    for (uint32_t i = 0; i < watch->count; i++)
        if (survey->question[i].reply != SPOTNIK_PEERS_REPLY_NONE
            && survey->question[i].answer.epoch > 0)
            (void)spotnik_engine_meet(survey->peers->engine, &survey->question[i].answer);
}

/* Of our lineage, for all that its record says. */
static bool is_ours(const struct survey *survey, const struct spotnik_record *record)
{
    return record->founding == 0 || record->founding == survey->founding;
}

static void introduce(struct survey *survey)
{
    const struct spotnik_lookout *watch = &survey->peers->watch;
    for (uint32_t i = 0; i < watch->count && !survey->met; i++) {
        const struct spotnik_answer *answer = &survey->question[i].answer;
        const struct spotnik_sighting *entry = spotnik_lookout_find(watch, answer->self.id);
        if (survey->question[i].reply != SPOTNIK_PEERS_REPLY_IN_VIEW
            || answer->epoch <= survey->status->view_epoch
            || (entry != NULL && !is_ours(survey, &entry->record)))
            continue;
        spotnik_engine_greet(survey->peers->engine, &answer->self);
        survey->met = true;
    }
}

/* The one with the newest state goes first. */
static bool goes_before_us(const struct survey *survey, const struct spotnik_record *record)
{
    if (record->step != survey->status->step_committed)
        return record->step > survey->status->step_committed;
    return spotnik_id_compare(record->member.id, survey->self.self.id) < 0;
}

/* Another process, which is parked, has the address of one that is gone. It has a record of its
 * own, by which it is judged. */
static bool is_anothers(const struct survey *survey, uint32_t i)
{
    const struct spotnik_question *question = &survey->question[i];

    return question->reply == SPOTNIK_PEERS_REPLY_PARKED
           && !spotnik_id_equal(question->answer.self.id, question->expected->id)
           && spotnik_lookout_find(&survey->peers->watch, question->answer.self.id) != NULL;
}

static void judge_all(struct survey *survey)
{
    const struct spotnik_peers *peers = survey->peers;
    uint64_t hope_ns;
    survey->alone = true;
    for (uint32_t i = 0; i < peers->watch.count && survey->alone; i++) {
        const struct spotnik_sighting *entry = &peers->watch.entry[i];
        if (entry->reading == SPOTNIK_READING_RECORD
            && spotnik_id_equal(entry->record.member.id, survey->self.self.id))
            continue;
        if (is_anothers(survey, i))
            survey->question[i].reply = SPOTNIK_PEERS_REPLY_OTHER;
        enum spotnik_peers_verdict verdict =
            spotnik_peers_judge(entry, &survey->question[i], &peers->times, survey->why,
                                sizeof survey->why, &hope_ns);
        bool behind = verdict == SPOTNIK_PEERS_VERDICT_PARKED && is_ours(survey, &entry->record)
                      && entry->record.founding != 0 && !goes_before_us(survey, &entry->record);
        survey->alone = behind || verdict == SPOTNIK_PEERS_VERDICT_FREE
                        || verdict == SPOTNIK_PEERS_VERDICT_ENDED
                        || verdict == SPOTNIK_PEERS_VERDICT_STALE;
    }
}

/* From what we hold: the state after our last step, and where the data stand. */
static bool has_memory(const struct survey *survey)
{
    struct spotnik_ledger ledger;
    return spotnik_engine_ledger(survey->peers->engine, survey->status->step_committed, &ledger);
}

/* Of all that wrote a record in our lineage. */
static uint64_t furthest_step(const struct survey *survey)
{
    const struct spotnik_lookout *watch = &survey->peers->watch;
    uint64_t step = survey->status->step_committed;
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->entry[i].reading == SPOTNIK_READING_RECORD
            && watch->entry[i].record.founding == survey->founding
            && watch->entry[i].record.step > step)
            step = watch->entry[i].record.step;
    return step;
}

/* Somebody else lives, and waits for what we do. */
static bool has_company(const struct survey *survey)
{
    for (uint32_t i = 0; i < survey->peers->watch.count; i++)
        if (survey->question[i].reply == SPOTNIK_PEERS_REPLY_PARKED
            || survey->question[i].reply == SPOTNIK_PEERS_REPLY_IDLE)
            return true;
    return false;
}

/* The lineage that follows ours. */
static void next_make(struct spotnik_peers *peers, uint64_t generation,
                      struct spotnik_founding *ret)
{
    struct spotnik_founding ours = spotnik_engine_past(peers->engine);
    spotnik_peers_founding_make(&ours, generation, ret);
}

static void found(struct survey *survey)
{
    struct spotnik_peers *peers = survey->peers;
    uint64_t generation = spotnik_lookout_generation_next(&peers->watch);
    struct spotnik_founding founding;
    next_make(peers, generation, &founding);
    (void)spotnik_witness_offer(peers, &founding);
    if (spotnik_genesis_is_contested(peers->spec.directory, peers->watch.generation, 0)
        || spotnik_genesis_make(peers, &founding, survey->status->step_committed) != 0) {
        spotnik_witness_remove(peers->spec.directory, founding.id);
        return;
    }
    if (spotnik_lookout_has_woken(&peers->watch, &survey->self, peers->spec.directory,
                                  peers->times.stale_ns, generation)) {
        spotnik_genesis_take_back(peers, generation, founding.id);
        spotnik_genesis_adopt(peers, survey->generation, survey->founding);
        return;
    }
    uint64_t furthest = furthest_step(survey);
    pthread_mutex_lock(&peers->lock);
    peers->refounds = true;
    peers->followed = has_company(survey);
    snprintf(peers->advice, sizeof peers->advice,
             "founded the job again, alone, as generation %llu: all others were silent, and had "
             "not written for %.0f s; "
             "this member had committed step %llu, the furthest of them %llu",
             (unsigned long long)generation, (double)peers->times.stale_ns / 1e9,
             (unsigned long long)survey->status->step_committed, (unsigned long long)furthest);
    pthread_mutex_unlock(&peers->lock);
    spotnik_engine_over(peers->engine);
}

static void waiting_set(struct spotnik_peers *peers, const char *why)
{
    pthread_mutex_lock(&peers->lock);
    snprintf(peers->waiting, sizeof peers->waiting, "%s%s",
             *why != '\0' ? "cut off; goes on alone when nobody else can be alive: " : "", why);
    pthread_mutex_unlock(&peers->lock);
}

void spotnik_peers_unparked(struct spotnik_peers *peers)
{
    if (peers->watch.looked_ns == 0 && peers->watch.entry == NULL)
        return;
    spotnik_lookout_done(&peers->watch);
    peers->quiet = 0;
    waiting_set(peers, "");
}

/* Members that can write have written since we began to watch: one without a record by now lives
 * nowhere that newcomers see. */
static void survey_take(struct survey *survey)
{
    struct spotnik_peers *peers = survey->peers;
    ask_all(survey);
    introduce(survey);
    judge_all(survey);
    if (survey->alone && peers->watch.kept_ns < peers->times.stale_ns)
        snprintf(survey->why, sizeof survey->why, "watching the directory, for %.0f of %.0f s",
                 (double)peers->watch.kept_ns / 1e9, (double)peers->times.stale_ns / 1e9);
    bool settled =
        peers->watch.kept_ns >= peers->times.stale_ns
        && peers->watch.settled_ns >= SPOTNIK_PEERS_BACK_REFRESHES * peers->times.refresh_ns;
    bool quiet = survey->alone && !survey->met && settled && survey->founding != 0
                 && survey->generation != 0 && has_memory(survey)
                 && !spotnik_engine_is_noticed(peers->engine); /* the job would go with it */
    peers->quiet = quiet ? peers->quiet + 1 : 0;
    waiting_set(peers, survey->why);
    if (peers->quiet >= SPOTNIK_PEERS_QUIET_ROUNDS)
        found(survey);
}

void spotnik_peers_parked(struct spotnik_peers *peers, const spotnik_job_status *status)
{
    struct survey survey = { .peers = peers,
                             .self = spotnik_peers_introduction(peers),
                             .status = status };
    pthread_mutex_lock(&peers->lock);
    survey.founding = peers->founding;
    survey.generation = peers->generation;
    bool refounds = peers->refounds;
    pthread_mutex_unlock(&peers->lock);
    if (!refounds
        && spotnik_lookout_look(&peers->watch, &survey.self, peers->spec.directory,
                                spotnik_peers_gap_max(peers))
               == 0)
        survey.question = calloc((size_t)peers->watch.count + 1, sizeof *survey.question);
    if (survey.question != NULL)
        survey_take(&survey);
    else
        peers->quiet = 0;
    free(survey.question);
    explicit_bzero(&survey.self, sizeof survey.self);
}

/* ---- by force ---- */

/* The same with a folder, without waiting for anybody; with a list there is nothing to write. 0 or
 * minus an errno. */
static int force_found(struct spotnik_peers *peers, uint64_t step)
{
    struct spotnik_lookout watch = { .count = 0 };
    struct spotnik_credentials self = spotnik_peers_credentials(peers);
    struct spotnik_founding founding;
    uint64_t generation = spotnik_engine_past(peers->engine).generation + 1;
    int rc = 0;
    if (peers->spec.is_directory)
        rc = spotnik_lookout_look(&watch, &self, peers->spec.directory, 0);
    if (rc == 0 && peers->spec.is_directory && spotnik_lookout_generation_next(&watch) > generation)
        generation = spotnik_lookout_generation_next(&watch);
    next_make(peers, generation, &founding);
    if (rc == 0 && peers->spec.is_directory)
        rc = spotnik_genesis_make(peers, &founding, step);
    spotnik_lookout_done(&watch);
    explicit_bzero(&self, sizeof self);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&peers->lock);
    peers->made = founding;
    peers->founding = founding.id;
    peers->generation = generation;
    peers->refounds = true;
    snprintf(peers->advice, sizeof peers->advice,
             "forced by an operator to go on alone after step %llu, as generation %llu: other "
             "members of this job, where there are any, "
             "are another lineage now",
             (unsigned long long)step, (unsigned long long)generation);
    pthread_mutex_unlock(&peers->lock);
    return 0;
}

void spotnik_peers_force(struct spotnik_peers *peers, const spotnik_job_status *status)
{
    struct survey survey = { .peers = peers, .status = status };
    char text[300];
    if (!status->parked)
        return;
    int rc = has_memory(&survey) ? force_found(peers, status->step_committed) : 0;
    if (rc != 0)
        snprintf(text, sizeof text,
                 "forced to go on alone, but the peers directory cannot be used: %s",
                 strerror(-rc));
    else if (!has_memory(&survey))
        snprintf(text, sizeof text,
                 "forced to go on alone, but its last result was lost with the others: start it "
                 "again, from the newest checkpoint");
    else
        snprintf(text, sizeof text, "forced by an operator: goes on alone after step %llu",
                 (unsigned long long)status->step_committed);
    spotnik_engine_lineage_tell(peers->engine, text);
    if (rc == 0 && has_memory(&survey))
        spotnik_engine_over(peers->engine);
}
