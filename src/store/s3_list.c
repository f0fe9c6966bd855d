/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the XML of ListObjectsV2. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/s3.h"

struct page {
    struct s3 *s3;
    XML_Parser parser;
    int (*each)(void *context, const char *name);
    void *context;
    int rc;
    bool is_listing, is_cut; /* is_cut: more pages follow */
    char text[1100];         /* of the element that is open; the longest key has 1,024 bytes */
    size_t length;
    char *next;
    size_t next_size;
};

static void on_begin(void *context, const char *element, const char **attributes)
{
    struct page *page = context;
    (void)attributes;
    page->is_listing |= strcmp(element, "ListBucketResult") == 0;
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

static void key_note(struct page *page)
{
    size_t prefix = strlen(page->s3->prefix);
    const char *name = page->text + prefix;
    if (strncmp(page->text, page->s3->prefix, prefix) != 0 || *name == '\0'
        || strchr(name, '/') != NULL || strlen(name) > SPOTNIK_OBJECTS_NAME_MAX)
        return; /* no object of ours */
    page->rc = page->each(page->context, name);
    if (page->rc != 0)
        page->s3->library->XML_StopParser(page->parser, XML_FALSE);
}

static void on_end(void *context, const char *element)
{
    struct page *page = context;
    page->text[page->length] = '\0';
    if (strcmp(element, "Key") == 0)
        key_note(page);
    else if (strcmp(element, "IsTruncated") == 0)
        page->is_cut = strcmp(page->text, "true") == 0;
    else if (strcmp(element, "NextContinuationToken") == 0)
        snprintf(page->next, page->next_size, "%s", page->text);
    page->length = 0;
}

int spotnik_s3_page_read(struct s3 *s3, const char *text, size_t size,
                         int (*each)(void *context, const char *name), void *context,
                         char *ret_next, size_t next_size)
{
    struct page page = {
        .s3 = s3, .each = each, .context = context, .next = ret_next, .next_size = next_size
    };
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
