/* SPDX-License-Identifier: Apache-2.0 */
/* What this member says of itself: its record in the directory, its lineage, the end of the job.
 * And what other files of this folder ask of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "peers/inside.h"

uint64_t spotnik_peers_clock_ns(void)
{
    return spotnik_clock_ns();
}

void spotnik_peers_wait(struct spotnik_peers *peers, uint64_t until_ns)
{
    spotnik_cond_wait(&peers->changed, &peers->lock, until_ns);
}

struct spotnik_credentials spotnik_peers_credentials(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    struct spotnik_credentials credentials = peers->credentials;
    pthread_mutex_unlock(&peers->lock);
    return credentials;
}

/* ---- our lineage ---- */

void spotnik_peers_founding_set(struct spotnik_peers *peers, uint64_t founding)
{
    pthread_mutex_lock(&peers->lock);
    if (founding != peers->ours.id) {
        bool known = founding == peers->sponsors.id;
        peers->ours = known ? peers->sponsors : (struct spotnik_founding){ .id = founding };
        peers->superseded = false; /* we have gone over to another lineage */
    }
    pthread_mutex_unlock(&peers->lock);
}

/* A joiner that no record led to the job knows no more than its id, until it is in the view. */
struct spotnik_founding spotnik_peers_lineage(struct spotnik_peers *peers)
{
    struct spotnik_presence presence;
    spotnik_engine_presence(peers->engine, &presence);
    pthread_mutex_lock(&peers->lock);
    if (peers->ours.generation == 0 && presence.founding.id == peers->ours.id)
        peers->ours = presence.founding;
    struct spotnik_founding ours = peers->ours;
    pthread_mutex_unlock(&peers->lock);
    return ours;
}

struct spotnik_credentials spotnik_peers_introduction(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = spotnik_peers_credentials(peers);
    spotnik_engine_presence(peers->engine, &credentials.presence);
    return credentials;
}

bool spotnik_peers_may_follow(struct spotnik_peers *peers, const struct spotnik_answer *answer)
{
    struct spotnik_founding past = spotnik_engine_past(peers->engine);
    const struct spotnik_founding *theirs = &answer->presence.founding;
    return !spotnik_founding_differs(&past, theirs) || spotnik_founding_follows(theirs, &past);
}

bool spotnik_peers_is_superseded(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    bool superseded = peers->superseded;
    pthread_mutex_unlock(&peers->lock);
    return superseded;
}

bool spotnik_peers_refounds(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    bool refounds = peers->refounds;
    pthread_mutex_unlock(&peers->lock);
    return refounds;
}

void spotnik_peers_refounded(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    peers->refounds = false;
    peers->followers_ns = peers->followed ? spotnik_peers_clock_ns() + peers->times.stale_ns : 0;
    pthread_mutex_unlock(&peers->lock);
}

uint64_t spotnik_peers_followers_ns(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    uint64_t until_ns = peers->followers_ns;
    pthread_mutex_unlock(&peers->lock);
    return until_ns;
}

/* ---- our record ---- */

static enum spotnik_standing standing(const spotnik_job_status *status, bool entered)
{
    if (status->parked)
        return SPOTNIK_STANDING_PARKED;
    return entered ? SPOTNIK_STANDING_ENTERED : SPOTNIK_STANDING_SEEKING;
}

static void record_make(struct spotnik_peers *peers, struct spotnik_credentials *credentials,
                        struct spotnik_record *record)
{
    spotnik_job_status status;
    struct spotnik_founding ours = spotnik_peers_lineage(peers);
    spotnik_engine_status(peers->engine, &status);
    pthread_mutex_lock(&peers->lock);
    *credentials = peers->credentials;
    *record = (struct spotnik_record){ .member = credentials->self,
                                       .process = peers->process,
                                       .counter = ++peers->counter,
                                       .generation = ours.generation,
                                       .founding = ours.id,
                                       .root = ours.root,
                                       .born_ms = ours.born_ms,
                                       .epoch = status.view_epoch,
                                       .step = status.step_committed,
                                       .standing = standing(&status, peers->entered) };
    pthread_mutex_unlock(&peers->lock);
}

static void written_note(struct spotnik_peers *peers, const struct spotnik_record *record,
                         uint64_t begun_ns, int rc)
{
    pthread_mutex_lock(&peers->lock);
    peers->warning[0] = '\0';
    if (rc != 0) {
        snprintf(peers->warning, sizeof peers->warning,
                 "cannot write to the peers directory %.150s: %s", peers->spec.directory,
                 strerror(-rc));
    } else {
        peers->refreshed_ns = begun_ns;
        peers->entered_is_told = record->standing != SPOTNIK_STANDING_SEEKING;
    }
    pthread_mutex_unlock(&peers->lock);
}

static bool record_vanished(const struct spotnik_peers *peers,
                            const struct spotnik_credentials *credentials, const char *name)
{
    struct spotnik_record record;
    uint64_t print;
    return strcmp(peers->written, name) == 0
           && spotnik_record_read(credentials, peers->spec.directory, name, &record, &print, NULL)
                  == SPOTNIK_READING_ABSENT;
}

/* Only this member takes its record away. The user learns of it, once it is written again: a
 * directory that is away as a whole is another fault, which ends when it comes back. */
static void vanished_note(struct spotnik_peers *peers, const char *name)
{
    pthread_mutex_lock(&peers->lock);
    snprintf(peers->advice, sizeof peers->advice,
             "%.120s/%.48s had vanished, and was written again: let nothing remove files there",
             peers->spec.directory, name);
    pthread_mutex_unlock(&peers->lock);
}

int spotnik_peers_record_refresh(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials;
    struct spotnik_record record;
    char name[64];
    pthread_mutex_lock(&peers->writing); /* two at once would share a temporary name */
    uint64_t begun_ns = spotnik_peers_clock_ns();
    record_make(peers, &credentials, &record);
    spotnik_record_name(record.member.id, name);
    bool vanished = record_vanished(peers, &credentials, name);
    int rc = spotnik_record_write(&credentials, &record, peers->spec.directory, name, false);
    written_note(peers, &record, begun_ns, rc);
    if (vanished && rc == 0)
        vanished_note(peers, name);
    snprintf(peers->written, sizeof peers->written, "%s", rc == 0 ? name : "");
    pthread_mutex_unlock(&peers->writing);
    explicit_bzero(&credentials, sizeof credentials);
    return rc;
}

int spotnik_peers_entered_set(struct spotnik_peers *peers, bool entered)
{
    pthread_mutex_lock(&peers->lock);
    peers->entered = entered;
    pthread_mutex_unlock(&peers->lock);
    return peers->spec.is_directory ? spotnik_peers_record_refresh(peers) : 0;
}

uint64_t spotnik_peers_gap_max(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    uint64_t age_ns = spotnik_time_since(spotnik_peers_clock_ns(), peers->refreshed_ns);
    bool fresh = peers->refreshed_ns != 0 && age_ns < 3 * peers->times.refresh_ns + SPOTNIK_S;
    pthread_mutex_unlock(&peers->lock);
    return fresh ? peers->times.gap_max_ns : 0;
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

/* ---- members of this process ---- */

static pthread_mutex_t here_lock = PTHREAD_MUTEX_INITIALIZER;
static struct spotnik_peers *here;

void spotnik_peers_here_add(struct spotnik_peers *peers)
{
    pthread_mutex_lock(&here_lock);
    peers->next = here;
    here = peers;
    pthread_mutex_unlock(&here_lock);
}

/* Our record goes first: while we are in the list, it is known to be of a member that is here. */
void spotnik_peers_here_remove(struct spotnik_peers *peers)
{
    own_record_remove(peers);
    pthread_mutex_lock(&here_lock);
    for (struct spotnik_peers **at = &here; *at != NULL; at = &(*at)->next)
        if (*at == peers) {
            *at = peers->next;
            break;
        }
    pthread_mutex_unlock(&here_lock);
}

bool spotnik_peers_was_here(const struct spotnik_record *record)
{
    struct spotnik_process self;
    bool is_here = false;
    spotnik_process_self(&self);
    if (self.boot == 0 || memcmp(&self, &record->process, sizeof self) != 0)
        return false;
    pthread_mutex_lock(&here_lock);
    for (struct spotnik_peers *peers = here; peers != NULL; peers = peers->next) {
        struct spotnik_credentials credentials = spotnik_peers_credentials(peers);
        is_here |= spotnik_id_equal(credentials.self.id, record->member.id);
        explicit_bzero(&credentials, sizeof credentials);
    }
    pthread_mutex_unlock(&here_lock);
    return !is_here;
}

/* ---- the end of the job ---- */

/* The name of the file that says so. False: we have no lineage, or there is no directory. */
static bool over_name(struct spotnik_peers *peers, bool interrupted, char name[64])
{
    uint64_t founding = spotnik_peers_lineage(peers).id;
    snprintf(name, 64, interrupted ? SPOTNIK_STOPPED_NAME : SPOTNIK_OVER_NAME,
             (unsigned long long)founding);
    return peers->spec.is_directory && founding != 0;
}

void spotnik_peers_over_set(struct spotnik_peers *peers, bool interrupted)
{
    struct spotnik_credentials credentials;
    struct spotnik_record record;
    char name[64];
    record_make(peers, &credentials, &record);
    if (over_name(peers, interrupted, name))
        (void)spotnik_record_write(&credentials, &record, peers->spec.directory, name, false);
    explicit_bzero(&credentials, sizeof credentials);
}

bool spotnik_peers_is_over(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials = spotnik_peers_credentials(peers);
    struct spotnik_record record;
    bool over = false;
    uint64_t print;
    char name[64];
    if (over_name(peers, false, name)) /* signed, as all records are */
        over = spotnik_record_read(&credentials, peers->spec.directory, name, &record, &print, NULL)
               == SPOTNIK_READING_RECORD;
    explicit_bzero(&credentials, sizeof credentials);
    return over;
}
