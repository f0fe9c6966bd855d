/* SPDX-License-Identifier: Apache-2.0 */
/* Text into memory of a fixed size. */
#include "metrics/text.h"

#include <stdarg.h>
#include <stdio.h>

void spotnik_text_add(struct spotnik_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= text->left) {
        text->full = true;
        return;
    }
    text->at += length;
    text->left -= (size_t)length;
}

void spotnik_text_quote(struct spotnik_text *text, const char *string)
{
    spotnik_text_add(text, "\"");
    for (const unsigned char *c = (const unsigned char *)string; *c; c++) {
        if (*c == '"' || *c == '\\')
            spotnik_text_add(text, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f)
            spotnik_text_add(text, "\\u%04x", *c);
        else
            spotnik_text_add(text, "%c", *c);
    }
    spotnik_text_add(text, "\"");
}

double spotnik_text_finite(double x)
{
    return x > -1e300 && x < 1e300 ? x : 0;
}
