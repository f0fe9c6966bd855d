/* SPDX-License-Identifier: Apache-2.0 */
/* The status text is JSON whatever the strings in it are, and does not overrun its memory at any
 * size. */
#include <string.h>
#include <jansson.h>

#include "metrics/status.h"
#include "tests.h"

static size_t write_text(char *text, size_t size)
{
    static const struct spotnik_member member[2] = {
        { .id = { 1, 2 }, .address = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .port = 77 },
        { .id = { 3, 4 }, .address = { [15] = 1 }, .port = 78 },
    };
    spotnik_job_status status = { .member = "0123456789abcdef0123456789abcdef",
                                  .view_epoch = 7,
                                  .rank = 1,
                                  .size = 2,
                                  .step_committed = INT64_MAX,
                                  .parked = 1,
                                  .linked = 3,
                                  .recovery_count = 2 };
    struct spotnik_status_more more = { .noticed = true,
                                        .job_name = "a \"job\" \\ with\ttabs \xc3\xa9",
                                        .pid = 42,
                                        .member = member,
                                        .member_count = 2,
                                        .refusal = "bad\nkey",
                                        .refusals = 3,
                                        .warning = "",
                                        .pace = { .steps = 12, .reduce_bytes = 4096 } };

    static const struct spotnik_status_sync sync = { .strategy = "ssgd",
                                                     .policy = "auto:\"x\"",
                                                     .reason = "because",
                                                     .asynchronous = true,
                                                     .switches = 2,
                                                     .switched_step = 77,
                                                     .value = 0.25 };

    static const struct spotnik_channel_status channel = { .peer = { .high = 1, .low = 2 },
                                                           .connections = 3,
                                                           .round_trip_ns = 10000000,
                                                           .congestion = "cubic",
                                                           .encrypted = true };

    more.channel = &channel;
    more.channel_count = 1;
    more.sync = &sync;
    more.pace.part_ns[SPOTNIK_PACE_COMMIT] = 77;

    status.recovery[1] =
        (spotnik_recovery){ .epoch = 7, .lost = 2, .detected_ns = 5, .committed_ns = 9 };
    return spotnik_status_text(&status, &more, text, size);
}

TEST(is_json)
{
    char text[8192];
    size_t length = write_text(text, sizeof text);
    json_t *root = json_loadb(text, length, 0, NULL);

    assert_non_null(root);
    assert_int_equal(length, strlen(text));
    assert_string_equal(json_string_value(json_object_get(root, "refusal")), "bad\nkey");
    assert_true(json_is_true(json_object_get(root, "parked")));
    assert_true(json_is_true(json_object_get(root, "noticed")));
    assert_int_equal(json_integer_value(json_object_get(root, "linked")), 3);
    json_t *pace = json_object_get(root, "pace");
    assert_int_equal(json_integer_value(json_object_get(pace, "steps")), 12);
    assert_int_equal(json_integer_value(json_object_get(pace, "commit_ns")), 77);
    assert_int_equal(json_integer_value(json_object_get(pace, "reduce_bytes")), 4096);
    json_t *kept = json_object_get(root, "sync");
    assert_string_equal(json_string_value(json_object_get(kept, "policy")), "auto:\"x\"");
    assert_true(json_is_true(json_object_get(kept, "asynchronous")));
    assert_int_equal(json_integer_value(json_object_get(kept, "switched_step")), 77);
    assert_true(json_number_value(json_object_get(kept, "value")) == 0.25);
    json_t *members = json_object_get(root, "members"),
           *recoveries = json_object_get(root, "recoveries");
    assert_int_equal(json_array_size(members), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(members, 0), "address")),
                        "10.0.0.1");
    assert_string_equal(json_string_value(json_object_get(json_array_get(members, 1), "address")),
                        "::1");
    json_t *channel = json_array_get(json_object_get(root, "lanes"), 0);
    assert_string_equal(json_string_value(json_object_get(channel, "member")),
                        "00000000000000010000000000000002");
    assert_int_equal(json_integer_value(json_object_get(channel, "connections")), 3);
    assert_int_equal(json_integer_value(json_object_get(channel, "round_trip_us")), 10000);
    assert_string_equal(json_string_value(json_object_get(channel, "congestion")), "cubic");
    assert_true(json_is_true(json_object_get(channel, "encrypted")));
    assert_int_equal(json_array_size(recoveries), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(recoveries, 1), "lost")), 2);
    json_decref(root);
}

TEST(any_size)
{
    char text[8192];
    size_t whole = write_text(text, sizeof text);

    for (size_t size = 1; size <= whole + 1; size++) {
        memset(text, 0x55, sizeof text);
        assert_int_equal(write_text(text, size), size > whole ? whole : 0);
        assert_int_equal(text[size], 0x55);
    }
}

/* Every nanosecond belongs to one part; a step that was begun twice counts its bytes once. */
TEST(pace)
{
    struct spotnik_pace pace = { 0 }, read;

    spotnik_pace_turn(&pace, SPOTNIK_PACE_BEGIN, 100);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_COMPUTE, 103);
    spotnik_pace_reduce(&pace, 999);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_COMMIT, 110);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_APPLY, 120);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_BEGIN, 121); /* the first one came to nothing */
    spotnik_pace_turn(&pace, SPOTNIK_PACE_COMPUTE, 121);
    spotnik_pace_reduce(&pace, 8);
    spotnik_pace_reduce(&pace, 16);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_COMMIT, 130);
    spotnik_pace_turn(&pace, SPOTNIK_PACE_APPLY, 131);
    spotnik_pace_step(&pace);
    spotnik_pace_read(&pace, &read);
    assert_int_equal(read.part_ns[SPOTNIK_PACE_BEGIN], 3);
    assert_int_equal(read.part_ns[SPOTNIK_PACE_COMPUTE], 7 + 9);
    assert_int_equal(read.part_ns[SPOTNIK_PACE_COMMIT], 10 + 1);
    assert_int_equal(read.part_ns[SPOTNIK_PACE_APPLY], 1);
    assert_int_equal(read.steps, 1);
    assert_int_equal(read.reduce_bytes, 24);
}
