/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of stores share: one store is open at a time. Test code only. */
#ifndef TESTS_STORES_STORE_TESTS_H
#define TESTS_STORES_STORE_TESTS_H

#include "store/store.h"
#include "tests.h"

extern struct spotnik_objects *store;

/* In the bucket, of the service that STORE_SCHEME names. */
void store_open(const char *place);
int store_close(void **state); /* for TEST_WITH */

/* Can an object be put into that place? The stand-in refuses in "as-NAME" what NAME has not
 * signed. */
void assert_signed_as(const char *place);
void assert_refused(const char *place, const char *why);

/* `path` ends in XXXXXX. */
void file_make(char *path, const char *text);

#endif
