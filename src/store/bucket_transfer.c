/* SPDX-License-Identifier: Apache-2.0 */
/* One transfer by libcurl: what goes out, and what comes back. */
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/time.h"
#include "store/bucket.h"

#define CONNECT_MS 3000L
#define ATTEMPT_MS 5000L
#define BUFFER_BYTES (512L << 10)
#define LOW_SPEED 1024L /* bytes a second */

/* ---- what comes back ---- */

static size_t on_body(char *bytes, size_t one, size_t count, void *context)
{
    struct bucket_request *request = context;
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
    struct bucket_request *request = context;
    char seconds[16] = "";
    header_take(bytes, one * count, "ETag:", request->etag, sizeof request->etag);
    header_take(bytes, one * count, request->service->version_header, request->version,
                sizeof request->version);
    header_take(bytes, one * count, request->service->id_header, request->id, sizeof request->id);
    header_take(bytes, one * count, "Date:", request->date, sizeof request->date);
    header_take(bytes, one * count, "Retry-After:", seconds, sizeof seconds);
    if (seconds[0] != '\0')
        request->retry_after_ns = strtoull(seconds, NULL, 10) * SPOTNIK_S;
    return one * count;
}

/* ---- what goes out ---- */

static const char hex[] = "0123456789ABCDEF";

bool spotnik_bucket_encode(const char *text, char *to, size_t size)
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

/* The bytes that are to be sent from `from` on: as many as lie together. */
static const uint8_t *span_of(const struct bucket_request *request, size_t from, size_t *ret_size)
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
    struct bucket_request *request = context;
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
    struct bucket_request *request = context;
    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    request->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

bool spotnik_bucket_is_stopped(const struct bucket_request *request)
{
    const struct spotnik_objects_pieces *pieces = request->pieces;
    return pieces != NULL && pieces->is_stopped != NULL && pieces->is_stopped(pieces->context);
}

static int on_progress(void *context, curl_off_t to_read, curl_off_t read, curl_off_t to_send,
                       curl_off_t sent)
{
    (void)to_read, (void)read, (void)to_send, (void)sent;
    return spotnik_bucket_is_stopped(context);
}

size_t spotnik_bucket_digest(const struct bucket_request *request, const char *name,
                             unsigned char digest[64])
{
    unsigned size = 0;
    size_t some = 0;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool good = EVP_DigestInit_ex(hash, EVP_get_digestbyname(name), NULL) == 1;
    for (size_t at = 0; good && at < request->size; at += some) {
        const uint8_t *from = span_of(request, at, &some);
        good = EVP_DigestUpdate(hash, from, some) == 1;
    }
    good = good && EVP_DigestFinal_ex(hash, digest, &size) == 1;
    EVP_MD_CTX_free(hash);
    return good ? size : 0;
}

void spotnik_bucket_header_add(const struct bucket *bucket, struct bucket_message *message,
                               const char *format, ...)
{
    char header[BUCKET_TOKEN_MAX + 64];
    va_list list;
    va_start(list, format);
    vsnprintf(header, sizeof header, format, list);
    va_end(list);
    message->headers = bucket->library->curl_slist_append(message->headers, header);
    explicit_bzero(header, sizeof header);
}

static void body_set(__typeof__(&curl_easy_setopt) setopt, CURL *easy,
                     struct bucket_request *request)
{
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

static void time_set(__typeof__(&curl_easy_setopt) setopt, CURL *easy,
                     const struct bucket_request *request, uint64_t left_ns)
{
    uint64_t longest_ns = (uint64_t)ATTEMPT_MS * SPOTNIK_MS + request->large_ns;
    setopt(easy, CURLOPT_TIMEOUT_MS,
           (long)(spotnik_time_min(left_ns, longest_ns) / SPOTNIK_MS) + 1);
    setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    if (request->large_ns > 0) { /* a connection that stands still ends before that */
        setopt(easy, CURLOPT_LOW_SPEED_LIMIT, LOW_SPEED);
        setopt(easy, CURLOPT_LOW_SPEED_TIME, ATTEMPT_MS / 1000);
    }
}

void spotnik_bucket_transfer_set(const struct bucket *bucket, struct bucket_request *request,
                                 CURL *easy, uint64_t left_ns)
{
    __typeof__(&curl_easy_setopt) setopt = bucket->library->curl_easy_setopt;
    if (request->bytes != NULL || request->pieces != NULL)
        body_set(setopt, easy, request);
    time_set(setopt, easy, request, left_ns);
    setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    setopt(easy, CURLOPT_NOSIGNAL, 1L);
    setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    setopt(easy, CURLOPT_WRITEDATA, request);
    setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    setopt(easy, CURLOPT_HEADERDATA, request);
}
