/* SPDX-License-Identifier: Apache-2.0 */
/* The public header compiles alone, with the strictest common settings, and its limits are what users rely on. */
#include "spotnik/spotnik.h"

int main(void)
{
    struct spotnik_config config = { .size = sizeof(spotnik_config) };

    return config.size == sizeof config && SPOTNIK_OK == 0 && SPOTNIK_ERR_ARGUMENT < 0 ? 0 : 1;
}
