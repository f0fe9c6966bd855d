/* SPDX-License-Identifier: Apache-2.0 */
/* The search from beginning to end, and the thread that keeps our record in the directory fresh. The rules
 * are in directory.c and list.c. */
#include "peers/peers.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"
#include "peers/inside.h"

#define REFRESH_NS SPOTNIK_S

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

/* Under the lock: until then, or until somebody wants us. */
static void wait_until(struct spotnik_peers *peers, uint64_t until_ns)
{
    struct timespec until = { .tv_sec = (time_t)(until_ns / SPOTNIK_S),
                              .tv_nsec = (long)(until_ns % SPOTNIK_S) };
    pthread_cond_timedwait(&peers->changed, &peers->lock, &until);
}

/* ---- our record ---- */

static int record_refresh(struct spotnik_peers *peers)
{
    struct spotnik_credentials credentials;
    char name[64];
    pthread_mutex_lock(&peers->lock);
    credentials = peers->credentials;
    pthread_mutex_unlock(&peers->lock);
    spotnik_record_name(credentials.self.id, name);
    int rc = spotnik_record_write(&credentials, peers->spec.directory, name, false);
    explicit_bzero(&credentials, sizeof credentials);
    pthread_mutex_lock(&peers->lock);
    peers->warning[0] = '\0';
    if (rc != 0)
        snprintf(peers->warning, sizeof peers->warning, "cannot write to the peers directory %.150s: %s",
                 peers->spec.directory, strerror(-rc));
    pthread_mutex_unlock(&peers->lock);
    return rc;
}

static void record_remove(const struct spotnik_peers *peers)
{
    char name[64], path[PATH_MAX];
    spotnik_record_name(peers->credentials.self.id, name);
    snprintf(path, sizeof path, "%s/%s", peers->spec.directory, name);
    unlink(path);
}

static void *refresher_main(void *context)
{
    struct spotnik_peers *peers = context;
    pthread_mutex_lock(&peers->lock);
    while (!peers->stopping) {
        wait_until(peers, clock_ns() + REFRESH_NS);
        if (peers->stopping)
            break;
        pthread_mutex_unlock(&peers->lock);
        record_refresh(peers);
        pthread_mutex_lock(&peers->lock);
    }
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

static int directory_start(struct spotnik_peers *peers)
{
    int rc = record_refresh(peers);
    if (rc != 0) {
        errno = -rc;
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM, "cannot write to the peers directory %s: %m; it must exist and be writable",
            peers->spec.directory);
    }
    rc = pthread_create(&peers->refresher, NULL, refresher_main, peers);
    if (rc != 0) {
        record_remove(peers);
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
    }
    peers->refreshing = true;
    return 0;
}

/* ---- life cycle ---- */

static void locks_init(struct spotnik_peers *peers)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&peers->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&peers->lock, NULL);
}

int spotnik_peers_new(const char *spec, struct spotnik_engine *engine, struct spotnik_peers **ret_peers)
{
    struct spotnik_peers *peers = calloc(1, sizeof *peers);
    if (peers == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the search for the job");
    peers->engine = engine;
    peers->credentials = *spotnik_engine_credentials(engine);
    locks_init(peers);
    int rc = spotnik_peers_spec_parse(spec, &peers->spec);
    if (rc == 0 && peers->spec.is_directory)
        rc = directory_start(peers);
    if (rc != 0) {
        spotnik_peers_free(peers);
        return rc;
    }
    *ret_peers = peers;
    return 0;
}

void spotnik_peers_free(struct spotnik_peers *peers)
{
    if (peers == NULL)
        return;
    if (peers->refreshing) {
        pthread_mutex_lock(&peers->lock);
        peers->stopping = true;
        pthread_cond_broadcast(&peers->changed);
        pthread_mutex_unlock(&peers->lock);
        pthread_join(peers->refresher, NULL);
        record_remove(peers);
    }
    pthread_cond_destroy(&peers->changed);
    pthread_mutex_destroy(&peers->lock);
    explicit_bzero(peers, sizeof *peers);
    free(peers);
}

void spotnik_peers_renew(struct spotnik_peers *peers)
{
    if (peers == NULL)
        return;
    pthread_mutex_lock(&peers->lock);
    if (peers->refreshing)
        record_remove(peers);
    peers->credentials = *spotnik_engine_credentials(peers->engine);
    pthread_cond_broadcast(&peers->changed);
    pthread_mutex_unlock(&peers->lock);
}

void spotnik_peers_warning(struct spotnik_peers *peers, char *text, size_t size)
{
    pthread_mutex_lock(&peers->lock);
    snprintf(text, size, "%s", peers->warning);
    pthread_mutex_unlock(&peers->lock);
}

/* ---- the search ---- */

void spotnik_peers_say(struct spotnik_peers_search *search, const char *format, ...)
{
    size_t have = strlen(search->said);
    va_list arguments;
    if (have + 4 >= sizeof search->said)
        return;
    if (have > 0) {
        memcpy(search->said + have, "; ", 3);
        have += 2;
    }
    va_start(arguments, format);
    vsnprintf(search->said + have, sizeof search->said - have, format, arguments);
    va_end(arguments);
}

enum spotnik_peers_reply spotnik_peers_ask(struct spotnik_peers_search *search,
                                           const struct spotnik_member *expected,
                                           struct spotnik_answer *ret_answer)
{
    bool refused;
    int rc = spotnik_net_ask(&search->self, expected->address, expected->port, SPOTNIK_PEERS_ASK_NS,
                             ret_answer, &refused);
    if (rc == 0 && ret_answer->epoch > 0 && ret_answer->parked) {
        spotnik_peers_say(search, "a member was found that is itself cut off from the majority");
        return SPOTNIK_PEERS_REPLY_SILENT; /* there is a job, so found none; but this one cannot let us in */
    }
    if (rc == 0 && ret_answer->epoch > 0)
        return SPOTNIK_PEERS_REPLY_IN_VIEW; /* whoever it is: it can let us in */
    if (rc == 0 && !spotnik_id_is_none(expected->id) && !spotnik_id_equal(expected->id, ret_answer->self.id))
        return SPOTNIK_PEERS_REPLY_GONE;
    if (rc == 0)
        return SPOTNIK_PEERS_REPLY_IDLE;
    spotnik_peers_say(search, "%s", spotnik_last_error());
    if (rc != SPOTNIK_ERR_PEERS) {
        search->error = rc;
        return SPOTNIK_PEERS_REPLY_REFUSES;
    }
    return refused ? SPOTNIK_PEERS_REPLY_GONE : SPOTNIK_PEERS_REPLY_SILENT;
}

static int nobody(const struct spotnik_peers_search *search)
{
    const char *said = search->said[0] != '\0' ? search->said : "nobody has founded the job";
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "the job was not found: %s", said);
}

static int search_run(struct spotnik_peers_search *search, uint64_t until_ns, bool (*stop)(void *context),
                      void *context, bool *ret_found)
{
    struct spotnik_peers *peers = search->peers;
    for (;;) {
        search->said[0] = '\0';
        enum spotnik_peers_round round = peers->spec.is_directory ? spotnik_peers_directory_round(search)
                                                                  : spotnik_peers_list_round(search);
        if (round == SPOTNIK_PEERS_ERROR)
            return search->error;
        *ret_found = round == SPOTNIK_PEERS_FOUND;
        if (round != SPOTNIK_PEERS_AGAIN)
            return 0;
        if (clock_ns() >= until_ns || (stop != NULL && stop(context)))
            return nobody(search);
        pthread_mutex_lock(&peers->lock);
        wait_until(peers, spotnik_time_min(until_ns, clock_ns() + SPOTNIK_PEERS_AGAIN_NS));
        pthread_mutex_unlock(&peers->lock);
    }
}

int spotnik_peers_find(struct spotnik_peers *peers, bool may_found, uint64_t timeout_ns,
                       bool (*stop)(void *context), void *context, bool *ret_found,
                       struct spotnik_member *ret_sponsor)
{
    struct spotnik_peers_search search = { .peers = peers, .may_found = may_found };
    uint64_t until_ns = spotnik_time_add(clock_ns(), timeout_ns);
    bool found = false;
    search.self = peers->credentials;
    int rc = search_run(&search, until_ns, stop, context, &found);
    explicit_bzero(search.self.key, sizeof search.self.key);
    if (rc != 0)
        return rc;
    *ret_found = found;
    if (!found)
        *ret_sponsor = search.sponsor;
    return 0;
}

/* ---- for tools ---- */

static int records_list(const struct spotnik_peers_spec *spec, const struct spotnik_credentials *credentials,
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

int spotnik_peers_list(const char *spec, const struct spotnik_credentials *credentials,
                       struct spotnik_member *ret, uint32_t max, uint32_t *ret_count)
{
    struct spotnik_peers_spec parsed;
    int rc = spotnik_peers_spec_parse(spec, &parsed);
    if (rc != 0)
        return rc;
    if (parsed.is_directory)
        return records_list(&parsed, credentials, ret, max, ret_count);
    *ret_count = parsed.count < max ? parsed.count : max;
    memcpy(ret, parsed.listed, *ret_count * sizeof *ret);
    return 0;
}
