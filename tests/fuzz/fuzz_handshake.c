/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger at the handshake. The first byte says whom it talks to, a server or a client; the rest
 * is what it sends. There is one other holder of the key: nothing but its very words may be
 * believed. */
#include <string.h>

#include "base/assert.h"
#include "fuzz.h"
#include "shake.h"

/* Read one message as src/link does: the preamble, then the rest. Returns its size, 0 for the
 * end. */
static size_t message_read(struct spotnik_handshake *side, const uint8_t *data, size_t size,
                           enum spotnik_handshake_type expected,
                           enum spotnik_handshake_type *ret_type)
{
    size_t whole;

    if (size < SPOTNIK_HANDSHAKE_PREAMBLE_BYTES
        || spotnik_handshake_preamble(side, data, expected, ret_type, &whole) != SPOTNIK_OK)
        return 0;
    SPOTNIK_ASSERT(whole >= SPOTNIK_HANDSHAKE_PREAMBLE_BYTES
                   && whole <= SPOTNIK_HANDSHAKE_BYTES_MAX);
    if (size < whole)
        return 0;
    if (*ret_type == SPOTNIK_HANDSHAKE_REFUSAL) {
        SPOTNIK_ASSERT(spotnik_handshake_refused(side, data) != SPOTNIK_OK);
        return 0;
    }
    return whole;
}

static void refusal_try(const struct spotnik_handshake *side, int error)
{
    uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES];

    if (error != SPOTNIK_ERR_ARGUMENT)
        spotnik_handshake_refusal(side, error, refusal);
}

static void talk_to_server(const uint8_t *data, size_t size)
{
    struct spotnik_handshake server = spotnik_shake_server(), client = spotnik_shake_client();
    uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES], answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES];
    uint8_t proof[SPOTNIK_HANDSHAKE_PROOF_BYTES];
    enum spotnik_handshake_type type;
    size_t taken = message_read(&server, data, size, SPOTNIK_HANDSHAKE_HELLO, &type);

    if (!taken)
        return;
    int rc = spotnik_handshake_answer(&server, data, answer);
    if (rc != SPOTNIK_OK) {
        refusal_try(&server, rc);
        return;
    }
    const uint8_t *rest = data + taken;
    if (!message_read(&server, rest, size - taken, SPOTNIK_HANDSHAKE_PROOF, &type))
        return;
    rc = spotnik_handshake_admit(&server, rest);
    if (rc != SPOTNIK_OK) {
        refusal_try(&server, rc);
        return;
    }
    spotnik_handshake_hello(&client, hello);
    SPOTNIK_ASSERT(memcmp(hello, data, sizeof hello) == 0);
    SPOTNIK_ASSERT(spotnik_handshake_prove(&client, answer, proof) == SPOTNIK_OK);
    SPOTNIK_ASSERT(memcmp(proof, rest, sizeof proof) == 0);
}

static void talk_to_client(const uint8_t *data, size_t size)
{
    struct spotnik_handshake server = spotnik_shake_server(), client = spotnik_shake_client();
    uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES], answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES];
    uint8_t proof[SPOTNIK_HANDSHAKE_PROOF_BYTES];
    enum spotnik_handshake_type type;

    spotnik_handshake_hello(&client, hello);
    if (!message_read(&client, data, size, SPOTNIK_HANDSHAKE_ANSWER, &type))
        return;
    int rc = spotnik_handshake_prove(&client, data, proof);
    if (rc != SPOTNIK_OK) {
        refusal_try(&client, rc);
        return;
    }
    SPOTNIK_ASSERT(spotnik_handshake_answer(&server, hello, answer) == SPOTNIK_OK);
    SPOTNIK_ASSERT(memcmp(answer, data, sizeof answer) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 2 == 0)
        talk_to_server(data + 1, size - 1);
    else
        talk_to_client(data + 1, size - 1);
    return 0;
}
