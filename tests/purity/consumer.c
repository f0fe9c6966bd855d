/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else's, built against what `make install` put down: see test_install.sh. */
#include <spotnik/spotnik.h>

#include <stdio.h>

int main(void)
{
    return puts(spotnik_strerror(SPOTNIK_ERR_DONE)) < 0;
}
