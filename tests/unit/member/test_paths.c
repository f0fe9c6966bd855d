/* SPDX-License-Identifier: Apache-2.0 */
/* Who is left out where hosts do not reach each other. */
#include <string.h>

#include "member/paths.h"
#include "tests.h"

enum { MAX = 12 };

static struct spotnik_entry old[MAX], entry[MAX];
static struct spotnik_report report[MAX];
static struct spotnik_view view = { .entry = old };
static struct spotnik_prepare prepare = { .report = report };
static struct spotnik_proposal proposal = { .entry = entry, .entry_max = MAX };

/* One member after another, each on the host that the string names; ids grow. All have promised. */
static void stand(const char *hosts)
{
    view.size = prepare.report_count = proposal.entry_count = (uint32_t)strlen(hosts);
    memset(report, 0, sizeof report);
    for (uint32_t i = 0; i < view.size; i++) {
        old[i] =
            (struct spotnik_entry){ .member = { .id = { 0, i + 1 }, .host = (uint64_t)hosts[i] },
                                    .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER };
        entry[i] = old[i];
        report[i].promised = 1;
    }
}

/* Who stays when rank a says that it does not reach rank b, for each two digits of `cuts`. */
static const char *stay(const char *hosts, const char *cuts)
{
    static char text[MAX + 1];
    uint32_t count = 0;

    stand(hosts);
    for (; *cuts; cuts += 2)
        report[cuts[0] - '0'].cut |= UINT64_C(1) << (cuts[1] - '0');
    spotnik_paths_leave_out(&proposal, &view, &prepare);
    for (uint32_t i = 0; i < proposal.entry_count; i++) {
        bool stays = entry[i].flags & SPOTNIK_ENTRY_MEMBER;
        assert_true(stays != ((entry[i].flags & SPOTNIK_ENTRY_CUT) != 0));
        assert_true(entry[i].flags & SPOTNIK_ENTRY_VOTER);
        if (stays)
            text[count++] = hosts[i];
    }
    text[count] = 0;
    return text;
}

/* Claim: of two the one with the larger id goes, by the word of either; all vote. */
TEST(of_two)
{
    assert_string_equal(stay("abcd", ""), "abcd");
    assert_string_equal(stay("abcd", "02"), "abd");
    assert_string_equal(stay("abcd", "20"), "abd");
    assert_string_equal(stay("ab", "10"), "a");
}

/* Claim: a host goes with all its members, and rather one with fewer of them. */
TEST(of_hosts)
{
    assert_string_equal(stay("aabbcc", "0312"), "aacc");
    assert_string_equal(stay("abbcc", "01"), "bbcc");
    assert_string_equal(stay("aabb", "01"), "aabb");
}

/* Claim: who does not reach several goes, and not those that it accuses; paths without a common
 * host cost one each. */
TEST(of_several)
{
    assert_string_equal(stay("abcde", "010203"), "bcde");
    assert_string_equal(stay("abcde", "0123"), "ace");
    assert_string_equal(stay("abc", "011220"), "a");
}

/* Claim: what is said of a member that has not promised, or by one, is no path. */
TEST(not_promised)
{
    stand("abcd");
    report[0].promised = 0;
    report[0].cut = 2;
    report[1].cut = 1;
    spotnik_paths_leave_out(&proposal, &view, &prepare);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(entry[i].flags, SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER);
}
