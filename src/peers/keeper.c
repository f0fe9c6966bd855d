/* SPDX-License-Identifier: Apache-2.0 */
/* What goes on between searches, on a thread of its own. The thread keeps our record in the
 * directory fresh, and looks whether our founding is still the last; a younger one ends us. While
 * this member is parked, it looks where new members look. Everybody it knew may be dead, and the
 * job may go on elsewhere, or be over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "peers/inside.h"

#define LOOK_MAX 64 /* addresses asked in one look; the next one goes on behind them */

/* ---- the job, elsewhere ---- */

/* Those in a view first; last, those that have ended. */
static int order(const struct spotnik_record *record)
{
    return spotnik_process_life(&record->process) == SPOTNIK_LIFE_ENDED ? 2 : record->epoch == 0;
}

static int records_named(const struct spotnik_peers_spec *spec,
                         const struct spotnik_credentials *credentials, struct spotnik_member **ret,
                         uint32_t *ret_count)
{
    struct spotnik_lookout watch = { .count = 0 };
    int rc = spotnik_lookout_look(&watch, credentials, spec->directory, 0);
    errno = -rc;
    if (rc != 0) {
        spotnik_lookout_done(&watch);
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the peers directory %s: %m",
                                    spec->directory);
    }
    *ret = calloc((size_t)watch.count + 1, sizeof **ret);
    *ret_count = 0;
    for (int turn = 0; *ret != NULL && turn < 3; turn++)
        for (uint32_t i = 0; i < watch.count; i++)
            if (watch.entry[i].reading == SPOTNIK_READING_RECORD
                && turn == order(&watch.entry[i].record))
                (*ret)[(*ret_count)++] = watch.entry[i].record.member;
    spotnik_lookout_done(&watch);
    return *ret != NULL
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a list of members");
}

int spotnik_peers_named(const struct spotnik_peers_spec *spec,
                        const struct spotnik_credentials *credentials, struct spotnik_member **ret,
                        uint32_t *ret_count)
{
    if (spec->is_directory)
        return records_named(spec, credentials, ret, ret_count);
    *ret = calloc(SPOTNIK_PEERS_LISTED_MAX, sizeof **ret);
    if (*ret == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a list of members");
    *ret_count = spec->count;
    memcpy(*ret, spec->listed, spec->count * sizeof **ret);
    return 0;
}

static bool is_stopping(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    bool stopping = peers->stopping;
    pthread_mutex_unlock(&peers->lock);
    return stopping;
}

/* Ask one of those named. True: it is in a later view than ours, and knows of us now. */
static bool introduce(struct spotnik_peers *peers, const struct spotnik_credentials *credentials,
                      const struct spotnik_member *named, uint64_t epoch)
{
    struct spotnik_answer answer;
    if (spotnik_id_equal(named->id, credentials->self.id)
        || (memcmp(named->address, credentials->self.address, sizeof named->address) == 0
            && named->port == credentials->self.port))
        return false;
    if (spotnik_net_ask(credentials, named->address, named->port, SPOTNIK_PEERS_ASK_NS, &answer,
                        NULL)
            != 0
        || spotnik_engine_is_foreign(peers->engine, &answer) || answer.parked
        || answer.epoch <= epoch)
        return false;
    spotnik_engine_greet(peers->engine, &answer.self);
    return true;
}

/* With a list: those named in it, in turn. */
static void look_round(struct spotnik_peers *peers, uint64_t epoch)
{
    static const uint64_t look_ns = 4 * SPOTNIK_S;
    struct spotnik_credentials credentials = spotnik_peers_introduction(peers);
    uint64_t until_ns = spotnik_peers_clock_ns() + look_ns;
    bool met = peers->spec.count == 0;
    for (uint32_t i = 0; !met && i < peers->spec.count && i < LOOK_MAX; i++) {
        if (is_stopping(peers) || spotnik_peers_clock_ns() >= until_ns)
            break;
        met = introduce(peers, &credentials,
                        &peers->spec.listed[peers->look_next++ % peers->spec.count], epoch);
    }
    explicit_bzero(&credentials, sizeof credentials);
}

/* ---- the thread ---- */

/* A younger founding has taken our place. A member that is parked, and no further than that lineage
 * was at its founding, joins it: nothing is lost. Every other member ends, and says so. */
static void superseded(struct spotnik_peers *peers, const spotnik_job_status *status,
                       const struct spotnik_record *by)
{
    pthread_mutex_lock(&peers->lock);
    bool known = peers->superseded;
    peers->superseded = true;
    pthread_mutex_unlock(&peers->lock);
    if (known)
        return;
    spotnik_engine_lineage_tell(peers->engine, spotnik_last_error());
    if (status->parked && by->step >= status->step_committed)
        spotnik_engine_over(peers->engine);
    else
        spotnik_engine_end(peers->engine, SPOTNIK_ERR_LINEAGE, spotnik_last_error());
}

/* The record first, then the look at the genesis: a founder does it the other way round
 * (lookout.h). A founding that has vanished ends nobody, and is told. */
static void keep_directory(struct spotnik_peers *peers)
{
    uint64_t begun_ns = spotnik_clock_boot_ns();
    spotnik_job_status status;
    struct spotnik_record by;
    (void)spotnik_peers_record_refresh(peers); /* the warning says what went wrong */
    spotnik_engine_status(peers->engine, &status);
    int guard = status.view_epoch > 0 && !spotnik_peers_refounds(peers)
                    ? spotnik_genesis_guard(peers, &by)
                    : 0;
    if (guard == SPOTNIK_ERR_LINEAGE) {
        superseded(peers, &status, &by);
        return;
    }
    pthread_mutex_lock(&peers->lock);
    snprintf(peers->missing, sizeof peers->missing, "%s", guard != 0 ? spotnik_last_error() : "");
    pthread_mutex_unlock(&peers->lock);
    spotnik_engine_looked(peers->engine, begun_ns, peers->times.stale_ns);
    if (!status.parked)
        spotnik_peers_unparked(peers);
    else if (spotnik_peers_is_over(peers))
        spotnik_engine_over(peers->engine);
    else
        spotnik_peers_parked(peers, &status);
}

static void keep(struct spotnik_peers *peers)
{
    spotnik_job_status status;
    if (peers->spec.is_directory) {
        keep_directory(peers);
        return;
    }
    spotnik_engine_status(peers->engine, &status);
    if (status.parked)
        look_round(peers, status.view_epoch);
    else if (status.view_epoch > 0)
        spotnik_peers_announce(peers, &status);
}

static void *keeper_main(void *context)
{
    struct spotnik_peers *peers = context;
    pthread_mutex_lock(&peers->lock);
    while (!peers->stopping) {
        spotnik_peers_wait(peers, spotnik_peers_clock_ns() + peers->times.refresh_ns);
        if (peers->stopping)
            break;
        pthread_mutex_unlock(&peers->lock);
        keep(peers);
        pthread_mutex_lock(&peers->lock);
    }
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

/* A user that may write here may take records away, and put links in their place. */
static void advise(struct spotnik_peers *peers)
{
    struct stat facts;
    if (stat(peers->spec.directory, &facts) == 0 && (facts.st_mode & S_IWOTH) != 0)
        snprintf(peers->advice, sizeof peers->advice,
                 "everybody on this host may write to the peers directory: chmod o-w %.100s",
                 peers->spec.directory);
}

int spotnik_peers_keeper_start(struct spotnik_peers *peers)
{
    int rc = peers->spec.is_directory ? spotnik_peers_record_refresh(peers) : 0;
    if (rc != 0) {
        errno = -rc;
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "cannot write to the peers directory %s: %m; it must exist and be writable",
            peers->spec.directory);
    }
    advise(peers);
    peers->keeping = true;
    spotnik_peers_here_add(peers);
    rc = peers->spec.is_directory ? spotnik_witness_start(peers) : 0;
    if (rc == 0)
        rc = spotnik_thread_create(&peers->keeper, keeper_main, peers);
    if (rc == 0)
        return 0;
    spotnik_witness_stop(peers);
    spotnik_peers_here_remove(peers);
    peers->keeping = false;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
}

void spotnik_peers_keeper_stop(struct spotnik_peers *peers)
{
    if (!peers->keeping)
        return;
    spotnik_witness_stop(peers);
    pthread_mutex_lock(&peers->lock);
    peers->stopping = true;
    pthread_cond_broadcast(&peers->changed);
    pthread_mutex_unlock(&peers->lock);
    pthread_join(peers->keeper, NULL);
    spotnik_peers_here_remove(peers);
    peers->keeping = false;
}
