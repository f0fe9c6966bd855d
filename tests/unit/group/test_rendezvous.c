/* SPDX-License-Identifier: Apache-2.0 */
/* Where the processes of a group meet. Claims: each follower gets the leader's own memory, whoever
 * comes first; a second process of one rank, one of another size and a connection that says nothing
 * are refused or dropped, and the group meets all the same. A process that waits in vain is told
 * which ranks are missing. A leader that cannot accept returns SYSTEM. */
#include "group/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "processes.h"
#include "spotnik/group.h"
#include "tests.h"

enum { SIZE = 3 };

struct meeting {
    char name[64];
    uint32_t size;
    uint64_t until_ns;
};

static struct meeting meeting_new(uint64_t wait_ns)
{
    struct meeting meeting = { .size = SIZE, .until_ns = spotnik_clock_ns() + wait_ns };

    group_name(meeting.name);
    return meeting;
}

static int memory_with(char letter)
{
    int memory = memfd_create("test", 0);

    assert_int_equal(pwrite(memory, &letter, 1, 0), 1);
    return memory;
}

/* The letter it finds in the memory, or minus the error. */
static int follow(void *context, uint32_t rank)
{
    const struct meeting *meeting = context;
    char letter = 0;
    int memory, rc = spotnik_rendezvous_follow(meeting->name, rank, meeting->size,
                                               meeting->until_ns, &memory);

    if (rc == 0 && pread(memory, &letter, 1, 0) != 1)
        return 200;
    return rc == 0 ? letter : -rc;
}

TEST(everybody_gets_the_memory)
{
    struct meeting meeting = meeting_new(30 * SPOTNIK_S);
    pid_t first = process_start(follow, &meeting, 2), second = process_start(follow, &meeting, 1);

    int memory = memory_with('g');
    assert_int_equal(spotnik_rendezvous_lead(meeting.name, SIZE, memory, meeting.until_ns), 0);
    assert_int_equal(process_end(first), 'g');
    assert_int_equal(process_end(second), 'g');
    close(memory);
}

static int lead(void *context, uint32_t rank)
{
    const struct meeting *meeting = context;

    (void)rank;
    return -spotnik_rendezvous_lead(meeting->name, SIZE, memory_with('l'), meeting->until_ns);
}

/* With two descriptors to spare: the memory, and where it listens. */
static int lead_with_few(void *context, uint32_t rank)
{
    int next = dup(0);
    struct rlimit limit = { (rlim_t)next + 2, (rlim_t)next + 2 };

    close(next);
    return setrlimit(RLIMIT_NOFILE, &limit) ? 200 : lead(context, rank);
}

TEST(a_leader_without_descriptors_says_so)
{
    struct meeting meeting = meeting_new(30 * SPOTNIK_S);
    pid_t leader = process_start(lead_with_few, &meeting, 0);

    assert_int_not_equal(follow(&meeting, 1), 'l');
    assert_int_equal(process_end(leader), -SPOTNIK_ERR_SYSTEM);
}

TEST(a_second_one_and_another_size_are_refused)
{
    struct meeting meeting = meeting_new(30 * SPOTNIK_S);
    pid_t leader = process_start(lead, &meeting, 0);

    assert_int_equal(follow(&meeting, 1), 'l');
    assert_int_equal(follow(&meeting, 1), -SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "rank 1 of 3"));
    meeting.size = 4;
    assert_int_equal(follow(&meeting, 2), -SPOTNIK_ERR_ARGUMENT);
    meeting.size = SIZE;
    assert_int_equal(follow(&meeting, 2), 'l');
    assert_int_equal(process_end(leader), 0);
}

TEST(who_has_not_come_is_named)
{
    struct meeting meeting = meeting_new(300 * SPOTNIK_MS);

    assert_int_equal(spotnik_rendezvous_lead(meeting.name, SIZE, 0, meeting.until_ns),
                     SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "not come: 1 2."));
    assert_int_equal(follow(&meeting, 1), -SPOTNIK_ERR_PEERS);
}

TEST(a_name_that_is_taken)
{
    struct meeting meeting = meeting_new(30 * SPOTNIK_S);
    pid_t leader = process_start(lead, &meeting, 0);

    assert_int_equal(follow(&meeting, 1), 'l'); /* it has the name */
    assert_int_equal(spotnik_rendezvous_lead(meeting.name, SIZE, 0, meeting.until_ns),
                     SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "another name"));
    assert_int_equal(follow(&meeting, 2), 'l');
    assert_int_equal(process_end(leader), 0);
}
