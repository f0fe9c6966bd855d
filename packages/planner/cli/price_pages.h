/* SPDX-License-Identifier: Apache-2.0 */
/* Price pages as they were last fetched, kept beside the prices: the next update asks for changes
 * only. */
#ifndef SPOTNIK_PLANNER_PRICE_PAGES_H
#define SPOTNIK_PLANNER_PRICE_PAGES_H

#include "price_fetch.h"

/* The page of `url` that is kept for the prices in `prices`; false when none is, or not a whole
 * one. The caller frees page_out->bytes. */
bool spotnik_price_page_load(const char *prices, const char *url, struct spotnik_page *page_out);
/* Keeps a page, in one step. A page that cannot be kept is fetched whole the next time: nothing is
 * said. */
void spotnik_price_page_keep(const char *prices, const char *url, const struct spotnik_page *page);

#endif
