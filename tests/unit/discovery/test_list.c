/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: in a list of addresses an answer counts where it was asked, and a process once; a part of
 * the list founds nothing unless the user has said so; and two jobs of one name are told apart. */
#include "meeting.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests.h"

/* A virtual IP, or a NAT that turns a host's own packets back: whatever comes goes to another port
 * of this host. */
struct forwarder {
    int listener;
    uint16_t port, to;
    int stop[2];
    pthread_t thread;
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* False: the connection has ended. */
static bool carry(int from, int to)
{
    char bytes[4096];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    return got > 0 && send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void forward(const struct forwarder *forwarder, int service)
{
    struct sockaddr_in address = loopback(forwarder->to);
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool live = host >= 0 && connect(host, (struct sockaddr *)&address, sizeof address) == 0;
    while (live) {
        struct pollfd ends[] = { { .fd = service, .events = POLLIN },
                                 { .fd = host, .events = POLLIN },
                                 { .fd = forwarder->stop[0], .events = POLLIN } };
        live = poll(ends, 3, -1) > 0 && ends[2].revents == 0
               && (ends[0].revents == 0 || carry(service, host))
               && (ends[1].revents == 0 || carry(host, service));
    }
    close(host);
}

static void *forwarder_run(void *context)
{
    struct forwarder *forwarder = context;
    for (;;) {
        struct pollfd ends[] = { { .fd = forwarder->listener, .events = POLLIN },
                                 { .fd = forwarder->stop[0], .events = POLLIN } };
        if (poll(ends, 2, -1) < 0 || ends[1].revents != 0)
            return NULL;
        int service = accept(forwarder->listener, NULL, NULL);
        if (service < 0)
            continue;
        forward(forwarder, service);
        close(service);
    }
}

static void forwarder_start(struct forwarder *forwarder, uint16_t to)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    forwarder->to = to;
    forwarder->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(forwarder->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(forwarder->listener, 8), 0);
    assert_int_equal(getsockname(forwarder->listener, (struct sockaddr *)&address, &size), 0);
    forwarder->port = ntohs(address.sin_port);
    assert_int_equal(pipe(forwarder->stop), 0);
    assert_int_equal(pthread_create(&forwarder->thread, NULL, forwarder_run, forwarder), 0);
}

static void forwarder_end(struct forwarder *forwarder)
{
    assert_int_equal(write(forwarder->stop[1], "x", 1), 1);
    pthread_join(forwarder->thread, NULL);
    close(forwarder->stop[0]);
    close(forwarder->stop[1]);
    close(forwarder->listener);
}

/* It looks in a list for half of T, and must not found. */
static void expect_in_vain(struct seeker *seeker, const char *list, const char *why)
{
    assert_int_equal(spotnik_discovery_new(list, seeker->runtime, &seeker->discovery), 0);
    assert_int_equal(spotnik_discovery_find(seeker->discovery, true, STALE_NS, NULL, NULL,
                                            &seeker->found, &seeker->sponsor),
                     SPOTNIK_ERR_PEERS);
    if (strstr(spotnik_last_error(), why) == NULL)
        fail_msg("%s", spotnik_last_error());
    spotnik_discovery_free(seeker->discovery);
    seeker->discovery = NULL;
}

static uint16_t port_of(const struct seeker *seeker)
{
    return spotnik_runtime_credentials(seeker->runtime)->self.port;
}

/* With it the asker would be both of two. */
TEST(an_own_echo_is_no_vote)
{
    struct seeker seeker;
    struct forwarder forwarder = { .listener = -1 };
    char list[128];
    seeker_open(&seeker, 1, 0);
    forwarder_start(&forwarder, port_of(&seeker));
    snprintf(list, sizeof list, "127.0.0.1:%u,127.0.0.1:%u", port_of(&seeker), forwarder.port);
    expect_in_vain(&seeker, list, "leads back to this process");
    forwarder_end(&forwarder);
    spotnik_runtime_free(seeker.runtime, true);
}

/* One process behind two addresses is one. */
TEST(an_answer_counts_where_it_was_asked)
{
    struct seeker seeker, other;
    struct forwarder forwarder = { .listener = -1 };
    char list[192];
    seeker_open(&seeker, 1, 0);
    seeker_open(&other, 2, 0);
    spotnik_runtime_vote_set(other.runtime, &spotnik_runtime_credentials(seeker.runtime)->self);
    forwarder_start(&forwarder, port_of(&other));
    snprintf(list, sizeof list, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", port_of(&seeker),
             port_of(&other), forwarder.port);
    expect_in_vain(&seeker, list, "list that address");
    forwarder_end(&forwarder);
    spotnik_runtime_free(seeker.runtime, true);
    spotnik_runtime_free(other.runtime, true);
}

/* Two of three, who both vote for one: the third may be in a job. */
TEST(a_part_of_the_list_founds_nothing)
{
    struct seeker seeker, other;
    char list[128];
    seeker_open(&seeker, 1, 0);
    seeker_open(&other, 2, 0);
    spotnik_runtime_vote_set(other.runtime, &spotnik_runtime_credentials(seeker.runtime)->self);
    snprintf(list, sizeof list, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", port_of(&seeker),
             port_of(&other), port_unused());
    expect_in_vain(&seeker, list, "2 of 3 listed processes are up: a new job needs all of them");
    spotnik_runtime_free(seeker.runtime, true);
    spotnik_runtime_free(other.runtime, true);
}

/* The only listed process starts anew while a member lives that is not listed: that one asks it,
 * and so it finds the job. */
TEST(a_member_that_is_not_listed_is_found)
{
    struct seeker member, newcomer;
    char list[64];
    seeker_open(&member, 1, 0);
    seeker_open(&newcomer, 2, 0);
    /* stands for a job that the listed one founded before */
    spotnik_runtime_found(member.runtime, NULL, NULL);
    snprintf(list, sizeof list, "127.0.0.1:%u", port_of(&newcomer));
    assert_int_equal(spotnik_discovery_new(list, member.runtime, &member.discovery), 0);
    assert_int_equal(spotnik_discovery_new(list, newcomer.runtime, &newcomer.discovery), 0);
    assert_int_equal(spotnik_discovery_find(newcomer.discovery, true, 10 * SECOND, NULL, NULL,
                                            &newcomer.found, &newcomer.sponsor),
                     0);
    assert_false(newcomer.found);
    assert_true(spotnik_id_equal(newcomer.sponsor.id, cluster_id(1)));
    seeker_close(&newcomer);
    seeker_close(&member);
}

/* The only member of a job of this name. */
static void job_start(struct seeker *member, uint64_t number, uint64_t founding)
{
    struct spotnik_founding of = { .id = founding, .root = founding, .founded_at_ms = 1 };
    seeker_open(member, number, 0);
    spotnik_runtime_found(member->runtime, NULL, &of);
}

/* Which of the two is meant nobody can know. */
TEST(a_newcomer_between_two_jobs_is_refused)
{
    struct seeker one, other, newcomer;
    char list[128];
    job_start(&one, 1, 0xa0);
    job_start(&other, 2, 0xb0);
    seeker_open(&newcomer, 3, 0);
    snprintf(list, sizeof list, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", port_of(&newcomer),
             port_of(&one), port_of(&other));
    assert_int_equal(spotnik_discovery_new(list, newcomer.runtime, &newcomer.discovery), 0);
    assert_int_equal(spotnik_discovery_find(newcomer.discovery, true, 10 * SECOND, NULL, NULL,
                                            &newcomer.found, &newcomer.sponsor),
                     SPOTNIK_ERR_LINEAGE);
    assert_non_null(strstr(spotnik_last_error(), "00000000000000a0 (founded "));
    assert_non_null(strstr(spotnik_last_error(), "00000000000000b0 (founded "));
    assert_non_null(strstr(spotnik_last_error(), "1 member, step 0"));
    seeker_close(&newcomer);
    seeker_close(&one);
    seeker_close(&other);
}

/* Members of two jobs that meet make no link, both go on, and each tells of it once. */
TEST(two_jobs_that_meet_go_on)
{
    struct seeker one, other;
    char text[400] = "";
    job_start(&one, 1, 0xa0);
    job_start(&other, 2, 0xb0);
    const struct spotnik_member *there = &spotnik_runtime_credentials(other.runtime)->self;
    for (int i = 0; i < 3; i++) {
        struct spotnik_credentials self = *spotnik_runtime_credentials(one.runtime);
        struct spotnik_answer answer;
        spotnik_runtime_presence(one.runtime, &self.presence);
        assert_int_equal(spotnik_net_ask(&self, there->address, there->port, 10 * SECOND, &answer,
                                         NULL),
                         0);
        assert_true(spotnik_runtime_is_foreign(one.runtime, &answer));
        spotnik_runtime_greet(one.runtime, there);
    }
    assert_int_equal(spotnik_runtime_lineage_told(one.runtime, text, sizeof text), 1);
    assert_non_null(strstr(text, "00000000000000b0 (founded "));
    assert_non_null(strstr(text, "Both go on"));
    assert_int_equal(spotnik_runtime_lineage_told(other.runtime, text, sizeof text), 1);
    assert_non_null(strstr(text, "00000000000000a0 (founded "));
    struct seeker *of[] = { &one, &other };
    for (int i = 0; i < 2; i++) {
        spotnik_step step;
        assert_int_equal(spotnik_runtime_step_begin(of[i]->runtime, false, &step), 0);
        assert_int_equal(spotnik_runtime_step_commit(of[i]->runtime), 0);
        assert_int_equal(step.size, 1);
        seeker_close(of[i]);
    }
}

int main(void)
{
    char stale_ms[16];
    snprintf(stale_ms, sizeof stale_ms, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", stale_ms, 1);
    return tests_run(NULL, NULL);
}
