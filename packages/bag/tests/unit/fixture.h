/* SPDX-License-Identifier: Apache-2.0 */
/* A bag of four jobs in a folder of its own, for tests. */
#ifndef TEST_BAG_FIXTURE_H
#define TEST_BAG_FIXTURE_H

#include "bag/bag.h"

extern char top[64], folder[128], csv[128];
extern struct bag bag;

/* For each test: make it, and remove it. */
int bag_begin(void **state);
int bag_end(void **state);

void file_write(const char *path, const char *text);
/* A file of an attempt, whose directory is made. */
void work_make(const struct bag_job *job, uint32_t attempt, const char *file, const char *text);
/* Its content is this, and no more. */
void file_is(const char *directory, const char *name, const char *content, size_t size);

#endif
