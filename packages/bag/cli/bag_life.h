/* SPDX-License-Identifier: Apache-2.0 */
/* --lifetime: how long machines live, as the user says it. */
#ifndef BAG_LIFE_H
#define BAG_LIFE_H

#include "bag/bag_pace.h"

/* A CSV file, bathtub, bathtub:A,TAU1,TAU2,B (hours) or mttf:TIME. cap_s is left as it is. -1:
 * *fault says what is wrong. */
int bag_life_parse(const char *text, struct bag_life *ret, struct spotnik_fault *fault);

#endif
