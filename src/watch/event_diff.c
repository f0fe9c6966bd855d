/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened between two looks. Numbers that begin anew when this process becomes another
 * member are told by the epochs of views, which only grow. */
#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "metrics/text.h"
#include "watch/inside.h"

/* for the first commit after a recovery, before it is written without */
#define PATIENCE_NS (5 * SPOTNIK_S)
#define REFUSED_PAUSE_NS (60 * SPOTNIK_S)
#define SAMPLE_FIRST_NS SPOTNIK_S
#define SAMPLE_PAUSE_MAX_NS (30 * SPOTNIK_S)
#define SAMPLE_OTHERS 10 /* members other than the first write this many times less */

/* ---- views ---- */

static bool has_id(const struct spotnik_id *list, uint32_t count, struct spotnik_id id)
{
    for (uint32_t i = 0; i < count; i++)
        if (spotnik_id_equal(list[i], id))
            return true;
    return false;
}

/* Up to four ids, as their first eight letters, for JSON and for people. */
static void name(struct watch_names *names, struct spotnik_id id, uint32_t at)
{
    size_t json = strlen(names->json), text = strlen(names->text);

    if (at >= 4)
        return;
    snprintf(names->json + json, sizeof names->json - json, "%s\"%08" PRIx64 "\"", at ? "," : "",
             id.high >> 32);
    snprintf(names->text + text, sizeof names->text - text, "%s%08" PRIx64, at ? ", " : " (",
             id.high >> 32);
}

/* Those of `a` that are not in `b`. */
static void name_missing(struct watch_names *names, const struct spotnik_id *a, uint32_t a_count,
                         const struct spotnik_id *b, uint32_t b_count)
{
    uint32_t count = 0;

    *names = (struct watch_names){ .json = "" };
    for (uint32_t i = 0; i < a_count; i++)
        if (!has_id(b, b_count, a[i]))
            name(names, a[i], count++);
    if (count)
        strcat(names->text, count > 4 ? ", ...)" : ")");
}

/* The size of view `at`; later views may have followed it. */
static uint32_t size_then(const spotnik_job_status *status, uint32_t at)
{
    int64_t size = status->size;

    for (uint32_t i = at + 1; i < status->recovery_count; i++)
        size += (int64_t)status->recovery[i].lost + status->recovery[i].left
                - status->recovery[i].joined;
    return size > 0 ? (uint32_t)size : 0;
}

static const struct watch_change *change_of(const struct spotnik_watch *watch, uint64_t epoch)
{
    static const struct watch_change unknown;
    const struct watch_change *change = &watch->before.change[epoch % CHANGES_KEPT];

    return change->epoch == epoch ? change : &unknown;
}

/* What was known of the lost, for log and text. Nothing where one look saw several losses: which
 * count belongs to which is not known. */
static void take_cause(struct spotnik_watch *watch, const struct spotnik_watched *of, uint32_t lost,
                       char ret_json[64], char ret_text[64])
{
    struct before *before = &watch->before;
    const struct spotnik_troubles *now = &of->troubles;
    uint64_t ended = now->lost_ended - before->lost_ended,
             silent = now->lost_silent - before->lost_silent;
    uint64_t told = now->lost_told - before->lost_told;

    ret_json[0] = ret_text[0] = '\0';
    if (ended + silent + told == lost) {
        snprintf(ret_json, 64, ",\"ended\":%" PRIu64 ",\"silent\":%" PRIu64, ended, silent);
        if (silent == 0 && ended > 0)
            snprintf(ret_text, 64, ", known to have ended");
        else if (silent > 0)
            snprintf(ret_text, 64, ": %" PRIu64 " ended, %" PRIu64 " fell silent", ended, silent);
    }
    before->lost_ended = now->lost_ended;
    before->lost_silent = now->lost_silent;
    before->lost_told = now->lost_told;
}

static void tell_loss(struct spotnik_watch *watch, const struct spotnik_watched *of,
                      const spotnik_job_status *then, const spotnik_recovery *recovery,
                      double total_ms, const char *phases)
{
    const struct watch_names *gone = &change_of(watch, recovery->epoch)->gone;
    char cause_json[64], cause_text[64], more[400];
    struct spotnik_text out = { more, sizeof more, false };

    take_cause(watch, of, recovery->lost, cause_json, cause_text);
    spotnik_text_add(&out, "%s,\"count\":%" PRIu32 ",\"members\":[%s]%s", phases, recovery->lost,
                     gone->json, cause_json);
    spotnik_watch_say(watch, then, SPOTNIK_SAID_LOST, more,
                      "lost %" PRIu32 " member%s%s%s; the next commit came %.1f ms after the first "
                      "evidence, and the view has %" PRIu32,
                      recovery->lost, recovery->lost == 1 ? "" : "s", gone->text, cause_text,
                      total_ms, then->size);
}

static void tell_view(struct spotnik_watch *watch, const struct spotnik_watched *of, uint32_t at)
{
    const spotnik_recovery *recovery = &of->status.recovery[at];
    const struct watch_names *gone = &change_of(watch, recovery->epoch)->gone,
                             *came = &change_of(watch, recovery->epoch)->came;
    uint64_t ns[SPOTNIK_PHASES];
    char more[400];
    struct spotnik_text out = { more, sizeof more, false };
    uint32_t size = size_then(&of->status, at);
    spotnik_job_status then = of->status; /* the line names the view it is about */

    then.view_epoch = recovery->epoch;
    then.size = size;
    spotnik_watched_phases(recovery, ns);
    for (int i = 0; i < SPOTNIK_PHASES; i++)
        spotnik_text_add(&out, ",\"%s_ms\":%.3f", spotnik_phase_name[i], (double)ns[i] / 1e6);
    if (of->batch && size == of->status.size)
        spotnik_text_add(&out, ",\"batch\":%" PRIu64, of->batch);
    size_t phases = (size_t)(out.at - more);

    if (recovery->lost)
        tell_loss(watch, of, &then, recovery, (double)ns[SPOTNIK_PHASE_TOTAL] / 1e6, more);
    if (recovery->left) {
        snprintf(more + phases, sizeof more - phases, ",\"count\":%" PRIu32 ",\"members\":[%s]",
                 recovery->left, recovery->lost ? "" : gone->json);
        spotnik_watch_say(watch, &then, SPOTNIK_SAID_LEFT, more,
                          "%" PRIu32 " member%s left in good order%s; the view has %" PRIu32,
                          recovery->left, recovery->left == 1 ? "" : "s",
                          recovery->lost ? "" : gone->text, size);
    }
    if (recovery->joined) {
        snprintf(more + phases, sizeof more - phases, ",\"count\":%" PRIu32 ",\"members\":[%s]",
                 recovery->joined, came->json);
        spotnik_watch_say(watch, &then, SPOTNIK_SAID_JOINED, more,
                          "%" PRIu32 " member%s joined%s; the view has %" PRIu32, recovery->joined,
                          recovery->joined == 1 ? "" : "s", came->text, size);
    }
}

static void count_view(struct spotnik_watch *watch, const spotnik_recovery *recovery)
{
    uint64_t ns[SPOTNIK_PHASES];

    watch->sums.losses += recovery->lost;
    watch->sums.joins += recovery->joined;
    watch->sums.leaves += recovery->left;
    if (!recovery->lost)
        return;
    spotnik_watched_phases(recovery, ns);
    watch->sums.recoveries++;
    watch->sums.recovering_ns += ns[SPOTNIK_PHASE_TOTAL];
    for (int i = 0; i < SPOTNIK_PHASES; i++)
        spotnik_histogram_add(&watch->sums.phase[i], ns[i]);
}

/* Names are told only where they are certainly those of one change: the looks before and after it
 * saw the views on both sides. A look follows every view at once, as a rule. */
static void take_members(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;
    struct spotnik_id here[SPOTNIK_WATCHED_MEMBERS];

    if (of->view_epoch == before->members_epoch)
        return;
    for (uint32_t i = 0; i < of->member_count; i++)
        here[i] = of->member[i].id;
    bool whole = of->member_count < SPOTNIK_WATCHED_MEMBERS
                 && before->member_count < SPOTNIK_WATCHED_MEMBERS;
    if (whole && before->member_count && of->view_epoch == before->members_epoch + 1) {
        struct watch_change *change = &before->change[of->view_epoch % CHANGES_KEPT];

        change->epoch = of->view_epoch;
        name_missing(&change->gone, before->member, before->member_count, here, of->member_count);
        name_missing(&change->came, here, of->member_count, before->member, before->member_count);
    }
    memcpy(before->member, here, of->member_count * sizeof *here);
    before->member_count = of->member_count;
    before->members_epoch = of->view_epoch;
}

/* Report a recovery when a step was committed in its view, or when none can be any more. */
static void compare_views(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;
    const spotnik_job_status *status = &of->status;

    take_members(watch, of);
    for (uint32_t i = 0; i < status->recovery_count; i++) {
        const spotnik_recovery *recovery = &status->recovery[i];
        bool over = recovery->committed_ns || i + 1 < status->recovery_count
                    || of->now_ns - recovery->restarted_ns > PATIENCE_NS;

        if (recovery->epoch <= before->epoch || !over)
            continue;
        count_view(watch, recovery);
        tell_view(watch, of, i);
        before->epoch = recovery->epoch;
    }
}

/* ---- this member ---- */

static void compare_parking(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;

    if (of->status.parked && !before->parked) {
        watch->sums.parks++;
        before->parked_since_ns = of->now_ns;
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_PARKED, "",
                          "cut off from the majority of view %" PRIu64
                          ": this member keeps its state and waits",
                          of->status.view_epoch);
    }
    if (before->parked) {
        watch->sums.parked_ns += of->now_ns - before->parked_since_ns;
        before->parked_since_ns = of->now_ns;
    }
    if (!of->status.parked && before->parked)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_HEALED, "",
                          "the majority is in reach again");
    before->parked = of->status.parked;
}

static void compare_self(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;

    if (of->counters.excluded > before->excluded)
        spotnik_watch_say(
            watch, &of->status, SPOTNIK_SAID_EXCLUDED, "",
            "the others went on without this member; it copies their state and joins again");
    before->excluded = of->counters.excluded;
    if (of->troubles.steps_stalled > before->stalled)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_STALLED, "",
                          "step %" PRIu64 " waits for its commit for longer than a minute: "
                          "a member computes, or is held up",
                          of->status.step_committed + 1);
    before->stalled = of->troubles.steps_stalled;
    if (of->noticed && !before->noticed) {
        watch->sums.notices++;
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_NOTICE, "",
                          "a notice came: this member leaves at the next step boundary");
    }
    before->noticed = of->noticed;
    if (of->switches > before->switches) {
        char more[160];
        struct spotnik_text out = { more, sizeof more, false };

        spotnik_text_add(&out, ",\"strategy\":");
        spotnik_text_quote(&out, of->strategy);
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_STRATEGY, more,
                          "strategy %s since step %" PRIu64 ": %s", of->strategy, of->switched_step,
                          of->reason);
    }
    before->switches = of->switches;
}

static void compare_checkpoints(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;
    const spotnik_checkpoint_info *info = &of->checkpoint;
    char more[80];

    if (info->resumed_step != before->resumed_step)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_RESUMED, "",
                          "the job goes on from the checkpoint after step %" PRIu64,
                          info->resumed_step);
    before->resumed_step = info->resumed_step;
    if (info->complete_step > before->checkpoint_step) {
        watch->checkpoint_seen_ns = of->now_ns;
        snprintf(more, sizeof more, ",\"checkpoint\":%" PRIu64 ",\"write_ms\":%.1f",
                 info->complete_step, (double)info->write_ns / 1e6);
        if (of->status.rank == 0)
            spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_CHECKPOINT, more,
                              "checkpoint after step %" PRIu64 " is complete", info->complete_step);
    }
    before->checkpoint_step = info->complete_step;
    if (info->message[0] && strcmp(info->message, before->checkpoint_message))
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_CHECKPOINT_TROUBLE, "", "%.380s",
                          info->message);
    snprintf(before->checkpoint_message, sizeof before->checkpoint_message, "%s", info->message);
}

static void compare_door(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    struct before *before = &watch->before;

    if (of->refusals > before->refusals && of->now_ns >= before->refused_ns) {
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_REFUSED, "",
                          "turned %" PRIu64 " strangers away; the last: %s",
                          of->refusals - before->refusals, of->refusal);
        before->refusals = of->refusals;
        before->refused_ns = of->now_ns + REFUSED_PAUSE_NS;
    }
    if (of->troubles.paths_broken > before->paths_broken)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_PATH, "", "%s", of->path);
    before->paths_broken = of->troubles.paths_broken;
    if (of->troubles.altered > 0 && !before->altered)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_ALTERED, "",
                          "a message of another member was altered on its way, and refused; look "
                          "for a proxy or a faulty network between the hosts; "
                          "spotnik_integrity_failures_total counts further ones");
    before->altered = of->troubles.altered > 0;
    if (of->lineages_told > before->lineages_told)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_LINEAGE, "", "%s", of->lineage);
    before->lineages_told = of->lineages_told;
    if (of->warning[0] && strcmp(of->warning, before->warning))
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_PEERS, "", "%s", of->warning);
    snprintf(before->warning, sizeof before->warning, "%s", of->warning);
}

/* ---- how far it is ---- */

static void sample(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    char more[700];
    struct spotnik_text out = { more, sizeof more, false };

    if (!watch->next_sample_ns)
        watch->next_sample_ns = of->now_ns + SAMPLE_FIRST_NS;
    if (of->now_ns < watch->next_sample_ns)
        return;
    uint64_t pause_ns = watch->sample_pause_ns ? 2 * watch->sample_pause_ns : SAMPLE_FIRST_NS;
    watch->sample_pause_ns = spotnik_time_min(pause_ns, SAMPLE_PAUSE_MAX_NS);
    watch->next_sample_ns =
        of->now_ns + watch->sample_pause_ns * (of->status.rank == 0 ? 1 : SAMPLE_OTHERS);
    spotnik_text_add(&out,
                     ",\"uptime_s\":%.3f,\"steps_per_s\":%.4f,\"samples\":%" PRIu64
                     ",\"steps\":%" PRIu64 ",\"goodput\":%.4f,\"lost_s\":%.3f,\"batch\":%" PRIu64
                     ",\"observed\":{",
                     (double)(of->now_ns - of->born_ns) / 1e9, of->steps_per_s,
                     of->counters.samples, of->counters.steps, spotnik_watched_goodput(of),
                     (double)spotnik_watched_lost_ns(of) / 1e9, of->batch);
    for (uint32_t i = 0; i < of->observed_count && out.left > 100; i++)
        spotnik_text_add(&out, "%s\"%s\":%.9g", i ? "," : "", of->observed[i].name,
                         spotnik_text_finite(of->observed[i].value));
    spotnik_text_add(&out, "}");
    if (!out.full)
        spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_SAMPLE, more, "%s", "");
}

void spotnik_watch_compare(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    compare_views(watch, of);
    compare_parking(watch, of);
    compare_self(watch, of);
    compare_checkpoints(watch, of);
    compare_door(watch, of);
    sample(watch, of);
}
