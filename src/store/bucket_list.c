/* SPDX-License-Identifier: Apache-2.0 */
/* Listings: asking for their pages, and reading the XML. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/bucket.h"

#define PAGE_BYTES ((size_t)1 << 21) /* 1,000 names of 1,024 bytes, and what stands round them */
#define PAGES_MAX 64

struct page {
    struct bucket *bucket;
    const struct bucket_listing *names;
    XML_Parser parser;
    const char *prefix; /* behind that of the store */
    int (*each)(void *context, const struct spotnik_object *object);
    void *context;
    int rc;
    bool is_listing, is_cut;        /* is_cut: more pages follow */
    char text[BUCKET_PAGE_MAX + 1]; /* of the element that is open */
    size_t length;
    bool is_long;   /* it has more */
    char key[1100]; /* of the object that is open; the longest has 1,024 bytes */
    uint64_t size;
    int64_t written_s;
    bool is_folder; /* the element that is open is of a folder; the listing has a prefix, too */
    char *next;
    bool is_lost; /* there is no room for it */
};

static void on_begin(void *context, const char *element, const char **attributes)
{
    struct page *page = context;
    (void)attributes;
    page->is_listing |= strcmp(element, page->names->root) == 0;
    if (strcmp(element, page->names->folder_name) != 0)
        page->is_folder = strcmp(element, page->names->folder) == 0;
    page->length = 0;
    page->is_long = false;
}

static void on_text(void *context, const char *text, int length)
{
    struct page *page = context;
    size_t room = sizeof page->text - 1 - page->length,
           some = (size_t)length < room ? (size_t)length : room;
    memcpy(page->text + page->length, text, some);
    page->length += some;
    page->is_long |= some < (size_t)length;
}

/* "2026-11-29T10:12:04.000Z", or "Sun, 29 Nov 2026 10:12:04 GMT"; 0: neither. */
static int64_t time_read(const struct bucket_library *library, const char *text)
{
    struct tm time = { .tm_isdst = 0 };
    if (strptime(text, "%Y-%m-%dT%H:%M:%S", &time) != NULL)
        return (int64_t)timegm(&time);
    int64_t written_s = library->curl_getdate(text, NULL);
    return written_s > 0 ? written_s : 0;
}

static void object_end(struct page *page)
{
    size_t own = strlen(page->bucket->prefix), prefix = strlen(page->prefix);
    struct spotnik_object object = { .name = page->key + own + prefix,
                                     .size = page->size,
                                     .written_s = page->written_s };
    bool is_below = strncmp(page->key, page->bucket->prefix, own) == 0
                    && strncmp(page->key + own, page->prefix, prefix) == 0;
    page->size = 0;
    page->written_s = 0;
    if (!is_below || *object.name == '\0' || strlen(object.name) > SPOTNIK_OBJECTS_NAME_MAX)
        return; /* no object of ours */
    page->rc = page->each(page->context, &object);
    if (page->rc != 0)
        page->bucket->library->XML_StopParser(page->parser, XML_FALSE);
}

static void on_end(void *context, const char *element)
{
    struct page *page = context;
    const struct bucket_listing *names = page->names;
    page->text[page->length] = '\0';
    if (strcmp(element, names->name) == 0
        || (strcmp(element, names->folder_name) == 0 && page->is_folder))
        snprintf(page->key, sizeof page->key, "%.1099s", page->text);
    else if (strcmp(element, names->size) == 0)
        page->size = strtoull(page->text, NULL, 10);
    else if (strcmp(element, names->written) == 0)
        page->written_s = time_read(page->bucket->library, page->text);
    else if (strcmp(element, names->object) == 0 || strcmp(element, names->folder) == 0)
        object_end(page);
    else if (strcmp(element, "IsTruncated") == 0)
        page->is_cut = strcmp(page->text, "true") == 0;
    else if (strcmp(element, names->next) == 0) {
        memcpy(page->next, page->text, page->length + 1);
        page->is_lost = page->is_long;
    }
    page->length = 0;
}

/* Call each() for what one page shows. *ret_next: what asks for the next page, "": it was the
 * last. 0, what each() returned, or -EIO: it is no listing. */
static int page_read(struct bucket *bucket, const char *prefix, const char *text, size_t size,
                     int (*each)(void *context, const struct spotnik_object *object), void *context,
                     char ret_next[BUCKET_PAGE_MAX + 1])
{
    struct page page = { .bucket = bucket,
                         .names = &bucket->service->listing,
                         .prefix = prefix,
                         .each = each,
                         .context = context,
                         .next = ret_next };
    *ret_next = '\0';
    page.parser = bucket->library->XML_ParserCreate(NULL);
    if (page.parser == NULL)
        return -ENOMEM;
    bucket->library->XML_SetUserData(page.parser, &page);
    bucket->library->XML_SetElementHandler(page.parser, on_begin, on_end);
    bucket->library->XML_SetCharacterDataHandler(page.parser, on_text);
    bool read = bucket->library->XML_Parse(page.parser, text, (int)size, XML_TRUE) == XML_STATUS_OK;
    bucket->library->XML_ParserFree(page.parser);
    if (page.rc != 0)
        return page.rc;
    if (!read || !page.is_listing || (page.is_cut && *ret_next == '\0'))
        return spotnik_objects_fail(-EIO, "the answer to a listing of %s is no listing",
                                    bucket->base);
    if (page.is_lost)
        return spotnik_objects_fail(-EIO, "the token for the next page of %s exceeds %d bytes",
                                    bucket->base, BUCKET_PAGE_MAX);
    return 0;
}

/* ---- all pages ---- */

static bool query_make(const struct bucket *bucket, const char *under, const char *token,
                       char *query, size_t size)
{
    char plain[sizeof bucket->prefix + SPOTNIK_OBJECTS_NAME_MAX], prefix[3 * sizeof plain],
        coded[3 * BUCKET_PAGE_MAX + 1] = "";
    snprintf(plain, sizeof plain, "%s%.*s", bucket->prefix, SPOTNIK_OBJECTS_NAME_MAX - 1, under);
    if (!spotnik_bucket_encode(plain, prefix, sizeof prefix)
        || !spotnik_bucket_encode(token, coded, sizeof coded))
        return false;
    int length = bucket->service->list_query(prefix, coded, query, size);
    return length > 0 && (size_t)length < size;
}

int spotnik_bucket_walk(struct spotnik_objects *store, const char *prefix,
                        int (*each)(void *context, const struct spotnik_object *object),
                        void *context)
{
    struct bucket *bucket = (struct bucket *)store;
    char query[BUCKET_QUERY_MAX], token[BUCKET_PAGE_MAX + 1] = "";
    char *page = malloc(PAGE_BYTES);
    int rc = page != NULL ? 0 : -ENOMEM;
    for (int i = 0; rc == 0 && (i == 0 || token[0] != '\0'); i++) {
        struct bucket_request request = {
            .method = "GET", .query = query, .answer = page, .answer_max = PAGE_BYTES
        };
        rc = i < PAGES_MAX && query_make(bucket, prefix, token, query, sizeof query)
                 ? spotnik_bucket_request(bucket, &request)
                 : spotnik_objects_fail(-E2BIG,
                                        "%s/%s holds too many objects: give each job a "
                                        "prefix of its own",
                                        bucket->base, bucket->prefix);
        if (rc == 0)
            rc = page_read(bucket, prefix, page, request.answer_size, each, context, token);
    }
    free(page);
    return rc;
}

struct names {
    int (*each)(void *context, const char *name);
    void *context;
};

static int name_pass(void *context, const struct spotnik_object *object)
{
    const struct names *names = context;
    return strchr(object->name, '/') != NULL ? 0 : names->each(names->context, object->name);
}

int spotnik_bucket_list(struct spotnik_objects *store, int (*each)(void *context, const char *name),
                        void *context)
{
    return spotnik_bucket_walk(store, "", name_pass,
                               &(struct names){ .each = each, .context = context });
}
