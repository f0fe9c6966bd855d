/* SPDX-License-Identifier: Apache-2.0 */
/* The public header is C++ too. */
#include "spotnik/group.h"
#include "spotnik/sync.h"
#include "spotnik/watch.h"

int main()
{
    spotnik_step step = {};

    return step.number == 0 && SPOTNIK_OK == 0 ? 0 : 1;
}
