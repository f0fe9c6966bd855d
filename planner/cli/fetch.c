/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches with libcurl. A page is given a minute to answer and ten to come, and 256 MiB. */
#include "fetch.h"
#include "plan/table.h"

#include <stdlib.h>
#include <string.h>

#ifdef SPOTNIK_HAVE_CURL
#include <curl/curl.h>

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

static int page_get(const char *url, char **bytes_out, size_t *size_out, struct spotnik_fault *fault)
{
    char error[CURL_ERROR_SIZE] = "";
    struct page page = { NULL, 0 };
    CURL *curl = curl_easy_init();

    if (!curl)
        return spotnik_fault_set(fault, "%s: libcurl does not start", url);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,file");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 60L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 600L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "spotnik");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, page_add);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &page);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK || !page.bytes) {
        free(page.bytes);
        return spotnik_fault_set(fault, "%s: %s; try again, or give a file that you have with --from", url,
                                 *error ? error : code == CURLE_OK ? "empty" : curl_easy_strerror(code));
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
    return spotnik_fault_set(fault,
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
