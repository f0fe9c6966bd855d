/* SPDX-License-Identifier: Apache-2.0 */
/* What goes on between searches, on a thread of its own. The thread keeps our record in the
 * directory fresh, and looks whether our founding is still the last; a younger one ends us. While
 * this member is parked, it looks where new members look. Everybody it knew may be dead, and the
 * job may go on elsewhere, or be over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "discovery/inside.h"

#define LOOK_MAX 64 /* addresses asked in one look; the next one goes on behind them */

/* ---- the job, elsewhere ---- */

/* Those in a view first; last, those that have ended. */
static int order(const struct spotnik_record *record)
{
    return spotnik_process_life(&record->process) == SPOTNIK_LIFE_ENDED ? 2 : record->epoch == 0;
}

static int records_named(const struct spotnik_discovery_spec *spec,
                         const struct spotnik_credentials *credentials, struct spotnik_member **ret,
                         uint32_t *ret_count)
{
    struct spotnik_watcher watch = { .count = 0 };
    struct spotnik_objects *store;
    int rc = spotnik_objects_open(spec->location, &store);
    if (rc != 0)
        return rc;
    rc = spotnik_watcher_look(&watch, credentials, store, 0);
    spotnik_objects_close(store);
    if (rc != 0) {
        spotnik_watcher_done(&watch);
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot read the members' records in %s: %s", spec->location,
                                    spotnik_objects_why(rc));
    }
    *ret = calloc((size_t)watch.count + 1, sizeof **ret);
    *ret_count = 0;
    for (int turn = 0; *ret != NULL && turn < 3; turn++)
        for (uint32_t i = 0; i < watch.count; i++)
            if (watch.entry[i].reading == SPOTNIK_READING_RECORD
                && turn == order(&watch.entry[i].record))
                (*ret)[(*ret_count)++] = watch.entry[i].record.member;
    spotnik_watcher_done(&watch);
    return *ret != NULL
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a list of members");
}

int spotnik_discovery_named(const struct spotnik_discovery_spec *spec,
                            const struct spotnik_credentials *credentials,
                            struct spotnik_member **ret, uint32_t *ret_count)
{
    if (spec->is_store)
        return records_named(spec, credentials, ret, ret_count);
    *ret = calloc(SPOTNIK_DISCOVERY_LISTED_MAX, sizeof **ret);
    if (*ret == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a list of members");
    *ret_count = spec->count;
    memcpy(*ret, spec->listed, spec->count * sizeof **ret);
    return 0;
}

static bool is_stopping(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    bool stopping = discovery->stopping;
    pthread_mutex_unlock(&discovery->lock);
    return stopping;
}

/* Ask one of those named. True: it is in a later view than ours, and knows of us now. */
static bool introduce(struct spotnik_discovery *discovery,
                      const struct spotnik_credentials *credentials,
                      const struct spotnik_member *named, uint64_t epoch)
{
    struct spotnik_answer answer;
    if (spotnik_id_equal(named->id, credentials->self.id)
        || (memcmp(named->address, credentials->self.address, sizeof named->address) == 0
            && named->port == credentials->self.port))
        return false;
    if (spotnik_net_ask(credentials, named->address, named->port, SPOTNIK_DISCOVERY_ASK_NS, &answer,
                        NULL)
            != 0
        || spotnik_runtime_is_foreign(discovery->runtime, &answer) || answer.parked
        || answer.epoch <= epoch)
        return false;
    spotnik_runtime_greet(discovery->runtime, &answer.self);
    return true;
}

/* With a list: those named in it, in turn. */
static void look_round(struct spotnik_discovery *discovery, uint64_t epoch)
{
    static const uint64_t look_ns = 4 * SPOTNIK_S;
    struct spotnik_credentials credentials = spotnik_discovery_introduction(discovery);
    uint64_t until_ns = spotnik_discovery_clock_ns() + look_ns;
    bool met = discovery->spec.count == 0;
    for (uint32_t i = 0; !met && i < discovery->spec.count && i < LOOK_MAX; i++) {
        if (is_stopping(discovery) || spotnik_discovery_clock_ns() >= until_ns)
            break;
        met = introduce(discovery, &credentials,
                        &discovery->spec.listed[discovery->look_next++ % discovery->spec.count],
                        epoch);
    }
}

/* ---- the thread ---- */

/* A younger founding has taken our place. A member that is parked, and no further than that lineage
 * was at its founding, joins it: nothing is lost. Every other member ends with an error. */
static void superseded(struct spotnik_discovery *discovery, const spotnik_job_status *status,
                       const struct spotnik_record *by)
{
    pthread_mutex_lock(&discovery->lock);
    bool known = discovery->superseded;
    discovery->superseded = true;
    pthread_mutex_unlock(&discovery->lock);
    if (known)
        return;
    spotnik_runtime_lineage_tell(discovery->runtime, spotnik_last_error());
    if (status->parked && by->step >= status->step_committed)
        spotnik_runtime_over(discovery->runtime);
    else
        spotnik_runtime_end(discovery->runtime, SPOTNIK_ERR_LINEAGE, spotnik_last_error());
}

/* The record first, then the look at the founding record: a founder does it the other way round
 * (watcher.h). A vanished founding ends no member, but is logged. */
static void keep_directory(struct spotnik_discovery *discovery)
{
    uint64_t begun_ns = spotnik_clock_boot_ns();
    spotnik_job_status status;
    struct spotnik_record by;
    (void)spotnik_discovery_record_refresh(discovery); /* the warning says what went wrong */
    spotnik_runtime_status(discovery->runtime, &status);
    int guard = status.view_epoch > 0 && !spotnik_discovery_refounds(discovery)
                    ? spotnik_founding_record_guard(discovery, &by)
                    : 0;
    if (guard == SPOTNIK_ERR_LINEAGE) {
        superseded(discovery, &status, &by);
        return;
    }
    pthread_mutex_lock(&discovery->lock);
    snprintf(discovery->missing, sizeof discovery->missing, "%s",
             guard != 0 ? spotnik_last_error() : "");
    pthread_mutex_unlock(&discovery->lock);
    spotnik_runtime_looked(discovery->runtime, begun_ns, discovery->times.stale_ns);
    if (!status.parked)
        spotnik_discovery_unparked(discovery);
    else if (spotnik_discovery_is_over(discovery))
        spotnik_runtime_over(discovery->runtime);
    else
        spotnik_discovery_parked(discovery, &status);
}

/* A member that was stopped commits nothing before it has looked. */
static bool is_due(struct spotnik_discovery *discovery, const spotnik_job_status *status)
{
    pthread_mutex_lock(&discovery->lock);
    uint64_t due_ns = discovery->due_ns;
    pthread_mutex_unlock(&discovery->lock);
    return !spotnik_objects_is_billed(discovery->store) || status->view_epoch == 0 || status->parked
           || spotnik_discovery_clock_ns() >= due_ns
           || spotnik_runtime_is_barred(discovery->runtime);
}

static void keep(struct spotnik_discovery *discovery)
{
    spotnik_job_status status;
    spotnik_runtime_status(discovery->runtime, &status);
    if (discovery->spec.is_store) {
        if (is_due(discovery, &status))
            keep_directory(discovery);
        return;
    }
    if (status.parked)
        look_round(discovery, status.view_epoch);
    else if (status.view_epoch > 0)
        spotnik_discovery_announce(discovery, &status);
}

static void *keeper_main(void *context)
{
    struct spotnik_discovery *discovery = context;
    pthread_mutex_lock(&discovery->lock);
    while (!discovery->stopping) {
        spotnik_discovery_wait(discovery,
                               spotnik_discovery_clock_ns() + discovery->times.refresh_ns);
        if (discovery->stopping)
            break;
        pthread_mutex_unlock(&discovery->lock);
        keep(discovery);
        pthread_mutex_lock(&discovery->lock);
    }
    pthread_mutex_unlock(&discovery->lock);
    return NULL;
}

/* A user that may write here may take records away, and put links in their place. */
static void advise(struct spotnik_discovery *discovery)
{
    if (discovery->store != NULL && spotnik_objects_is_writable_by_all(discovery->store))
        snprintf(discovery->advice, sizeof discovery->advice,
                 "everybody on this host may write to the peers directory: chmod o-w %.100s",
                 discovery->spec.location);
}

int spotnik_discovery_keeper_start(struct spotnik_discovery *discovery)
{
    int rc = discovery->spec.is_store ? spotnik_discovery_record_refresh(discovery) : 0;
    if (rc != 0)
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "cannot write this member's record to %s: %s; it must exist and be writable",
            discovery->spec.location, spotnik_objects_why(rc));
    advise(discovery);
    discovery->keeping = true;
    spotnik_discovery_here_add(discovery);
    rc = discovery->spec.is_store ? spotnik_witness_start(discovery) : 0;
    if (rc == 0)
        rc = spotnik_thread_create(&discovery->keeper, keeper_main, discovery);
    if (rc == 0)
        return 0;
    spotnik_witness_stop(discovery);
    spotnik_discovery_here_remove(discovery);
    discovery->keeping = false;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
}

void spotnik_discovery_keeper_stop(struct spotnik_discovery *discovery)
{
    if (!discovery->keeping)
        return;
    spotnik_witness_stop(discovery);
    pthread_mutex_lock(&discovery->lock);
    discovery->stopping = true;
    pthread_cond_broadcast(&discovery->changed);
    pthread_mutex_unlock(&discovery->lock);
    pthread_join(discovery->keeper, NULL);
    spotnik_discovery_here_remove(discovery);
    discovery->keeping = false;
}
