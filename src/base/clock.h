/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks of the kernel that never step, in nanoseconds. */
#ifndef SPOTNIK_BASE_CLOCK_H
#define SPOTNIK_BASE_CLOCK_H

#include <stdint.h>

uint64_t spotnik_clock_ns(void);      /* stands still while the host is suspended */
uint64_t spotnik_clock_boot_ns(void); /* runs on meanwhile */

#endif
