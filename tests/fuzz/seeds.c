/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the first inputs of the fuzzers of the wire: tests/fuzz/corpus was begun with it, and is
 * begun anew with it when a layout changes. Usage: fuzz_seeds CORPUS (with folders control, data,
 * exchange and handshake in it) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sample.h"
#include "shake.h"
#include "wire/data.h"
#include "wire/p2p_frame.h"

#define BYTES_MAX 65536

static const char *corpus;

static void put(const char *target, const char *name, unsigned number, const uint8_t *bytes,
                size_t size)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s/%s-%u", corpus, target, name, number);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void control_seeds(struct spotnik_prng *prng)
{
    static const char *const names[] = {
        "none",  "heartbeat", "reconcile", "accept", "restart", "fenced",  "view-ask",
        "enter", "mismatch",  "doubt",     "assure", "ask",     "promise", "accepted",
    };
    _Static_assert(sizeof names / sizeof names[0] == SPOTNIK_MESSAGE_KIND_COUNT, "a name for each");
    static uint8_t bytes[BYTES_MAX];
    struct spotnik_limits limits = spotnik_sample_limits();
    void *memory = malloc(spotnik_wire_storage_size(&limits));

    SPOTNIK_ASSERT(memory);
    struct spotnik_wire_storage *storage = spotnik_wire_storage_init(memory, &limits);
    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++) {
        unsigned wanted = kind == SPOTNIK_MESSAGE_PREPARE  ? 8
                          : kind == SPOTNIK_MESSAGE_ACCEPT ? 6
                                                           : 1;
        for (unsigned made = 0; made < wanted;) {
            struct spotnik_message message =
                spotnik_sample_message(prng, (enum spotnik_message_kind)kind, storage);
            size_t size = spotnik_control_encode(&message, bytes, sizeof bytes);
            if (size <= 1500) /* small inputs are mutated better */
                put("control", names[kind], made++, bytes, size);
        }
    }
    free(memory);
}

static void data_seeds(struct spotnik_prng *prng)
{
    uint8_t bytes[3 * (SPOTNIK_DATA_PREFIX_BYTES + 64)];

    for (unsigned i = 0; i < 6; i++) {
        size_t size = 0;
        for (unsigned k = 0; k <= i % 3; k++) {
            struct spotnik_chunk_header header = spotnik_sample_chunk(prng);
            spotnik_data_encode(&header, i + k, 8 * (i + k), bytes + size);
            memset(bytes + size + SPOTNIK_DATA_PREFIX_BYTES, (int)i, 8 * (i + k));
            size += SPOTNIK_DATA_PREFIX_BYTES + 8 * (i + k);
        }
        put("data", "chunks", i, bytes, size);
    }
    for (unsigned reason = 1; reason < SPOTNIK_GOODBYE_COUNT; reason++) {
        struct spotnik_frame frame = { .kind = SPOTNIK_FRAME_GOODBYE,
                                       .payload_bytes = SPOTNIK_GOODBYE_BYTES };
        spotnik_frame_encode(&frame, bytes);
        spotnik_goodbye_encode((enum spotnik_goodbye)reason, bytes + SPOTNIK_FRAME_BYTES);
        put("data", "goodbye", reason, bytes, SPOTNIK_FRAME_BYTES + SPOTNIK_GOODBYE_BYTES);
    }
}

static void exchange_seeds(void)
{
    uint8_t bytes[2 * SPOTNIK_P2P_HEAD_BYTES + 16] = { 0 };

    for (unsigned kind = 1; kind < SPOTNIK_P2P_KIND_COUNT; kind++) {
        struct spotnik_p2p_head head = { .kind = (uint8_t)kind, .sequence = kind };
        bool data = "ppp.p.....ppppp.pp...p.p"[kind - 1] != '.';
        head.dtype = data ? SPOTNIK_F32 : 0;
        head.bytes = data ? 16 : 0;
        memcpy(head.name, "model", 5);
        spotnik_p2p_encode(&head, bytes);
        spotnik_p2p_encode(&head, bytes + SPOTNIK_P2P_HEAD_BYTES + head.bytes);
        put("exchange", "two", kind, bytes, 2 * SPOTNIK_P2P_HEAD_BYTES + head.bytes);
    }
}

static void handshake_seeds(void)
{
    struct spotnik_handshake client = spotnik_shake_client(), server = spotnik_shake_server();
    uint8_t to_server[1 + SPOTNIK_HANDSHAKE_HELLO_BYTES + SPOTNIK_HANDSHAKE_PROOF_BYTES] = { 0 };
    uint8_t to_client[1 + SPOTNIK_HANDSHAKE_ANSWER_BYTES] = { 1 };
    static const int errors[] = { SPOTNIK_ERR_VERSION, SPOTNIK_ERR_JOB, SPOTNIK_ERR_KEY };

    spotnik_handshake_hello(&client, to_server + 1);
    SPOTNIK_ASSERT(spotnik_handshake_answer(&server, to_server + 1, to_client + 1) == SPOTNIK_OK);
    SPOTNIK_ASSERT(spotnik_handshake_prove(&client, to_client + 1,
                                           to_server + 1 + sizeof client.hello)
                   == SPOTNIK_OK);
    put("handshake", "genuine-client", 0, to_server, sizeof to_server);
    put("handshake", "genuine-server", 0, to_client, sizeof to_client);
    for (unsigned i = 0; i < 3; i++) {
        spotnik_handshake_refusal(&server, errors[i], to_client + 1);
        put("handshake", "refusal", i, to_client, 1 + SPOTNIK_HANDSHAKE_REFUSAL_BYTES);
    }
    to_server[1 + 8]++; /* another version */
    put("handshake", "version", 0, to_server, sizeof to_server);
    to_server[1 + 8]--;
    to_server[1 + 16]++; /* another job */
    put("handshake", "job", 0, to_server, sizeof to_server);
}

int main(int argc, char **argv)
{
    struct spotnik_prng prng;

    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    corpus = argv[1];
    spotnik_prng_seed(&prng, 1);
    control_seeds(&prng);
    data_seeds(&prng);
    exchange_seeds();
    handshake_seeds();
    return 0;
}
