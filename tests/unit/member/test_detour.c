/* SPDX-License-Identifier: Apache-2.0 */
/* Order round broken paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "member/detour.h"

enum { MAX = 12 };

static struct spotnik_entry old[MAX], entry[MAX];
static struct spotnik_report report[MAX];
static struct spotnik_view view = { .entry = old };
static struct spotnik_token token = { .report = report };
static struct spotnik_proposal proposal = { .entry = entry, .entry_max = MAX };

/* `size` members in a row, each on the host that the string names. All are voters, and stay. */
static void stand(const char *hosts)
{
    view.size = token.report_count = proposal.entry_count = (uint32_t)strlen(hosts);
    memset(report, 0, sizeof report);
    for (uint32_t i = 0; i < view.size; i++) {
        old[i] =
            (struct spotnik_entry){ .member = { .id = { 0, i + 1 }, .host = (uint64_t)hosts[i] },
                                    .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER };
        entry[i] = old[i];
        report[i].promised = 1;
    }
}

static void cut(uint32_t a, uint32_t b)
{
    report[a].cut |= UINT64_C(1) << b;
}

static uint32_t crossing(void)
{
    return spotnik_detour_crossing(&proposal, &view, &token, (struct spotnik_id){ 0, 0 });
}

/* The hosts, in the order of the ring. */
static const char *order(void)
{
    static char text[MAX + 1];
    for (uint32_t i = 0; i < proposal.entry_count; i++)
        text[i] = (char)entry[i].member.host;
    text[proposal.entry_count] = 0;
    return text;
}

static bool beside(const char *ring, char a, char b)
{
    size_t size = strlen(ring);
    for (size_t i = 0; i < size; i++)
        if ((ring[i] == a && ring[(i + 1) % size] == b)
            || (ring[i] == b && ring[(i + 1) % size] == a))
            return true;
    return false;
}

/* Claim: one broken path between any two of four to twelve hosts is gone round, by the word of
 * either, and everybody is still there once. */
static void test_any_pair(void **state)
{
    (void)state;
    for (uint32_t size = 4; size <= MAX; size++)
        for (uint32_t a = 0; a < size; a++)
            for (uint32_t b = 0; b < size; b++) {
                char hosts[MAX + 1] = "abcdefghijkl";
                uint32_t seen = 0;
                if (a == b)
                    continue;
                hosts[size] = 0;
                stand(hosts);
                cut(a, b);
                assert_true(spotnik_detour_is_needed(&proposal, &view, &token));
                spotnik_detour_arrange(&proposal, &view, &token);
                assert_false(beside(order(), hosts[a], hosts[b]));
                assert_int_equal(crossing(), SPOTNIK_NO_RANK);
                for (uint32_t i = 0; i < size; i++)
                    seen |= 1u << entry[i].member.id.low;
                assert_int_equal(seen, ((1u << size) - 1) << 1);
            }
}

/* Claim: hosts of several members are kept apart too, member by member and holder by holder. */
static void test_hosts_of_several(void **state)
{
    (void)state;
    stand("aabbccdd");
    cut(1, 2);
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_false(beside(order(), 'a', 'b'));
    assert_int_equal(crossing(), SPOTNIK_NO_RANK);
}

/* Claim: nothing is done without need, nor for the word of somebody who does not vote, nor between
 * members of one host. */
static void test_without_need(void **state)
{
    (void)state;
    stand("abcd");
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_string_equal(order(), "abcd");
    assert_false(spotnik_detour_is_needed(&proposal, &view, &token));
    cut(0, 1);
    report[0].evidence = SPOTNIK_EVIDENCE_SILENT;
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_string_equal(order(), "abcd");
    stand("aabc");
    cut(0, 1);
    assert_false(spotnik_detour_is_needed(&proposal, &view, &token));
}

/* Claim: where there is no such ring the larger id of two neighbours goes, but not who asks. */
static void test_no_ring(void **state)
{
    (void)state;
    stand("abc");
    cut(0, 1);
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_int_equal(crossing(), 1);
    assert_int_equal(spotnik_detour_crossing(&proposal, &view, &token, old[1].member.id), 0);
}

/* Claim: while members that only copied the state stand before those that lag, the order is left as
 * it is. */
static void test_order_is_not_free(void **state)
{
    (void)state;
    stand("abcd");
    entry[3].flags |= SPOTNIK_ENTRY_LAGGARD;
    report[0].bare = 1;
    cut(0, 1);
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_string_equal(order(), "abcd");
    assert_int_equal(crossing(), 1);
    report[0].bare = 0;
    spotnik_detour_arrange(&proposal, &view, &token);
    assert_false(beside(order(), 'a', 'b'));
}

/* Claim: two pairs of six hosts that share none are gone round as well. */
static void test_two_pairs(void **state)
{
    struct spotnik_prng prng;
    (void)state;
    spotnik_prng_seed(&prng, 1);
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t who[6] = { 0, 1, 2, 3, 4, 5 };
        for (uint32_t k = 5; k > 0; k--) {
            uint32_t other = (uint32_t)spotnik_prng_below(&prng, k + 1), kept = who[k];
            who[k] = who[other];
            who[other] = kept;
        }
        stand("abcdef");
        cut(who[0], who[1]);
        cut(who[2], who[3]);
        spotnik_detour_arrange(&proposal, &view, &token);
        assert_int_equal(crossing(), SPOTNIK_NO_RANK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pair),          cmocka_unit_test(test_hosts_of_several),
        cmocka_unit_test(test_without_need),      cmocka_unit_test(test_no_ring),
        cmocka_unit_test(test_order_is_not_free), cmocka_unit_test(test_two_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
