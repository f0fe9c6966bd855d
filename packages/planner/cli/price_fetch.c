/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches with libcurl. A page is given a minute to answer, unless told otherwise, ten times that
 * to come, and 256 MiB. The library is loaded by the first fetch: with all that it needs in its
 * turn it would take every other command, and every worker that one starts, 5 ms of a
 * processor. */
#include "price_fetch.h"
#include "gunzip.h"
#include "common/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* http:// of this machine: nobody between can change the page. */
static bool is_local(const char *where)
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };

    if (strncmp(where, "http://", 7) || memchr(where + 7, '@', strcspn(where + 7, "/?#")))
        return false; /* before an @ stands a user, not the host */
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        size_t length = strlen(hosts[i]);
        if (!strncmp(where + 7, hosts[i], length) && strchr(":/", where[7 + length]))
            return true;
    }
    return false;
}

#ifdef SPOTNIK_HAVE_CURL
#define HOPS_MOST 5u
#define CONNECT_MOST_S 20.0
#define SLOW_BYTES_PER_S 100L /* less than that is silence */
#define PATIENCE_WHOLE 10     /* as often the patience with silence, a whole page may take */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>

#define FUNCTIONS(X)                                                                               \
    X(curl_easy_init)                                                                              \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_header)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

#undef curl_easy_setopt
#undef curl_easy_getinfo

/* By the names that libcurl's manual has. */
static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} lib;

static bool load(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *symbol;

    if (!handle)
        return false;
#define X(name)                                                                                    \
    symbol = dlsym(handle, #name);                                                                 \
    if (!symbol)                                                                                   \
        return false;                                                                              \
    memcpy(&lib.name, &symbol, sizeof(symbol));
    FUNCTIONS(X)
#undef X
    return true;
}

static size_t page_add(char *bytes, size_t one, size_t count, void *context)
{
    struct spotnik_page *page = context;
    size_t size = one * count;

    if (page->size + size > SPOTNIK_TABLE_BYTES_MAX)
        return 0;
    char *grown = realloc(page->bytes, page->size + size + 1);
    if (!grown)
        return 0;
    memcpy(grown + page->size, bytes, size);
    page->bytes = grown;
    page->size += size;
    page->bytes[page->size] = '\0';
    return size;
}

/* Redirections are followed by hand (page_follow), for libcurl cannot be told which hosts may go
 * without encryption. Nor does it decode: it takes a gzip stream that breaks off for a whole
 * one. */
static void set_up(CURL *curl, const char *url, double patience_s, char *error,
                   struct spotnik_page *page)
{
    lib.curl_easy_setopt(curl, CURLOPT_URL, url);
    lib.curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http,file");
    lib.curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)fmin(CONNECT_MOST_S, patience_s));
    lib.curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES_PER_S);
    lib.curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)patience_s);
    lib.curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)(PATIENCE_WHOLE * patience_s));
    lib.curl_easy_setopt(curl, CURLOPT_USERAGENT, "spotnik");
    lib.curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, page_add);
    lib.curl_easy_setopt(curl, CURLOPT_WRITEDATA, page);
    lib.curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
}

/* Asks for what has changed since, by the name of the version, or by its date. The caller frees the
 * list. */
static struct curl_slist *set_kept(CURL *curl, const struct spotnik_page *kept)
{
    struct curl_slist *list = lib.curl_slist_append(NULL, "Accept-Encoding: gzip");
    char header[300];

    if (kept && *kept->etag) {
        snprintf(header, sizeof(header), "If-None-Match: %s", kept->etag);
        struct curl_slist *longer = lib.curl_slist_append(list, header);
        list = longer ? longer : list;
    } else if (kept && kept->modified_s > 0) {
        lib.curl_easy_setopt(curl, CURLOPT_TIMECONDITION, (long)CURL_TIMECOND_IFMODSINCE);
        lib.curl_easy_setopt(curl, CURLOPT_TIMEVALUE_LARGE, (curl_off_t)kept->modified_s);
    }
    lib.curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    return list;
}

static void facts_take(CURL *curl, bool asked, struct spotnik_page *page)
{
    struct curl_header *etag;
    curl_off_t modified_s = -1;
    long status = 0, unmet = 0;

    if (!lib.curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &etag)
        && strlen(etag->value) < sizeof(page->etag))
        snprintf(page->etag, sizeof(page->etag), "%s", etag->value);
    lib.curl_easy_getinfo(curl, CURLINFO_FILETIME_T, &modified_s);
    lib.curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    lib.curl_easy_getinfo(curl, CURLINFO_CONDITION_UNMET, &unmet);
    page->modified_s = modified_s > 0 ? (double)modified_s : 0;
    page->unchanged = asked && (status == 304 || unmet);
}

static int page_fault(const char *url, CURLcode code, bool connected, const char *error,
                      struct spotnik_fault *fault)
{
    const char *why = *error             ? error
                      : code == CURLE_OK ? "the page is empty"
                                         : lib.curl_easy_strerror(code);

    if (code == CURLE_OPERATION_TIMEDOUT && connected)
        return spotnik_fault_set(fault,
                                 "%s: the server is silent, or too slow (%s); try again later, "
                                 "with a longer --timeout, or give a file that you have with "
                                 "--from",
                                 url, why);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
        spotnik_fault_fill(
            fault,
            "%s: cannot be reached (%s); is there a network? Try again with one, or give files "
            "that you have with --from",
            url, why);
        return SPOTNIK_UNREACHABLE;
    default:
        return spotnik_fault_set(
            fault, "%s: %s; try again later, or give a file that you have with --from", url, why);
    }
}

static void page_clear(struct spotnik_page *page)
{
    free(page->bytes);
    page->bytes = NULL;
    page->size = 0;
}

/* Prices are worth money: nothing unencrypted comes from elsewhere, whatever a server redirects
 * to. */
static bool may_follow(const char *from, const char *to, char *error)
{
    if (!strncmp(to, "https://", 8) || (is_local(from) && is_local(to)))
        return true;
    snprintf(error, CURL_ERROR_SIZE, "it redirects to %.120s, which is not https://", to);
    return false;
}

static CURLcode page_follow(CURL *curl, const char *url, char *error, struct spotnik_page *page)
{
    char *to = NULL;

    for (unsigned hop = 0; hop < HOPS_MOST; hop++) {
        CURLcode code = lib.curl_easy_perform(curl);
        if (code != CURLE_OK || lib.curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &to) || !to)
            return code;
        page_clear(page);
        if (!may_follow(url, to, error))
            return CURLE_UNSUPPORTED_PROTOCOL;
        lib.curl_easy_setopt(curl, CURLOPT_URL, to);
    }
    snprintf(error, CURL_ERROR_SIZE, "it redirects more than %u times", HOPS_MOST);
    return CURLE_TOO_MANY_REDIRECTS;
}

/* What came, without compression. */
static int page_plain(const char *url, struct spotnik_page *page, struct spotnik_fault *fault)
{
    if (!spotnik_gunzip(&page->bytes, &page->size)) {
        page->size = spotnik_text_mark_drop(page->bytes, page->size);
        return 0;
    }
    page_clear(page);
    return spotnik_fault_set(
        fault,
        "%s: the compressed page is cut short, damaged, or larger than %u MiB; try again later",
        url, SPOTNIK_TABLE_BYTES_MAX >> 20);
}

static int page_get(const char *url, const struct spotnik_page *kept, double patience_s,
                    struct spotnik_page *page, struct spotnik_fault *fault)
{
    char error[CURL_ERROR_SIZE] = "";
    curl_off_t connect_us = 0;

    if (!load())
        return spotnik_fault_set(fault,
                                 "%s: libcurl.so.4 is not there; install libcurl, or fetch the "
                                 "page yourself and give the file with --from",
                                 url);
    CURL *curl = lib.curl_easy_init();
    if (!curl)
        return spotnik_fault_set(fault, "%s: libcurl does not start", url);
    set_up(curl, url, patience_s, error, page);
    struct curl_slist *headers = set_kept(curl, kept);
    CURLcode code = page_follow(curl, url, error, page);
    facts_take(curl, kept != NULL, page);
    lib.curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connect_us);
    lib.curl_easy_cleanup(curl);
    lib.curl_slist_free_all(headers);
    if (code == CURLE_OK && page->unchanged)
        return 0;
    if (code == CURLE_OK && page->bytes)
        return page_plain(url, page, fault);
    page_clear(page);
    return page_fault(url, code, connect_us > 0, error, fault);
}
#else
static int page_get(const char *url, const struct spotnik_page *kept, double patience_s,
                    struct spotnik_page *page, struct spotnik_fault *fault)
{
    (void)kept;
    (void)patience_s;
    (void)page;
    return spotnik_fault_set(
        fault,
        "%s: this spotnik was built without libcurl; fetch the page yourself and give the file "
        "with --from",
        url);
}
#endif

bool spotnik_source_is_page(const char *where)
{
    return !strncmp(where, "https://", 8) || !strncmp(where, "file://", 7) || is_local(where);
}

int spotnik_source_fetch(const char *where, const struct spotnik_page *kept, double patience_s,
                         struct spotnik_page *page_out, struct spotnik_fault *fault)
{
    *page_out = (struct spotnik_page){ .bytes = NULL };
    if (spotnik_source_is_page(where))
        return page_get(where, kept, patience_s, page_out, fault);
    if (strstr(where, "://"))
        return spotnik_fault_set(fault,
                                 "%s: only https://, files, and http:// of this machine are read",
                                 where);
    return spotnik_file_read(where, &page_out->bytes, &page_out->size, fault);
}
