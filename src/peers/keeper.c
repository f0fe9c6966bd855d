/* SPDX-License-Identifier: Apache-2.0 */
/* What goes on between searches, on a thread of its own: our record in the directory is kept fresh; and
 * while this member is parked it looks where new members look, because everybody it knew may be dead and the
 * job may go on elsewhere, or be over. It only introduces the two to each other: what follows (we were excluded, we join
 * again) is the core's and the API's. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "peers/inside.h"

#define REFRESH_NS SPOTNIK_S
#define LOOK_MAX 64 /* addresses asked in one look; the next one goes on behind them */

uint64_t spotnik_peers_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

void spotnik_peers_wait(struct spotnik_peers *peers, uint64_t until_ns)
{
    struct timespec until = { .tv_sec = (time_t)(until_ns / SPOTNIK_S),
                              .tv_nsec = (long)(until_ns % SPOTNIK_S) };
    pthread_cond_timedwait(&peers->changed, &peers->lock, &until);
}

static struct spotnik_credentials credentials_copy(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    struct spotnik_credentials credentials = peers->credentials;
    pthread_mutex_unlock(&peers->lock);
    return credentials;
}

/* ---- our record ---- */

int spotnik_peers_record_refresh(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = credentials_copy(peers);
    char name[64];
    spotnik_record_name(credentials.self.id, name);
    pthread_mutex_lock(&peers->writing); /* two at once would share a temporary name */
    int rc = spotnik_record_write(&credentials, peers->spec.directory, name, false);
    pthread_mutex_unlock(&peers->writing);
    explicit_bzero(&credentials, sizeof credentials);
    pthread_mutex_lock(&peers->lock);
    peers->warning[0] = '\0';
    if (rc != 0)
        snprintf(peers->warning, sizeof peers->warning, "cannot write to the peers directory %.150s: %s",
                 peers->spec.directory, strerror(-rc));
    pthread_mutex_unlock(&peers->lock);
    return rc;
}

void spotnik_peers_record_remove(const struct spotnik_peers *peers, const char *name)
{
    char path[PATH_MAX];
    if (!peers->spec.is_directory || !peers->keeping)
        return;
    snprintf(path, sizeof path, "%s/%s", peers->spec.directory, name);
    unlink(path);
}

static void own_record_remove(const struct spotnik_peers *peers)
{
    char name[64];
    spotnik_record_name(peers->credentials.self.id, name);
    spotnik_peers_record_remove(peers, name);
}

/* ---- the job, elsewhere ---- */

static int records_named(const struct spotnik_peers_spec *spec, const struct spotnik_credentials *credentials,
                         struct spotnik_member *ret, uint32_t max, uint32_t *ret_count)
{
    DIR *directory = opendir(spec->directory);
    uint32_t count = 0;
    if (directory == NULL)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the peers directory %s: %m",
                                    spec->directory);
    for (const struct dirent *entry; count < max && (entry = readdir(directory)) != NULL;) {
        struct spotnik_record record;
        bool readable;
        if (strncmp(entry->d_name, "member-", 7) == 0
            && spotnik_record_read(credentials, spec->directory, entry->d_name, &record, &readable) == 0)
            ret[count++] = record.member;
    }
    closedir(directory);
    *ret_count = count;
    return 0;
}

int spotnik_peers_named(const struct spotnik_peers_spec *spec, const struct spotnik_credentials *credentials,
                        struct spotnik_member *ret, uint32_t max, uint32_t *ret_count)
{
    if (spec->is_directory)
        return records_named(spec, credentials, ret, max, ret_count);
    *ret_count = spec->count < max ? spec->count : max;
    memcpy(ret, spec->listed, *ret_count * sizeof *ret);
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
    if (spotnik_net_ask(credentials, named->address, named->port, SPOTNIK_PEERS_ASK_NS, &answer, NULL) != 0
        || answer.parked || answer.epoch <= epoch)
        return false;
    spotnik_engine_greet(peers->engine, &answer.self);
    return true;
}

/* Never longer than our record may stay as it is: the silent take half a second each. */
static void look_round(struct spotnik_peers *peers, uint64_t epoch)
{
    static const uint64_t look_ns = 4 * REFRESH_NS;
    struct spotnik_credentials credentials = credentials_copy(peers);
    struct spotnik_member named[SPOTNIK_PEERS_RECORDS_MAX];
    uint64_t until_ns = spotnik_peers_clock_ns() + look_ns;
    uint32_t count = 0;
    bool met = spotnik_peers_named(&peers->spec, &credentials, named, SPOTNIK_PEERS_RECORDS_MAX, &count) != 0;
    for (uint32_t i = 0; !met && i < count && i < LOOK_MAX; i++) {
        if (is_stopping(peers) || spotnik_peers_clock_ns() >= until_ns)
            break;
        met = introduce(peers, &credentials, &named[peers->look_next++ % count], epoch);
    }
    explicit_bzero(&credentials, sizeof credentials);
}

/* ---- the end of the job ---- */

/* The name of the file that says so. False: we have no lineage, or there is no directory. */
static bool over_name(struct spotnik_peers *peers, char name[64])
{
    pthread_mutex_lock(&peers->lock);
    uint64_t founding = peers->founding;
    pthread_mutex_unlock(&peers->lock);
    snprintf(name, 64, "over-%016llx", (unsigned long long)founding);
    return peers->spec.is_directory && founding != 0;
}

void spotnik_peers_founding_set(struct spotnik_peers *peers, uint64_t founding)
{
    pthread_mutex_lock(&peers->lock);
    peers->founding = founding;
    pthread_mutex_unlock(&peers->lock);
}

void spotnik_peers_over_set(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = credentials_copy(peers);
    char name[64];
    if (over_name(peers, name))
        (void)spotnik_record_write(&credentials, peers->spec.directory, name, false);
    explicit_bzero(&credentials, sizeof credentials);
}

bool spotnik_peers_is_over(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = credentials_copy(peers);
    struct spotnik_record record;
    bool readable, over = false;
    char name[64];
    if (over_name(peers, name)) /* signed, as all records are */
        over = spotnik_record_read(&credentials, peers->spec.directory, name, &record, &readable) == 0;
    explicit_bzero(&credentials, sizeof credentials);
    return over;
}

/* ---- the thread ---- */

/* Each member at a time of its own, so that they share the work. */
static void sweep(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = credentials_copy(peers);
    uint64_t now_ns = spotnik_peers_clock_ns(), pause_ns = SPOTNIK_PEERS_STALE_S * SPOTNIK_S;
    if (peers->sweep_ns == 0)
        peers->sweep_ns = now_ns + credentials.self.id.low % pause_ns;
    if (now_ns >= peers->sweep_ns) {
        peers->sweep_ns = now_ns + pause_ns;
        spotnik_peers_sweep(peers, &credentials);
    }
    explicit_bzero(&credentials, sizeof credentials);
}

static void keep(struct spotnik_peers *peers)
{
    spotnik_job_status status;
    if (peers->spec.is_directory && spotnik_peers_record_refresh(peers) == 0)
        sweep(peers);
    spotnik_engine_status(peers->engine, &status);
    if (status.parked && spotnik_peers_is_over(peers))
        spotnik_engine_over(peers->engine);
    else if (status.parked)
        look_round(peers, status.view_epoch);
}

static void *keeper_main(void *context)
{
    struct spotnik_peers *peers = context;
    pthread_mutex_lock(&peers->lock);
    while (!peers->stopping) {
        spotnik_peers_wait(peers, spotnik_peers_clock_ns() + REFRESH_NS);
        if (peers->stopping)
            break;
        pthread_mutex_unlock(&peers->lock);
        keep(peers);
        pthread_mutex_lock(&peers->lock);
    }
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

int spotnik_peers_keeper_start(struct spotnik_peers *peers)
{
    int rc = peers->spec.is_directory ? spotnik_peers_record_refresh(peers) : 0;
    if (rc != 0) {
        errno = -rc;
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM, "cannot write to the peers directory %s: %m; it must exist and be writable",
            peers->spec.directory);
    }
    peers->keeping = true;
    rc = pthread_create(&peers->keeper, NULL, keeper_main, peers);
    if (rc == 0)
        return 0;
    own_record_remove(peers);
    peers->keeping = false;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
}

void spotnik_peers_keeper_stop(struct spotnik_peers *peers)
{
    if (!peers->keeping)
        return;
    pthread_mutex_lock(&peers->lock);
    peers->stopping = true;
    pthread_cond_broadcast(&peers->changed);
    pthread_mutex_unlock(&peers->lock);
    pthread_join(peers->keeper, NULL);
    own_record_remove(peers);
}
