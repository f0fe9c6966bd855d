/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle, and the search from beginning to end. Its rules are in directory.c and list.c; what
 * goes on between searches is in keeper.c. */
#include "discovery/discovery.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "discovery/dns.h"
#include "discovery/inside.h"

#define STALE_MS 60000
#define STALE_MS_MIN 200
#define STALE_MS_MAX 86400000
#define REFUSED_NS (10 * SPOTNIK_S) /* of nothing but refusals */
/* beside twice T: after that a wait that never ends is a failure */
#define HOPE_NS (60 * SPOTNIK_S)
#define REFRESHES 20 /* of our record in T, at least */

/* ---- life cycle ---- */

static void locks_init(struct spotnik_discovery *discovery)
{
    spotnik_cond_init(&discovery->changed);
    pthread_mutex_init(&discovery->lock, NULL);
    pthread_mutex_init(&discovery->writing, NULL);
}

/* T is for tests and for folders that are slow to show what others write; the same everywhere. */
static int times_read(struct spotnik_discovery_times *times)
{
    const char *text = getenv("SPOTNIK_STALE_MS");
    char *end = "";
    unsigned long long stale_ms =
        text != NULL && *text != '\0' ? strtoull(text, &end, 10) : STALE_MS;
    if (*end != '\0' || stale_ms < STALE_MS_MIN || stale_ms > STALE_MS_MAX)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_STALE_MS is \"%.40s\"; it must be a number of milliseconds from %d to %d",
            text, STALE_MS_MIN, STALE_MS_MAX);
    times->stale_ns = stale_ms * SPOTNIK_MS;
    times->refresh_ns = spotnik_time_min(times->stale_ns / REFRESHES, SPOTNIK_S);
    times->gap_max_ns = times->refresh_ns + 3 * SPOTNIK_DISCOVERY_ASK_NS;
    return 0;
}

static int folder_read(struct spotnik_discovery *discovery)
{
    const char *text = getenv("SPOTNIK_FOLDER");
    if (text == NULL || *text == '\0')
        return 0;
    discovery->witness = strcmp(text, "witness") == 0;
    if (!discovery->witness)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_FOLDER is \"%.40s\"; it must be witness, or not be "
                                    "set",
                                    text);
    if (!discovery->spec.is_store)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_FOLDER=%s needs a folder: SPOTNIK_PEERS=file:DIR",
                                    text);
    return 0;
}

int spotnik_discovery_new(const char *spec, struct spotnik_runtime *runtime,
                          struct spotnik_discovery **ret_discovery)
{
    struct spotnik_discovery *discovery = calloc(1, sizeof *discovery);
    if (discovery == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the search for the job");
    discovery->runtime = runtime;
    discovery->credentials = *spotnik_runtime_credentials(runtime);
    locks_init(discovery);
    spotnik_process_self(&discovery->process);
    int rc =
        spotnik_discovery_spec_parse(spec, discovery->credentials.self.address, &discovery->spec);
    if (rc == 0 && discovery->spec.is_store)
        rc = spotnik_objects_open(discovery->spec.location, &discovery->store);
    if (rc == 0)
        rc = times_read(&discovery->times);
    if (rc == 0)
        rc = folder_read(discovery);
    if (rc == 0)
        rc = spotnik_discovery_keeper_start(discovery);
    if (rc != 0) {
        spotnik_discovery_free(discovery);
        return rc;
    }
    *ret_discovery = discovery;
    return 0;
}

void spotnik_discovery_withdraw(struct spotnik_discovery *discovery)
{
    if (discovery != NULL)
        spotnik_discovery_keeper_stop(discovery);
}

void spotnik_discovery_free(struct spotnik_discovery *discovery)
{
    if (discovery == NULL)
        return;
    spotnik_discovery_withdraw(discovery);
    spotnik_watcher_done(&discovery->parked.watch);
    spotnik_objects_close(discovery->store);
    pthread_cond_destroy(&discovery->changed);
    pthread_mutex_destroy(&discovery->lock);
    pthread_mutex_destroy(&discovery->writing);
    explicit_bzero(discovery, sizeof *discovery);
    free(discovery);
}

/* We never enter a view without a record that says that we may be in one. Else a process that looks
 * while the founder is dead, and finds us in no list, would found the job anew beside us (P1). The
 * old record names our address as well, so it may stay when the new one cannot be written. But
 * where there is none yet, we must not ask to be let in. The record first, then the look: a founder
 * makes its founding record and then looks at the records, so one of the two sees the other. */
int spotnik_discovery_renew(struct spotnik_discovery *discovery)
{
    char old[64], new[64];
    if (discovery == NULL)
        return 0;
    pthread_mutex_lock(&discovery->lock);
    spotnik_record_name(discovery->credentials.self.id, old);
    discovery->credentials = *spotnik_runtime_credentials(discovery->runtime);
    spotnik_record_name(discovery->credentials.self.id, new);
    bool told = discovery->entered_is_told;
    pthread_mutex_unlock(&discovery->lock);
    int rc = spotnik_discovery_entered_set(discovery, true);
    if (rc == 0 && discovery->spec.is_store && strcmp(old, new) != 0)
        spotnik_discovery_record_remove(discovery, old);
    if (rc == 0 && discovery->spec.is_store && !spotnik_discovery_is_youngest(discovery)) {
        (void)spotnik_discovery_entered_set(discovery, false);
        return spotnik_error_return(
            SPOTNIK_ERR_PEERS,
            "the job was founded again while this member was joining; it looks again");
    }
    if (rc == 0 || told || rc == -ENOENT) /* a directory that is not there founds nothing */
        return 0;
    return spotnik_error_return(
        SPOTNIK_ERR_PEERS,
        "cannot write this member's record to %s: %s; it must be there before the member enters",
        discovery->spec.location, spotnik_objects_why(rc));
}

/* Just now, for what cannot be taken back. */
bool spotnik_discovery_is_youngest(struct spotnik_discovery *discovery)
{
    struct spotnik_record by;
    pthread_mutex_lock(&discovery->lock);
    bool superseded = discovery->superseded;
    pthread_mutex_unlock(&discovery->lock);
    return !superseded
           && (!discovery->spec.is_store
               || spotnik_founding_record_guard(discovery, &by) != SPOTNIK_ERR_LINEAGE);
}

void spotnik_discovery_warning(struct spotnik_discovery *discovery, char *text, size_t size)
{
    pthread_mutex_lock(&discovery->lock);
    const char *said = discovery->warning[0] != '\0'   ? discovery->warning
                       : discovery->missing[0] != '\0' ? discovery->missing
                       : discovery->waiting[0] != '\0' ? discovery->waiting
                                                       : discovery->advice;
    snprintf(text, size, "%s", said);
    pthread_mutex_unlock(&discovery->lock);
}

/* ---- the search ---- */

static int nobody(const struct spotnik_discovery_search *search)
{
    const char *said = search->said[0] != '\0' ? search->said : "nobody has founded the job";
    if (search->refusal != 0)
        return spotnik_error_return(search->refusal, "the job was not found: %s", search->refused);
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "the job was not found: %s", said);
}

/* For our status. */
static void waiting_tell(struct spotnik_discovery_search *search, bool over)
{
    struct spotnik_discovery *discovery = search->discovery;
    uint64_t spent_ns = spotnik_time_since(spotnik_discovery_clock_ns(), search->begun_ns);
    bool long_wait = !over && search->remaining_ns > SPOTNIK_DISCOVERY_AGAIN_NS;
    uint64_t whole_ns = long_wait ? search->whole_ns : 0;
    spotnik_runtime_tell_waiting(discovery->runtime,
                                 spotnik_time_since(whole_ns, search->remaining_ns), whole_ns);
    pthread_mutex_lock(&discovery->lock);
    discovery->waiting[0] = '\0';
    if (!over && search->said[0] != '\0')
        snprintf(discovery->waiting, sizeof discovery->waiting,
                 "looking for the job, for %.0f s: %.260s", (double)spent_ns / 1e9, search->said);
    pthread_mutex_unlock(&discovery->lock);
}

/* Waiting for a known time to pass is no failure to find anybody; but a directory that does not let
 * time count is. */
static bool is_late(const struct spotnik_discovery_search *search, uint64_t until_ns)
{
    uint64_t now_ns = spotnik_discovery_clock_ns();
    bool hopeful =
        search->may_found && now_ns < search->time_left_ns
        && now_ns < spotnik_time_add(until_ns, 2 * search->discovery->times.stale_ns + HOPE_NS);
    /* Every process that is there says that key, job or version are wrong, and no other may yet be
     * the job. */
    bool refused = search->refusal != 0 && search->undecided == 0 && search->time_left_ns == 0
                   && spotnik_time_since(now_ns, search->begun_ns) >= REFUSED_NS;
    return refused || (now_ns >= until_ns && !hopeful);
}

static int search_run(struct spotnik_discovery_search *search, uint64_t until_ns,
                      bool (*stop)(void *context), void *context, bool *ret_found)
{
    struct spotnik_discovery *discovery = search->discovery;
    for (;;) {
        search->said[0] = '\0';
        if (discovery->spec.name_count > 0)
            spotnik_dns_resolve(&discovery->spec, search->self.self.address, search->said,
                                sizeof search->said);
        search->time_left_ns = search->remaining_ns = search->whole_ns = 0;
        search->refusal = 0;
        search->undecided = 0;
        enum spotnik_discovery_round round = discovery->spec.is_store
                                                 ? spotnik_discovery_directory_round(search)
                                                 : spotnik_discovery_list_round(search);
        waiting_tell(search, round != SPOTNIK_DISCOVERY_AGAIN);
        if (round == SPOTNIK_DISCOVERY_ERROR)
            return search->error;
        *ret_found = round == SPOTNIK_DISCOVERY_FOUND;
        if (round != SPOTNIK_DISCOVERY_AGAIN)
            return 0;
        if (is_late(search, until_ns) || (stop != NULL && stop(context)))
            return search->may_found && spotnik_discovery_done_check(search) != 0 ? SPOTNIK_ERR_DONE
                                                                                  : nobody(search);
        pthread_mutex_lock(&discovery->lock);
        if (!discovery->stopping)
            spotnik_discovery_wait(discovery,
                                   spotnik_discovery_clock_ns() + SPOTNIK_DISCOVERY_AGAIN_NS);
        pthread_mutex_unlock(&discovery->lock);
    }
}

int spotnik_discovery_find(struct spotnik_discovery *discovery, bool may_found, uint64_t timeout_ns,
                           bool (*stop)(void *context), void *context, bool *ret_found,
                           struct spotnik_member *ret_sponsor)
{
    struct spotnik_discovery_search search = { .discovery = discovery, .may_found = may_found };
    uint64_t until_ns = spotnik_time_add(spotnik_discovery_clock_ns(), timeout_ns);
    bool found = false;
    search.self = discovery->credentials;
    search.begun_ns = spotnik_discovery_clock_ns();
    search.opened = !may_found; /* we were in it */
    int rc = search_run(&search, until_ns, stop, context, &found);
    waiting_tell(&search, true);
    spotnik_watcher_done(&search.watch);
    if (rc != 0)
        return rc;
    *ret_found = found;
    if (!found)
        *ret_sponsor = search.sponsor;
    return 0;
}

/* ---- for tools ---- */

int spotnik_discovery_fresh(const char *directory)
{
    char path[PATH_MAX];
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return -1;
    snprintf(path, sizeof path, "%s/" SPOTNIK_DISCOVERY_FRESH, directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

int spotnik_discovery_list(const char *spec, const struct spotnik_credentials *credentials,
                           struct spotnik_member *ret, uint32_t max, uint32_t *ret_count)
{
    struct spotnik_discovery_spec parsed;
    struct spotnik_member *named = NULL;
    uint32_t count = 0;
    int rc = spotnik_discovery_spec_parse(spec, NULL, &parsed);
    char said[256];
    if (rc == 0 && parsed.name_count > 0)
        spotnik_dns_resolve(&parsed, NULL, said, sizeof said);
    if (rc == 0)
        rc = spotnik_discovery_named(&parsed, credentials, &named, &count);
    *ret_count = rc != 0 ? 0 : count < max ? count : max;
    for (uint32_t i = 0; i < *ret_count; i++)
        ret[i] = named[i];
    free(named);
    return rc;
}
