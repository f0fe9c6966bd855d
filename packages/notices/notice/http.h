/* SPDX-License-Identifier: Apache-2.0 */
/* Short questions over plain HTTP, several at a time, on one thread: what metadata services need
 * and no more. Never over a proxy: these addresses are link-local. Where libcurl is missing nothing
 * can be asked. */
#ifndef NOTICE_HTTP_H
#define NOTICE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTICE_BODY_MAX 65536

struct notice_http;

struct notice_question {
    const char *method; /* GET or PUT */
    char url[600];
    char header[2][600]; /* "" where there is none */
    uint32_t timeout_ms;
};

struct notice_answer {
    long status;               /* 0: there was none */
    char *body;                /* with a final 0 */
    char flavor[32], etag[64]; /* headers Metadata-Flavor and ETag; "" without */
    const char *error;         /* of libcurl, where status is 0 */
};

typedef void notice_answered(void *context, const struct notice_answer *answer);

/* NULL: no memory, or built without libcurl. */
struct notice_http *notice_http_new(void);
void notice_http_free(struct notice_http *http);

/* Ask; `answered` is called once, from notice_http_turn(). False: no memory; it is not called
 * then. */
bool notice_http_ask(struct notice_http *http, const struct notice_question *question,
                     notice_answered *answered, void *context);

/* Wait for answers, for `fd` (-1: none) to become readable, or for timeout_ms. */
void notice_http_turn(struct notice_http *http, int fd, int timeout_ms);

#endif
