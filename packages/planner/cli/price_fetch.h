/* SPDX-License-Identifier: Apache-2.0 */
/* Files and web pages as bytes. Only here does the planner touch a network, and only where libcurl
 * was there to build with. */
#ifndef SPOTNIK_PLANNER_PRICE_FETCH_H
#define SPOTNIK_PLANNER_PRICE_FETCH_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* The host does not answer at all: other pages will hardly fare better. */
#define SPOTNIK_UNREACHABLE (-2)

struct spotnik_page {
    char *bytes; /* ends in a NUL; the owner of the page frees it */
    size_t size;
    char etag[256];    /* what the server calls this version; empty: it does not say */
    double modified_s; /* Unix time of the last change; 0: the server does not say */
    bool unchanged;    /* the page is still as `kept` has it; there are no bytes */
};

/* Reads a path, file://, https://, or http:// of this machine (a mirror). Compressed pages come out
 * plain. With `kept` (may be null) the server is asked for the page only if it has changed since.
 * A server may be silent for `patience_s`, 1 or more. Returns 0, -1, or SPOTNIK_UNREACHABLE, with a
 * fault that says what to do. */
int spotnik_source_fetch(const char *where, const struct spotnik_page *kept, double patience_s,
                         struct spotnik_page *page_out, struct spotnik_fault *fault);
bool spotnik_source_is_page(const char *where);

#endif
