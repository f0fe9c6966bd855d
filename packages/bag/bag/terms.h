/* SPDX-License-Identifier: Apache-2.0 */
/* bag.json: the terms of a bag as text. Equal terms give equal text. */
#ifndef BAG_TERMS_H
#define BAG_TERMS_H

#include "bag/bag.h"

#include <jansson.h>

/* NULL: no memory. */
json_t *bag_terms_write(const struct bag_terms *terms);
/* -1: it says what is wrong. What was read is freed by bag_terms_free(), on failure, too. */
int bag_terms_read(const json_t *root, struct bag_terms *ret, struct spotnik_fault *fault);
void bag_terms_free(struct bag_terms *terms);

/* The first key in which two of them differ; NULL: in none. */
const char *bag_terms_differ(const json_t *a, const json_t *b);

#endif
