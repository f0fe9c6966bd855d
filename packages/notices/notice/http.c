/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP by libcurl, which is loaded when the first watch is made: the command runs where there is
 * none, and a wheel need not carry it. See http.h. */
#include "http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS 1000

/* The functions by the names that libcurl's manual has. */
/* clang-format off */
#define FUNCTIONS(X)                                                                               \
    X(curl_global_init)                                                                            \
    X(curl_easy_init)                                                                              \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_multi_init)                                                                             \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_info_read)
/* clang-format on */

#undef curl_easy_setopt
#undef curl_easy_getinfo

static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} lib;

struct notice_http {
    CURLM *multi;
};

static bool load(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    void *symbol;

    if (!handle)
        return false;
#define X(name)                                                                                    \
    symbol = dlsym(handle, #name);                                                                 \
    if (!symbol)                                                                                   \
        return false; /* older than the functions that we use */                                   \
    memcpy(&lib.name, &symbol, sizeof(symbol));
    FUNCTIONS(X)
#undef X
    return true;
}

struct call {
    CURL *easy;
    struct curl_slist *headers;
    notice_answered *answered;
    void *context;
    char error[CURL_ERROR_SIZE], flavor[32], etag[64];
    char body[NOTICE_BODY_MAX + 1];
    size_t used;
};

struct notice_http *notice_http_new(void)
{
    struct notice_http *http = calloc(1, sizeof(*http));

    if (!http || !load() || lib.curl_global_init(CURL_GLOBAL_NOTHING)) {
        free(http);
        return NULL;
    }
    http->multi = lib.curl_multi_init();
    return http;
}

static void call_free(struct call *call)
{
    if (call->easy)
        lib.curl_easy_cleanup(call->easy);
    lib.curl_slist_free_all(call->headers);
    free(call);
}

/* Calls under way are forgotten: their owner frees the watch as a whole, and the process ends. */
void notice_http_free(struct notice_http *http)
{
    if (!http)
        return;
    lib.curl_multi_cleanup(http->multi);
    free(http);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct call *call = context;

    if (size * count > NOTICE_BODY_MAX - call->used)
        return 0; /* no metadata service says so much */
    memcpy(call->body + call->used, bytes, size * count);
    call->used += size * count;
    return size * count;
}

static void take_value(const char *line, size_t length, const char *name, char *ret, size_t size)
{
    size_t at = strlen(name);

    if (length < at || strncasecmp(line, name, at))
        return;
    while (at < length && line[at] == ' ')
        at++;
    while (length > at && strchr("\r\n ", line[length - 1]))
        length--;
    snprintf(ret, size, "%.*s", (int)(length - at), line + at);
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    struct call *call = context;

    take_value(bytes, size * count, "Metadata-Flavor:", call->flavor, sizeof(call->flavor));
    take_value(bytes, size * count, "ETag:", call->etag, sizeof(call->etag));
    return size * count;
}

static void set_options(struct call *call, const struct notice_question *question)
{
    CURL *easy = call->easy;

    lib.curl_easy_setopt(easy, CURLOPT_URL, question->url);
    lib.curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, question->method);
    lib.curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever http_proxy says */
    lib.curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    lib.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    lib.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                         (long)(question->timeout_ms < CONNECT_MS ? question->timeout_ms
                                                                  : CONNECT_MS));
    lib.curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)question->timeout_ms);
    lib.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    lib.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    lib.curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    lib.curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    lib.curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    lib.curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    for (int i = 0; i < 2; i++)
        if (question->header[i][0])
            call->headers = lib.curl_slist_append(call->headers, question->header[i]);
    lib.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
}

bool notice_http_ask(struct notice_http *http, const struct notice_question *question,
                     notice_answered *answered, void *context)
{
    struct call *call = calloc(1, sizeof(*call));

    if (!call)
        return false;
    call->answered = answered;
    call->context = context;
    call->easy = lib.curl_easy_init();
    if (call->easy) {
        set_options(call, question);
        if (!lib.curl_multi_add_handle(http->multi, call->easy))
            return true;
    }
    call_free(call);
    return false;
}

static void finish(struct notice_http *http, CURL *easy, CURLcode result)
{
    struct notice_answer answer = { 0 };
    struct call *call = NULL;

    lib.curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    if (result == CURLE_OK)
        lib.curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
    answer.body = call->body;
    answer.error = call->error[0] ? call->error : lib.curl_easy_strerror(result);
    memcpy(answer.flavor, call->flavor, sizeof(answer.flavor));
    memcpy(answer.etag, call->etag, sizeof(answer.etag));
    lib.curl_multi_remove_handle(http->multi, easy);
    call->answered(call->context, &answer);
    call_free(call);
}

/* False: no call has ended. */
static bool finish_all(struct notice_http *http)
{
    bool any = false;
    CURLMsg *message;
    int left;

    while ((message = lib.curl_multi_info_read(http->multi, &left)))
        if (message->msg == CURLMSG_DONE) {
            finish(http, message->easy_handle, message->data.result);
            any = true;
        }
    return any;
}

/* An answer may be complete before we wait: nothing would then wake us for it. */
void notice_http_turn(struct notice_http *http, int fd, int timeout_ms)
{
    struct curl_waitfd wait = { .fd = fd, .events = CURL_WAIT_POLLIN };
    int running;

    lib.curl_multi_perform(http->multi, &running);
    if (finish_all(http))
        return;
    lib.curl_multi_poll(http->multi, &wait, fd >= 0, timeout_ms, NULL);
    lib.curl_multi_perform(http->multi, &running);
    finish_all(http);
}
