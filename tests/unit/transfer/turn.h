/* SPDX-License-Identifier: Apache-2.0 */
/* For test_transfer: honest donors hear no request for a piece before the liar has had one. There
 * are more pieces than their requests can take, so it is asked, however late its thread of the
 * joiner begins. Test code only. */
#ifndef TESTS_UNIT_STATE_TURN_H
#define TESTS_UNIT_STATE_TURN_H

#include <pthread.h>
#include <stdbool.h>

#include "transfer/packet.h"

static __thread bool is_liar;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static bool liar_had_its_turn;
static bool lying; /* there is a liar among the donors */

int __real_spotnik_packet_receive(struct spotnik_duplex *duplex, struct spotnik_packet *frame,
                                  uint32_t size_max);
int __wrap_spotnik_packet_receive(struct spotnik_duplex *duplex, struct spotnik_packet *frame,
                                  uint32_t size_max);

/* The linker puts this in its place. */
int __wrap_spotnik_packet_receive(struct spotnik_duplex *duplex, struct spotnik_packet *frame,
                                  uint32_t size_max)
{
    int rc = __real_spotnik_packet_receive(duplex, frame, size_max);

    pthread_mutex_lock(&turn);
    while (!rc && frame->kind == SPOTNIK_PACKET_FETCH && lying && !is_liar && !liar_had_its_turn)
        pthread_cond_wait(&turned, &turn);
    pthread_mutex_unlock(&turn);
    return rc;
}

static void turn_end(void)
{
    pthread_mutex_lock(&turn);
    liar_had_its_turn = true;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&turn);
}

#endif
