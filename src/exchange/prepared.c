/* SPDX-License-Identifier: Apache-2.0 */
/* Pairwise averages between the moment our half is computed and the moment it is settled. The
 * member that asked decides. Once it holds all of its half it says COMMIT until we say DONE, on
 * this connection or, if that breaks, on another. So a connection that breaks undoes nothing and
 * doubles nothing. A member that has left the view decides nothing any more: its half is gone with
 * it, and we drop ours. */
#include <stdlib.h>

#include "base/assert.h"
#include "exchange/inside.h"

/* So many changes may wait for their owner: one that never settles refuses the rest. */
#define LEFT_MAX 16

/* NULL: not now. Without the lock. */
struct spotnik_prepared *spotnik_prepared_new(struct spotnik_exchange_session *session,
                                              struct spotnik_topic *topic, uint64_t sequence)
{
    struct spotnik_exchange *exchange = session->exchange;

    pthread_mutex_lock(&exchange->lock);
    bool room = topic->left_count < LEFT_MAX;
    topic->left_count += room;
    pthread_mutex_unlock(&exchange->lock);
    if (!room)
        return NULL;
    struct spotnik_prepared *prepared = calloc(1, sizeof *prepared);
    float *half = malloc(topic->bytes ? topic->bytes : 1);

    if (prepared && half) {
        *prepared = (struct spotnik_prepared){ .topic = topic,
                                               .peer = session->peer.id,
                                               .sequence = sequence,
                                               .half = half,
                                               .session = session,
                                               .answering = true };
        return prepared;
    }
    free(prepared);
    free(half);
    pthread_mutex_lock(&exchange->lock);
    topic->left_count--;
    pthread_mutex_unlock(&exchange->lock);
    return NULL;
}

/* Under the lock; it is in no list. */
void spotnik_prepared_free(struct spotnik_prepared *prepared)
{
    prepared->topic->left_count--;
    free(prepared->half);
    free(prepared);
}

void spotnik_prepared_add(struct spotnik_exchange *exchange, struct spotnik_prepared *prepared)
{
    prepared->next = exchange->prepared;
    exchange->prepared = prepared;
}

static void take_out(struct spotnik_exchange *exchange, struct spotnik_prepared *prepared)
{
    struct spotnik_prepared **at = &exchange->prepared;

    while (*at && *at != prepared)
        at = &(*at)->next;
    SPOTNIK_ASSERT(*at != NULL);
    *at = prepared->next;
    prepared->next = NULL;
}

void spotnik_prepared_drop(struct spotnik_exchange *exchange, struct spotnik_prepared *prepared)
{
    take_out(exchange, prepared);
    spotnik_prepared_free(prepared);
}

static struct spotnik_prepared *find(const struct spotnik_exchange *exchange,
                                     struct spotnik_id peer, uint64_t sequence)
{
    struct spotnik_prepared *prepared = exchange->prepared;

    while (prepared && !(prepared->sequence == sequence && spotnik_id_equal(prepared->peer, peer)))
        prepared = prepared->next;
    return prepared;
}

/* False: it is not here: settled before, or dropped. Waits for a session that has yet to see that
 * its answer has left. */
bool spotnik_prepared_settle(struct spotnik_exchange *exchange, struct spotnik_id peer,
                             uint64_t sequence)
{
    struct spotnik_prepared *prepared;

    while ((prepared = find(exchange, peer, sequence)) != NULL && prepared->answering)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    if (!prepared)
        return false;
    take_out(exchange, prepared);
    *prepared->topic->left_last = prepared;
    prepared->topic->left_last = &prepared->next;
    return true;
}

void spotnik_prepared_orphan(struct spotnik_exchange *exchange,
                             const struct spotnik_exchange_session *session)
{
    for (struct spotnik_prepared *prepared = exchange->prepared; prepared;
         prepared = prepared->next)
        if (prepared->session == session)
            prepared->session = NULL;
}

/* A member has one average under way: what it asked for before has not been decided, and never will
 * be. */
void spotnik_prepared_drop_before(struct spotnik_exchange *exchange, struct spotnik_id peer,
                                  uint64_t sequence)
{
    for (struct spotnik_prepared *prepared = exchange->prepared, *next; prepared; prepared = next) {
        next = prepared->next;
        if (!prepared->answering && prepared->sequence < sequence
            && spotnik_id_equal(prepared->peer, peer))
            spotnik_prepared_drop(exchange, prepared);
    }
}

static bool is_in_doubt(const struct spotnik_prepared *prepared)
{
    return !prepared->session && !prepared->answering;
}

void spotnik_prepared_prune(struct spotnik_exchange *exchange)
{
    struct spotnik_id peer[8];
    uint32_t count = 0;

    pthread_mutex_lock(&exchange->lock);
    for (struct spotnik_prepared *prepared = exchange->prepared; prepared && count < 8;
         prepared = prepared->next)
        if (is_in_doubt(prepared))
            peer[count++] = prepared->peer;
    pthread_mutex_unlock(&exchange->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (spotnik_peer_is_in_view(exchange, peer[i]))
            continue;
        pthread_mutex_lock(&exchange->lock);
        for (struct spotnik_prepared *prepared = exchange->prepared, *next; prepared;
             prepared = next) {
            next = prepared->next;
            if (is_in_doubt(prepared) && spotnik_id_equal(prepared->peer, peer[i]))
                spotnik_prepared_drop(exchange, prepared);
        }
        pthread_mutex_unlock(&exchange->lock);
    }
}
