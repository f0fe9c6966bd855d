/* SPDX-License-Identifier: Apache-2.0 */
/* Files that one of several processes puts into a folder: whole or not at all, and by one of them,
 * also where the answer of a file server is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests.h"

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

static char folder[] = "/tmp/spotnik-file-XXXXXX", path[64];
static bool answer_lost;

/* A server that has done it, and does it again because its first answer was lost. */
int __wrap_link(const char *from, const char *to)
{
    int rc = __real_link(from, to);
    return answer_lost && rc == 0 ? __real_link(from, to) : rc;
}

static int make_folder(void **state)
{
    (void)state;
    answer_lost = false;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/record", folder);
    return 0;
}

/* Fails if anything but the record is left. */
static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int put(uint64_t writer, const char *text, bool exclusive)
{
    return spotnik_file_put(folder, "record", writer, text, strlen(text), exclusive);
}

static const char *record(void)
{
    static char text[32];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Claim: of two that put a file exclusively the first has it; another put replaces it. */
TEST_WITH(the_first_has_it, make_folder, remove_folder)
{
    assert_int_equal(put(1, "one", true), 0);
    assert_int_equal(put(2, "two", true), -EEXIST);
    assert_string_equal(record(), "one");
    assert_int_equal(put(2, "two", false), 0);
    assert_string_equal(record(), "two");
}

/* Claim: a put whose answer was lost is known as ours, and another's is not. */
TEST_WITH(a_lost_answer, make_folder, remove_folder)
{
    answer_lost = true;
    assert_int_equal(put(1, "one", true), 0);
    assert_int_equal(put(2, "two", true), -EEXIST);
    assert_string_equal(record(), "one");
}

/* Claim: what a killed process left under its temporary name is in no one's way. */
TEST_WITH(left_by_a_killed_process, make_folder, remove_folder)
{
    char left[96];
    snprintf(left, sizeof left, "%s/.record.0000000000000001.x", folder);
    fclose(fopen(left, "w"));
    assert_int_equal(put(1, "one", true), 0);
    assert_string_equal(record(), "one");
}
