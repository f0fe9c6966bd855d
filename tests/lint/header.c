/* SPDX-License-Identifier: Apache-2.0 */
/* The public headers compile alone, with the strictest common settings, and their limits are what
 * users rely on. */
#include "spotnik/group.h"
#include "spotnik/sync.h"
#include "spotnik/watch.h"

int main(void)
{
    struct spotnik_config config = { .size = sizeof(spotnik_config) };

    return config.size == sizeof config && SPOTNIK_OK == 0 && SPOTNIK_ERR_ARGUMENT < 0 ? 0 : 1;
}
