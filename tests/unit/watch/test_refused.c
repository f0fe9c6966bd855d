/* SPDX-License-Identifier: Apache-2.0 */
/* Unauthenticated peers at the acceptor: however many come, one line a minute, with their number.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "watch/inside.h"
#include "tests.h"

static struct spotnik_watched of;
static struct spotnik_watch watch;

static void look(uint64_t second, uint64_t refusals)
{
    of.now_ns = second * SPOTNIK_S;
    /* of one member an event of the same millisecond is kept once */
    snprintf(of.status.member, sizeof of.status.member, "%d", (int)second);
    of.refusals = refusals;
    snprintf(of.refusal, sizeof of.refusal, "10.0.0.%d has another key", (int)refusals);
    spotnik_watch_compare(&watch, &of);
}

static const char *last_line(void)
{
    return watch.event[watch.event_count - 1].line;
}

TEST(one_line_a_minute)
{
    watch.file = -1;
    watch.fresh = &of;
    watch.next_sample_ns = UINT64_MAX;
    pthread_mutex_init(&watch.lock, NULL);
    pthread_mutex_init(&watch.log_lock, NULL);
    look(1000, 0);
    assert_int_equal(watch.event_count, 0);
    look(1001, 1);
    assert_int_equal(watch.event_count, 1);
    assert_non_null(strstr(last_line(), "turned 1 strangers away; the last: 10.0.0.1 has"));
    for (uint64_t i = 2; i < 60; i++)
        look(1000 + i, 10 * i);
    assert_int_equal(watch.event_count, 1);
    look(1061, 600);
    assert_int_equal(watch.event_count, 2);
    assert_non_null(strstr(last_line(), "turned 599 strangers away; the last: 10.0.0.600 has"));
    look(1200, 600);
    assert_int_equal(watch.event_count, 2);
    for (uint32_t i = 0; i < watch.event_count; i++)
        free(watch.event[i].line);
}

/* Altered messages are counted; an event tells of the first. */
TEST(an_altered_message_is_told_once)
{
    uint32_t before = watch.event_count;
    of.troubles.altered = 1;
    look(2000, of.refusals);
    assert_int_equal(watch.event_count, before + 1);
    assert_non_null(strstr(last_line(), "\"altered\""));
    free(watch.event[before].line);
    of.troubles.altered = 7;
    look(2100, of.refusals);
    assert_int_equal(watch.event_count, before + 1);
}

/* Claim: another URL is refused in words, and makes no folder of its name; "file:" names one. */
TEST(a_log_needs_a_folder_or_a_bucket)
{
    char dir[64] = "/tmp/spotnik-log-XXXXXX", place[96], path[128];
    int fd;

    assert_int_equal(spotnik_watch_log_open("ftp://bucket/events", "member", &fd),
                     SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "no folder and no bucket"));
    assert_non_null(mkdtemp(dir));
    snprintf(place, sizeof place, "file:%s", dir);
    assert_int_equal(spotnik_watch_log_open(place, "member", &fd), 0);
    close(fd);
    snprintf(path, sizeof path, "%s/member.jsonl", dir);
    assert_true(unlink(path) == 0 && rmdir(dir) == 0);
}

/* The event log says where everything is, and may lie in a folder of many. */
TEST(others_read_no_log_and_lead_it_nowhere)
{
    char dir[64] = "/tmp/spotnik-log-XXXXXX", log[96], path[128];
    struct stat facts;
    int fd;
    mode_t mask = umask(0);

    assert_non_null(mkdtemp(dir));
    snprintf(log, sizeof log, "%s/log", dir);
    assert_int_equal(spotnik_watch_log_open(log, "member", &fd), 0);
    umask(mask);
    assert_int_equal(fstat(fd, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(log, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    close(fd);
    snprintf(path, sizeof path, "%s/linked.jsonl", log);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(spotnik_watch_log_open(log, "linked", &fd), SPOTNIK_ERR_SYSTEM);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/member.jsonl", log);
    assert_true(unlink(path) == 0 && rmdir(log) == 0 && rmdir(dir) == 0);
}
