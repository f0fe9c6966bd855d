/* SPDX-License-Identifier: Apache-2.0 */
/* Files and web pages as bytes. Only here does the planner touch a network, and only where libcurl was there to build with. */
#ifndef SPOTNIK_CLI_FETCH_H
#define SPOTNIK_CLI_FETCH_H

#include "plan/fault.h"

#include <stddef.h>

/* A path, file:// or https://. The caller frees *bytes_out, which ends in a NUL. Compressed pages come out plain. */
int spotnik_source_fetch(const char *where, char **bytes_out, size_t *size_out, struct spotnik_fault *fault);

#endif
