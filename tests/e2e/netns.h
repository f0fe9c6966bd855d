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

#endif
