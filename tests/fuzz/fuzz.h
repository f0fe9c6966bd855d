/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target defines; libFuzzer calls it by this name, and so does replay.c. Returns 0;
 * aborts when a rule is broken. `data` may end right at the end of its memory. */
#ifndef SPOTNIK_TESTS_FUZZ_H
#define SPOTNIK_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
