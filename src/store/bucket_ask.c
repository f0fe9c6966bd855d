/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the services that give credentials: of the machine, of the container, of a cloud. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/time.h"
#include "store/bucket.h"

#define NEAR_MS 1000L
#define FAR_MS 5000L
#define AGAIN_NS (3 * SPOTNIK_S) /* with FAR_MS it is less than a call may take */
#define PAUSE_NS (100 * SPOTNIK_MS)

static size_t on_reply(char *bytes, size_t one, size_t count, void *context)
{
    struct bucket_reply *reply = context;
    if (one * count > sizeof reply->text - 1 - reply->size)
        return 0; /* no service of credentials answers so much */
    memcpy(reply->text + reply->size, bytes, one * count);
    reply->size += one * count;
    reply->text[reply->size] = '\0';
    return one * count;
}

static void options_set(const struct bucket_library *library, CURL *easy,
                        const struct bucket_question *question, struct bucket_reply *reply)
{
    __typeof__(&curl_easy_setopt) setopt = library->curl_easy_setopt;
    setopt(easy, CURLOPT_URL, question->url);
    if (question->body != NULL)
        setopt(easy, CURLOPT_POSTFIELDS, question->body);
    setopt(easy, CURLOPT_CUSTOMREQUEST, question->method);
    if (!question->far)
        setopt(easy, CURLOPT_NOPROXY, "*");
    setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    setopt(easy, CURLOPT_NOSIGNAL, 1L);
    setopt(easy, CURLOPT_TIMEOUT_MS, question->far ? FAR_MS : NEAR_MS);
    setopt(easy, CURLOPT_WRITEFUNCTION, on_reply);
    setopt(easy, CURLOPT_WRITEDATA, reply);
}

static bool fail(const struct bucket_question *question, const char *what)
{
    (void)spotnik_objects_fail(-EACCES, "no credentials from %.200s: %.200s", question->url, what);
    return false;
}

/* The service is there, and may answer well the next time. */
static bool may_pass(const struct bucket_library *library, CURL *easy, CURLcode code, long status)
{
    double connected_s = 0;
    if (code == CURLE_OK)
        return status == 429 || (status >= 500 && status <= 504);
    library->curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME, &connected_s);
    return connected_s > 0;
}

static bool question_send(const struct bucket_library *library, CURL *easy,
                          const struct bucket_question *question, struct bucket_reply *reply)
{
    uint64_t until_ns = spotnik_clock_ns() + AGAIN_NS;
    for (struct timespec pause = { .tv_nsec = (long)PAUSE_NS };; pause.tv_nsec *= 2) {
        long status = 0;
        reply->size = 0;
        reply->text[0] = '\0';
        CURLcode code = library->curl_easy_perform(easy);
        if (code == CURLE_OK)
            library->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        if (status == 200 && reply->size > 0)
            return true;
        if (spotnik_clock_ns() + (uint64_t)pause.tv_nsec > until_ns
            || !may_pass(library, easy, code, status))
            return fail(question,
                        code == CURLE_OK ? reply->text : library->curl_easy_strerror(code));
        nanosleep(&pause, NULL);
    }
}

bool spotnik_bucket_ask(const struct bucket_library *library,
                        const struct bucket_question *question, struct bucket_reply *reply)
{
    CURL *easy = library->curl_easy_init();
    if (easy == NULL)
        return fail(question, "no memory");
    struct curl_slist *headers =
        question->header != NULL ? library->curl_slist_append(NULL, question->header) : NULL;
    options_set(library, easy, question, reply);
    library->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    bool answered = question_send(library, easy, question, reply);
    library->curl_slist_free_all(headers);
    library->curl_easy_cleanup(easy);
    return answered;
}
