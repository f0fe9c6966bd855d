/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the XML of ListObjectsV2. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/s3.h"

struct page {
    struct s3 *s3;
    XML_Parser parser;
    const char *prefix; /* behind that of the store */
    int (*each)(void *context, const struct spotnik_object *object);
    void *context;
    int rc;
    bool is_listing, is_cut; /* is_cut: more pages follow */
    char text[1100];         /* of the element that is open; the longest key has 1,024 bytes */
    size_t length;
    char key[1100]; /* of the object that is open */
    uint64_t size;
    int64_t written_s;
    bool is_folder; /* the element that is open is of a folder; the listing has a prefix, too */
    char *next;
    size_t next_size;
};

static void on_begin(void *context, const char *element, const char **attributes)
{
    struct page *page = context;
    (void)attributes;
    page->is_listing |= strcmp(element, "ListBucketResult") == 0;
    if (strcmp(element, "Prefix") != 0)
        page->is_folder = strcmp(element, "CommonPrefixes") == 0;
    page->length = 0;
}

static void on_text(void *context, const char *text, int length)
{
    struct page *page = context;
    size_t room = sizeof page->text - 1 - page->length,
           some = (size_t)length < room ? (size_t)length : room;
    memcpy(page->text + page->length, text, some);
    page->length += some;
}

/* "2026-11-29T10:12:04.000Z" */
static int64_t time_read(const char *text)
{
    struct tm time = { .tm_isdst = 0 };
    return strptime(text, "%Y-%m-%dT%H:%M:%S", &time) != NULL ? (int64_t)timegm(&time) : 0;
}

static void object_end(struct page *page)
{
    size_t own = strlen(page->s3->prefix), prefix = strlen(page->prefix);
    struct spotnik_object object = { .name = page->key + own + prefix,
                                     .size = page->size,
                                     .written_s = page->written_s };
    bool is_below = strncmp(page->key, page->s3->prefix, own) == 0
                    && strncmp(page->key + own, page->prefix, prefix) == 0;
    page->size = 0;
    page->written_s = 0;
    if (!is_below || *object.name == '\0' || strlen(object.name) > SPOTNIK_OBJECTS_NAME_MAX)
        return; /* no object of ours */
    page->rc = page->each(page->context, &object);
    if (page->rc != 0)
        page->s3->library->XML_StopParser(page->parser, XML_FALSE);
}

static void on_end(void *context, const char *element)
{
    struct page *page = context;
    page->text[page->length] = '\0';
    if (strcmp(element, "Key") == 0 || (strcmp(element, "Prefix") == 0 && page->is_folder))
        snprintf(page->key, sizeof page->key, "%s", page->text);
    else if (strcmp(element, "Size") == 0)
        page->size = strtoull(page->text, NULL, 10);
    else if (strcmp(element, "LastModified") == 0)
        page->written_s = time_read(page->text);
    else if (strcmp(element, "Contents") == 0 || strcmp(element, "CommonPrefixes") == 0)
        object_end(page);
    else if (strcmp(element, "IsTruncated") == 0)
        page->is_cut = strcmp(page->text, "true") == 0;
    else if (strcmp(element, "NextContinuationToken") == 0)
        snprintf(page->next, page->next_size, "%s", page->text);
    page->length = 0;
}

int spotnik_s3_page_read(struct s3 *s3, const char *prefix, const char *text, size_t size,
                         int (*each)(void *context, const struct spotnik_object *object),
                         void *context, char *ret_next, size_t next_size)
{
    struct page page = { .s3 = s3,
                         .prefix = prefix,
                         .each = each,
                         .context = context,
                         .next = ret_next,
                         .next_size = next_size };
    *ret_next = '\0';
    page.parser = s3->library->XML_ParserCreate(NULL);
    if (page.parser == NULL)
        return -ENOMEM;
    s3->library->XML_SetUserData(page.parser, &page);
    s3->library->XML_SetElementHandler(page.parser, on_begin, on_end);
    s3->library->XML_SetCharacterDataHandler(page.parser, on_text);
    bool read = s3->library->XML_Parse(page.parser, text, (int)size, XML_TRUE) == XML_STATUS_OK;
    s3->library->XML_ParserFree(page.parser);
    if (page.rc != 0)
        return page.rc;
    if (!read || !page.is_listing || (page.is_cut && *ret_next == '\0'))
        return spotnik_objects_fail(-EIO, "the answer to a listing of %s is no listing", s3->base);
    if (!page.is_cut)
        *ret_next = '\0';
    return 0;
}
