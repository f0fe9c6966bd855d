/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else's, built against what `make install` put down: see test_install.sh. */
#include <spotnik/spotnik.h>

#include <stdio.h>

/* Named like functions inside the library, which must not meet them. */
#ifdef NAMESAKES
int fail(void);
int freeze(void);
int fail(void)
{
    return 1;
}
int freeze(void)
{
    return fail();
}
#endif

int main(void)
{
    return puts(spotnik_strerror(SPOTNIK_ERR_DONE)) < 0;
}
