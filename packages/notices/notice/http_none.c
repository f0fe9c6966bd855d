/* SPDX-License-Identifier: Apache-2.0 */
/* Built without libcurl: no metadata service can be asked. Commands, files and signals work all the
 * same. */
#include "http.h"

#include <poll.h>

struct notice_http *notice_http_new(void)
{
    return NULL;
}

void notice_http_free(struct notice_http *http)
{
    (void)http;
}

bool notice_http_ask(struct notice_http *http, const struct notice_question *question,
                     notice_answered *answered, void *context)
{
    (void)http, (void)question, (void)answered, (void)context;
    return false;
}

void notice_http_turn(struct notice_http *http, int fd, int timeout_ms)
{
    (void)http, (void)fd, (void)timeout_ms;
}
