/* SPDX-License-Identifier: Apache-2.0 */
/* Where the members of a test's job find each other: a folder of its own with a key in it. Test
 * code only. */
#ifndef TESTS_UNIT_PLACE_H
#define TESTS_UNIT_PLACE_H

#include "spotnik/spotnik.h"

struct place {
    char folder[64], key[96], peers[96];
};

void place_open(struct place *place);

/* With all that is in it. No member may be left. */
void place_close(struct place *place);

/* Defaults, here, and a silence long enough for a busy machine. Points into `place`. */
void place_config(const struct place *place, spotnik_config *config);

/* What a member's own thread found out first: cmocka's assertions belong to the thread of the
 * test. */
#define EXPECT(member, condition)                                                                  \
    do {                                                                                           \
        if (!(condition) && !(member)->failure[0])                                                 \
            snprintf((member)->failure, sizeof(member)->failure, "line %d: %s: %s", __LINE__,      \
                     #condition, spotnik_last_error());                                            \
    } while (0)

#endif
