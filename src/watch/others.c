/* SPDX-License-Identifier: Apache-2.0 */
/* What the other members say of themselves. A thread asks them for their status, as `spotnik
 * status` would. It asks each once when it comes, for the address of its page, its price and what
 * it remembers of the past. While somebody looks at the page it asks all of them in turn. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "watch/inside.h"

#define TURN_NS SPOTNIK_S
#define ASK_TIMEOUT_NS SPOTNIK_S
#define AGAIN_NS (2 * SPOTNIK_S)
#define FIRST_AGAIN_NS (3 * SPOTNIK_S) /* one that did not answer at all */
/* so long after the last question the page counts as looked at */
#define WATCHED_NS (5 * SPOTNIK_S)
#define ASKED_A_TURN 32

static uint64_t whole(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));

    return value > 0 ? (uint64_t)value : 0;
}

static double real(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static const char *words(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value ? value : "";
}

/* ---- the table, with the lock ---- */

static struct other *find(struct spotnik_watch *watch, struct spotnik_id id)
{
    for (uint32_t i = 0; i < watch->other_count; i++)
        if (spotnik_id_equal(watch->other[i]->member.id, id))
            return watch->other[i];
    return NULL;
}

static double dollars(const struct other *other, uint64_t now_ns)
{
    uint64_t until_ns = other->gone_ns ? other->gone_ns : now_ns;

    return other->known && until_ns > other->born_ns
               ? other->dollars_per_hour * (double)(until_ns - other->born_ns) / 3.6e12
               : 0;
}

/* The one that went first makes room; what it cost is kept. */
static bool make_room(struct spotnik_watch *watch)
{
    uint32_t first = OTHERS_MAX;

    if (watch->other_count < OTHERS_MAX)
        return true;
    for (uint32_t i = 0; i < watch->other_count; i++)
        if (watch->other[i]->gone_ns
            && (first == OTHERS_MAX || watch->other[i]->gone_ns < watch->other[first]->gone_ns))
            first = i;
    if (first == OTHERS_MAX)
        return false;
    watch->gone_dollars += dollars(watch->other[first], watch->now->now_ns);
    free(watch->other[first]);
    watch->other[first] = watch->other[--watch->other_count];
    return true;
}

static void take_view(struct spotnik_watch *watch)
{
    const struct spotnik_watched *now = watch->now;
    bool here[OTHERS_MAX] = { false };

    for (uint32_t i = 0; i < now->member_count; i++) {
        struct other *other = find(watch, now->member[i].id);

        if (i == now->status.rank)
            continue;
        if (!other && make_room(watch) && (other = calloc(1, sizeof *other)))
            watch->other[watch->other_count++] = other;
        if (!other)
            continue;
        other->member = now->member[i];
        other->in_view = true;
        other->gone_ns = 0;
    }
    for (uint32_t i = 0; i < watch->other_count; i++) {
        for (uint32_t j = 0; j < now->member_count; j++)
            here[i] |= spotnik_id_equal(watch->other[i]->member.id, now->member[j].id);
        if (!here[i] && watch->other[i]->in_view)
            watch->other[i]->gone_ns = now->now_ns;
        watch->other[i]->in_view = here[i];
    }
}

/* Whose turn it is: newcomers first, then the one asked longest ago. */
static struct other *choose(struct spotnik_watch *watch, uint64_t now_ns)
{
    bool watched = watch->watched_ns && now_ns - watch->watched_ns < WATCHED_NS;
    struct other *best = NULL;

    for (uint32_t i = 0; i < watch->other_count; i++) {
        struct other *other = watch->other[i];
        uint64_t pause_ns = other->known ? AGAIN_NS : FIRST_AGAIN_NS;
        bool due = other->in_view && (!other->asked_ns || now_ns - other->asked_ns >= pause_ns)
                   && (watched || !other->known);

        if (due && (!best || other->asked_ns < best->asked_ns))
            best = other;
    }
    return best;
}

/* ---- answers ---- */

static void adopt_event(struct spotnik_watch *watch, const json_t *event)
{
    const char *id = words(event, "id");
    char key[80], *line = json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII);

    if (!strncmp(id, "S11", 3))
        snprintf(key, sizeof key, "%.8s %" PRIu64, id, whole(event, "epoch"));
    else
        snprintf(key, sizeof key, "%.8s %.32s %.3f", id, words(event, "member"), real(event, "t"));
    if (!line || strlen(line) >= EVENT_MAX
        || !spotnik_watch_event_add(watch, real(event, "t"), key, line))
        free(line);
}

static void adopt(struct spotnik_watch *watch, struct other *other, const json_t *answer,
                  uint64_t now_ns)
{
    const json_t *pace = json_object_get(answer, "pace"), *event;
    size_t index;

    snprintf(other->http, sizeof other->http, "%s", words(answer, "http"));
    /* else its watcher had no time: ask again */
    other->known = json_is_array(json_object_get(answer, "events"));
    other->answered_ns = now_ns;
    other->born_ns = now_ns - spotnik_time_min(whole(answer, "uptime_ns"), now_ns);
    other->step = whole(answer, "step_committed");
    other->samples = whole(answer, "samples");
    other->share = whole(json_object_get(answer, "batching"), "share");
    other->steps_per_s = real(answer, "steps_per_s");
    other->dollars_per_hour = real(answer, "dollars_per_hour");
    other->goodput = real(answer, "goodput");
    other->parked = json_is_true(json_object_get(answer, "parked"));
    other->joining = json_is_true(json_object_get(answer, "joining"));
    uint64_t steps = whole(pace, "steps");
    other->compute_ms = steps ? (double)whole(pace, "compute_ns") / 1e6 / (double)steps : 0;
    other->commit_ms = steps ? (double)whole(pace, "commit_ns") / 1e6 / (double)steps : 0;
    json_array_foreach(json_object_get(answer, "events"), index, event) adopt_event(watch, event);
}

static json_t *question(struct spotnik_watch *watch, const struct spotnik_member *member)
{
    char *text;
    size_t size;

    if (spotnik_net_question(&watch->credentials, member->address, member->port,
                             SPOTNIK_PURPOSE_STATUS, ASK_TIMEOUT_NS, &text, &size))
        return NULL;
    json_t *answer = json_loadb(text, size, 0, NULL);
    free(text);
    return answer;
}

/* The lock is not held while another member is waited for. */
static bool ask_one(struct spotnik_watch *watch)
{
    uint64_t now_ns = spotnik_clock_ns();

    pthread_mutex_lock(&watch->lock);
    take_view(watch);
    struct other *other = choose(watch, now_ns);
    struct spotnik_member member = other ? other->member : (struct spotnik_member){ .port = 0 };
    if (other)
        other->asked_ns = now_ns;
    pthread_mutex_unlock(&watch->lock);
    if (!member.port)
        return false;
    json_t *answer = question(watch, &member);
    pthread_mutex_lock(&watch->lock);
    other = find(watch, member.id);
    if (answer && other)
        adopt(watch, other, answer, spotnik_clock_ns());
    pthread_mutex_unlock(&watch->lock);
    json_decref(answer);
    return true;
}

void spotnik_watch_pause(sem_t *news, uint64_t timeout_ns)
{
    struct timespec until = spotnik_clock_timespec(spotnik_clock_ns() + timeout_ns);

    while (sem_clockwait(news, CLOCK_MONOTONIC, &until) && errno == EINTR)
        continue;
    while (!sem_trywait(news))
        continue;
}

void *spotnik_watch_ask(void *context)
{
    struct spotnik_watch *watch = context;

    pthread_setname_np(pthread_self(), "spotnik-ask");
    while (!__atomic_load_n(&watch->stopping, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < ASKED_A_TURN && !__atomic_load_n(&watch->stopping, __ATOMIC_ACQUIRE);
             i++)
            if (!ask_one(watch))
                break;
        spotnik_watch_pause(&watch->ask, TURN_NS);
    }
    return NULL;
}
