/* SPDX-License-Identifier: Apache-2.0 */
/* What clouds, commands and files say. Claims: each answer in the form that its cloud documents is
 * understood, with its deadline; a blank or a bad date still is a notice; an event for another
 * machine is none; what cannot be read is refused, not guessed; no bytes crash the readers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "notice/words.h"
#include "tests.h"

#define NOW INT64_C(1587748180000) /* 2020-04-24 17:09:40 */

TEST(instants)
{
    int64_t ms = 0;

    assert_true(notice_when("2020-04-24T17:11:44Z", NOW, &ms));
    assert_int_equal(ms, INT64_C(1587748304000));
    assert_true(notice_when("2020-04-24T17:11:44.123Z", NOW, &ms));
    assert_int_equal(ms, INT64_C(1587748304000));
    assert_true(notice_when("Fri, 24 Apr 2020 17:11:44 GMT", NOW, &ms));
    assert_int_equal(ms, INT64_C(1587748304000));
    assert_true(notice_when("+90", NOW, &ms));
    assert_int_equal(ms, NOW + 90000);
    assert_true(notice_when("2.5s", NOW, &ms));
    assert_int_equal(ms, NOW + 2500);
    assert_true(notice_when("1587748304", NOW, &ms));
    assert_int_equal(ms, INT64_C(1587748304000));
    assert_false(notice_when("", NOW, &ms));
    assert_false(notice_when("soon", NOW, &ms));
    assert_false(notice_when("+", NOW, &ms));
    assert_false(notice_when("-5", NOW, &ms));
    assert_true(notice_when("2020-04-24T17:11:44+02:00", NOW, &ms)); /* date -Is */
    assert_int_equal(ms, INT64_C(1587748304000) - 7200000);
    assert_false(notice_when("2020-04-24T17:11:44+02:00x", NOW, &ms));
    assert_false(notice_when("1", NOW, &ms)); /* no date of 1970, but a word */
}

TEST(aws)
{
    struct notice notice;

    assert_true(notice_aws_action("{\"action\":\"terminate\",\"time\":\"2020-04-24T17:11:44Z\"}",
                                  NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_LEAVE);
    assert_int_equal(notice.deadline_ms, INT64_C(1587748304000));
    assert_string_equal(notice.source, "aws");
    assert_true(notice_aws_action("{\"action\":\"stop\",\"time\":\"\"}", NOW, &notice));
    assert_int_equal(notice.deadline_ms, NOW + 120000);
    assert_true(notice_aws_action("{\"action\":\"stop\"}", NOW, &notice));
    assert_true(notice_aws_action("{\"action\":\"hibernate\",\"time\":\"2020-04-24T17:11:44Z\"}",
                                  NOW, &notice));
    assert_int_equal(notice.deadline_ms, NOW);
    assert_false(notice_aws_action("<html>404</html>", NOW, &notice));
    assert_false(notice_aws_action("", NOW, &notice));
    assert_true(notice_aws_rebalance("{\"noticeTime\":\"2020-10-16T19:18:24Z\"}", &notice));
    assert_int_equal(notice.kind, NOTICE_RISK);
    assert_false(notice_aws_rebalance("{}", &notice));
}

TEST(gcp)
{
    struct notice notice;

    assert_true(notice_gcp_preempted("TRUE\n", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_LEAVE);
    assert_int_equal(notice.deadline_ms, NOW + 30000);
    assert_true(notice_gcp_preempted("FALSE", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_NONE);
    assert_false(notice_gcp_preempted("<html>", NOW, &notice));
    assert_true(notice_gcp_maintenance("NONE", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_NONE);
    assert_true(notice_gcp_maintenance("TERMINATE_ON_HOST_MAINTENANCE", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_LEAVE);
    assert_true(notice_gcp_maintenance("SHUTDOWN_ON_HOST_MAINTENANCE", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_LEAVE); /* its older word */
    assert_true(notice_gcp_maintenance("none", NOW, &notice));
    assert_true(notice_gcp_maintenance("MIGRATE_ON_HOST_MAINTENANCE", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_RISK);
    assert_false(notice_gcp_maintenance("", NOW, &notice));
}

static enum notice_kind azure_kind(const char *type, const char *status, const char *machine,
                                   const char *before, struct notice *ret)
{
    char body[600];

    snprintf(body, sizeof(body),
             "{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"A\",\"EventStatus\":\"%s\","
             "\"EventType\":"
             "\"%s\",\"ResourceType\":"
             "\"VirtualMachine\",\"Resources\":[\"other\",\"%s\"],\"NotBefore\":\"%s\"}]}",
             status, type, machine, before);
    assert_true(notice_azure_events(body, "Vm-0", NOW, ret));
    return ret->kind;
}

TEST(azure)
{
    static const char date[] = "Fri, 24 Apr 2020 17:11:44 GMT";
    struct notice notice;

    assert_int_equal(azure_kind("Preempt", "Scheduled", "vm-0", date, &notice),
                     NOTICE_LEAVE); /* names do not differ by case */
    assert_int_equal(notice.deadline_ms, INT64_C(1587748304000));
    assert_int_equal(azure_kind("Preempt", "Started", "vm-0", "", &notice), NOTICE_LEAVE);
    assert_int_equal(notice.deadline_ms, NOW);
    assert_int_equal(azure_kind("Preempt", "Scheduled", "vm-1", date, &notice), NOTICE_NONE);
    assert_int_equal(azure_kind("Preempt", "Completed", "vm-0", date, &notice), NOTICE_NONE);
    assert_int_equal(azure_kind("Preempt", "Canceled", "vm-0", date, &notice), NOTICE_NONE);
    assert_int_equal(azure_kind("Preempt", "Scheduled", "vm-0", "Thu, 01 Jan 2015 00:00:00 GMT",
                                &notice),
                     NOTICE_LEAVE); /* long past: at once */
    assert_true(notice_azure_events("{\"Events\":[{\"EventStatus\":\"Started\",\"EventType\":"
                                    "\"Preempt\",\"Resources\":null}]}",
                                    "vm-0", NOW, &notice));
    assert_int_equal(notice.kind, NOTICE_NONE);
    assert_int_equal(azure_kind("Freeze", "Scheduled", "vm-0", date, &notice), NOTICE_RISK);
    assert_int_equal(azure_kind("Redeploy", "Scheduled", "vm-0", date, &notice), NOTICE_LEAVE);
    assert_true(notice_azure_events("{\"DocumentIncarnation\":1,\"Events\":[]}", "vm-0", NOW,
                                    &notice));
    assert_int_equal(notice.kind, NOTICE_NONE);
    assert_false(notice_azure_events("{\"error\":1}", "vm-0", NOW, &notice));
    assert_true(
        notice_azure_events("{\"Events\":[{\"EventId\":\"F\",\"EventStatus\":\"Scheduled\","
                            "\"EventType\":\"Freeze\",\"Resources\":[\"vm-0\"],"
                            "\"NotBefore\":\"\"},{\"EventId\":\"P\",\"EventStatus\":\"Scheduled\","
                            "\"EventType\":\"Preempt\",\"Resources\":"
                            "[\"vm-0\"],\"NotBefore\":\"Fri, 24 Apr 2020 17:11:44 GMT\"}]}",
                            "vm-0", NOW, &notice));
    /* the end wins over a pause that comes before it */
    assert_int_equal(notice.kind, NOTICE_LEAVE);
}

TEST(words)
{
    struct notice notice;

    notice_words("file", "+30 the fan has stopped\n", NOW, &notice);
    assert_int_equal(notice.deadline_ms, NOW + 30000);
    assert_string_equal(notice.text, "the fan has stopped");
    notice_words("file", "", NOW, &notice);
    assert_int_equal(notice.kind, NOTICE_LEAVE);
    assert_int_equal(notice.deadline_ms, NOW);
    notice_words("file", "1\n", NOW, &notice); /* echo 1 >file */
    assert_int_equal(notice.deadline_ms, NOW);
    assert_string_equal(notice.text, "1");
    notice_words("exec", "going down", NOW, &notice);
    assert_string_equal(notice.text, "going down");
}

/* A command in Latin-1, and words that were cut within a character: notices all the same. */
TEST(foreign)
{
    static const char *const said[] = { "+30 f\xe4hrt herunter", "\xff\xfe\x80", "\xc3" };
    struct notice notice, back;
    char text[1024], longest[400] = "x";

    for (int i = 0; i < 3; i++) {
        notice_words("exec", said[i], NOW, &notice);
        assert_true(notice_format(&notice, text, sizeof(text)) > 0);
        assert_true(notice_parse(text, &back));
        assert_int_equal(back.kind, NOTICE_LEAVE);
    }
    for (size_t i = 1; i + 2 < sizeof(longest); i += 2)
        memcpy(longest + i, "\xc3\xa4", 3);
    notice_words("exec", longest, NOW, &notice);
    assert_true(notice_format(&notice, text, sizeof(text)) > 0);
    notice_words("exec", longest + 1, NOW, &notice); /* one of both is cut within a character */
    assert_true(notice_format(&notice, text, sizeof(text)) > 0);
    notice_words("exec", "+30 f\xc3\xa4hrt", NOW, &notice);
    assert_true(notice_format(&notice, text, sizeof(text)) > 0);
    assert_true(notice_parse(text, &back));
    assert_string_equal(back.text, "f\xc3\xa4hrt");
}

/* Answers with bytes changed, cut off and doubled. */
TEST(noise)
{
    static const char *const seeds[] = {
        "{\"action\":\"terminate\",\"time\":\"2020-04-24T17:11:44Z\"}", "TRUE", "+30 words",
        "{\"Events\":[{\"EventId\":\"A\",\"EventStatus\":\"Scheduled\","
        "\"EventType\":\"Preempt\",\"Resources\":[\"v\"],"
        "\"NotBefore\":\"Fri, 24 Apr 2020 17:11:44 GMT\"}]}"
    };
    struct spotnik_prng prng;
    struct notice notice;
    char text[512];

    spotnik_prng_seed(&prng, 7);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof(text), "%s", seeds[i % 4]);
        size_t length = strlen(text);
        for (uint64_t j = spotnik_prng_below(&prng, 4); j > 0; j--)
            text[spotnik_prng_below(&prng, length)] = (char)spotnik_prng_below(&prng, 256);
        text[spotnik_prng_below(&prng, length + 1)] *= (char)spotnik_prng_below(&prng, 2);
        notice_aws_action(text, NOW, &notice);
        notice_gcp_preempted(text, NOW, &notice);
        notice_azure_events(text, "v", NOW, &notice);
        notice_words("file", text, NOW, &notice);
        notice_parse(text, &notice);
    }
}
