/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent makes of notices. Claims: the first one makes the workers leave, once; they come
 * back when every source has taken its notice back, or when the deadline and the patience are over;
 * a deadline of a wrong clock does not keep them away for ever; risks move no worker. Where
 * spotnik-notice is not installed, the start says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "common/notice_watcher.h"
#include "tests.h"

#define WALL INT64_C(1587748180000)

static const struct notice_watcher_options options = { .patience_ns = 60 * SPOTNIK_S };

static enum notice_watcher_act heed(struct notice_watcher *watcher, enum notice_kind kind,
                                    const char *source, int64_t after_ms, uint64_t now_ns)
{
    struct notice notice = { .kind = kind, .deadline_ms = WALL + after_ms };

    snprintf(notice.source, sizeof(notice.source), "%s", source);
    return notice_watcher_heed(watcher, &notice, now_ns, WALL);
}

static struct notice_watcher begin(void)
{
    struct notice_watcher watcher;

    assert_true(notice_watcher_start(&watcher, &options)); /* no source: no process */
    assert_int_equal(watcher.pid, 0);
    return watcher;
}

TEST(leave_and_back)
{
    struct notice_watcher watcher = begin();

    assert_int_equal(heed(&watcher, NOTICE_RISK, "aws", 0, 0), NOTICE_WATCHER_NOTHING);
    assert_int_equal(heed(&watcher, NOTICE_OVER, "aws", 0, 0), NOTICE_WATCHER_NOTHING);
    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", 120000, 0), NOTICE_WATCHER_LEAVE);
    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", 110000, 0), NOTICE_WATCHER_NOTHING);
    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "file", 90000, 0), NOTICE_WATCHER_NOTHING);
    assert_true(watcher.away);
    assert_int_equal(heed(&watcher, NOTICE_OVER, "aws", 0, 0), NOTICE_WATCHER_NOTHING);
    assert_int_equal(heed(&watcher, NOTICE_OVER, "file", 0, 0), NOTICE_WATCHER_BACK);
    assert_false(watcher.away);
    assert_false(notice_watcher_lied(&watcher, SPOTNIK_NEVER - 1));
    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", 1000, 0), NOTICE_WATCHER_LEAVE);
}

TEST(lie)
{
    struct notice_watcher watcher = begin();

    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", 120000, 5 * SPOTNIK_S),
                     NOTICE_WATCHER_LEAVE);
    assert_int_equal(watcher.back_ns, 185 * SPOTNIK_S);
    assert_false(notice_watcher_lied(&watcher, 185 * SPOTNIK_S - 1));
    assert_true(notice_watcher_lied(&watcher, 185 * SPOTNIK_S));
    assert_false(notice_watcher_lied(&watcher, 186 * SPOTNIK_S)); /* told once */
    assert_int_equal(heed(&watcher, NOTICE_OVER, "aws", 0, 0), NOTICE_WATCHER_NOTHING);
}

TEST(wrong_clocks)
{
    struct notice_watcher watcher = begin();

    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", -7200000, 0), NOTICE_WATCHER_LEAVE);
    assert_int_equal(watcher.back_ns, 60 * SPOTNIK_S);
    watcher = begin();
    assert_int_equal(heed(&watcher, NOTICE_LEAVE, "aws", 7200000, 0), NOTICE_WATCHER_LEAVE);
    assert_int_equal(watcher.back_ns, 16 * 60 * SPOTNIK_S);
}

TEST(not_installed)
{
    static const struct notice_watcher_options file = { .from = { "file:/nowhere" }, .count = 1 };
    struct notice_watcher watcher;

    setenv("PATH", "/nowhere", 1);
    assert_false(notice_watcher_start(&watcher, &file));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(watcher.fd, -1);
    assert_int_equal(watcher.pid, 0);
}
