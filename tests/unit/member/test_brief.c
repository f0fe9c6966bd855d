/* SPDX-License-Identifier: Apache-2.0 */
/* Brief proposals and tokens: what is packed comes out as it went in, whatever follows from a view;
 * a proposal that is built on another view is refused; and after a loss the runs are as many as the
 * places where something differs, whatever the size of the view. */
#include "member/brief.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define N_MAX 12
#define MANY 1000

static struct spotnik_view view_of(struct spotnik_entry *entry, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        entry[i] = (struct spotnik_entry){
            .member.id = { 1, i + 1 }, .member.host = i, .flags = SPOTNIK_ENTRY_MEMBER, .share = i
        };
    return (struct spotnik_view){ .epoch = 7, .size = size, .entry = entry };
}

static void append(struct spotnik_proposal *proposal, const struct spotnik_member *member,
                   uint32_t flags, uint32_t share)
{
    proposal->entry[proposal->entry_count++] =
        (struct spotnik_entry){ .member = *member, .flags = flags, .share = share };
}

/* Some members stay, some are swapped, some are new; flags and shares of any kind. */
static void draw(struct spotnik_prng *prng, const struct spotnik_view *view,
                 struct spotnik_proposal *proposal)
{
    proposal->entry_count = 0;
    proposal->epoch = view->epoch + 1;
    for (uint32_t i = 0; i < view->size; i++)
        if (spotnik_prng_chance(prng, 4, 5))
            append(proposal, &view->entry[i].member, 1 + spotnik_prng_chance(prng, 1, 4),
                   spotnik_prng_chance(prng, 1, 3) ? SPOTNIK_NO_SHARE : i);
    for (uint32_t i = 0; i < 3 && spotnik_prng_chance(prng, 1, 2); i++) {
        struct spotnik_member stranger = { .id = { 2, i + 1 }, .port = 5 };
        append(proposal, &stranger, SPOTNIK_ENTRY_JOINER, SPOTNIK_NO_SHARE);
    }
    if (proposal->entry_count < 2 || spotnik_prng_chance(prng, 1, 2))
        return;
    uint32_t a = (uint32_t)spotnik_prng_below(prng, proposal->entry_count),
             b = (uint32_t)spotnik_prng_below(prng, proposal->entry_count);
    struct spotnik_entry entry = proposal->entry[a];
    proposal->entry[a] = proposal->entry[b];
    proposal->entry[b] = entry;
}

/* As a decoder leaves it: only the new members, without flags and shares. */
static void pack(struct spotnik_proposal *proposal)
{
    uint32_t to = 0, at = 0;

    for (uint32_t i = 0; i < proposal->brief.run_count; at += proposal->brief.run[i++].count)
        for (uint32_t k = 0;
             proposal->brief.run[i].rank == SPOTNIK_NO_RANK && k < proposal->brief.run[i].count;
             k++)
            proposal->entry[to++] =
                (struct spotnik_entry){ .member = proposal->entry[at + k].member };
    memset(proposal->entry + to, 0xa5, (proposal->entry_max - to) * sizeof *proposal->entry);
    proposal->packed = true;
}

static void assert_same(const struct spotnik_entry *a, const struct spotnik_entry *b,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(spotnik_id_equal(a[i].member.id, b[i].member.id));
        assert_int_equal(a[i].member.host, b[i].member.host);
        assert_int_equal(a[i].member.port, b[i].member.port);
        assert_int_equal(a[i].flags, b[i].flags);
        assert_int_equal(a[i].share, b[i].share);
    }
}

TEST(what_is_packed_comes_out_again)
{
    struct spotnik_entry entry[N_MAX], drawn[2 * N_MAX], kept[2 * N_MAX];
    static struct spotnik_proposal proposal;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 1);
    for (int i = 0; i < 20000; i++) {
        struct spotnik_view view = view_of(entry, 1 + (uint32_t)spotnik_prng_below(&prng, N_MAX));
        proposal.entry = drawn;
        proposal.entry_max = 2 * N_MAX;
        draw(&prng, &view, &proposal);
        memcpy(kept, drawn, sizeof kept);
        spotnik_brief_make(&proposal, &view, 0);
        assert_true(proposal.brief.run_count > 0 || proposal.entry_count == 0);
        pack(&proposal);
        assert_true(spotnik_brief_unpack(&proposal, &view));
        assert_false(proposal.packed);
        assert_same(drawn, kept, proposal.entry_count);
    }
}

TEST(only_what_follows_is_unpacked)
{
    struct spotnik_entry entry[N_MAX], drawn[2 * N_MAX];
    static struct spotnik_proposal proposal;
    struct spotnik_view view = view_of(entry, N_MAX);

    proposal = (struct spotnik_proposal){ .epoch = 8, .entry = drawn, .entry_max = 2 * N_MAX };
    for (uint32_t i = 0; i < N_MAX; i++)
        append(&proposal, &entry[i].member, 3, i);
    spotnik_brief_make(&proposal, &view, N_MAX);
    assert_int_equal(proposal.brief.run_count, 0); /* the view is small */
    spotnik_brief_make(&proposal, &view, N_MAX - 1);
    assert_int_equal(proposal.brief.run_count, 1);
    pack(&proposal);
    struct spotnik_view shorter = view, foreign = view, later = view;
    shorter.size--;
    foreign.founding.id++;
    later.epoch++;
    assert_false(spotnik_brief_unpack(&proposal, &shorter));
    assert_false(spotnik_brief_unpack(&proposal, &foreign));
    assert_false(spotnik_brief_unpack(&proposal, &later));
    assert_true(proposal.packed);
    assert_true(spotnik_brief_unpack(&proposal, &view));
}

TEST(a_loss_costs_as_many_runs_as_there_are_gaps)
{
    struct spotnik_entry *entry = calloc(2 * MANY, sizeof *entry);
    static struct spotnik_proposal proposal;
    struct spotnik_view view = view_of(entry, MANY);

    for (uint32_t keep = 0; keep < 2; keep++) {
        proposal =
            (struct spotnik_proposal){ .epoch = 8, .entry = entry + MANY, .entry_max = MANY };
        for (uint32_t i = 0; i < MANY; i++)
            if (i != 10 && i != 500 && i != 999)
                append(&proposal, &entry[i].member, 3, keep ? i : proposal.entry_count);
        spotnik_brief_make(&proposal, &view, 64);
        assert_int_equal(proposal.brief.run_count, 3);
    }
    for (uint32_t i = 0; i < proposal.entry_count; i++)
        proposal.entry[i].flags = 1 + i % 2; /* a run for each: whole is shorter */
    spotnik_brief_make(&proposal, &view, 64);
    assert_int_equal(proposal.brief.run_count, 0);
    free(entry);
}

TEST(reports_that_differ_only_by_rank_are_one_run)
{
    struct spotnik_report report[8] = { { 0 } };
    bool ascending;

    assert_int_equal(spotnik_brief_reports(report, 8, &ascending), 8);
    assert_false(ascending);
    for (uint32_t i = 0; i < 8; i++)
        report[i] = (struct spotnik_report){
            .promised = 1, .begun = 1, .committed = 4, .share = i, .share_count = 8
        };
    assert_int_equal(spotnik_brief_reports(report, 8, &ascending), 8);
    assert_true(ascending);
    report[5].committed = 3;
    assert_int_equal(spotnik_brief_reports(report, 8, &ascending), 5);
    report[3].share = SPOTNIK_NO_SHARE;
    assert_int_equal(spotnik_brief_reports(report, 8, &ascending), 3);
    assert_int_equal(spotnik_brief_reports(report + 3, 5, &ascending), 1);
    assert_false(ascending);
    report[1].cut = 1;
    assert_int_equal(spotnik_brief_reports(report, 8, &ascending), 1);
    assert_false(ascending);
}
