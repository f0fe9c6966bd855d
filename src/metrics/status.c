/* SPDX-License-Identifier: Apache-2.0 */
/* Status as JSON. */
#include "metrics/watched.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

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

static void add_lane(struct spotnik_text *text, const struct spotnik_lane_status *lane)
{
    add(text,
        "{\"member\":\"%016" PRIx64 "%016" PRIx64 "\",\"connections\":%" PRIu32
        ",\"carrying\":%" PRIu32,
        lane->peer.high, lane->peer.low, lane->connections, lane->carrying);
    add(text, ",\"bytes_per_s\":%" PRIu64 ",\"round_trip_us\":%" PRIu64 ",\"congestion\":",
        lane->bytes_per_s, lane->round_trip_ns / 1000);
    add_string(text, lane->congestion);
    add(text, "}");
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
    if (batch->noise_every || batch->noise_steps || batch->variance_steps)
        add(text,
            ",\"noise\":{\"steps\":%" PRIu64 ",\"every\":%" PRIu32
            ",\"scale\":%.9g,\"error\":%.3g,\"gradient_norm2\":%.9g"
            ",\"sample_variance\":%.9g,\"relative\":%.9g,\"variance_steps\":%" PRIu64
            ",\"gradient_variance\":%.9g}",
            batch->noise_steps, batch->noise_every, spoken(batch->noise_scale),
            spoken(batch->noise_error), spoken(batch->gradient_norm2),
            spoken(batch->sample_variance), spoken(batch->relative_noise), batch->variance_steps,
            spoken(batch->gradient_variance));
}

static void add_sync(struct spotnik_text *text, const struct spotnik_watched *of)
{
    add(text, ",\"sync\":{\"strategy\":");
    add_string(text, of->strategy);
    add(text, ",\"policy\":");
    add_string(text, of->policy);
    add(text,
        ",\"asynchronous\":%s,\"switches\":%" PRIu32 ",\"switched_step\":%" PRIu64 ",\"reason\":",
        of->asynchronous ? "true" : "false", of->switches, of->switched_step);
    add_string(text, of->reason);
    add(text, ",\"value\":%.6f,\"limit\":%.6f,\"throughput\":%.6f,\"waiting\":%.6f}", of->value,
        of->limit, of->throughput, of->waiting);
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

static void add_tally(struct spotnik_text *text, const struct spotnik_watched *of)
{
    add(text, ",\"samples\":%" PRIu64 ",\"steps_excluded\":%" PRIu64, of->tally.samples,
        of->tally.excluded);
    add(text,
        ",\"steps_max\":%" PRIu64 ",\"batch\":%" PRIu64 ",\"dollars_per_hour\":%.6g,\"observed\":{",
        of->steps_max, of->batch, spoken(of->dollars_per_hour));
    for (uint32_t i = 0; i < of->observed_count; i++)
        add(text, "%s\"%s\":%.9g", i ? "," : "", of->observed[i].name,
            spoken(of->observed[i].value));
    add(text, "}");
}

static void add_lineage(struct spotnik_text *out, const struct spotnik_presence *presence,
                        const char *met)
{
    const struct spotnik_founding *founding = &presence->founding;

    if (!founding->id && !met[0])
        return;
    add(out,
        ",\"lineage\":{\"id\":\"%016" PRIx64 "\",\"root\":\"%016" PRIx64
        "\",\"generation\":%" PRIu64,
        founding->id, founding->root, founding->generation);
    if (founding->born_ms != SPOTNIK_BORN_UNKNOWN)
        add(out, ",\"born_ms\":%" PRIu64, founding->born_ms);
    add(out, ",\"chain\":\"%016" PRIx64 "\",\"met\":", presence->chain);
    add_string(out, met);
    add(out, "}");
}

static void add_path(struct spotnik_text *out, const struct spotnik_watched *of)
{
    if (!of->path[0])
        return;
    add(out, ",\"path_age_ns\":%" PRIu64 ",\"path\":", of->path_age_ns);
    add_string(out, of->path);
}

static void add_members(struct spotnik_text *out, const struct spotnik_watched *of)
{
    add(out, ",\"members_needed\":%" PRIu32 ",\"members_epoch\":%" PRIu64 ",\"members\":[",
        of->members_needed, of->view_epoch);
    for (uint32_t i = 0; i < of->member_count; i++) {
        add(out, "%s", i ? "," : "");
        add_member(out, &of->member[i]);
    }
    add(out, "],\"lanes\":[");
    for (uint32_t i = 0; i < of->lane_count; i++) {
        add(out, "%s", i ? "," : "");
        add_lane(out, &of->lane[i]);
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

static void add_door(struct spotnik_text *out, const struct spotnik_watched *of)
{
    add(out,
        ",\"donor\":{\"joiners\":%" PRIu32 ",\"log_bytes\":%" PRIu64 ",\"dropped\":%" PRIu64 "}",
        of->donor.sessions, of->donor.log_bytes, of->donor.dropped);
    add(out, ",\"refusals\":%" PRIu64 ",\"refusal\":", of->refusals);
    add_string(out, of->refusal);
}

size_t spotnik_status_text(const struct spotnik_watched *of, const char *extra, char *text,
                           size_t size)
{
    struct spotnik_text out = { text, size, 0 };

    add(&out, "{\"version\":\"%s\",\"job\":", SPOTNIK_VERSION);
    add_string(&out, of->job);
    add(&out, ",\"pid\":%d,\"now_ns\":%" PRIu64 ",\"uptime_ns\":%" PRIu64 ",\"steps_per_s\":%.3f",
        (int)getpid(), of->now_ns, of->now_ns - of->born_ns, of->steps_per_s);
    add_numbers(&out, &of->status);
    add(&out, ",\"noticed\":%s", of->noticed ? "true" : "false");
    add_pace(&out, &of->pace);
    add_batch(&out, &of->shares);
    if (of->checkpoint.info.size)
        add_checkpoint(&out, &of->checkpoint);
    if (of->strategy[0])
        add_sync(&out, of);
    add_tally(&out, of);
    add_door(&out, of);
    add_path(&out, of);
    add_lineage(&out, &of->presence, of->lineage);
    add(&out, ",\"warning\":");
    add_string(&out, of->warning[0] ? of->warning : of->advice);
    add_members(&out, of);
    add_recoveries(&out, &of->status);
    add(&out, "%s}\n", extra ? extra : "");
    return out.full ? 0 : size - out.left;
}
