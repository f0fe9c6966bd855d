/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses between the forms in which people, the wire and the kernel write them. The wire's form
 * is 16 bytes: IPv6, or IPv4 mapped into it. */
#ifndef SPOTNIK_LINK_ADDRESS_H
#define SPOTNIK_LINK_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Enough for "[IPv6]:port" and its end. */
#define SPOTNIK_ADDRESS_TEXT 64

/* "host", "host:port", "[v6]:port" or a bare v6 address. Resolves names: may block. Without a port
 * *ret_port is left as it is. Errors: ARGUMENT (not an address), PEERS (name does not resolve). */
int spotnik_address_parse(const char *text, uint8_t ret_address[16], uint16_t *ret_port);

/* The same for a process that binds `own` (NULL: any). A name may have several addresses: ours
 * counts where it is among them, else the first of our family, where we can meet who binds it.
 * Debian gives a host's own name the address 127.0.1.1, on that host alone: that is ours, too. Not
 * so 127.0.0.1: each host would take that for a process of its own. */
int spotnik_address_parse_for(const char *text, const uint8_t *own, uint8_t ret_address[16],
                              uint16_t *ret_port);

/* "1.2.3.4:5" or "[::1]:5". Returns `text`. */
const char *spotnik_address_format(char text[SPOTNIK_ADDRESS_TEXT], const uint8_t address[16],
                                   uint16_t port);

/* The kernel's form; IPv4 where mapped. Returns its size. */
socklen_t spotnik_address_to_kernel(struct sockaddr_storage *to, const uint8_t address[16],
                                    uint16_t port);
void spotnik_address_from_kernel(const struct sockaddr_storage *from, uint8_t ret_address[16],
                                 uint16_t *ret_port);

bool spotnik_address_is_ipv4(const uint8_t address[16]);
bool spotnik_address_is_loopback(const uint8_t address[16]);

/* "Any": what a job must not listen on unasked. */
bool spotnik_address_is_any(const uint8_t address[16]);

#endif
