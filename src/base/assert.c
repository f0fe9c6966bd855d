/* SPDX-License-Identifier: Apache-2.0 */
/* How a broken invariant ends: one line to stderr, then abort. Uses write(2) and no buffers, so
 * that it works in any thread and in a signal handler. It decides nothing about what is an
 * invariant; see assert.h. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*spotnik_assert_last_words)(const char *what);

static void __attribute__((noreturn)) end(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        abort();
    /* once: it may assert, too */
    void (*speak)(const char *) =
        __atomic_exchange_n(&spotnik_assert_last_words, NULL, __ATOMIC_ACQ_REL);
    if (speak)
        speak(text);
    abort();
}

void spotnik_assert_fail(const char *expression, const char *file, int line)
{
    char text[512];

    snprintf(text, sizeof text, "spotnik: internal error: %s:%d: %s does not hold\n", file, line,
             expression);
    end(text);
}

void spotnik_assert_say(const char *sentence)
{
    char text[512];

    snprintf(text, sizeof text, "spotnik: %s\n", sentence);
    end(text);
}
