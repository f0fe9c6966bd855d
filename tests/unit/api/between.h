/* SPDX-License-Identifier: Apache-2.0 */
/* A machine in between the members of this process: every TCP connection that one of them dials
 * goes through it. It has no key. It knows where a message begins and ends, as anybody may, and
 * does one thing to one message when it is asked to. Under TLS it sees records. Test code only;
 * link with -Wl,--wrap=spotnik_socket_connect. */
#ifndef TESTS_UNIT_API_BETWEEN_H
#define TESTS_UNIT_API_BETWEEN_H

#include <stdbool.h>
#include <stdint.h>

#define BETWEEN_TLS 0xff      /* the purpose of a connection under TLS */
#define BETWEEN_TLS_DATA 0x17 /* the kind of a record that is encrypted */

enum between_deed { BETWEEN_FLIP, BETWEEN_DROP, BETWEEN_REPEAT, BETWEEN_FORGE };

struct between_attack {
    uint8_t purpose; /* of the connection: enum spotnik_purpose; BACK is as CONTROL */
    uint8_t kind;    /* of the message; 0: any */
    enum between_deed deed;
    /* FLIP: the byte whose lowest bit is flipped, which the message must have; less than 0: from
     * its end */
    int at;
};

/* The next message that it fits. */
void between_attack(const struct between_attack *attack);
bool between_is_done(void);

/* From now on look for these bytes in all that passes; how often were they there? */
enum { BETWEEN_SECRETS = 4, BETWEEN_SECRET_BYTES = 16 };
void between_look_for(int which, const void *bytes);
uint64_t between_seen(int which);

#endif
