/* SPDX-License-Identifier: Apache-2.0 */
/* Our snapshots in memory that other members of this host may read: a segment without a name. We
 * pass its file to members that ask over a Unix socket that has proved the key. Only we can write
 * to it, and none can take it away; it vanishes with the last process that has it open. */
#include <stdlib.h>

#include "p2p/inside.h"

static bool is_wanted(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    bool wanted = !p2p->published && !p2p->lend_tried && p2p->runtime
                  && spotnik_runtime_is_sharing(p2p->runtime);
    p2p->lend_tried |= p2p->runtime != NULL;
    pthread_mutex_unlock(&p2p->lock);
    return wanted;
}

/* Without it snapshots lie in memory of our own, and we send them on request. */
void spotnik_export_open(struct spotnik_p2p *p2p)
{
    struct spotnik_published *published = NULL;

    if (!is_wanted(p2p))
        return;
    pthread_mutex_lock(&p2p->export_lock);
    if (p2p->segment.fd < 0 && spotnik_segment_new(&p2p->segment) == 0)
        published = spotnik_segment_take(&p2p->segment, sizeof *published);
    pthread_mutex_unlock(&p2p->export_lock);
    if (!published)
        return;
    spotnik_published_init(published);
    pthread_mutex_lock(&p2p->lock);
    p2p->published = published;
    pthread_mutex_unlock(&p2p->lock);
}

struct spotnik_published_copy *spotnik_export_take(struct spotnik_p2p *p2p, uint64_t bytes)
{
    pthread_mutex_lock(&p2p->export_lock);
    struct spotnik_published_copy *copy = spotnik_segment_take(&p2p->segment, sizeof *copy + bytes);
    pthread_mutex_unlock(&p2p->export_lock);
    return copy;
}

uint64_t spotnik_export_offset(const struct spotnik_p2p *p2p,
                               const struct spotnik_p2p_version *held)
{
    if (!held->lent)
        return SPOTNIK_PUBLISHED_ELSEWHERE;
    return (uint64_t)((const uint8_t *)held->copy - p2p->segment.base);
}

int spotnik_export_serve(struct spotnik_p2p_session *session)
{
    struct spotnik_p2p *p2p = session->p2p;
    struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_EXPORT };

    pthread_mutex_lock(&p2p->lock);
    bool lent = p2p->published != NULL;
    pthread_mutex_unlock(&p2p->lock);
    if (lent && spotnik_duplex_is_local(&session->duplex))
        return spotnik_pipe_write_file(&session->pipe, &head, p2p->segment.fd);
    head.kind = SPOTNIK_P2P_ABSENT;
    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

void spotnik_export_free(struct spotnik_p2p *p2p)
{
    if (p2p->segment.fd >= 0)
        spotnik_segment_free(&p2p->segment);
}
