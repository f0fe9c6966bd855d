/* SPDX-License-Identifier: Apache-2.0 */
/* Our snapshots in memory that other members of this host may read: a segment without a name. We
 * pass its file to members that ask over a Unix socket that has proved the key. Only we can write
 * to it, and none can take it away; it vanishes with the last process that has it open. */
#include <stdlib.h>

#include "exchange/inside.h"

static bool is_wanted(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool wanted = !exchange->published && !exchange->lend_tried && exchange->engine
                  && spotnik_engine_is_sharing(exchange->engine);
    exchange->lend_tried |= exchange->engine != NULL;
    pthread_mutex_unlock(&exchange->lock);
    return wanted;
}

/* Without it snapshots lie in memory of our own, and we send them on request. */
void spotnik_lend_open(struct spotnik_exchange *exchange)
{
    struct spotnik_published *published = NULL;

    if (!is_wanted(exchange))
        return;
    pthread_mutex_lock(&exchange->lend_lock);
    if (exchange->segment.fd < 0 && spotnik_segment_new(&exchange->segment) == 0)
        published = spotnik_segment_take(&exchange->segment, sizeof *published);
    pthread_mutex_unlock(&exchange->lend_lock);
    if (!published)
        return;
    spotnik_published_init(published);
    pthread_mutex_lock(&exchange->lock);
    exchange->published = published;
    pthread_mutex_unlock(&exchange->lock);
}

struct spotnik_published_copy *spotnik_lend_take(struct spotnik_exchange *exchange, uint64_t bytes)
{
    pthread_mutex_lock(&exchange->lend_lock);
    struct spotnik_published_copy *copy =
        spotnik_segment_take(&exchange->segment, sizeof *copy + bytes);
    pthread_mutex_unlock(&exchange->lend_lock);
    return copy;
}

uint64_t spotnik_lend_offset(const struct spotnik_exchange *exchange,
                             const struct spotnik_edition *edition)
{
    if (!edition->lent)
        return SPOTNIK_PUBLISHED_ELSEWHERE;
    return (uint64_t)((const uint8_t *)edition->copy - exchange->segment.base);
}

int spotnik_lend_serve(struct spotnik_exchange_session *session)
{
    struct spotnik_exchange *exchange = session->exchange;
    struct spotnik_exchange_head head = { .kind = SPOTNIK_EXCHANGE_LEND };

    pthread_mutex_lock(&exchange->lock);
    bool lent = exchange->published != NULL;
    pthread_mutex_unlock(&exchange->lock);
    if (lent && spotnik_pipe_is_local(session->pipe.fd))
        return spotnik_pipe_write_file(&session->pipe, &head, exchange->segment.fd);
    head.kind = SPOTNIK_EXCHANGE_ABSENT;
    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

void spotnik_lend_free(struct spotnik_exchange *exchange)
{
    if (exchange->segment.fd >= 0)
        spotnik_segment_free(&exchange->segment);
}
