/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a bucket: signed, and sent again after failures that may pass. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/time.h"
#include "store/bucket.h"

#define DEADLINE_NS (10 * SPOTNIK_S)
#define PAUSE_NS (100 * SPOTNIK_MS) /* after the first failure; twice as long after each further */

/* Slashes of the prefix stay: a path is signed as it is sent. */
static bool url_make(const struct bucket *bucket, const struct bucket_request *request,
                     char url[BUCKET_URL_MAX])
{
    char key[sizeof bucket->prefix + SPOTNIK_OBJECTS_NAME_MAX + 1], coded[3 * sizeof key];
    snprintf(key, sizeof key, "%s%s", bucket->prefix, request->name != NULL ? request->name : "");
    if (!spotnik_bucket_encode(key, coded, sizeof coded))
        return false;
    for (char *at; (at = strstr(coded, "%2F")) != NULL;) {
        *at = '/';
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
    int length =
        snprintf(url, BUCKET_URL_MAX, "%s/%s%s%s", bucket->base, request->name != NULL ? coded : "",
                 request->query != NULL ? "?" : "", request->query != NULL ? request->query : "");
    return length > 0 && length < BUCKET_URL_MAX;
}

/* ---- one attempt ---- */

static CURL *handle_take(struct bucket *bucket, struct bucket_credentials *ret_credentials)
{
    CURL *easy = NULL;
    pthread_mutex_lock(&bucket->lock);
    bool known = spotnik_bucket_credentials_fill(bucket);
    *ret_credentials = bucket->credentials;
    for (int i = 0; known && i < BUCKET_IDLE_MAX && easy == NULL; i++) {
        easy = bucket->idle[i];
        bucket->idle[i] = NULL;
    }
    pthread_mutex_unlock(&bucket->lock);
    return !known ? NULL : easy != NULL ? easy : bucket->library->curl_easy_init();
}

static void handle_give(struct bucket *bucket, CURL *easy)
{
    bucket->library->curl_easy_reset(easy); /* the connection stays */
    pthread_mutex_lock(&bucket->lock);
    for (int i = 0; i < BUCKET_IDLE_MAX && easy != NULL; i++)
        if (bucket->idle[i] == NULL) {
            bucket->idle[i] = easy;
            easy = NULL;
        }
    pthread_mutex_unlock(&bucket->lock);
    if (easy != NULL)
        bucket->library->curl_easy_cleanup(easy);
}

static void answer_reset(struct bucket_request *request)
{
    request->answer_size = request->said_size = request->sent = 0;
    request->status = 0;
    request->etag[0] = request->version[0] = request->id[0] = request->date[0] = '\0';
    request->retry_after_ns = 0;
}

/* False, perhaps with the reason set. */
static bool message_make(const struct bucket *bucket, const struct bucket_request *request,
                         const struct bucket_credentials *credentials,
                         struct bucket_message *message)
{
    spotnik_bucket_header_add(bucket, message, "Content-Type: application/octet-stream");
    if (request->condition != NULL)
        spotnik_bucket_header_add(bucket, message, "%s", request->condition);
    if (!url_make(bucket, request, message->url))
        return spotnik_objects_fail(-EACCES, "a name is too long for %s", bucket->base) == 0;
    return bucket->service->sign(bucket, request, credentials, message);
}

/* 0: an answer came, see request->status. */
static int message_send(struct bucket *bucket, struct bucket_request *request,
                        struct bucket_message *message, uint64_t left_ns)
{
    const struct bucket_library *library = bucket->library;
    char error[CURL_ERROR_SIZE] = "";
    spotnik_bucket_transfer_set(bucket, request, message->easy, left_ns);
    library->curl_easy_setopt(message->easy, CURLOPT_HTTPHEADER, message->headers);
    library->curl_easy_setopt(message->easy, CURLOPT_ERRORBUFFER, error);
    CURLcode code = library->curl_easy_setopt(message->easy, CURLOPT_URL, message->url);
    if (code == CURLE_OK)
        code = library->curl_easy_perform(message->easy);
    if (code == CURLE_OK)
        code = library->curl_easy_getinfo(message->easy, CURLINFO_RESPONSE_CODE, &request->status);
    if (code == CURLE_OK)
        return 0;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return spotnik_objects_fail(-ECANCELED, "it was given up");
    return spotnik_objects_fail(-ETIMEDOUT, "%s %s/%s%s: %s", request->method, bucket->base,
                                bucket->prefix, request->name != NULL ? request->name : "",
                                error[0] != '\0' ? error : library->curl_easy_strerror(code));
}

static int attempt(struct bucket *bucket, struct bucket_request *request, uint64_t left_ns)
{
    struct bucket_credentials credentials;
    struct bucket_message message = { .easy = handle_take(bucket, &credentials) };
    if (message.easy == NULL)
        return -EACCES;
    answer_reset(request);
    int rc = message_make(bucket, request, &credentials, &message)
                 ? message_send(bucket, request, &message, left_ns)
                 : -EACCES;
    bucket->library->curl_slist_free_all(message.headers);
    explicit_bzero(&credentials, sizeof credentials);
    handle_give(bucket, message.easy);
    return rc;
}

/* ---- what it means ---- */

void spotnik_bucket_word_find(const struct bucket_request *request, const char *begin, char *to,
                              size_t size)
{
    const char *at = memmem(request->said, request->said_size, begin, strlen(begin)),
               *end = request->said + request->said_size;
    size_t used = 0;
    if (at != NULL)
        for (at += strlen(begin); at < end && *at != '<' && used + 1 < size; at++)
            to[used++] = *at;
    to[used] = '\0';
}

/* The condition did not hold, says a status which may pass otherwise. */
static bool is_there(const struct bucket_request *request, const char *code)
{
    return request->status == 409 && request->service->exists_code != NULL
           && strcmp(code, request->service->exists_code) == 0;
}

static bool may_pass(long status)
{
    return status == 0 || status == 409 || status == 429
           || (status >= 500 && status <= 504 && status != 501);
}

static int status_return(const struct bucket *bucket, const struct bucket_request *request)
{
    char code[64], message[160], clocks[160] = "";
    spotnik_bucket_word_find(request, "<Code>", code, sizeof code);
    spotnik_bucket_word_find(request, "<Message>", message, sizeof message);
    if (code[0] == '\0') /* an emulator, or a proxy: its own words */
        snprintf(message, sizeof message, "%.*s", (int)request->said_size, request->said);
    long status = is_there(request, code) ? 412 : request->status;
    int rc = status == 404                    ? -ENOENT
             : status == 412                  ? -EEXIST
             : status == 401 || status == 403 ? -EACCES
             : may_pass(status)               ? -ETIMEDOUT
                                              : -EIO;
    if (rc == -EACCES)
        spotnik_bucket_clocks_compare(bucket, request, clocks, sizeof clocks);
    return spotnik_objects_fail(rc, "%s%s %s/%s%s: HTTP %ld %s: %s (request %s)", clocks,
                                request->method, bucket->base, bucket->prefix,
                                request->name != NULL ? request->name : "", request->status, code,
                                message, request->id[0] != '\0' ? request->id : "without an id");
}

/* A token that ended is replaced before its time by those who made it: look for it again, once. */
static bool has_expired(struct bucket *bucket, const struct bucket_request *request)
{
    char code[64] = "";
    if (request->status == 400 || request->status == 403)
        spotnik_bucket_word_find(request, "<Code>", code, sizeof code);
    if (request->status != 401 && strcmp(code, "ExpiredToken") != 0)
        return false;
    pthread_mutex_lock(&bucket->lock);
    bucket->have_expired = true;
    pthread_mutex_unlock(&bucket->lock);
    return true;
}

static void pause_for(uint64_t ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / SPOTNIK_S),
                             .tv_nsec = (long)(ns % SPOTNIK_S) };
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

int spotnik_bucket_request(struct bucket *bucket, struct bucket_request *request)
{
    uint64_t until_ns = spotnik_clock_ns() + DEADLINE_NS + request->large_ns, pause_ns = PAUSE_NS,
             now_ns;
    bool renewed = false;
    request->service = bucket->service;
    for (;; pause_ns *= 2) {
        int rc = attempt(bucket, request, spotnik_time_since(until_ns, spotnik_clock_ns()));
        if (rc == -EACCES || rc == -ECANCELED)
            return rc;
        if (request->status >= 200 && request->status < 300)
            return 0;
        if (rc == 0)
            rc = status_return(bucket, request);
        bool expired = !renewed && has_expired(bucket, request);
        renewed |= expired;
        now_ns = spotnik_clock_ns();
        uint64_t wait_ns = request->retry_after_ns > pause_ns ? request->retry_after_ns : pause_ns;
        if ((rc != -ETIMEDOUT && !expired) || spotnik_time_add(now_ns, wait_ns) >= until_ns
            || spotnik_bucket_is_stopped(request))
            return rc;
        pause_for(wait_ns);
    }
}
