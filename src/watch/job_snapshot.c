/* SPDX-License-Identifier: Apache-2.0 */
/* The whole job as one member knows it, as JSON. All here runs with the watcher's lock held. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "link/address.h"
#include "metrics/text.h"
#include "watch/inside.h"

static double age_s(const struct spotnik_watch *watch, uint64_t at_ns)
{
    return at_ns && watch->now->now_ns > at_ns ? (double)(watch->now->now_ns - at_ns) / 1e9 : 0;
}

/* JSON has no infinity. */
static json_t *number(double x)
{
    return json_real(spotnik_text_finite(x));
}

static double dollars_of(const struct spotnik_watch *watch, const struct other *other)
{
    uint64_t until_ns = other->gone_ns ? other->gone_ns : watch->now->now_ns;

    return other->known && until_ns > other->born_ns
               ? other->dollars_per_hour * (double)(until_ns - other->born_ns) / 3.6e12
               : 0;
}

static double dollars_all(const struct spotnik_watch *watch)
{
    const struct spotnik_watched *now = watch->now;
    double sum =
        watch->gone_dollars + now->dollars_per_hour * (double)(now->now_ns - now->born_ns) / 3.6e12;

    for (uint32_t i = 0; i < watch->other_count; i++)
        sum += dollars_of(watch, watch->other[i]);
    return sum;
}

static json_t *other_json(const struct spotnik_watch *watch, const struct other *other)
{
    char address[SPOTNIK_ADDRESS_TEXT], member[33];

    snprintf(member, sizeof member, "%016" PRIx64 "%016" PRIx64, other->member.id.high,
             other->member.id.low);
    spotnik_address_format(address, other->member.address, other->member.port);
    return json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:f, s:f, s:b, s:b, s:I, s:I, s:I, s:o, s:o, "
                     "s:o, s:o, s:o}",
                     "member", member, "address", address, "http", other->http, "http_at_member",
                     other->http_at_member, "in_view", other->in_view, "known", other->known,
                     "gone_s", age_s(watch, other->gone_ns), "answered_s",
                     age_s(watch, other->answered_ns), "parked", other->parked, "joining",
                     other->joining, "step", (json_int_t)other->step, "samples",
                     (json_int_t)other->samples, "share", (json_int_t)other->share, "steps_per_s",
                     number(other->steps_per_s), "compute_ms", number(other->compute_ms),
                     "commit_ms", number(other->commit_ms), "goodput", number(other->goodput),
                     "dollars", number(dollars_of(watch, other)));
}

static json_t *others_json(const struct spotnik_watch *watch)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < watch->other_count; i++)
        json_array_append_new(list, other_json(watch, watch->other[i]));
    return list;
}

static json_t *strip_json(const struct spotnik_watch *watch)
{
    uint32_t first = (watch->strip_next + STRIP_MAX - watch->strip_count) % STRIP_MAX;
    json_t *list = json_array();

    for (uint32_t i = 0; i < watch->strip_count; i++) {
        const struct point *point = &watch->strip[(first + i) % STRIP_MAX];
        json_array_append_new(list, json_pack("[o, I, o, I, o]", number(age_s(watch, point->at_ns)),
                                              (json_int_t)point->step, number(point->steps_per_s),
                                              (json_int_t)point->size,
                                              point->has_loss ? number(point->loss) : json_null()));
    }
    return list;
}

static json_t *recovery_json(const struct spotnik_watch *watch)
{
    const spotnik_job_status *status = &watch->now->status;
    const spotnik_recovery *last = NULL;
    uint64_t ns[SPOTNIK_PHASES];
    char name[32];

    for (uint32_t i = 0; i < status->recovery_count; i++)
        if (status->recovery[i].lost)
            last = &status->recovery[i];
    if (!last)
        return json_null();
    spotnik_watched_phases(last, ns);
    json_t *ret = json_pack("{s:I, s:I, s:f}", "epoch", (json_int_t)last->epoch, "lost",
                            (json_int_t)last->lost, "ago_s", age_s(watch, last->detected_ns));
    for (int i = 0; i < SPOTNIK_PHASES; i++) {
        snprintf(name, sizeof name, "%s_ms", spotnik_phase_name[i]);
        json_object_set_new(ret, name, json_real((double)ns[i] / 1e6));
    }
    return ret;
}

static json_t *events_json(const struct spotnik_watch *watch)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < watch->event_count; i++)
        json_array_append_new(list, json_loads(watch->event[i].line, 0, NULL));
    return list;
}

static double mean_ms(const struct spotnik_watched *now, int part)
{
    uint64_t steps = now->pace.steps;

    return steps ? (double)now->pace.part_ns[part] / 1e6 / (double)steps : 0;
}

static json_t *budget_json(void)
{
    const char *budget = getenv("SPOTNIK_BUDGET");

    return budget && *budget ? number(strtod(budget, NULL)) : json_null();
}

static json_t *sums_json(const struct spotnik_watch *watch)
{
    const struct spotnik_watched *now = watch->now;

    return json_pack("{s:f, s:I, s:I, s:I, s:o, s:f, s:f, s:f, s:o, s:o}", "date",
                     spotnik_watch_date(), "losses", (json_int_t)now->sums.losses, "joins",
                     (json_int_t)now->sums.joins, "leaves", (json_int_t)now->sums.leaves, "goodput",
                     number(spotnik_watched_goodput(now)), "lost_s",
                     (double)spotnik_watched_lost_ns(now) / 1e9, "compute_ms",
                     mean_ms(now, SPOTNIK_PACE_COMPUTE), "commit_ms",
                     mean_ms(now, SPOTNIK_PACE_COMMIT), "dollars", number(dollars_all(watch)),
                     "budget", budget_json());
}

static json_t *checkpoint_json(const struct spotnik_watch *watch)
{
    return json_pack("{s:b, s:I, s:f}", "wanted", watch->now->checkpoint.size != 0, "step",
                     (json_int_t)watch->now->checkpoint.complete_step, "age_s",
                     age_s(watch, watch->now->checkpoint_seen_ns));
}

/* One line, as server-sent events want it. */
static char *dump(json_t *value, size_t *ret_size)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));

    *ret_size = text ? strlen(text) : 0;
    json_decref(value);
    return text;
}

/* The member's own status is the text that any question gets; what it knows of the rest stands
 * beside it. */
char *spotnik_watch_job_snapshot(struct spotnik_watch *watch, size_t *ret_size)
{
    json_t *story = sums_json(watch),
           *status = json_loadb(watch->status, watch->status_size, 0, NULL);

    json_object_set_new(story, "status", status ? status : json_object());
    json_object_set_new(story, "last_recovery", recovery_json(watch));
    json_object_set_new(story, "checkpoint", checkpoint_json(watch));
    json_object_set_new(story, "others", others_json(watch));
    json_object_set_new(story, "strip", strip_json(watch));
    json_object_set_new(story, "events", events_json(watch));
    return dump(story, ret_size);
}

/* What Prometheus wants from its http_sd_configs: any member names all of them. */
char *spotnik_watch_targets(struct spotnik_watch *watch, size_t *ret_size)
{
    json_t *targets = json_pack("[s]", spotnik_watch_where(watch));

    for (uint32_t i = 0; i < watch->other_count; i++)
        if (watch->other[i]->in_view && watch->other[i]->http[0])
            json_array_append_new(targets, json_string(watch->other[i]->http));
    return dump(json_pack("[{s:o, s:{s:s}}]", "targets", targets, "labels", "job_name",
                          watch->now->job),
                ret_size);
}

/* How another member reaches our page: by the address of the job, where the page is on all of
 * them. */
static void put_where(const struct spotnik_watch *watch, struct spotnik_text *out)
{
    char address[SPOTNIK_ADDRESS_TEXT];

    if (!watch->http)
        return;
    spotnik_address_format(address, watch->credentials.self.address,
                           spotnik_http_port(watch->http));
    spotnik_text_add(out, ",\"http\":\"%s\"",
                     spotnik_http_is_any(watch->http) ? address : spotnik_http_where(watch->http));
}

size_t spotnik_watch_extra(struct spotnik_watch *watch, char *text, size_t size)
{
    struct spotnik_text out = { text, size, false };

    if (pthread_mutex_trylock(&watch->lock))
        return 0; /* the progress thread asks, which must not wait for us */
    put_where(watch, &out);
    spotnik_text_add(&out, ",\"goodput\":%.4f,\"events\":[", spotnik_watched_goodput(watch->now));
    uint32_t first = watch->event_count > EVENTS_TOLD ? watch->event_count - EVENTS_TOLD : 0;
    for (uint32_t i = first; i < watch->event_count; i++)
        spotnik_text_add(&out, "%s%s", i > first ? "," : "", watch->event[i].line);
    spotnik_text_add(&out, "]");
    pthread_mutex_unlock(&watch->lock);
    return out.full ? 0 : size - out.left;
}
