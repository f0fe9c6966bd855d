/* SPDX-License-Identifier: Apache-2.0 */
/* page.html, as it is served: made by dev/embed.py at build time. */
#ifndef SPOTNIK_WATCH_PAGE_H
#define SPOTNIK_WATCH_PAGE_H

#include <stddef.h>

extern const unsigned char spotnik_page[];
extern const size_t spotnik_page_size;
extern const char spotnik_page_script[]; /* 'sha256-...' of its script */

#endif
