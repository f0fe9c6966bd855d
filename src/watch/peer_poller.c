/* SPDX-License-Identifier: Apache-2.0 */
/* What the other members say of themselves. A thread asks them for their status, as `spotnik
 * status` would. It asks each once when it comes, for the address of its page, its price and what
 * it remembers of the past. While a browser reads the page it asks all of them in turn. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "link/address.h"
#include "link/dial.h"
#include "watch/inside.h"

#define TURN_NS SPOTNIK_S
#define ASK_TIMEOUT_NS SPOTNIK_S
#define AGAIN_NS (2 * SPOTNIK_S)
#define FIRST_AGAIN_NS (3 * SPOTNIK_S) /* one that did not answer at all */
/* so long after the last question the page counts as looked at */
#define WATCHED_NS (5 * SPOTNIK_S)
#define ASKED_A_TURN 32
#define DATE_MAX 1e11 /* seconds that every reader can make a date of */

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

/* The member to ask next: newcomers first, then the one asked longest ago. */
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

/* What another member tells of an event, field by field: nothing else of it goes on to readers.
 * NULL: it is no event. */
static json_t *event_take(const json_t *event)
{
    static const char names[] = "abcdefghijklmnopqrstuvwxyz_", digits[] = "0123456789",
                      hex[] = "0123456789abcdef";
    const char *id = words(event, "id"), *name = words(event, "event"),
               *member = words(event, "member");
    double date = real(event, "t");

    if (*id != 'S' || strlen(id) != 4 || id[1 + strspn(id + 1, digits)] || !*name
        || name[strspn(name, names)] || member[strspn(member, hex)]
        || !(date > 0 && date < DATE_MAX))
        return NULL;
    return json_pack("{s:f, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "t", date, "id", id, "event", name,
                     "member", member, "step", (json_int_t)whole(event, "step"), "epoch",
                     (json_int_t)whole(event, "epoch"), "size", (json_int_t)whole(event, "size"),
                     "text", words(event, "text"));
}

static void adopt_event(struct spotnik_watch *watch, const json_t *told)
{
    json_t *event = event_take(told);
    char key[80], *line = event ? json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    const char *id = words(event, "id");

    if (!strncmp(id, "S11", 3))
        snprintf(key, sizeof key, "%.8s %" PRIu64, id, whole(event, "epoch"));
    else
        snprintf(key, sizeof key, "%.8s %.32s %.3f", id, words(event, "member"), real(event, "t"));
    if (!line || strlen(line) >= EVENT_MAX
        || !spotnik_watch_event_add(watch, real(event, "t"), key, line))
        free(line);
    json_decref(event);
}

static bool is_on_loopback(const struct spotnik_watch *watch)
{
    uint8_t address[16];
    uint16_t port;

    return watch->http && !spotnik_address_parse(spotnik_http_where(watch->http), address, &port)
           && spotnik_address_is_loopback(address);
}

/* Where its page is, as it says: browsers and Prometheus go there. So it must be the address by
 * which it stands in the view, or loopback where ours is there, too. */
static void http_take(const struct spotnik_watch *watch, struct other *other, const char *said)
{
    uint8_t address[16];
    uint16_t port = 0;

    other->http[0] = '\0';
    if (said[strspn(said, "0123456789abcdefABCDEF.:[]")] /* a name would be looked up */
        || spotnik_address_parse(said, address, &port) || !port)
        return;
    other->http_at_member = !memcmp(address, other->member.address, sizeof address);
    if (other->http_at_member || (spotnik_address_is_loopback(address) && is_on_loopback(watch)))
        spotnik_address_format(other->http, address, port);
}

static void adopt(struct spotnik_watch *watch, struct other *other, const json_t *answer,
                  uint64_t now_ns)
{
    const json_t *pace = json_object_get(answer, "pace"), *event;
    size_t index;

    http_take(watch, other, words(answer, "http"));
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

void *spotnik_watch_ask(void *context)
{
    struct spotnik_watch *watch = context;

    pthread_setname_np(pthread_self(), "spotnik-ask");
    while (!__atomic_load_n(&watch->stopping, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < ASKED_A_TURN && !__atomic_load_n(&watch->stopping, __ATOMIC_ACQUIRE);
             i++)
            if (!ask_one(watch))
                break;
        spotnik_flag_wait(&watch->ask, TURN_NS);
    }
    return NULL;
}
