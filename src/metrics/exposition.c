/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in Prometheus' text format, version 0.0.4. Base units, `_total` on what only grows, one
 * unit a metric. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "metrics/text.h"
#include "metrics/watched.h"

#define add spotnik_text_add

const char *const spotnik_phase_name[SPOTNIK_PHASES] = { "reconcile", "accept", "restart", "commit",
                                                         "total" };

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void head(struct spotnik_text *text, const char *name, const char *type, const char *help)
{
    add(text, "# HELP spotnik_%s %s\n# TYPE spotnik_%s %s\n", name, help, name, type);
}

static void counter(struct spotnik_text *text, const char *name, uint64_t value, const char *help)
{
    head(text, name, "counter", help);
    add(text, "spotnik_%s %" PRIu64 "\n", name, value);
}

static void gauge(struct spotnik_text *text, const char *name, double value, const char *help)
{
    head(text, name, "gauge", help);
    add(text, "spotnik_%s %.12g\n", name, value);
}

static void counter_real(struct spotnik_text *text, const char *name, double value,
                         const char *help)
{
    head(text, name, "counter", help);
    add(text, "spotnik_%s %.12g\n", name, value);
}

/* `labels` is "" or ends in a comma. */
static void histogram(struct spotnik_text *text, const char *name, const char *labels,
                      const struct spotnik_histogram *of)
{
    uint64_t count = 0;
    int length = (int)strlen(labels);

    for (unsigned i = 0; i < SPOTNIK_HISTOGRAM_BUCKETS; i++) {
        count += of->bucket[i];
        add(text, "spotnik_%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, labels,
            spotnik_histogram_bound(i), count);
    }
    count += of->bucket[SPOTNIK_HISTOGRAM_BUCKETS];
    add(text, "spotnik_%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, count);
    const char *open = length ? "{" : "", *close = length ? "}" : "";
    length -= length > 0;
    add(text, "spotnik_%s_sum%s%.*s%s %.9g\n", name, open, length, labels, close,
        seconds(of->sum_ns));
    add(text, "spotnik_%s_count%s%.*s%s %" PRIu64 "\n", name, open, length, labels, close, count);
}

/* A label's value: what may not stand in it is left out. */
static void label(struct spotnik_text *text, const char *name, const char *value, const char *end)
{
    add(text, "%s=\"", name);
    for (; *value; value++)
        if ((unsigned char)*value >= 0x20 && *value != '"' && *value != '\\')
            add(text, "%c", *value);
    add(text, "\"%s", end);
}

/* The same view has the same number on every member; 32 bits, which a sample holds exactly. */
static uint32_t view_number(const struct spotnik_watched *of)
{
    uint64_t hash = of->founding ^ of->view_epoch * UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t i = 0; i < of->member_count; i++)
        hash = (hash ^ of->member[i].id.high ^ of->member[i].id.low) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(hash >> 32);
}

static void add_who(struct spotnik_text *text, const struct spotnik_watched *of)
{
    head(text, "build_info", "gauge", "Always 1. What this member is, and the job it belongs to.");
    add(text, "spotnik_build_info{version=\"" SPOTNIK_VERSION "\",");
    label(text, "job_name", of->job, "} 1\n");
    gauge(text, "uptime_seconds", seconds(of->now_ns - of->born_ns),
          "Time since this process joined or founded the job.");
    gauge(text, "members", of->status.size, "Members of the view, as this member knows it.");
    gauge(text, "linked", of->status.linked,
          "Other members of the view that this member hears itself.");
    gauge(text, "view_epoch", (double)of->status.view_epoch,
          "Number of the view: grows with every change of members.");
    gauge(text, "view_hash", view_number(of),
          "Equal on all members of one view. Two values that stay apart are two lineages.");
    gauge(text, "parked", of->status.parked != 0,
          "1 while this member is cut off from the majority and waits.");
    gauge(text, "joining", of->status.joining || of->outside,
          "1 while this member copies the state or replays steps.");
    gauge(text, "noticed", of->noticed,
          "1 once this member was told to leave, by a notice or a signal.");
}

static void add_steps(struct spotnik_text *text, const struct spotnik_watched *of)
{
    gauge(text, "step", (double)of->status.step_committed, "Number of the last committed step.");
    gauge(text, "step_stable", (double)of->status.step_stable,
          "Number of the last step that can never be undone.");
    gauge(text, "steps_planned", (double)of->steps_max,
          "Steps after which the job ends; 0 where no end is known.");
    counter(text, "steps_total", of->counters.steps,
            "Steps this process has computed and committed.");
    counter(text, "steps_replayed_total", of->counters.replayed,
            "Committed steps this process has repeated as a joiner.");
    head(text, "steps_retried_total", "counter",
         "Steps that this member had to make again, by reason.");
    add(text, "spotnik_steps_retried_total{reason=\"loss\"} %" PRIu64 "\n", of->sums.recoveries);
    add(text, "spotnik_steps_retried_total{reason=\"excluded\"} %" PRIu64 "\n",
        of->counters.excluded);
    head(text, "step_duration_seconds", "histogram", "Time from one commit to the next.");
    histogram(text, "step_duration_seconds", "", &of->counters.step);
    head(text, "allreduce_exposed_seconds", "histogram",
         "Time in step_commit: the part of the all-reduce that compute does not hide.");
    histogram(text, "allreduce_exposed_seconds", "", &of->counters.commit);
    head(text, "time_seconds_total", "counter",
         "Where the time of this process went, by part of the step.");
    static const char *const part[SPOTNIK_PACE_PARTS] = { "apply", "begin", "compute", "commit" };
    for (int i = 0; i < SPOTNIK_PACE_PARTS; i++)
        add(text, "spotnik_time_seconds_total{part=\"%s\"} %.9g\n", part[i],
            seconds(of->pace.part_ns[i]));
}

static void add_work(struct spotnik_text *text, const struct spotnik_watched *of)
{
    double hours = seconds(of->now_ns - of->born_ns) / 3600;

    counter(text, "samples_total", of->counters.samples,
            "Samples of this process's committed shares.");
    gauge(text, "step_samples", (double)of->batch,
          "Samples of a step over all members together; 0 where the job has no ledger.");
    counter(text, "reduced_bytes_total", of->counters.reduced_bytes,
            "Bytes given to all-reduce in committed steps.");
    counter_real(
        text, "lost_work_seconds_total", seconds(spotnik_watched_lost_ns(of)),
        "Time that losses cost this process: recoveries, being parked, steps that were void.");
    gauge(text, "goodput_ratio", spotnik_watched_goodput(of),
          "Part of this process's life spent on steps that count, 0 to 1.");
    gauge(text, "price_dollars_per_hour", of->dollars_per_hour,
          "What this member costs (SPOTNIK_PRICE); 0 where it was not told.");
    counter_real(text, "cost_dollars_total", of->dollars_per_hour * hours,
                 "What this process has cost so far.");
}

static void add_troubles(struct spotnik_text *text, const struct spotnik_troubles *of)
{
    head(text, "losses_by_cause_total", "counter",
         "The same, by what this member knew of them when the view changed.");
    add(text, "spotnik_losses_by_cause_total{cause=\"ended\"} %" PRIu64 "\n", of->lost_ended);
    add(text, "spotnik_losses_by_cause_total{cause=\"silent\"} %" PRIu64 "\n", of->lost_silent);
    add(text, "spotnik_losses_by_cause_total{cause=\"told\"} %" PRIu64 "\n", of->lost_told);
    head(text, "stalls_total", "counter",
         "Steps that did not commit in time, and broken paths between two members that live.");
    add(text, "spotnik_stalls_total{of=\"step\"} %" PRIu64 "\n", of->steps_stalled);
    add(text, "spotnik_stalls_total{of=\"path\"} %" PRIu64 "\n", of->paths_broken);
}

static void add_changes(struct spotnik_text *text, const struct spotnik_watched *of)
{
    counter(text, "losses_total", of->sums.losses,
            "Members lost while this process was in the job.");
    add_troubles(text, &of->troubles);
    counter(text, "joins_total", of->sums.joins, "Members that joined meanwhile.");
    counter(text, "leaves_total", of->sums.leaves, "Members that left in good order meanwhile.");
    counter(text, "notices_total", of->sums.notices, "Notices of revocation this process has had.");
    counter(text, "parks_total", of->sums.parks,
            "How often this process was cut off from the majority.");
    counter(text, "recoveries_total", of->sums.recoveries,
            "Recoveries from losses that this process has been through.");
    head(text, "recovery_duration_seconds", "histogram",
         "Recoveries from losses, by phase; total is from the first evidence to the next commit.");
    for (int i = 0; i < SPOTNIK_PHASES; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "phase=\"%s\",", spotnik_phase_name[i]);
        histogram(text, "recovery_duration_seconds", labels, &of->sums.phase[i]);
    }
}

static void add_traffic(struct spotnik_text *text, const struct spotnik_watched *of)
{
    uint64_t slowest_ns = 0;
    uint32_t connections = 0;

    for (uint32_t i = 0; i < of->channel_count; i++) {
        connections += of->channel[i].connections;
        if (of->channel[i].round_trip_ns > slowest_ns)
            slowest_ns = of->channel[i].round_trip_ns;
    }
    counter(text, "sent_bytes_total", of->status.bytes_sent, "Data sent to other members.");
    counter(text, "shared_bytes_total", of->troubles.bytes_shared,
            "Bytes of buckets that were added up in memory that members share.");
    counter(text, "received_bytes_total", of->status.bytes_received,
            "Data received from other members.");
    counter(text, "control_messages_total", of->status.control_messages,
            "Control messages sent, without heartbeats.");
    counter(text, "refusals_total", of->refusals,
            "Strangers turned away: wrong key, job or version.");
    counter(text, "integrity_failures_total", of->troubles.altered,
            "Messages that were altered on their way, and refused.");
    gauge(text, "data_connections", connections, "Connections that carry data to other members.");
    gauge(text, "round_trip_seconds", seconds(slowest_ns), "Slowest round trip among them.");
}

static void add_checkpoints(struct spotnik_text *text, const struct spotnik_watched *of)
{
    const spotnik_checkpoint_info *info = &of->checkpoint;
    uint64_t since_ns = of->checkpoint_seen_ns ? of->checkpoint_seen_ns : of->born_ns;

    gauge(text, "checkpoint_step", (double)info->complete_step,
          "Step of the last complete checkpoint; 0: none, or checkpoints are off.");
    gauge(text, "checkpoint_age_seconds", info->size ? seconds(of->now_ns - since_ns) : 0,
          "Time since a checkpoint was seen to be complete, or since the start; 0 where "
          "checkpoints are off.");
    counter(text, "checkpoints_total", info->complete_count,
            "Checkpoints this process has seen complete.");
    counter(text, "checkpoints_left_out_total", info->left_out_count,
            "Checkpoints that were due and did not come about.");
    gauge(text, "checkpoint_write_seconds", seconds(info->write_ns),
          "Time that writing this member's part took last.");
}

static void add_adaption(struct spotnik_text *text, const struct spotnik_watched *of)
{
    head(text, "sync_strategy_info", "gauge", "Always 1. How replicas are kept together.");
    add(text, "spotnik_sync_strategy_info{");
    label(text, "strategy", of->strategy[0] ? of->strategy : "program", "} 1\n");
    counter(text, "sync_switches_total", of->switches,
            "Changes of strategy since this member came.");
    gauge(text, "share_samples", (double)of->shares.share,
          "Samples of this member's share in the next step; 0 where shares are even.");
    head(text, "observed", "gauge",
         "The latest value of a number that the program tells, see spotnik_observe().");
    for (uint32_t i = 0; i < of->observed_count; i++)
        add(text, "spotnik_observed{name=\"%s\"} %.12g\n", of->observed[i].name,
            of->observed[i].value);
}

/* A pass that this member was told of late, by the next one, has no instant: its time counts to the
 * next. */
void spotnik_watched_phases(const spotnik_recovery *recovery, uint64_t ret_ns[SPOTNIK_PHASES])
{
    const uint64_t at[] = { recovery->detected_ns, recovery->reconciled_ns, recovery->accepted_ns,
                            recovery->restarted_ns, recovery->committed_ns };

    uint64_t from_ns = at[0];

    for (int i = 0; i < SPOTNIK_PHASE_TOTAL; i++) {
        ret_ns[i] = from_ns && at[i + 1] > from_ns ? at[i + 1] - from_ns : 0;
        from_ns += ret_ns[i];
    }
    ret_ns[SPOTNIK_PHASE_TOTAL] = at[0] && at[4] > at[0] ? at[4] - at[0] : 0;
}

uint64_t spotnik_watched_lost_ns(const struct spotnik_watched *of)
{
    return of->sums.recovering_ns + of->sums.parked_ns + of->counters.wasted_ns;
}

/* Waiting in step_begin, for members or for the state, is no work; nor is what losses cost inside
 * the other parts. */
double spotnik_watched_goodput(const struct spotnik_watched *of)
{
    double life = seconds(of->now_ns - of->born_ns);
    double work =
        seconds(of->pace.part_ns[SPOTNIK_PACE_COMPUTE] + of->pace.part_ns[SPOTNIK_PACE_COMMIT]
                + of->pace.part_ns[SPOTNIK_PACE_APPLY])
        - seconds(spotnik_watched_lost_ns(of));
    double ratio = life > 0 ? work / life : 0;

    return ratio < 0 ? 0 : ratio > 1 ? 1 : ratio;
}

size_t spotnik_exposition_text(const struct spotnik_watched *watched, char *text, size_t size)
{
    struct spotnik_text out = { text, size, false };

    add_who(&out, watched);
    add_steps(&out, watched);
    add_work(&out, watched);
    add_changes(&out, watched);
    add_traffic(&out, watched);
    add_checkpoints(&out, watched);
    add_adaption(&out, watched);
    return out.full ? 0 : size - out.left;
}
