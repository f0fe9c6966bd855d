/* SPDX-License-Identifier: Apache-2.0 */
/* The one pair of a test program, and the teardown that closes it. */
#ifndef SPOTNIK_TESTS_PAIR_FIXTURE_H
#define SPOTNIK_TESTS_PAIR_FIXTURE_H

#include "pair.h"
#include "tests.h"

static struct pair pair;

static int close_pair(void **state)
{
    (void)state;
    pair_close(&pair);
    return 0;
}

/* For tests that watch the pair alone. */
#define TEST_PAIR(name) TEST_WITH(name, NULL, close_pair)

#endif
