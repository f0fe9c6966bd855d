/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle, and the search from beginning to end. Its rules are in directory.c and list.c; what goes on
 * between searches is in keeper.c. */
#include "peers/peers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"
#include "peers/dns.h"
#include "peers/inside.h"

/* ---- life cycle ---- */

static void locks_init(struct spotnik_peers *peers)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&peers->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&peers->lock, NULL);
    pthread_mutex_init(&peers->writing, NULL);
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
    if (rc == 0)
        rc = spotnik_peers_keeper_start(peers);
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
    spotnik_peers_keeper_stop(peers);
    pthread_cond_destroy(&peers->changed);
    pthread_mutex_destroy(&peers->lock);
    pthread_mutex_destroy(&peers->writing);
    explicit_bzero(peers, sizeof *peers);
    free(peers);
}

/* Never without a record: whoever looks while the founder is dead and we are in no list would found the job anew beside us (P1). The
 * old one names our address as well, so it may stay when the new one cannot be written. */
void spotnik_peers_renew(struct spotnik_peers *peers)
{
    char old[64], new[64];
    if (peers == NULL)
        return;
    pthread_mutex_lock(&peers->lock);
    spotnik_record_name(peers->credentials.self.id, old);
    peers->credentials = *spotnik_engine_credentials(peers->engine);
    spotnik_record_name(peers->credentials.self.id, new);
    pthread_mutex_unlock(&peers->lock);
    if (peers->spec.is_directory && spotnik_peers_record_refresh(peers) == 0 && strcmp(old, new) != 0)
        spotnik_peers_record_remove(peers, old);
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
    if (expected->port == 0)
        return SPOTNIK_PEERS_REPLY_SILENT; /* a name that has no address now (dns.h) */
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
        if (peers->spec.name_count > 0)
            spotnik_dns_resolve(&peers->spec, search->said, sizeof search->said);
        enum spotnik_peers_round round = peers->spec.is_directory ? spotnik_peers_directory_round(search)
                                                                  : spotnik_peers_list_round(search);
        if (round == SPOTNIK_PEERS_ERROR)
            return search->error;
        *ret_found = round == SPOTNIK_PEERS_FOUND;
        if (round != SPOTNIK_PEERS_AGAIN)
            return 0;
        if (spotnik_peers_clock_ns() >= until_ns || (stop != NULL && stop(context)))
            return nobody(search);
        pthread_mutex_lock(&peers->lock);
        spotnik_peers_wait(peers,
                           spotnik_time_min(until_ns, spotnik_peers_clock_ns() + SPOTNIK_PEERS_AGAIN_NS));
        pthread_mutex_unlock(&peers->lock);
    }
}

int spotnik_peers_find(struct spotnik_peers *peers, bool may_found, uint64_t timeout_ns,
                       bool (*stop)(void *context), void *context, bool *ret_found,
                       struct spotnik_member *ret_sponsor)
{
    struct spotnik_peers_search search = { .peers = peers, .may_found = may_found };
    uint64_t until_ns = spotnik_time_add(spotnik_peers_clock_ns(), timeout_ns);
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

int spotnik_peers_list(const char *spec, const struct spotnik_credentials *credentials,
                       struct spotnik_member *ret, uint32_t max, uint32_t *ret_count)
{
    struct spotnik_peers_spec parsed;
    int rc = spotnik_peers_spec_parse(spec, &parsed);
    char said[256];
    if (rc == 0 && parsed.name_count > 0)
        spotnik_dns_resolve(&parsed, said, sizeof said);
    return rc != 0 ? rc : spotnik_peers_named(&parsed, credentials, ret, max, ret_count);
}
