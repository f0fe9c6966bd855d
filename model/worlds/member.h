/* SPDX-License-Identifier: Apache-2.0 */
/* What one member of a small world does. A function that returns false: it died in it. */
#ifndef SPOTNIK_MODEL_MEMBER_H
#define SPOTNIK_MODEL_MEMBER_H

#include "world.h"

extern struct spotnik_core *world_core_of[NODES];
extern size_t world_core_bytes; /* of a core without its queue of actions */
extern bool world_tells;

struct spotnik_member world_member(uint32_t node);

/* Its kernel ends its links in order: what it had said arrives before. */
void member_die(uint32_t index);

/* An event, and all actions that follow from it. */
bool member_hears(uint32_t index, struct spotnik_event event);
bool member_polled(uint32_t index);

/* What its caller and its data connections do at once. */
void member_goes_on(uint32_t index);

/* Equal cores are to be equal bytes: what is left over from the last call is no state. */
void world_tidy(uint32_t index);

#endif
