/* SPDX-License-Identifier: Apache-2.0 */
/* member_id is totally ordered, high half first; ties of the lineage rule rest on it. */
#include "base/id.h"
#include "tests.h"

static const struct spotnik_id ascending[] = {
    { 0, 0 }, { 0, 1 },          { 0, UINT64_MAX },          { 1, 0 },
    { 1, 1 }, { UINT64_MAX, 0 }, { UINT64_MAX, UINT64_MAX },
};

TEST(order_is_total)
{
    int count = sizeof ascending / sizeof ascending[0];

    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            assert_int_equal(spotnik_id_compare(ascending[i], ascending[j]), (i > j) - (i < j));
            assert_int_equal(spotnik_id_equal(ascending[i], ascending[j]), i == j);
        }
        assert_int_equal(spotnik_id_is_none(ascending[i]), i == 0);
    }
}
