/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent makes of notices. Claims: the first one makes the workers leave, once; they come
 * back when every source has taken its notice back, or when the deadline and the patience are over;
 * a deadline of a wrong clock does not keep them away for ever; risks move nobody. */
#include <stdio.h>

#include "base/time.h"
#include "run_notice.h"
#include "tests.h"

#define WALL INT64_C(1587748180000)

static const struct run_notice_options options = { .patience_ns = 60 * SPOTNIK_S };

static enum run_notice_act heed(struct run_notice *ear, enum notice_kind kind, const char *source,
                                int64_t after_ms, uint64_t now_ns)
{
    struct notice notice = { .kind = kind, .deadline_ms = WALL + after_ms };

    snprintf(notice.source, sizeof(notice.source), "%s", source);
    return run_notice_heed(ear, &notice, now_ns, WALL);
}

static struct run_notice begin(void)
{
    struct run_notice ear;

    assert_true(run_notice_start(&ear, &options)); /* no source: no process */
    assert_int_equal(ear.pid, 0);
    return ear;
}

TEST(leave_and_back)
{
    struct run_notice ear = begin();

    assert_int_equal(heed(&ear, NOTICE_RISK, "aws", 0, 0), RUN_NOTICE_NOTHING);
    assert_int_equal(heed(&ear, NOTICE_OVER, "aws", 0, 0), RUN_NOTICE_NOTHING);
    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", 120000, 0), RUN_NOTICE_LEAVE);
    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", 110000, 0), RUN_NOTICE_NOTHING);
    assert_int_equal(heed(&ear, NOTICE_LEAVE, "file", 90000, 0), RUN_NOTICE_NOTHING);
    assert_true(ear.away);
    assert_int_equal(heed(&ear, NOTICE_OVER, "aws", 0, 0), RUN_NOTICE_NOTHING);
    assert_int_equal(heed(&ear, NOTICE_OVER, "file", 0, 0), RUN_NOTICE_BACK);
    assert_false(ear.away);
    assert_false(run_notice_lied(&ear, SPOTNIK_NEVER - 1));
    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", 1000, 0), RUN_NOTICE_LEAVE);
}

TEST(lie)
{
    struct run_notice ear = begin();

    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", 120000, 5 * SPOTNIK_S), RUN_NOTICE_LEAVE);
    assert_int_equal(ear.back_ns, 185 * SPOTNIK_S);
    assert_false(run_notice_lied(&ear, 185 * SPOTNIK_S - 1));
    assert_true(run_notice_lied(&ear, 185 * SPOTNIK_S));
    assert_false(run_notice_lied(&ear, 186 * SPOTNIK_S)); /* told once */
    assert_int_equal(heed(&ear, NOTICE_OVER, "aws", 0, 0), RUN_NOTICE_NOTHING);
}

TEST(wrong_clocks)
{
    struct run_notice ear = begin();

    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", -7200000, 0), RUN_NOTICE_LEAVE);
    assert_int_equal(ear.back_ns, 60 * SPOTNIK_S);
    ear = begin();
    assert_int_equal(heed(&ear, NOTICE_LEAVE, "aws", 7200000, 0), RUN_NOTICE_LEAVE);
    assert_int_equal(ear.back_ns, 16 * 60 * SPOTNIK_S);
}
