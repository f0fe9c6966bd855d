/* SPDX-License-Identifier: Apache-2.0 */
/* The main of a program of tests that needs nothing prepared. */
#include "tests.h"

int main(void)
{
    return tests_run(NULL, NULL);
}
