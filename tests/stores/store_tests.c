/* SPDX-License-Identifier: Apache-2.0 */
#include "store_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spotnik_objects *store;

void store_open(const char *place)
{
    char where[200];
    snprintf(where, sizeof where, "%s://bucket/%s", getenv("STORE_SCHEME"), place);
    assert_int_equal(spotnik_objects_open(where, &store), 0);
}

int store_close(void **state)
{
    (void)state;
    spotnik_objects_close(store);
    store = NULL;
    return 0;
}

void assert_signed_as(const char *place)
{
    store_open(place);
    int rc = spotnik_objects_put(store, "a", 1, "b", 1);
    if (rc != 0)
        print_error("%s: %s\n", place, spotnik_objects_why(rc));
    assert_int_equal(rc, 0);
    store_close(NULL);
}

void assert_refused(const char *place, const char *why)
{
    store_open(place);
    int rc = spotnik_objects_put(store, "a", 1, "b", 1);
    if (strstr(spotnik_objects_why(rc), why) == NULL)
        print_error("%s: %s\n", place, spotnik_objects_why(rc));
    assert_non_null(strstr(spotnik_objects_why(rc), why));
    store_close(NULL);
}

void file_make(char *path, const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "%s", text);
    close(fd);
}
