/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that register themselves: what a file writes as TEST(name) { ... } runs, in the order of
 * the file. The library `tests` has a main; a file that must prepare its process first writes a
 * main of its own, which ends in tests_run(). Test code only. */
#ifndef TESTS_UNIT_TESTS_H
#define TESTS_UNIT_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void tests_add(const struct CMUnitTest *test);

/* Both functions may be NULL. Returns what main returns: how many tests failed. */
int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown);

/* From here on the kernel answers system call `number` of this process with `error`, as an older
 * kernel (ENOSYS) or a sandbox (EPERM) does. False: it cannot. */
bool tests_call_refuse(long number, int error);

/* A setup gives the test its `*state`; a teardown runs even if the test fails. */
#define TEST_WITH(name, setup, teardown)                                                           \
    static void test_##name(void **state);                                                         \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        tests_add(&(struct CMUnitTest){ #name, test_##name, setup, teardown, NULL });              \
    }                                                                                              \
    static void test_##name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

#endif
