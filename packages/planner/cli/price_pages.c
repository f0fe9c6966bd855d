/* SPDX-License-Identifier: Apache-2.0 */
/* PRICES.pages/NAME.gz: three lines (address, version, date), then the page. */
#include "price_pages.h"
#include "common/table.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PATH_MOST 1400
#define NAME_MOST 200u

/* The end of an address tells pages apart; the first line of the file has all of it. */
static bool path_of(const char *prices, const char *url, char *path, size_t size)
{
    size_t length = strlen(url), from = length > NAME_MOST ? length - NAME_MOST : 0;
    int used = snprintf(path, size, "%s.pages/", prices);

    if (used < 0 || (size_t)used + NAME_MOST + 8 > size)
        return false;
    for (; from < length; from++)
        path[used++] = (char)(isalnum((unsigned char)url[from]) ? url[from] : '_');
    strcpy(path + used, ".gz");
    return true;
}

static bool line_take(char **at, const char **line_out)
{
    char *end = strchr(*at, '\n');

    if (!end)
        return false;
    *end = '\0';
    *line_out = *at;
    *at = end + 1;
    return true;
}

/* Takes the three lines off the front. */
static bool facts_take(struct spotnik_page *page, const char *url)
{
    const char *address, *etag, *modified;
    char *at = page->bytes;

    if (!line_take(&at, &address) || !line_take(&at, &etag) || !line_take(&at, &modified)
        || strcmp(address, url) || strlen(etag) >= sizeof(page->etag))
        return false;
    snprintf(page->etag, sizeof(page->etag), "%s", etag);
    if (!spotnik_number_parse(modified, &page->modified_s))
        return false;
    page->size -= (size_t)(at - page->bytes);
    memmove(page->bytes, at, page->size + 1);
    return true;
}

bool spotnik_price_page_load(const char *prices, const char *url, struct spotnik_page *page_out)
{
    char path[PATH_MOST];

    *page_out = (struct spotnik_page){ .bytes = NULL };
    if (!path_of(prices, url, path, sizeof(path)) || access(path, R_OK)
        || spotnik_file_read(path, &page_out->bytes, &page_out->size, NULL))
        return false;
    if (facts_take(page_out, url))
        return true;
    free(page_out->bytes);
    *page_out = (struct spotnik_page){ .bytes = NULL };
    return false;
}

static bool page_write(const char *path, const char *url, const struct spotnik_page *page)
{
    gzFile file = gzopen(path, "wb6");

    if (!file)
        return false;
    bool whole = gzprintf(file, "%s\n%s\n%.0f\n", url, page->etag, page->modified_s) > 0
                 && gzwrite(file, page->bytes, (unsigned)page->size) == (int)page->size;
    return gzclose(file) == Z_OK && whole;
}

void spotnik_price_page_keep(const char *prices, const char *url, const struct spotnik_page *page)
{
    char path[PATH_MOST], beside[PATH_MOST + 8];

    if (strpbrk(page->etag, "\r\n") || !path_of(prices, url, path, sizeof(path)))
        return;
    snprintf(beside, sizeof(beside), "%.*s", (int)strlen(prices) + 6, path);
    mkdir(beside, 0755);
    snprintf(beside, sizeof(beside), "%s.new", path);
    if (!page_write(beside, url, page) || rename(beside, path))
        unlink(beside);
}
