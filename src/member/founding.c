/* SPDX-License-Identifier: Apache-2.0 */
/* Foundings; see founding.h. */
#include "member/founding.h"

bool spotnik_founding_differs(const struct spotnik_founding *a, const struct spotnik_founding *b)
{
    return a->id != 0 && b->id != 0 && a->id != b->id;
}

bool spotnik_founding_is_foreign(const struct spotnik_founding *a, const struct spotnik_founding *b)
{
    return spotnik_founding_differs(a, b) && a->root != b->root;
}

bool spotnik_founding_follows(const struct spotnik_founding *next,
                              const struct spotnik_founding *before)
{
    return next->root == before->root && next->generation > before->generation;
}
