/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

char top[64], folder[128], csv[128];
struct bag bag;

void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

int bag_begin(void **state)
{
    static char *command[] = { (char *)"sim", (char *)"{x}", NULL };
    const struct bag_terms terms = { .command = command,
                                     .restart = (char *)"restart.*",
                                     .tries = 3 };
    const char *const none[] = { NULL };
    struct spotnik_fault fault;
    (void)state;
    snprintf(top, sizeof top, "/tmp/spotnik-test-bag-XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(folder, sizeof folder, "%s/b", top);
    snprintf(csv, sizeof csv, "%s/jobs.csv", top);
    file_write(csv, "job,x\na,1\nb.2,2\nc,3\n");
    return bag_make(folder, csv, &terms, none, &fault) != 0 || bag_open(folder, &bag, &fault) != 0;
}

int bag_end(void **state)
{
    (void)state;
    bag_close(&bag);
    return bag_remove(top);
}

void work_make(const struct bag_job *job, uint32_t attempt, const char *file, const char *text)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    bag_attempt_name(job, attempt, name);
    bag_path(&bag, path, "work", name);
    mkdir(path, 0700);
    bag_join(path, path, file);
    file_write(path, text);
}

void file_is(const char *directory, const char *name, const char *content, size_t size)
{
    char path[PATH_MAX], *bytes = malloc(size + 1);
    bag_join(path, directory, name);
    FILE *file = fopen(path, "r");
    assert_true(file != NULL && bytes != NULL);
    assert_int_equal(fread(bytes, 1, size + 1, file), size);
    assert_memory_equal(bytes, content, size);
    fclose(file);
    free(bytes);
}
