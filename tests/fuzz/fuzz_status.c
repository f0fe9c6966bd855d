/* SPDX-License-Identifier: Apache-2.0 */
/* What a lying member says of itself, to the page of another one: its STATUS answer. Nothing of it
 * reaches a reader but what the page takes, in the form that the page writes. */
#include <stdlib.h>
#include <string.h>

#include "watch/peer_poller.c"

#include "base/assert.h"
#include "fuzz.h"

static const uint8_t *answered;
static size_t answered_size;

/* This file plays the other member, and the log of events. */
bool spotnik_watch_event_add(struct spotnik_watch *watch, double date, const char *key, char *line)
{
    (void)watch;
    SPOTNIK_ASSERT(date >= 0 && date <= DATE_MAX && key[0]);
    SPOTNIK_ASSERT(strlen(line) < EVENT_MAX && !strpbrk(line, "\n\r\033"));
    free(line);
    return true;
}

int spotnik_net_question(const struct spotnik_credentials *credentials, const uint8_t address[16],
                         uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                         char **ret_text, size_t *ret_size)
{
    (void)credentials, (void)address, (void)port, (void)purpose, (void)timeout_ns;
    *ret_text = malloc(answered_size + 1);
    SPOTNIK_ASSERT(*ret_text);
    memcpy(*ret_text, answered, answered_size);
    *ret_size = answered_size;
    return 0;
}

const char *spotnik_http_where(const struct spotnik_http *http)
{
    (void)http;
    return "127.0.0.1:80";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spotnik_watch watch;
    static struct spotnik_watched now;
    struct spotnik_member *member = &now.member[1];

    answered = data;
    answered_size = size;
    now.member_count = 2;
    member->id = (struct spotnik_id){ 1, 2 };
    spotnik_address_parse("10.0.0.5:21210", member->address, &member->port);
    watch.now = &now;
    pthread_mutex_init(&watch.lock, NULL);
    SPOTNIK_ASSERT(ask_one(&watch) && watch.other_count == 1);
    const char *page = watch.other[0]->http;
    SPOTNIK_ASSERT(!page[0] || !strncmp(page, "10.0.0.5:", 9));
    free(watch.other[0]);
    memset(&watch, 0, sizeof watch);
    return 0;
}
