/* SPDX-License-Identifier: Apache-2.0 */
/* The reason of a thread's last failure, where a kind of store knows more than an errno. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "store/inside.h"

static _Thread_local char why[500]; /* "": its errno says it all */

void spotnik_objects_why_reset(void)
{
    why[0] = '\0';
}

int spotnik_objects_fail(int rc, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    return rc;
}

const char *spotnik_objects_why(int rc)
{
    return why[0] != '\0' ? why : strerror(-rc);
}
