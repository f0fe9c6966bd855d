/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of host names as Slurm writes them, n[01-03,7],gpu-[0-1]x, taken apart. */
#ifndef SPOTNIK_DISCOVERY_HOST_LIST_H
#define SPOTNIK_DISCOVERY_HOST_LIST_H

#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_HOST_NAME 256 /* bytes of a name, with its end */

/* Names in the order of the list, at most `max`; *ret_count is how many there are, which may be
 * more. Errors: ARGUMENT (a bracket without its other half, a range that runs backwards, a name
 * that is too long or empty); LIMIT (a range of more than 100000 names). */
int spotnik_host_list_expand(const char *list, char (*ret)[SPOTNIK_HOST_NAME], uint32_t max,
                             uint32_t *ret_count);

#endif
