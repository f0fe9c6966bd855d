/* SPDX-License-Identifier: Apache-2.0 */
/* Five hosts on one machine: network namespaces on a switch of their own. Needs root and the
 * program `ip`. */
#ifndef SPOTNIK_TESTS_NETNS_H
#define SPOTNIK_TESTS_NETNS_H

#include <stdbool.h>
#include <stdint.h>

enum { NETNS_HOSTS = 5 };

extern char netns_host[NETNS_HOSTS][32];    /* names of the namespaces */
extern char netns_address[NETNS_HOSTS][32]; /* of the hosts in them */

/* Make them; they are gone when the test has ended, however it ended. False: it cannot be done
 * here. */
bool netns_set_up(void);

/* Pull the cable of a host, or plug it in again. */
void netns_plug(uint32_t of, bool in);

/* Hang a host on the other switch, or back on the first. */
void netns_move(uint32_t of, bool two);

/* What `from` sends to `to` arrives nowhere; the other direction is left as it is. */
void netns_one_way(uint32_t from, uint32_t to, bool cut);

#endif
