/* SPDX-License-Identifier: Apache-2.0 */
/* The list of the tests of a program. Constructors fill it before main. */
#include "tests.h"

#include <stdlib.h>

#define TESTS_MAX 128

static struct CMUnitTest tests[TESTS_MAX];
static size_t count;

void tests_add(const struct CMUnitTest *test)
{
    if (count == TESTS_MAX)
        abort(); /* make the list longer */
    tests[count++] = *test;
}

int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return _cmocka_run_group_tests("tests", tests, count, setup, teardown);
}
