/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a view, exhaustively for up to six members on up to four hosts: against what is meant by
 * them, and that the holders form one ring that all members see alike. */
#include "member/hosts.h"
#include "tests.h"

#define N_MAX 6
#define HOSTS 4

static struct spotnik_entry entry[N_MAX];

/* Digits of `number`, to the base of HOSTS, are the hosts of the ranks. */
static struct spotnik_view view_of(uint32_t size, uint32_t number)
{
    for (uint32_t rank = 0; rank < size; rank++, number /= HOSTS)
        entry[rank] = (struct spotnik_entry){ .member.host = 1 + number % HOSTS };
    return (struct spotnik_view){ .size = size, .entry = entry };
}

static struct spotnik_hosts hosts_of(const struct spotnik_view *view, uint32_t rank)
{
    uint32_t ranks[N_MAX], scratch[4 * N_MAX], count = spotnik_hosts_holders(view, ranks, scratch);

    return spotnik_hosts_of(view, rank, ranks, count);
}

static uint32_t holder_of(const struct spotnik_view *view, uint32_t rank)
{
    uint32_t holder = 0;
    while (!spotnik_hosts_mate(view, holder, rank))
        holder++;
    return holder;
}

static void check_member(const struct spotnik_view *view, uint32_t rank)
{
    struct spotnik_hosts hosts = hosts_of(view, rank),
                         of_holder = hosts_of(view, holder_of(view, rank));
    uint32_t members = 0, place = 0;
    for (uint32_t i = 0; i < view->size; i++) {
        members += spotnik_hosts_mate(view, i, rank);
        place += i < rank && spotnik_hosts_mate(view, i, rank);
    }
    assert_int_equal(hosts.members, members);
    assert_int_equal(hosts.place, place);
    assert_int_equal(of_holder.place, 0);
    assert_int_equal(hosts.index, of_holder.index);
    assert_int_equal(hosts.next, of_holder.next);
    assert_int_equal(hosts.previous, of_holder.previous);
    assert_int_equal(hosts_of(view, hosts.next).previous, holder_of(view, rank));
    assert_int_equal(hosts_of(view, hosts.previous).next, holder_of(view, rank));
    assert_int_equal(hosts_of(view, hosts.next).index, (hosts.index + 1) % hosts.count);
}

/* Claim: from holder to holder one comes by every host once, and back. */
static void check_round(const struct spotnik_view *view)
{
    uint32_t at = 0, seen = 0;
    struct spotnik_hosts hosts = hosts_of(view, 0);
    assert_int_equal(hosts.index, 0);
    do {
        assert_int_equal(hosts_of(view, at).place, 0);
        at = hosts_of(view, at).next;
        seen++;
    } while (at != 0 && seen <= view->size);
    assert_int_equal(seen, hosts.count);
}

static void check_holders(const struct spotnik_view *view)
{
    uint32_t ranks[N_MAX], scratch[4 * N_MAX], count = spotnik_hosts_holders(view, ranks, scratch);

    assert_int_equal(count, hosts_of(view, 0).count);
    assert_int_equal(count, spotnik_hosts_count(view));
    for (uint32_t rank = 0; rank < view->size; rank++)
        assert_int_equal(ranks[hosts_of(view, rank).index], holder_of(view, rank));
}

TEST(all_views)
{
    for (uint32_t size = 1, views = HOSTS; size <= N_MAX; size++, views *= HOSTS)
        for (uint32_t number = 0; number < views; number++) {
            struct spotnik_view view = view_of(size, number);
            for (uint32_t rank = 0; rank < size; rank++)
                check_member(&view, rank);
            check_round(&view);
            check_holders(&view);
        }
}
