/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences about bad input. Nothing here decides whether input is bad. */
#include "common/fault.h"

#include <stdarg.h>
#include <stdio.h>

void spotnik_fault_fill(struct spotnik_fault *fault, const char *format, ...)
{
    va_list arguments;

    if (!fault)
        return;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
}
