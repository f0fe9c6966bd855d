/* SPDX-License-Identifier: Apache-2.0 */
/* What this member says of itself: its record in the directory, its lineage, the end of the job.
 * And what other files of this folder ask of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "discovery/inside.h"

uint64_t spotnik_discovery_clock_ns(void)
{
    return spotnik_clock_ns();
}

void spotnik_discovery_wait(struct spotnik_discovery *discovery, uint64_t until_ns)
{
    spotnik_cond_wait(&discovery->changed, &discovery->lock, until_ns);
}

struct spotnik_credentials spotnik_discovery_credentials(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    struct spotnik_credentials credentials = discovery->credentials;
    pthread_mutex_unlock(&discovery->lock);
    return credentials;
}

/* ---- our lineage ---- */

void spotnik_discovery_founding_set(struct spotnik_discovery *discovery, uint64_t founding)
{
    pthread_mutex_lock(&discovery->lock);
    if (founding != discovery->ours.id) {
        bool known = founding == discovery->sponsors.id;
        discovery->ours = known ? discovery->sponsors : (struct spotnik_founding){ .id = founding };
        discovery->superseded = false; /* we have gone over to another lineage */
    }
    pthread_mutex_unlock(&discovery->lock);
}

/* A joiner that no record led to the job knows no more than its id, until it is in the view. */
struct spotnik_founding spotnik_discovery_lineage(struct spotnik_discovery *discovery)
{
    struct spotnik_presence presence;
    spotnik_runtime_presence(discovery->runtime, &presence);
    pthread_mutex_lock(&discovery->lock);
    if (discovery->ours.generation == 0 && presence.founding.id == discovery->ours.id)
        discovery->ours = presence.founding;
    struct spotnik_founding ours = discovery->ours;
    pthread_mutex_unlock(&discovery->lock);
    return ours;
}

struct spotnik_credentials spotnik_discovery_introduction(struct spotnik_discovery *discovery)
{
    struct spotnik_credentials credentials = spotnik_discovery_credentials(discovery);
    spotnik_runtime_presence(discovery->runtime, &credentials.presence);
    return credentials;
}

bool spotnik_discovery_may_follow(struct spotnik_discovery *discovery,
                                  const struct spotnik_answer *answer)
{
    struct spotnik_founding past = spotnik_runtime_past(discovery->runtime);
    const struct spotnik_founding *theirs = &answer->presence.founding;
    return !spotnik_founding_differs(&past, theirs) || spotnik_founding_follows(theirs, &past);
}

bool spotnik_discovery_is_superseded(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    bool superseded = discovery->superseded;
    pthread_mutex_unlock(&discovery->lock);
    return superseded;
}

bool spotnik_discovery_refounds(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    bool refounds = discovery->refounds;
    pthread_mutex_unlock(&discovery->lock);
    return refounds;
}

void spotnik_discovery_refounded(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    discovery->refounds = false;
    discovery->followers_ns =
        discovery->followed ? spotnik_discovery_clock_ns() + discovery->times.stale_ns : 0;
    pthread_mutex_unlock(&discovery->lock);
}

uint64_t spotnik_discovery_followers_ns(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    uint64_t until_ns = discovery->followers_ns;
    pthread_mutex_unlock(&discovery->lock);
    return until_ns;
}

/* ---- our record ---- */

static enum spotnik_standing standing(const spotnik_job_status *status, bool entered)
{
    if (status->parked)
        return SPOTNIK_STANDING_PARKED;
    return entered ? SPOTNIK_STANDING_ENTERED : SPOTNIK_STANDING_SEEKING;
}

/* So many requests of one refresh (our record, a listing, the founding record) and at most 2,000 an
 * hour of all members together: 5.4 s for each member. */
#define BILLED_NS (5400 * SPOTNIK_MS)

/* Until our next refresh. In a store that bills its requests members of a view refresh the more
 * seldom the more they are; their records say so, and founding waits the longer for them. */
static uint64_t every_ns(const struct spotnik_discovery *discovery,
                         const spotnik_job_status *status)
{
    uint64_t refresh_ns = discovery->times.refresh_ns, calm_ns = status->size * BILLED_NS;
    bool seldom = discovery->store != NULL && spotnik_objects_is_billed(discovery->store)
                  && status->view_epoch > 0 && !status->parked && calm_ns > refresh_ns;
    return seldom ? calm_ns : refresh_ns;
}

static void record_make(struct spotnik_discovery *discovery,
                        struct spotnik_credentials *credentials, struct spotnik_record *record)
{
    spotnik_job_status status;
    struct spotnik_founding ours = spotnik_discovery_lineage(discovery);
    spotnik_runtime_status(discovery->runtime, &status);
    pthread_mutex_lock(&discovery->lock);
    *credentials = discovery->credentials;
    *record = (struct spotnik_record){ .member = credentials->self,
                                       .process = discovery->process,
                                       .counter = ++discovery->counter,
                                       .every_ms = every_ns(discovery, &status) / SPOTNIK_MS,
                                       .generation = ours.generation,
                                       .founding = ours.id,
                                       .root = ours.root,
                                       .founded_at_ms = ours.founded_at_ms,
                                       .epoch = status.view_epoch,
                                       .step = status.step_committed,
                                       .standing = standing(&status, discovery->entered) };
    pthread_mutex_unlock(&discovery->lock);
}

static void written_note(struct spotnik_discovery *discovery, const struct spotnik_record *record,
                         uint64_t begun_ns, int rc)
{
    pthread_mutex_lock(&discovery->lock);
    discovery->warning[0] = '\0';
    if (rc != 0) {
        snprintf(discovery->warning, sizeof discovery->warning,
                 "cannot write this member's record to %.150s: %s", discovery->spec.location,
                 spotnik_objects_why(rc));
    } else {
        discovery->refreshed_ns = begun_ns;
        discovery->due_ns = begun_ns + record->every_ms * SPOTNIK_MS;
        discovery->entered_is_told = record->standing != SPOTNIK_STANDING_SEEKING;
    }
    pthread_mutex_unlock(&discovery->lock);
}

static bool record_vanished(const struct spotnik_discovery *discovery,
                            const struct spotnik_credentials *credentials, const char *name)
{
    struct spotnik_record record;
    uint64_t print;
    /* looking costs a request; the record is written again in any case */
    return !spotnik_objects_is_billed(discovery->store) && strcmp(discovery->written, name) == 0
           && spotnik_record_read(credentials, discovery->store, name, &record, &print, NULL)
                  == SPOTNIK_READING_ABSENT;
}

/* Only this member takes its record away. The user learns of it, once it is written again: a
 * directory that is away as a whole is another fault, which ends when it comes back. */
static void vanished_note(struct spotnik_discovery *discovery, const char *name)
{
    pthread_mutex_lock(&discovery->lock);
    snprintf(discovery->advice, sizeof discovery->advice,
             "%.120s/%.48s had vanished, and was written again: let nothing remove files there",
             discovery->spec.location, name);
    pthread_mutex_unlock(&discovery->lock);
}

int spotnik_discovery_record_refresh(struct spotnik_discovery *discovery)
{
    struct spotnik_credentials credentials;
    struct spotnik_record record;
    char name[64];
    pthread_mutex_lock(&discovery->writing); /* two at once would share a temporary name */
    uint64_t begun_ns = spotnik_discovery_clock_ns();
    record_make(discovery, &credentials, &record);
    spotnik_record_name(record.member.id, name);
    bool vanished = record_vanished(discovery, &credentials, name);
    int rc = spotnik_record_write(&credentials, &record, discovery->store, name, false);
    written_note(discovery, &record, begun_ns, rc);
    if (vanished && rc == 0)
        vanished_note(discovery, name);
    snprintf(discovery->written, sizeof discovery->written, "%s", rc == 0 ? name : "");
    pthread_mutex_unlock(&discovery->writing);
    return rc;
}

int spotnik_discovery_entered_set(struct spotnik_discovery *discovery, bool entered)
{
    pthread_mutex_lock(&discovery->lock);
    discovery->entered = entered;
    pthread_mutex_unlock(&discovery->lock);
    return discovery->spec.is_store ? spotnik_discovery_record_refresh(discovery) : 0;
}

uint64_t spotnik_discovery_gap_max(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&discovery->lock);
    uint64_t age_ns = spotnik_time_since(spotnik_discovery_clock_ns(), discovery->refreshed_ns);
    bool fresh =
        discovery->refreshed_ns != 0 && age_ns < 3 * discovery->times.refresh_ns + SPOTNIK_S;
    pthread_mutex_unlock(&discovery->lock);
    return fresh ? discovery->times.gap_max_ns : 0;
}

void spotnik_discovery_record_remove(const struct spotnik_discovery *discovery, const char *name)
{
    if (discovery->store != NULL && discovery->keeping)
        (void)spotnik_objects_delete(discovery->store, name);
}

static void own_record_remove(const struct spotnik_discovery *discovery)
{
    char name[64];
    spotnik_record_name(discovery->credentials.self.id, name);
    spotnik_discovery_record_remove(discovery, name);
}

/* ---- members of this process ---- */

static pthread_mutex_t here_lock = PTHREAD_MUTEX_INITIALIZER;
static struct spotnik_discovery *here;

void spotnik_discovery_here_add(struct spotnik_discovery *discovery)
{
    pthread_mutex_lock(&here_lock);
    discovery->next = here;
    here = discovery;
    pthread_mutex_unlock(&here_lock);
}

/* Our record goes first: while we are in the list, it is known to be of a member that is here. */
void spotnik_discovery_here_remove(struct spotnik_discovery *discovery)
{
    own_record_remove(discovery);
    pthread_mutex_lock(&here_lock);
    for (struct spotnik_discovery **at = &here; *at != NULL; at = &(*at)->next)
        if (*at == discovery) {
            *at = discovery->next;
            break;
        }
    pthread_mutex_unlock(&here_lock);
}

bool spotnik_discovery_was_here(const struct spotnik_record *record)
{
    struct spotnik_process self;
    bool is_here = false;
    spotnik_process_self(&self);
    if (self.boot == 0 || memcmp(&self, &record->process, sizeof self) != 0)
        return false;
    pthread_mutex_lock(&here_lock);
    for (struct spotnik_discovery *discovery = here; discovery != NULL;
         discovery = discovery->next) {
        struct spotnik_credentials credentials = spotnik_discovery_credentials(discovery);
        is_here |= spotnik_id_equal(credentials.self.id, record->member.id);
    }
    pthread_mutex_unlock(&here_lock);
    return !is_here;
}

/* ---- the end of the job ---- */

/* Name the file that records the end of our lineage. False: we have no lineage, or there is no
 * directory. */
static bool over_name(struct spotnik_discovery *discovery, bool interrupted, char name[64])
{
    uint64_t founding = spotnik_discovery_lineage(discovery).id;
    snprintf(name, 64, interrupted ? SPOTNIK_STOPPED_NAME : SPOTNIK_OVER_NAME,
             (unsigned long long)founding);
    return discovery->spec.is_store && founding != 0;
}

void spotnik_discovery_over_set(struct spotnik_discovery *discovery, bool interrupted)
{
    struct spotnik_credentials credentials;
    struct spotnik_record record;
    char name[64];
    record_make(discovery, &credentials, &record);
    if (over_name(discovery, interrupted, name))
        (void)spotnik_record_write(&credentials, &record, discovery->store, name, false);
}

bool spotnik_discovery_is_over(struct spotnik_discovery *discovery)
{
    struct spotnik_credentials credentials = spotnik_discovery_credentials(discovery);
    struct spotnik_record record;
    bool over = false;
    uint64_t print;
    char name[64];
    if (over_name(discovery, false, name)) /* signed, as all records are */
        over = spotnik_record_read(&credentials, discovery->store, name, &record, &print, NULL)
               == SPOTNIK_READING_RECORD;
    return over;
}
