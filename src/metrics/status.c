/* SPDX-License-Identifier: Apache-2.0 */
/* Status as JSON. */
#include "metrics/status.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "metrics/text.h"

#define add spotnik_text_add
#define add_string spotnik_text_quote
#define spoken spotnik_text_finite

static void add_member(struct spotnik_text *text, const struct spotnik_member *member)
{
    char address[INET6_ADDRSTRLEN] = "";
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    if (!memcmp(member->address, mapped, sizeof mapped))
        inet_ntop(AF_INET, member->address + 12, address, sizeof address);
    else
        inet_ntop(AF_INET6, member->address, address, sizeof address);
    add(text, "{\"member\":\"%016" PRIx64 "%016" PRIx64 "\",\"address\":\"%s\",\"port\":%u}",
        member->id.high, member->id.low, address, member->port);
}

static void add_recovery(struct spotnik_text *text, const spotnik_recovery *recovery)
{
    add(text,
        "{\"epoch\":%" PRIu64 ",\"lost\":%" PRIu32 ",\"joined\":%" PRIu32 ",\"left\":%" PRIu32,
        recovery->epoch, recovery->lost, recovery->joined, recovery->left);
    add(text, ",\"detected_ns\":%" PRIu64 ",\"reconciled_ns\":%" PRIu64 ",\"accepted_ns\":%" PRIu64,
        recovery->detected_ns, recovery->reconciled_ns, recovery->accepted_ns);
    add(text, ",\"restarted_ns\":%" PRIu64 ",\"committed_ns\":%" PRIu64 "}", recovery->restarted_ns,
        recovery->committed_ns);
}

static void add_numbers(struct spotnik_text *text, const spotnik_job_status *status)
{
    add(text,
        ",\"member\":\"%s\",\"view_epoch\":%" PRIu64 ",\"rank\":%" PRIu32 ",\"size\":%" PRIu32,
        status->member, status->view_epoch, status->rank, status->size);
    add(text, ",\"step_committed\":%" PRIu64 ",\"step_stable\":%" PRIu64, status->step_committed,
        status->step_stable);
    add(text, ",\"parked\":%s,\"joining\":%s", status->parked ? "true" : "false",
        status->joining ? "true" : "false");
    add(text,
        ",\"bytes_sent\":%" PRIu64 ",\"bytes_received\":%" PRIu64 ",\"control_messages\":%" PRIu64,
        status->bytes_sent, status->bytes_received, status->control_messages);
    add(text,
        ",\"losses\":%" PRIu64 ",\"joins\":%" PRIu64 ",\"leaves\":%" PRIu64 ",\"linked\":%" PRIu32,
        status->losses, status->joins, status->leaves, status->linked);
}

static void add_pace(struct spotnik_text *text, const struct spotnik_pace *pace)
{
    add(text, ",\"pace\":{\"steps\":%" PRIu64 ",\"begin_ns\":%" PRIu64 ",\"compute_ns\":%" PRIu64,
        pace->steps, pace->part_ns[SPOTNIK_PACE_BEGIN], pace->part_ns[SPOTNIK_PACE_COMPUTE]);
    add(text, ",\"commit_ns\":%" PRIu64 ",\"apply_ns\":%" PRIu64 ",\"reduce_bytes\":%" PRIu64 "}",
        pace->part_ns[SPOTNIK_PACE_COMMIT], pace->part_ns[SPOTNIK_PACE_APPLY], pace->reduce_bytes);
}

static void add_channel(struct spotnik_text *text, const struct spotnik_channel_status *channel)
{
    add(text, "{\"member\":\"%016" PRIx64 "%016" PRIx64 "\",\"connections\":%" PRIu32,
        channel->peer.high, channel->peer.low, channel->connections);
    add(text, ",\"round_trip_us\":%" PRIu64 ",\"congestion\":", channel->round_trip_ns / 1000);
    add_string(text, channel->congestion);
    add(text, ",\"encrypted\":%s}", channel->encrypted ? "true" : "false");
}

static void add_batch(struct spotnik_text *text, const spotnik_batch_info *batch)
{
    if (batch->dynamic)
        add(text,
            ",\"batching\":{\"members\":%" PRIu32 ",\"adjustments\":%" PRIu64 ",\"share\":%" PRIu64
            ",\"share_least\":%" PRIu64 ",\"share_most\":%" PRIu64 ",\"compute_least_us\":%" PRIu32
            ",\"compute_most_us\":%" PRIu32 "}",
            batch->members, batch->adjustments, batch->share, batch->share_least, batch->share_most,
            batch->compute_least_us, batch->compute_most_us);
    if (batch->noise_steps)
        add(text, ",\"noise\":{\"steps\":%" PRIu64 ",\"scale\":%.9g,\"error\":%.3g}",
            batch->noise_steps, spoken(batch->noise_scale), spoken(batch->noise_error));
}

static void add_sync(struct spotnik_text *text, const struct spotnik_status_sync *sync)
{
    add(text, ",\"sync\":{\"strategy\":");
    add_string(text, sync->strategy);
    add(text, ",\"policy\":");
    add_string(text, sync->policy);
    add(text,
        ",\"asynchronous\":%s,\"switches\":%" PRIu32 ",\"switched_step\":%" PRIu64 ",\"reason\":",
        sync->asynchronous ? "true" : "false", sync->switches, sync->switched_step);
    add_string(text, sync->reason);
    add(text, ",\"value\":%.6f,\"limit\":%.6f,\"throughput\":%.6f,\"waiting\":%.6f}", sync->value,
        sync->limit, sync->throughput, sync->waiting);
}

static void add_checkpoint(struct spotnik_text *text,
                           const struct spotnik_checkpoint_health *health)
{
    const spotnik_checkpoint_info *info = &health->info;

    add(text,
        ",\"checkpoint\":{\"complete_step\":%" PRIu64 ",\"resumed_step\":%" PRIu64
        ",\"complete\":%" PRIu64 ",\"left_out\":%" PRIu64 ",\"missed\":%" PRIu64
        ",\"failing\":%s,\"copy_ns\":%" PRIu64 ",\"write_ns\":%" PRIu64 ",\"message\":",
        info->complete_step, info->resumed_step, info->complete_count, info->left_out_count,
        health->missed, health->failing ? "true" : "false", info->copy_ns, info->write_ns);
    add_string(text, info->message);
    add(text, "}");
}

static void add_counters(struct spotnik_text *text, const struct spotnik_status_more *more)
{
    if (more->counters)
        add(text, ",\"samples\":%" PRIu64 ",\"steps_excluded\":%" PRIu64, more->counters->samples,
            more->counters->excluded);
    add(text,
        ",\"steps_max\":%" PRIu64 ",\"batch\":%" PRIu64 ",\"dollars_per_hour\":%.6g,\"observed\":{",
        more->steps_max, more->step_samples, spoken(more->dollars_per_hour));
    for (uint32_t i = 0; i < more->observed_count; i++)
        add(text, "%s\"%s\":%.9g", i ? "," : "", more->observed[i].name,
            spoken(more->observed[i].value));
    add(text, "}");
}

static void add_lineage(struct spotnik_text *out, const struct spotnik_presence *presence,
                        const char *met)
{
    const struct spotnik_founding *founding = &presence->founding;

    add(out,
        ",\"lineage\":{\"id\":\"%016" PRIx64 "\",\"root\":\"%016" PRIx64
        "\",\"generation\":%" PRIu64,
        founding->id, founding->root, founding->generation);
    if (founding->founded_at_ms != SPOTNIK_BORN_UNKNOWN)
        add(out, ",\"born_ms\":%" PRIu64, founding->founded_at_ms);
    add(out, ",\"met\":");
    add_string(out, met);
    add(out, "}");
}

static void add_path(struct spotnik_text *out, const struct spotnik_status_more *more)
{
    if (more->path == NULL || *more->path == '\0')
        return;
    add(out, ",\"path_age_ns\":%" PRIu64 ",\"path\":", more->path_age_ns);
    add_string(out, more->path);
}

static void add_members(struct spotnik_text *out, const struct spotnik_status_more *more)
{
    add(out, ",\"members_needed\":%" PRIu32 ",\"members_epoch\":%" PRIu64 ",\"members\":[",
        more->members_needed, more->view_epoch);
    for (uint32_t i = 0; i < more->member_count; i++) {
        add(out, "%s", i ? "," : "");
        add_member(out, &more->member[i]);
    }
    add(out, "],\"lanes\":[");
    for (uint32_t i = 0; i < more->channel_count; i++) {
        add(out, "%s", i ? "," : "");
        add_channel(out, &more->channel[i]);
    }
    add(out, "]");
}

static void add_recoveries(struct spotnik_text *out, const spotnik_job_status *status)
{
    add(out, ",\"recoveries\":[");
    for (uint32_t i = 0; i < status->recovery_count; i++) {
        add(out, "%s", i ? "," : "");
        add_recovery(out, &status->recovery[i]);
    }
    add(out, "]");
}

size_t spotnik_status_text(const spotnik_job_status *status, const struct spotnik_status_more *more,
                           char *text, size_t size)
{
    struct spotnik_text out = { text, size, 0 };

    add(&out, "{\"version\":\"%s\",\"job\":", SPOTNIK_VERSION);
    add_string(&out, more->job_name);
    add(&out,
        ",\"pid\":%" PRId64 ",\"now_ns\":%" PRIu64 ",\"uptime_ns\":%" PRIu64
        ",\"steps_per_s\":%.3f",
        more->pid, more->now_ns, more->uptime_ns, more->steps_per_s);
    add_numbers(&out, status);
    if (more->from != NULL && *more->from != '\0') {
        add(&out, ",\"from\":");
        add_string(&out, more->from);
    }
    add(&out, ",\"noticed\":%s", more->noticed ? "true" : "false");
    add_pace(&out, &more->pace);
    if (more->batch)
        add_batch(&out, more->batch);
    if (more->checkpoint)
        add_checkpoint(&out, more->checkpoint);
    if (more->sync != NULL)
        add_sync(&out, more->sync);
    add_counters(&out, more);
    add(&out,
        ",\"donor\":{\"joiners\":%" PRIu32 ",\"log_bytes\":%" PRIu64 ",\"dropped\":%" PRIu64 "}",
        more->donor_sessions, more->donor_log_bytes, more->donor_dropped);
    add(&out, ",\"refusals\":%" PRIu64 ",\"refusal\":", more->refusals);
    add_string(&out, more->refusal);
    add_path(&out, more);
    if (more->presence != NULL)
        add_lineage(&out, more->presence, more->lineage);
    add(&out, ",\"warning\":");
    add_string(&out, more->warning);
    add_members(&out, more);
    add_recoveries(&out, status);
    add(&out, "%s}\n", more->extra ? more->extra : "");
    return out.full ? 0 : size - out.left;
}
