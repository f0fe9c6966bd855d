/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal as lines: put together off screen, cut to its width, shown at once. Colours are left
 * out where NO_COLOR is set. */
#ifndef SPOTNIK_CLI_SCREEN_H
#define SPOTNIK_CLI_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum screen_look { SCREEN_PLAIN, SCREEN_HEAD, SCREEN_SOFT, SCREEN_BAD };

/* Take over the terminal; what was on it comes back at the end, also when the program is told to
 * end. False: it is none. */
bool screen_open(void);
void screen_close(void);

void screen_begin(void);
void screen_line(enum screen_look look, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint32_t screen_room(void); /* lines that still fit */
void screen_show(void);

/* Wait for a key, so long at most; 0: none was pressed, or the size has changed. 'q' also for
 * Ctrl-C and the end of input. */
int screen_key(uint64_t timeout_ns);

/* May anything be coloured on this descriptor? */
bool screen_has_colour(int fd);

/* Columns of the terminal behind `fd`; 80 where it does not say. */
uint32_t screen_width(int fd);

#endif
