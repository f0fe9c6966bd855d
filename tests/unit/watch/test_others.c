/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks other members, against a member played by this file. Claim: a newcomer whose
 * watcher had no time for the first question is asked again, though nobody looks at the page: so
 * its address gets among Prometheus' targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "spotnik/spotnik.h"
#include "transfer/thread.h"
#include "watch/inside.h"

#define ADDRESS "127.0.0.1:4711"

static sem_t told;
static int questions;

bool spotnik_watch_event_add(struct spotnik_watch *watch, double date, const char *key, char *line)
{
    (void)watch, (void)date, (void)key, (void)line;
    return false;
}

/* What a member answers without its watcher, and then with it. */
int spotnik_net_question(const struct spotnik_credentials *credentials, const uint8_t address[16],
                         uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                         char **ret_text, size_t *ret_size)
{
    static const char *const answer[] = { "{\"step_committed\":812}",
                                          "{\"step_committed\":813,\"http\":\"" ADDRESS
                                          "\",\"events\":[]}" };

    (void)credentials, (void)address, (void)port, (void)timeout_ns;
    assert_int_equal(purpose, SPOTNIK_PURPOSE_STATUS);
    *ret_text = strdup(answer[questions > 0]);
    *ret_size = strlen(*ret_text);
    questions++;
    sem_post(&told);
    return 0;
}

static void asked_again(void **state)
{
    struct spotnik_watch *watch = calloc(1, sizeof *watch);
    struct spotnik_watched *now = calloc(1, sizeof *now);

    (void)state;
    assert_true(watch && now);
    now->now_ns = spotnik_clock_ns();
    now->member_count = 2;
    now->member[1] = (struct spotnik_member){ .id = { 1, 2 }, .port = 21210 };
    watch->now = now;
    pthread_mutex_init(&watch->lock, NULL);
    sem_init(&watch->ask, 0, 0);
    sem_init(&told, 0, 0);
    assert_int_equal(pthread_create(&watch->asker, NULL, spotnik_watch_ask, watch), 0);
    for (int i = 0; i < 2; i++)
        sem_wait(&told); /* the runner's limit ends a test that waits for ever */
    __atomic_store_n(&watch->stopping, true, __ATOMIC_RELEASE);
    sem_post(&watch->ask);
    pthread_join(watch->asker, NULL);
    assert_int_equal(watch->other_count, 1);
    assert_string_equal(watch->other[0]->http, ADDRESS);
    assert_true(watch->other[0]->known);
    free(watch->other[0]);
    free(now);
    free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(asked_again) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
