/* SPDX-License-Identifier: Apache-2.0 */
/* Words of others on our terminal. A member sends its status, in which the program may have put
 * anything; a terminal obeys some of the characters. */
#ifndef SPOTNIK_CLI_PRINTABLE_H
#define SPOTNIK_CLI_PRINTABLE_H

#include <jansson.h>

/* Each control character (below U+0020, U+007F to U+009F) in the strings of `value`, and of all it
 * holds, becomes a question mark. */
void json_make_printable(json_t *value);

#endif
