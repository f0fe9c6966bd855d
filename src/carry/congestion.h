/* SPDX-License-Identifier: Apache-2.0 */
/* The congestion control of TCP that SPOTNIK_CONGESTION names, for all lanes. Without it each
 * connection has the system's, or what link/socket.c sets on loopback. */
#ifndef SPOTNIK_CARRY_CONGESTION_H
#define SPOTNIK_CARRY_CONGESTION_H

#define SPOTNIK_CONGESTION_NAME 16 /* TCP_CA_NAME_MAX */

/* *ret_name: "" where `text` is NULL or "". ARGUMENT: the kernel does not know it, or refuses it to
 * this user. */
int spotnik_congestion_parse(const char *text, char ret_name[SPOTNIK_CONGESTION_NAME]);

/* For one connection; "": nothing is set. */
void spotnik_congestion_set(int fd, const char *name);

#endif
