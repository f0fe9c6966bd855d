/* SPDX-License-Identifier: Apache-2.0 */
/* The two members of the handshake fuzzer and of its seeds: one key, one job, nonces that stay the
 * same. */
#ifndef SPOTNIK_TESTS_SHAKE_H
#define SPOTNIK_TESTS_SHAKE_H

#include <string.h>

#include "sample.h"
#include "toy_mac.h"
#include "wire/handshake.h"

static inline struct spotnik_handshake spotnik_shake_side(uint8_t number)
{
    struct spotnik_handshake side = { .mac = spotnik_toy_mac };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, number);
    side.self = spotnik_sample_member(&prng);
    memset(side.key, 1, sizeof side.key);
    memset(side.job, 2, sizeof side.job);
    memset(side.nonce, number, sizeof side.nonce);
    return side;
}

static inline struct spotnik_handshake spotnik_shake_client(void)
{
    struct spotnik_handshake side = spotnik_shake_side(3);

    side.purpose = 1;
    return side;
}

static inline struct spotnik_handshake spotnik_shake_server(void)
{
    return spotnik_shake_side(4);
}

#endif
