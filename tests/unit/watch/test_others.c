/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks other members, against a member played by this file. Claims: a newcomer
 * whose watcher had no time for the first question is asked again, though no page is open: so its
 * address gets among Prometheus' targets. What a lying member says reaches no reader: neither
 * another address than its own, nor more of an event than its fields. */
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "link/address.h"
#include "link/dial.h"
#include "spotnik/spotnik.h"
#include "transfer/thread.h"
#include "watch/inside.h"
#include "tests.h"

#define ADDRESS "10.0.0.5:4711"

static sem_t told;
static int questions;
static const char *answer[2]; /* to the first question, and to all others */
static char *kept;            /* the last event that was believed */

bool spotnik_watch_event_add(struct spotnik_watch *watch, double date, const char *key, char *line)
{
    (void)watch, (void)date, (void)key;
    free(kept);
    kept = line;
    return true;
}

int spotnik_net_question(const struct spotnik_credentials *credentials, const uint8_t address[16],
                         uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                         char **ret_text, size_t *ret_size)
{
    (void)credentials, (void)address, (void)port, (void)timeout_ns;
    assert_int_equal(purpose, SPOTNIK_PURPOSE_STATUS);
    *ret_text = strdup(answer[questions > 0]);
    *ret_size = strlen(*ret_text);
    questions++;
    sem_post(&told);
    return 0;
}

/* Our own page, where a test says that there is one. */
const char *spotnik_http_where(const struct spotnik_http *http)
{
    return (const char *)http;
}

static struct spotnik_watch *watch_new(void)
{
    struct spotnik_watch *watch = calloc(1, sizeof *watch);
    struct spotnik_member *member;

    assert_non_null(watch);
    watch->now = calloc(1, sizeof *watch->now);
    assert_non_null(watch->now);
    watch->now->now_ns = spotnik_clock_ns();
    watch->now->member_count = 2;
    member = &watch->now->member[1];
    member->id = (struct spotnik_id){ 1, 2 };
    assert_int_equal(spotnik_address_parse("10.0.0.5:21210", member->address, &member->port), 0);
    pthread_mutex_init(&watch->lock, NULL);
    spotnik_flag_init(&watch->ask);
    sem_init(&told, 0, 0);
    questions = 0;
    return watch;
}

/* Until it has asked that often; what it heard is in the table. */
static void asks(struct spotnik_watch *watch, int times)
{
    assert_int_equal(pthread_create(&watch->asker, NULL, spotnik_watch_ask, watch), 0);
    for (int i = 0; i < times; i++)
        sem_wait(&told); /* the runner's limit ends a test that waits for ever */
    __atomic_store_n(&watch->stopping, true, __ATOMIC_RELEASE);
    spotnik_flag_raise(&watch->ask);
    pthread_join(watch->asker, NULL);
    assert_int_equal(watch->other_count, 1);
}

static void watch_free(struct spotnik_watch *watch)
{
    free(watch->other[0]);
    free(watch->now);
    free(watch);
    free(kept);
    kept = NULL;
}

TEST(asked_again)
{
    struct spotnik_watch *watch = watch_new();

    answer[0] = "{\"step_committed\":812}";
    answer[1] = "{\"step_committed\":813,\"http\":\"" ADDRESS "\",\"events\":[]}";
    asks(watch, 2);
    assert_string_equal(watch->other[0]->http, ADDRESS);
    assert_true(watch->other[0]->http_at_member);
    assert_true(watch->other[0]->known);
    watch_free(watch);
}

TEST(another_address_is_no_page)
{
    static const char *const wrong[] = {
        "10.0.0.6:4711",   "evil.example:80", "127.0.0.1:4711", "10.0.0.5",        "10.0.0.5:0",
        "10.0.0.5:4711/x", "\\\"><script>",   "[::1]:1",        "10.0.0.5:4711@b", "",
    };
    char text[200];

    answer[0] = text;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct spotnik_watch *watch = watch_new();
        snprintf(text, sizeof text, "{\"events\":[],\"http\":\"%s\"}", wrong[i]);
        asks(watch, 1);
        assert_true(watch->other[0]->known);
        assert_string_equal(watch->other[0]->http, "");
        watch_free(watch);
    }
}

/* All members of one host, say: pages on loopback lead to pages on loopback, without the token. */
TEST(loopback_is_a_page_for_loopback_alone)
{
    static char own[][20] = { "127.0.0.1:9640", "10.0.0.4:9640" };

    answer[0] = "{\"events\":[],\"http\":\"127.0.0.1:9641\"}";
    for (int i = 0; i < 2; i++) {
        struct spotnik_watch *watch = watch_new();
        watch->http = (struct spotnik_http *)own[i];
        asks(watch, 1);
        assert_string_equal(watch->other[0]->http, i == 0 ? "127.0.0.1:9641" : "");
        assert_false(watch->other[0]->http_at_member);
        watch_free(watch);
    }
}

#define EVENT(t, id, name, member, step)                                                           \
    "{\"events\":[{\"t\":" t ",\"id\":\"" id "\",\"event\":\"" name "\",\"member\":\"" member      \
    "\",\"step\":" step ",\"text\":\"<b>\",\"more\":\"<i>\"}]}"

TEST(an_event_has_its_fields_and_no_more)
{
    static const char *const wrong[] = {
        EVENT("1e300", "S112", "lost", "0a", "1"),     EVENT("\"x\"", "S112", "lost", "0a", "1"),
        EVENT("1.5", "<S112>", "lost", "0a", "1"),     EVENT("1.5", "S112", "<lost>", "0a", "1"),
        EVENT("1.5", "S112", "lost", "<script>", "1"),
    };
    struct spotnik_watch *watch;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        answer[0] = wrong[i];
        watch = watch_new();
        asks(watch, 1);
        assert_null(kept);
        watch_free(watch);
    }
    answer[0] = EVENT("1.5", "S112", "lost", "0a", "\"<script>\"");
    watch = watch_new();
    asks(watch, 1);
    assert_non_null(kept);
    json_t *event = json_loads(kept, 0, NULL);
    assert_int_equal(json_object_size(event), 8);
    assert_true(json_is_integer(json_object_get(event, "step")));
    assert_string_equal(json_string_value(json_object_get(event, "text")), "<b>");
    json_decref(event);
    watch_free(watch);
}
