/* SPDX-License-Identifier: Apache-2.0 */
/* One request to the bucket: signed by libcurl, and sent again after failures that may pass. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/time.h"
#include "store/s3.h"

#define DEADLINE_NS (10 * SPOTNIK_S)
#define CONNECT_MS 3000L
#define ATTEMPT_MS 5000L
#define PAUSE_NS (100 * SPOTNIK_MS) /* after the first failure; twice as long after each further */
#define URL_BYTES 3500
#define BUFFER_BYTES (512L << 10)
#define LOW_SPEED 1024L /* bytes a second */

/* ---- what comes back ---- */

static size_t on_body(char *bytes, size_t one, size_t count, void *context)
{
    struct s3_request *request = context;
    size_t room = request->answer_max - request->answer_size,
           some = one * count < room ? one * count : room;
    if (some > 0)
        memcpy(request->answer + request->answer_size, bytes, some);
    request->answer_size += some;
    room = sizeof request->said - request->said_size;
    some = one * count < room ? one * count : room;
    memcpy(request->said + request->said_size, bytes, some);
    request->said_size += some;
    return one * count;
}

static void header_take(const char *line, size_t length, const char *name, char *to, size_t size)
{
    size_t at = strlen(name);
    if (length < at || strncasecmp(line, name, at) != 0)
        return;
    while (at < length && line[at] == ' ')
        at++;
    while (length > at && strchr("\r\n ", line[length - 1]) != NULL)
        length--;
    snprintf(to, size, "%.*s", (int)(length - at), line + at);
}

static size_t on_header(char *bytes, size_t one, size_t count, void *context)
{
    struct s3_request *request = context;
    char seconds[16] = "";
    header_take(bytes, one * count, "ETag:", request->etag, sizeof request->etag);
    header_take(bytes, one * count, "x-amz-request-id:", request->id, sizeof request->id);
    header_take(bytes, one * count, "Retry-After:", seconds, sizeof seconds);
    if (seconds[0] != '\0')
        request->retry_after_ns = strtoull(seconds, NULL, 10) * SPOTNIK_S;
    return one * count;
}

/* ---- what goes out ---- */

static const char hex[] = "0123456789ABCDEF";

bool spotnik_s3_encode(const char *text, char *to, size_t size)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t used = 0;
    for (; *text != '\0' && used + 4 <= size; text++)
        if (strchr(plain, *text) != NULL) {
            to[used++] = *text;
        } else {
            to[used++] = '%';
            to[used++] = hex[(unsigned char)*text >> 4];
            to[used++] = hex[(unsigned char)*text & 15];
        }
    to[used < size ? used : size - 1] = '\0';
    return *text == '\0';
}

/* Slashes of the prefix stay: a path is signed as it is sent. */
static bool url_make(const struct s3 *s3, const struct s3_request *request, char url[URL_BYTES])
{
    char key[sizeof s3->prefix + SPOTNIK_OBJECTS_NAME_MAX + 1], coded[3 * sizeof key];
    snprintf(key, sizeof key, "%s%s", s3->prefix, request->name != NULL ? request->name : "");
    if (!spotnik_s3_encode(key, coded, sizeof coded))
        return false;
    for (char *at; (at = strstr(coded, "%2F")) != NULL;) {
        *at = '/';
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
    int length =
        snprintf(url, URL_BYTES, "%s/%s%s%s", s3->base, request->name != NULL ? coded : "",
                 request->query != NULL ? "?" : "", request->query != NULL ? request->query : "");
    return length > 0 && length < URL_BYTES;
}

/* The bytes that are to be sent from `from` on: as many as lie together. */
static const uint8_t *span_of(const struct s3_request *request, size_t from, size_t *ret_size)
{
    *ret_size = request->size - from;
    if (request->pieces == NULL)
        return (const uint8_t *)request->bytes + from;
    const struct iovec *piece = request->pieces->piece;
    uint64_t at = request->at + from;
    for (; at >= piece->iov_len; piece++)
        at -= piece->iov_len;
    if (*ret_size > piece->iov_len - at)
        *ret_size = piece->iov_len - (size_t)at;
    return (const uint8_t *)piece->iov_base + at;
}

static size_t on_read(char *to, size_t one, size_t count, void *context)
{
    struct s3_request *request = context;
    size_t room = one * count, some;
    for (; room > 0 && request->sent < request->size; request->sent += some, room -= some) {
        const uint8_t *from = span_of(request, request->sent, &some);
        some = some < room ? some : room;
        memcpy(to, from, some);
        to += some;
    }
    return one * count - room;
}

/* A connection that was kept had ended: libcurl sends all again by another. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct s3_request *request = context;
    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    request->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool is_stopped(const struct s3_request *request)
{
    const struct spotnik_objects_pieces *pieces = request->pieces;
    return pieces != NULL && pieces->is_stopped != NULL && pieces->is_stopped(pieces->context);
}

static int on_progress(void *context, curl_off_t to_read, curl_off_t read, curl_off_t to_send,
                       curl_off_t sent)
{
    (void)to_read, (void)read, (void)to_send, (void)sent;
    return is_stopped(context);
}

/* libcurl 7.88 takes a wrong digest for what PUT sends, unless it is given one. The server compares
 * it with what has arrived. */
static void digest_make(const struct s3_request *request, char header[100])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    size_t some = 0;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    (void)EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    for (size_t at = 0; at < request->size; at += some) {
        const uint8_t *from = span_of(request, at, &some);
        (void)EVP_DigestUpdate(hash, from, some);
    }
    (void)EVP_DigestFinal_ex(hash, digest, &size);
    EVP_MD_CTX_free(hash);
    int used = snprintf(header, 100, "x-amz-content-sha256: ");
    for (unsigned i = 0; i < size; i++)
        used += snprintf(header + used, 100 - (size_t)used, "%02x", digest[i]);
}

static struct curl_slist *headers_make(const struct s3 *s3, const struct s3_request *request,
                                       const struct s3_credentials *credentials)
{
    char token[sizeof credentials->token + 32], digest[100];
    struct curl_slist *list =
        s3->library->curl_slist_append(NULL, "Content-Type: application/octet-stream");
    digest_make(request, digest);
    list = s3->library->curl_slist_append(list, digest);
    if (request->condition != NULL)
        list = s3->library->curl_slist_append(list, request->condition);
    snprintf(token, sizeof token, "x-amz-security-token: %s", credentials->token);
    return credentials->token[0] != '\0' ? s3->library->curl_slist_append(list, token) : list;
}

static void options_set(const struct s3 *s3, CURL *easy, struct s3_request *request,
                        const struct s3_credentials *credentials)
{
    __typeof__(&curl_easy_setopt) setopt = s3->library->curl_easy_setopt;
    if (request->bytes != NULL || request->pieces != NULL) {
        setopt(easy, CURLOPT_POST, 1L);
        setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
        setopt(easy, CURLOPT_READFUNCTION, on_read);
        setopt(easy, CURLOPT_READDATA, request);
        setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
        setopt(easy, CURLOPT_SEEKDATA, request);
        setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        setopt(easy, CURLOPT_XFERINFODATA, request);
        setopt(easy, CURLOPT_NOPROGRESS, 0L);
        setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L); /* a long body does not wait for leave */
        setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    }
    setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    if (request->large_ns > 0) { /* a connection that stands still ends before that */
        setopt(easy, CURLOPT_LOW_SPEED_LIMIT, LOW_SPEED);
        setopt(easy, CURLOPT_LOW_SPEED_TIME, ATTEMPT_MS / 1000);
    }
    setopt(easy, CURLOPT_AWS_SIGV4, s3->signing);
    setopt(easy, CURLOPT_USERNAME, credentials->key);
    setopt(easy, CURLOPT_PASSWORD, credentials->secret);
    setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    setopt(easy, CURLOPT_NOSIGNAL, 1L);
    setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    setopt(easy, CURLOPT_WRITEDATA, request);
    setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    setopt(easy, CURLOPT_HEADERDATA, request);
}

/* ---- one attempt ---- */

static CURL *handle_take(struct s3 *s3, struct s3_credentials *ret_credentials)
{
    CURL *easy = NULL;
    pthread_mutex_lock(&s3->lock);
    bool known = spotnik_s3_credentials_fill(s3);
    *ret_credentials = s3->credentials;
    for (int i = 0; known && i < S3_IDLE_MAX && easy == NULL; i++) {
        easy = s3->idle[i];
        s3->idle[i] = NULL;
    }
    pthread_mutex_unlock(&s3->lock);
    return !known ? NULL : easy != NULL ? easy : s3->library->curl_easy_init();
}

static void handle_give(struct s3 *s3, CURL *easy)
{
    s3->library->curl_easy_reset(easy); /* the connection stays */
    pthread_mutex_lock(&s3->lock);
    for (int i = 0; i < S3_IDLE_MAX && easy != NULL; i++)
        if (s3->idle[i] == NULL) {
            s3->idle[i] = easy;
            easy = NULL;
        }
    pthread_mutex_unlock(&s3->lock);
    if (easy != NULL)
        s3->library->curl_easy_cleanup(easy);
}

/* 0: an answer came, see request->status. */
static int attempt(struct s3 *s3, struct s3_request *request, uint64_t left_ns)
{
    struct s3_credentials credentials;
    char url[URL_BYTES], error[CURL_ERROR_SIZE] = "";
    CURL *easy = handle_take(s3, &credentials);
    if (easy == NULL)
        return -EACCES;
    request->answer_size = request->said_size = request->sent = 0;
    request->status = 0;
    request->etag[0] = request->id[0] = '\0';
    request->retry_after_ns = 0;
    struct curl_slist *headers = headers_make(s3, request, &credentials);
    options_set(s3, easy, request, &credentials);
    s3->library->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    s3->library->curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    s3->library->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                                  (long)(spotnik_time_min(left_ns, (uint64_t)ATTEMPT_MS * SPOTNIK_MS
                                                                       + request->large_ns)
                                         / SPOTNIK_MS)
                                      + 1);
    CURLcode code = CURLE_URL_MALFORMAT;
    if (url_make(s3, request, url)
        && s3->library->curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK)
        code = s3->library->curl_easy_perform(easy);
    if (code == CURLE_OK)
        s3->library->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &request->status);
    s3->library->curl_slist_free_all(headers);
    explicit_bzero(&credentials, sizeof credentials);
    handle_give(s3, easy);
    if (code == CURLE_OK)
        return 0;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return spotnik_objects_fail(-ECANCELED, "it was given up");
    return spotnik_objects_fail(-ETIMEDOUT, "%s %s/%s%s: %s", request->method, s3->base, s3->prefix,
                                request->name != NULL ? request->name : "",
                                error[0] != '\0' ? error : s3->library->curl_easy_strerror(code));
}

/* ---- what it means ---- */

void spotnik_s3_word_find(const struct s3_request *request, const char *begin, char *to,
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

static bool may_pass(const struct s3_request *request)
{
    return request->status == 0 || request->status == 409 || request->status == 429
           || (request->status >= 500 && request->status <= 504);
}

static int status_return(const struct s3 *s3, const struct s3_request *request)
{
    char code[64], message[160];
    int rc = request->status == 404                             ? -ENOENT
             : request->status == 412                           ? -EEXIST
             : request->status == 401 || request->status == 403 ? -EACCES
             : may_pass(request)                                ? -ETIMEDOUT
                                                                : -EIO;
    spotnik_s3_word_find(request, "<Code>", code, sizeof code);
    spotnik_s3_word_find(request, "<Message>", message, sizeof message);
    return spotnik_objects_fail(rc, "%s %s/%s%s: HTTP %ld %s: %s (request %s)", request->method,
                                s3->base, s3->prefix, request->name != NULL ? request->name : "",
                                request->status, code, message,
                                request->id[0] != '\0' ? request->id : "without an id");
}

/* A token that ended is replaced before its time by those who made it: read it again, once. */
static bool has_expired(struct s3 *s3, const struct s3_request *request)
{
    char code[64] = "";
    if (request->status == 400 || request->status == 403)
        spotnik_s3_word_find(request, "<Code>", code, sizeof code);
    if (strcmp(code, "ExpiredToken") != 0)
        return false;
    pthread_mutex_lock(&s3->lock);
    s3->read_ns = 0;
    pthread_mutex_unlock(&s3->lock);
    return true;
}

static void pause_for(uint64_t ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / SPOTNIK_S),
                             .tv_nsec = (long)(ns % SPOTNIK_S) };
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

int spotnik_s3_request(struct s3 *s3, struct s3_request *request)
{
    uint64_t until_ns = spotnik_clock_ns() + DEADLINE_NS + request->large_ns, pause_ns = PAUSE_NS,
             now_ns;
    bool renewed = false;
    for (;; pause_ns *= 2) {
        int rc = attempt(s3, request, spotnik_time_since(until_ns, spotnik_clock_ns()));
        if (rc == -EACCES || rc == -ECANCELED)
            return rc;
        if (request->status >= 200 && request->status < 300)
            return 0;
        if (rc == 0)
            rc = status_return(s3, request);
        bool expired = !renewed && has_expired(s3, request);
        renewed |= expired;
        now_ns = spotnik_clock_ns();
        uint64_t wait_ns = request->retry_after_ns > pause_ns ? request->retry_after_ns : pause_ns;
        if ((!may_pass(request) && !expired) || now_ns + wait_ns >= until_ns || is_stopped(request))
            return rc;
        pause_for(wait_ns);
    }
}
