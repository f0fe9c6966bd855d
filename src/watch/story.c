/* SPDX-License-Identifier: Apache-2.0 */
/* The whole job as one member knows it, as JSON. All here runs with the watcher's lock held. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "link/address.h"
#include "metrics/text.h"
#include "watch/inside.h"

static double age_s(const struct spotnik_watch *watch, uint64_t at_ns)
{
    return at_ns && watch->now->now_ns > at_ns ? (double)(watch->now->now_ns - at_ns) / 1e9 : 0;
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

static void put_other(FILE *out, const struct spotnik_watch *watch, const struct other *other)
{
    char address[SPOTNIK_ADDRESS_TEXT];

    fprintf(out, "{\"member\":\"%016" PRIx64 "%016" PRIx64 "\",\"address\":\"%s\",\"http\":\"%s\"",
            other->member.id.high, other->member.id.low,
            spotnik_address_format(address, other->member.address, other->member.port),
            other->http);
    fprintf(out, ",\"in_view\":%s,\"known\":%s,\"gone_s\":%.1f,\"answered_s\":%.1f",
            other->in_view ? "true" : "false", other->known ? "true" : "false",
            age_s(watch, other->gone_ns), age_s(watch, other->answered_ns));
    fprintf(out,
            ",\"parked\":%s,\"joining\":%s,\"step\":%" PRIu64 ",\"samples\":%" PRIu64
            ",\"share\":%" PRIu64,
            other->parked ? "true" : "false", other->joining ? "true" : "false", other->step,
            other->samples, other->share);
    fprintf(out,
            ",\"steps_per_s\":%.3f,\"compute_ms\":%.3f,\"commit_ms\":%.3f,\"goodput\":%.4f,"
            "\"dollars\":%.6g}",
            other->steps_per_s, other->compute_ms, other->commit_ms, other->goodput,
            dollars_of(watch, other));
}

static void put_strip(FILE *out, const struct spotnik_watch *watch)
{
    uint32_t first = (watch->strip_next + STRIP_MAX - watch->strip_count) % STRIP_MAX;

    for (uint32_t i = 0; i < watch->strip_count; i++) {
        const struct point *point = &watch->strip[(first + i) % STRIP_MAX];

        fprintf(out, "%s[%.1f,%" PRIu64 ",%.2f,%" PRIu32 ",", i ? "," : "",
                age_s(watch, point->at_ns), point->step, (double)point->steps_per_s, point->size);
        if (point->has_loss)
            fprintf(out, "%.6g]", spotnik_text_finite(point->loss));
        else
            fprintf(out, "null]");
    }
}

static void put_phases(FILE *out, const struct spotnik_watch *watch)
{
    const spotnik_job_status *status = &watch->now->status;
    const spotnik_recovery *last = NULL;
    uint64_t ns[SPOTNIK_PHASES];

    for (uint32_t i = 0; i < status->recovery_count; i++)
        if (status->recovery[i].lost)
            last = &status->recovery[i];
    if (!last) {
        fprintf(out, ",\"last_recovery\":null");
        return;
    }
    spotnik_watched_phases(last, ns);
    fprintf(out, ",\"last_recovery\":{\"epoch\":%" PRIu64 ",\"lost\":%" PRIu32 ",\"ago_s\":%.1f",
            last->epoch, last->lost, age_s(watch, last->detected_ns));
    for (int i = 0; i < SPOTNIK_PHASES; i++)
        fprintf(out, ",\"%s_ms\":%.3f", spotnik_phase_name[i], (double)ns[i] / 1e6);
    fprintf(out, "}");
}

static void put_sums(FILE *out, const struct spotnik_watch *watch)
{
    const struct spotnik_watched *now = watch->now;

    fprintf(out, ",\"losses\":%" PRIu64 ",\"joins\":%" PRIu64 ",\"leaves\":%" PRIu64,
            now->sums.losses, now->sums.joins, now->sums.leaves);
    fprintf(out, ",\"goodput\":%.4f,\"lost_s\":%.3f,\"compute_ms\":%.3f,\"commit_ms\":%.3f",
            spotnik_watched_goodput(now), (double)spotnik_watched_lost_ns(now) / 1e9,
            now->pace.steps
                ? (double)now->pace.part_ns[SPOTNIK_PACE_COMPUTE] / 1e6 / (double)now->pace.steps
                : 0,
            now->pace.steps
                ? (double)now->pace.part_ns[SPOTNIK_PACE_COMMIT] / 1e6 / (double)now->pace.steps
                : 0);
    const char *budget = getenv("SPOTNIK_BUDGET");
    bool said = budget && *budget;
    fprintf(out, ",\"dollars\":%.6g,\"budget\":%s", dollars_all(watch), said ? "" : "null");
    if (said)
        fprintf(out, "%.6g", spotnik_text_finite(strtod(budget, NULL)));
}

/* The member's own status is the text that any question gets; what it knows of the rest stands
 * beside it. */
char *spotnik_watch_story(struct spotnik_watch *watch, size_t *ret_size)
{
    size_t length = watch->status_size;
    char *story = NULL;
    FILE *out = open_memstream(&story, ret_size);

    if (!out)
        return NULL;
    while (length && watch->status[length - 1] == '\n')
        length--; /* one line, as server-sent events want it */
    fprintf(out, "{\"date\":%.3f,\"status\":%.*s", spotnik_watch_date(), length ? (int)length : 2,
            length ? watch->status : "{}");
    put_sums(out, watch);
    put_phases(out, watch);
    fprintf(out, ",\"checkpoint\":{\"wanted\":%s,\"step\":%" PRIu64 ",\"age_s\":%.1f}",
            watch->now->checkpoint.size ? "true" : "false", watch->now->checkpoint.complete_step,
            age_s(watch, watch->now->checkpoint_seen_ns));
    fprintf(out, ",\"others\":[");
    for (uint32_t i = 0; i < watch->other_count; i++) {
        fprintf(out, "%s", i ? "," : "");
        put_other(out, watch, watch->other[i]);
    }
    fprintf(out, "],\"strip\":[");
    put_strip(out, watch);
    fprintf(out, "],\"events\":[");
    for (uint32_t i = 0; i < watch->event_count; i++)
        fprintf(out, "%s%s", i ? "," : "", watch->event[i].line);
    fprintf(out, "]}");
    if (fclose(out)) {
        free(story);
        return NULL;
    }
    return story;
}

/* What Prometheus wants from its http_sd_configs: any member names all of them. */
char *spotnik_watch_targets(struct spotnik_watch *watch, size_t *ret_size)
{
    char *text = NULL;
    char job[600];
    struct spotnik_text quoted = { job, sizeof job, false };
    FILE *out = open_memstream(&text, ret_size);

    if (!out)
        return NULL;
    spotnik_text_quote(&quoted, watch->now->job);
    fprintf(out, "[{\"targets\":[\"%s\"", spotnik_watch_where(watch));
    for (uint32_t i = 0; i < watch->other_count; i++)
        if (watch->other[i]->in_view && watch->other[i]->http[0])
            fprintf(out, ",\"%s\"", watch->other[i]->http);
    fprintf(out, "],\"labels\":{\"job_name\":%s}}]\n", quoted.full ? "\"\"" : job);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
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
