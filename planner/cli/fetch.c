/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches with libcurl. A page is given a minute to answer and ten to come, and 256 MiB. The library is loaded by the first fetch: with all that it
 * needs in its turn it would take every other command, and every worker that one starts, 5 ms of a processor. */
#include "fetch.h"
#include "plan/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef SPOTNIK_HAVE_CURL
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>

#define FUNCTIONS(X) X(curl_easy_init) X(curl_easy_cleanup) X(curl_easy_setopt) X(curl_easy_perform) X(curl_easy_strerror)

#undef curl_easy_setopt

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
#define X(name)                                                                                              \
    symbol = dlsym(handle, #name);                                                                           \
    if (!symbol)                                                                                             \
        return false;                                                                                        \
    memcpy(&lib.name, &symbol, sizeof(symbol));
    FUNCTIONS(X)
#undef X
    return true;
}

struct page {
    char *bytes;
    size_t size;
};

static size_t page_add(char *bytes, size_t one, size_t count, void *context)
{
    struct page *page = context;
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

static void set_up(CURL *curl, const char *url, char *error, struct page *page)
{
    lib.curl_easy_setopt(curl, CURLOPT_URL, url);
    lib.curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,file");
    lib.curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
    lib.curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 60L);
    lib.curl_easy_setopt(curl, CURLOPT_TIMEOUT, 600L);
    lib.curl_easy_setopt(curl, CURLOPT_USERAGENT, "spotnik");
    lib.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, page_add);
    lib.curl_easy_setopt(curl, CURLOPT_WRITEDATA, page);
    lib.curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
}

static int page_get(const char *url, char **bytes_out, size_t *size_out, struct spotnik_fault *fault)
{
    char error[CURL_ERROR_SIZE] = "";
    struct page page = { NULL, 0 };

    if (!load())
        return spotnik_fault_set(
            fault, "%s: libcurl.so.4 is not there; install libcurl, or fetch the page yourself and give the file with --from", url);
    CURL *curl = lib.curl_easy_init();
    if (!curl)
        return spotnik_fault_set(fault, "%s: libcurl does not start", url);
    set_up(curl, url, error, &page);
    CURLcode code = lib.curl_easy_perform(curl);
    lib.curl_easy_cleanup(curl);
    if (code != CURLE_OK || !page.bytes) {
        free(page.bytes);
        return spotnik_fault_set(fault, "%s: %s; try again, or give a file that you have with --from", url,
                                 *error             ? error
                                 : code == CURLE_OK ? "empty"
                                                    : lib.curl_easy_strerror(code));
    }
    *bytes_out = page.bytes;
    *size_out = page.size;
    return 0;
}
#else
static int page_get(const char *url, char **bytes_out, size_t *size_out, struct spotnik_fault *fault)
{
    (void)bytes_out;
    (void)size_out;
    return spotnik_fault_set(
        fault,
        "%s: this spotnik was built without libcurl; fetch the page yourself and give the file "
        "with --from",
        url);
}
#endif

int spotnik_source_fetch(const char *where, char **bytes_out, size_t *size_out, struct spotnik_fault *fault)
{
    if (!strncmp(where, "https://", 8) || !strncmp(where, "file://", 7))
        return page_get(where, bytes_out, size_out, fault);
    if (strstr(where, "://"))
        return spotnik_fault_set(fault, "%s: only https:// and files are read", where);
    return spotnik_file_read(where, bytes_out, size_out, fault);
}
