/* SPDX-License-Identifier: Apache-2.0 */
/* What is published under one name. The writer takes a buffer that is neither the newest nor
 * pinned, so it never waits. Three buffers suffice if readers are done before two more
 * publications. A slower reader keeps its own until it is done, and the writer gets another; there
 * are never more than readers and two. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/wake.h"
#include "p2p/inside.h"

#define EDITIONS_KEPT 3

struct spotnik_topic *spotnik_topic_find(const struct spotnik_p2p *p2p, const char *name)
{
    struct spotnik_topic *topic = p2p->topics;

    while (topic && strcmp(topic->name, name) != 0)
        topic = topic->next;
    return topic;
}

/* ---- the writer ---- */

static int topic_new(struct spotnik_p2p *p2p, const char *name, uint64_t count,
                     enum spotnik_dtype dtype, struct spotnik_topic **ret)
{
    struct spotnik_topic *topic = calloc(1, sizeof *topic);

    if (p2p->topic_count >= SPOTNIK_P2P_TOPICS_MAX) {
        free(topic);
        return spotnik_error_return(SPOTNIK_ERR_LIMIT, "%s: at most %d names can be published",
                                    name, SPOTNIK_P2P_TOPICS_MAX);
    }
    if (!topic)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to publish %s", name);
    memcpy(topic->name, name, strlen(name) + 1);
    topic->dtype = dtype;
    topic->count = count;
    topic->bytes = count * spotnik_dtype_bytes(dtype);
    if (p2p->published)
        topic->row = spotnik_published_add(p2p->published, name, (uint64_t)dtype, topic->bytes);
    topic->next = p2p->topics;
    p2p->topics = topic;
    p2p->topic_count++;
    *ret = topic;
    return 0;
}

static int topic_get(struct spotnik_p2p *p2p, const char *name, uint64_t count,
                     enum spotnik_dtype dtype, struct spotnik_topic **ret)
{
    struct spotnik_topic *topic = spotnik_topic_find(p2p, name);

    if (!topic)
        return topic_new(p2p, name, count, dtype, ret);
    if (topic->count != count || topic->dtype != dtype)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s was published with %llu elements of type %d before; give "
                                    "another name to something else",
                                    name, (unsigned long long)topic->count, (int)topic->dtype);
    *ret = topic;
    return 0;
}

/* Room that is lent has no other use, and stays with its topic. */
static void edition_free(struct spotnik_edition *edition)
{
    if (!edition->lent)
        free(edition->copy);
    free(edition);
}

/* The one published first, so that direct readers had the longest time for it. NULL: a new one is
 * needed. */
static struct spotnik_edition *edition_find(const struct spotnik_topic *topic)
{
    struct spotnik_edition *oldest = NULL;

    for (struct spotnik_edition *one = topic->editions;
         one && topic->edition_count >= EDITIONS_KEPT; one = one->next)
        if (!one->pins && one != topic->newest && (!oldest || one->taken < oldest->taken))
            oldest = one;
    return oldest;
}

/* Without the lock: megabytes are not had in no time. NULL: no memory. */
static struct spotnik_edition *edition_new(struct spotnik_p2p *p2p,
                                           const struct spotnik_topic *topic)
{
    struct spotnik_edition *edition = calloc(1, sizeof *edition);

    if (!edition)
        return NULL;
    edition->copy = topic->row ? spotnik_lend_take(p2p, topic->bytes) : NULL;
    edition->lent = edition->copy != NULL;
    if (!edition->copy)
        edition->copy = calloc(1, sizeof *edition->copy + topic->bytes);
    if (edition->copy)
        return edition;
    free(edition);
    return NULL;
}

/* Pinned for the writer. Under the lock, which is given up meanwhile. NULL: no memory. */
static struct spotnik_edition *edition_take(struct spotnik_p2p *p2p, struct spotnik_topic *topic)
{
    struct spotnik_edition *edition = edition_find(topic);

    if (!edition) {
        pthread_mutex_unlock(&p2p->lock);
        edition = edition_new(p2p, topic);
        pthread_mutex_lock(&p2p->lock);
        if (!edition)
            return NULL;
        edition->next = topic->editions;
        topic->editions = edition;
        topic->edition_count++;
    }
    edition->pins++;
    edition->taken = ++topic->published;
    return edition;
}

/* Those that wait for something, and look whether this is it. */
static void wake_sessions(struct spotnik_p2p *p2p)
{
    for (struct spotnik_p2p_session *session = p2p->sessions; session; session = session->next)
        if (session->awaits)
            spotnik_wake(session->pipe.wake_fd);
}

static void show(const struct spotnik_p2p *p2p, const struct spotnik_topic *topic)
{
    if (topic->row)
        spotnik_published_show(topic->row, topic->newest ? spotnik_lend_offset(p2p, topic->newest)
                                                         : SPOTNIK_PUBLISHED_NOTHING);
}

int spotnik_p2p_publish(struct spotnik_p2p *p2p, const char *name, const void *data, uint64_t count,
                        enum spotnik_dtype dtype, uint64_t version)
{
    struct spotnik_topic *topic = NULL;

    spotnik_lend_open(p2p);
    pthread_mutex_lock(&p2p->lock);
    int rc = topic_get(p2p, name, count, dtype, &topic);
    struct spotnik_edition *edition = rc ? NULL : edition_take(p2p, topic);
    pthread_mutex_unlock(&p2p->lock);
    if (!edition)
        return rc ? rc : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to publish %s", name);
    spotnik_published_write(edition->copy, data, topic->bytes, version);
    pthread_mutex_lock(&p2p->lock);
    edition->version = version;
    topic->newest = edition;
    show(p2p, topic);
    spotnik_topic_unpin(topic, edition);
    wake_sessions(p2p);
    pthread_mutex_unlock(&p2p->lock);
    return 0;
}

/* ---- readers ---- */

/* 0: *ret_edition is pinned; NULL: there is none that is new enough. MISMATCH: not what was asked
 * for. */
int spotnik_topic_pin(struct spotnik_p2p *p2p, const struct spotnik_p2p_head *asked,
                      struct spotnik_topic **ret_topic, struct spotnik_edition **ret_edition)
{
    struct spotnik_topic *topic = spotnik_topic_find(p2p, asked->name);
    struct spotnik_edition *newest = topic ? topic->newest : NULL;

    if (topic && (topic->bytes != asked->bytes || (uint8_t)topic->dtype != asked->dtype))
        return SPOTNIK_ERR_MISMATCH;
    *ret_topic = topic;
    *ret_edition = newest && newest->version >= asked->version ? newest : NULL;
    if (*ret_edition)
        newest->pins++;
    return 0;
}

/* What a slow reader had kept is given back, unless it will be needed again. */
void spotnik_topic_unpin(struct spotnik_topic *topic, struct spotnik_edition *edition)
{
    SPOTNIK_ASSERT(edition->pins > 0);
    edition->pins--;
    for (struct spotnik_edition **at = &topic->editions; *at;) {
        struct spotnik_edition *one = *at;
        if (topic->edition_count > EDITIONS_KEPT && one->pins == 0 && one != topic->newest
            && !one->lent) {
            *at = one->next;
            topic->edition_count--;
            edition_free(one);
        } else {
            at = &one->next;
        }
    }
}

/* What was published here was that of another member. */
void spotnik_topics_clear(struct spotnik_p2p *p2p)
{
    for (struct spotnik_topic *topic = p2p->topics; topic; topic = topic->next) {
        topic->newest = NULL;
        show(p2p, topic);
    }
}

void spotnik_topics_free(struct spotnik_p2p *p2p)
{
    while (p2p->topics) {
        struct spotnik_topic *topic = p2p->topics;
        p2p->topics = topic->next;
        while (topic->editions) {
            struct spotnik_edition *edition = topic->editions;
            topic->editions = edition->next;
            edition_free(edition);
        }
        free(topic);
    }
}
