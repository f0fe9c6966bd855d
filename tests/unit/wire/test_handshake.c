/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake, both sides in one process: it succeeds between holders of one key in one job, and
 * nowhere else; whatever is altered, replayed or sent back on the way, no side admits the other. */
#include "wire/handshake.h"

#include <string.h>

#include "sample.h"
#include "spotnik/spotnik.h"
#include "toy_mac.h"
#include "wire/frame.h"
#include "tests.h"

struct pair {
    struct spotnik_handshake client, server;
    uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES];
    uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES];
    uint8_t proof[SPOTNIK_HANDSHAKE_PROOF_BYTES];
};

static struct spotnik_handshake side(struct spotnik_prng *prng)
{
    struct spotnik_handshake handshake = { .mac = spotnik_toy_mac,
                                           .self = spotnik_sample_member(prng) };

    handshake.presence =
        (struct spotnik_presence){ .founding = { .id = spotnik_prng_next(prng),
                                                 .root = spotnik_prng_next(prng),
                                                 .founded_at_ms = spotnik_prng_next(prng),
                                                 .generation = 2 },
                                   .step = spotnik_prng_next(prng),
                                   .size = 3 };

    memset(handshake.key, 0x11, sizeof handshake.key);
    memset(handshake.job, 0x22, sizeof handshake.job);
    for (uint32_t i = 0; i < sizeof handshake.nonce; i++)
        handshake.nonce[i] = (uint8_t)spotnik_prng_next(prng);
    return handshake;
}

static struct pair pair_new(uint64_t seed)
{
    struct pair pair;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed);
    pair.client = side(&prng);
    pair.client.purpose = 3;
    pair.server = side(&prng);
    return pair;
}

/* Up to the first error. *ret_side: 's' or 'c', who found it. */
static int pair_run(struct pair *pair, char *ret_side)
{
    spotnik_handshake_hello(&pair->client, pair->hello);
    *ret_side = 's';
    int rc = spotnik_handshake_answer(&pair->server, pair->hello, pair->answer);
    if (rc)
        return rc;
    *ret_side = 'c';
    rc = spotnik_handshake_prove(&pair->client, pair->answer, pair->proof);
    if (rc)
        return rc;
    *ret_side = 's';
    return spotnik_handshake_admit(&pair->server, pair->proof);
}

TEST(holders_of_one_key_admit_each_other)
{
    struct pair pair = pair_new(1);
    uint8_t send[2][SPOTNIK_KEY_BYTES], receive[2][SPOTNIK_KEY_BYTES];
    char who;

    assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
    assert_int_equal(pair.server.purpose, 3);
    assert_true(spotnik_sample_member_equal(&pair.server.peer, &pair.client.self));
    assert_true(spotnik_sample_member_equal(&pair.client.peer, &pair.server.self));
    assert_int_equal(pair.client.peer_presence.founding.id, pair.server.presence.founding.id);
    assert_int_equal(pair.server.peer_presence.step, pair.client.presence.step);
    assert_int_equal(pair.server.peer_presence.size, 3);
    spotnik_handshake_keys(&pair.client, send[0], receive[0]);
    spotnik_handshake_keys(&pair.server, send[1], receive[1]);
    assert_memory_equal(send[0], receive[1], SPOTNIK_KEY_BYTES);
    assert_memory_equal(send[1], receive[0], SPOTNIK_KEY_BYTES);
    assert_memory_not_equal(send[0], send[1], SPOTNIK_KEY_BYTES);
    assert_memory_not_equal(send[0], pair.client.key, SPOTNIK_KEY_BYTES);
}

/* Offsets as docs/reference/wire-format.md has them. */
TEST(lies_as_documented)
{
    struct pair pair = pair_new(1);
    static const uint8_t preamble[16] = { 'S', 'P', 'O', 'T', 'N', 'I', 'K', '1',
                                          1,   0,   1,   3,   160, 0,   0,   0 };
    char who;

    assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
    assert_memory_equal(pair.hello, preamble, 16);
    assert_memory_equal(pair.hello + 16, pair.client.job, 16);
    assert_memory_equal(pair.hello + 32, pair.client.nonce, 32);
    assert_memory_equal(pair.hello + 64, &pair.client.self.id.high, 8);
    assert_memory_equal(pair.hello + 88, pair.client.self.address, 16);
    assert_int_equal(pair.hello[104] | pair.hello[105] << 8, pair.client.self.port);
    assert_memory_equal(pair.hello + 112, &pair.client.presence.founding, 32);
    assert_memory_equal(pair.hello + 144, &pair.client.presence.step, 8);
    assert_int_equal(pair.hello[152], 3);
    assert_memory_equal(pair.answer + 32, pair.server.nonce, 32);
    assert_int_equal(pair.answer[10], 2);
    assert_int_equal(pair.answer[12], 192);
    assert_int_equal(pair.proof[10], 3);
    assert_int_equal(pair.proof[12], 48);
}

/* The MACs are over label, hello and answer, and nothing else: computed here once more by hand. */
TEST(macs_cover_what_is_documented)
{
    struct pair pair = pair_new(1);
    uint8_t text[16 + 160 + 192], mac[SPOTNIK_MAC_BYTES], send[SPOTNIK_KEY_BYTES],
        receive[SPOTNIK_KEY_BYTES];
    char who;

    assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
    memcpy(text + 16, pair.hello, 160);
    memcpy(text + 176, pair.answer, 192);
    memcpy(text, "spotnik answer 1", 16);
    spotnik_toy_mac(NULL, pair.client.key, text, 16 + 160 + 160, mac);
    assert_memory_equal(mac, pair.answer + 160, sizeof mac);
    memcpy(text, "spotnik proof  1", 16);
    spotnik_toy_mac(NULL, pair.client.key, text, sizeof text, mac);
    assert_memory_equal(mac, pair.proof + 16, sizeof mac);
    spotnik_handshake_keys(&pair.client, send, receive);
    memcpy(text, "spotnik key c>s1", 16);
    spotnik_toy_mac(NULL, pair.client.key, text, sizeof text, mac);
    assert_memory_equal(mac, send, sizeof mac);
    memcpy(text, "spotnik key s>c1", 16);
    spotnik_toy_mac(NULL, pair.client.key, text, sizeof text, mac);
    assert_memory_equal(mac, receive, sizeof mac);
}

TEST(every_connection_has_keys_of_its_own)
{
    uint8_t send[2][SPOTNIK_KEY_BYTES], receive[SPOTNIK_KEY_BYTES];
    char who;

    for (uint32_t i = 0; i < 2; i++) {
        struct pair pair = pair_new(5);
        pair.server.nonce[31] ^= (uint8_t)i;
        assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
        spotnik_handshake_keys(&pair.client, send[i], receive);
    }
    assert_memory_not_equal(send[0], send[1], SPOTNIK_KEY_BYTES);
}

/* The client notices first; its refusal tells the server. */
TEST(another_key_is_refused_and_both_know)
{
    for (uint32_t bit = 0; bit < 8 * SPOTNIK_KEY_BYTES; bit++) {
        struct pair pair = pair_new(2);
        uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES];
        enum spotnik_handshake_type type;
        size_t size;
        char who;
        pair.client.key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(pair_run(&pair, &who), SPOTNIK_ERR_KEY);
        assert_int_equal(who, 'c');
        spotnik_handshake_refusal(&pair.client, SPOTNIK_ERR_KEY, refusal);
        assert_int_equal(spotnik_handshake_preamble(&pair.server, refusal, SPOTNIK_HANDSHAKE_PROOF,
                                                    &type, &size),
                         SPOTNIK_OK);
        assert_int_equal(type, SPOTNIK_HANDSHAKE_REFUSAL);
        assert_int_equal(size, sizeof refusal);
        assert_int_equal(spotnik_handshake_refused(&pair.server, refusal), SPOTNIK_ERR_KEY);
    }
}

TEST(another_job_is_refused_before_any_mac)
{
    struct pair pair = pair_new(3);
    uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES];
    char who;

    pair.client.job[15] ^= 0x80;
    pair.server.mac = NULL; /* would crash */
    assert_int_equal(pair_run(&pair, &who), SPOTNIK_ERR_JOB);
    assert_int_equal(who, 's');
    spotnik_handshake_refusal(&pair.server, SPOTNIK_ERR_JOB, refusal);
    assert_int_equal(spotnik_handshake_refused(&pair.client, refusal), SPOTNIK_ERR_JOB);
}

TEST(another_version_is_refused_naming_both)
{
    struct pair pair = pair_new(4);
    uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES];
    enum spotnik_handshake_type type;
    size_t size;

    spotnik_handshake_hello(&pair.client, pair.hello);
    pair.hello[8] = 9;
    pair.hello[9] = 2;
    assert_int_equal(spotnik_handshake_preamble(&pair.server, pair.hello, SPOTNIK_HANDSHAKE_HELLO,
                                                &type, &size),
                     SPOTNIK_ERR_VERSION);
    assert_int_equal(pair.server.peer_version, 0x209);
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer),
                     SPOTNIK_ERR_VERSION);
    spotnik_handshake_refusal(&pair.server, SPOTNIK_ERR_VERSION, refusal);
    assert_int_equal(refusal[8], SPOTNIK_WIRE_VERSION);
    assert_int_equal(refusal[16] | refusal[17] << 8, 0x209);
    /* That client is of the other version; one of ours meets a newer server. */
    refusal[8] = 3;
    assert_int_equal(spotnik_handshake_preamble(&pair.client, refusal, SPOTNIK_HANDSHAKE_ANSWER,
                                                &type, &size),
                     SPOTNIK_OK);
    assert_int_equal(spotnik_handshake_refused(&pair.client, refusal), SPOTNIK_ERR_VERSION);
    assert_int_equal(pair.client.peer_version, 3);
}

/* One bit, anywhere on the way: then at least the side that must detect it does, and nobody admits
 * the other. */
TEST(every_altered_bit_is_noticed)
{
    char who;

    for (uint32_t bit = 0; bit < 8 * SPOTNIK_HANDSHAKE_HELLO_BYTES; bit++) {
        struct pair pair = pair_new(6);
        spotnik_handshake_hello(&pair.client, pair.hello);
        pair.hello[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (spotnik_handshake_answer(&pair.server, pair.hello, pair.answer) == SPOTNIK_OK)
            assert_int_not_equal(spotnik_handshake_prove(&pair.client, pair.answer, pair.proof),
                                 SPOTNIK_OK);
    }
    for (uint32_t bit = 0; bit < 8 * SPOTNIK_HANDSHAKE_ANSWER_BYTES; bit++) {
        struct pair pair = pair_new(6);
        assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
        pair.answer[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(spotnik_handshake_prove(&pair.client, pair.answer, pair.proof),
                             SPOTNIK_OK);
    }
    for (uint32_t bit = 0; bit < 8 * SPOTNIK_HANDSHAKE_PROOF_BYTES; bit++) {
        struct pair pair = pair_new(6);
        assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
        pair.proof[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(spotnik_handshake_admit(&pair.server, pair.proof), SPOTNIK_OK);
    }
}

TEST(a_recorded_client_is_not_admitted_again)
{
    struct pair recorded = pair_new(7), again = pair_new(7);
    char who;

    assert_int_equal(pair_run(&recorded, &who), SPOTNIK_OK);
    again.server.nonce[0] ^= 1;
    assert_int_equal(spotnik_handshake_answer(&again.server, recorded.hello, again.answer),
                     SPOTNIK_OK);
    assert_int_equal(spotnik_handshake_admit(&again.server, recorded.proof), SPOTNIK_ERR_KEY);
}

TEST(a_recorded_server_is_not_believed_again)
{
    struct pair recorded = pair_new(8), again = pair_new(8);
    char who;

    assert_int_equal(pair_run(&recorded, &who), SPOTNIK_OK);
    again.client.nonce[0] ^= 1;
    spotnik_handshake_hello(&again.client, again.hello);
    assert_int_equal(spotnik_handshake_prove(&again.client, recorded.answer, again.proof),
                     SPOTNIK_ERR_KEY);
}

/* An unauthenticated peer that has no key sends us our own words: as answer, and the MAC of the
 * answer as proof. */
TEST(own_words_sent_back_prove_nothing)
{
    struct pair pair = pair_new(9);
    char who;

    assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
    memcpy(pair.proof + 16, pair.answer + SPOTNIK_HANDSHAKE_HELLO_BYTES, SPOTNIK_MAC_BYTES);
    assert_int_equal(spotnik_handshake_admit(&pair.server, pair.proof), SPOTNIK_ERR_KEY);
    memset(pair.answer, 0, sizeof pair.answer);
    memcpy(pair.answer, pair.hello, sizeof pair.hello);
    assert_int_equal(spotnik_handshake_prove(&pair.client, pair.answer, pair.proof),
                     SPOTNIK_ERR_ARGUMENT);
    pair.answer[10] = SPOTNIK_HANDSHAKE_ANSWER;
    pair.answer[12] = SPOTNIK_HANDSHAKE_ANSWER_BYTES;
    assert_int_equal(spotnik_handshake_prove(&pair.client, pair.answer, pair.proof),
                     SPOTNIK_ERR_KEY);
}

TEST(strangers_fail_at_the_preamble)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "SPOTNIK2\1\0\1\1\160\0\0\0",
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        "\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377",
    };
    struct pair pair = pair_new(10);
    enum spotnik_handshake_type type;
    size_t size = 77;

    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(spotnik_handshake_preamble(&pair.server, (const uint8_t *)texts[i],
                                                    SPOTNIK_HANDSHAKE_HELLO, &type, &size),
                         SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(size, 77);
}

/* Only what is awaited, or a refusal, and never of another size than the fixed one. */
TEST(messages_out_of_order_are_refused)
{
    struct pair pair = pair_new(11);
    enum spotnik_handshake_type type;
    size_t size;
    char who;

    assert_int_equal(pair_run(&pair, &who), SPOTNIK_OK);
    const uint8_t *messages[] = { pair.hello, pair.answer, pair.proof };
    static const size_t sizes[] = { 160, 192, 48 };
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t awaited = 0; awaited < 3; awaited++) {
            int rc = spotnik_handshake_preamble(&pair.server, messages[i],
                                                (enum spotnik_handshake_type)(awaited + 1), &type,
                                                &size);
            assert_int_equal(rc, i == awaited ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT);
            if (rc == SPOTNIK_OK)
                assert_int_equal(size, sizes[i]);
        }
    pair.hello[12]++;
    assert_int_equal(spotnik_handshake_preamble(&pair.server, pair.hello, SPOTNIK_HANDSHAKE_HELLO,
                                                &type, &size),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer),
                     SPOTNIK_ERR_ARGUMENT);
}

TEST(a_purpose_and_an_id_are_needed)
{
    struct pair pair = pair_new(12);

    spotnik_handshake_hello(&pair.client, pair.hello);
    pair.hello[11] = 0;
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer),
                     SPOTNIK_ERR_ARGUMENT);
    pair.client.self.id = (struct spotnik_id){ 0, 0 };
    spotnik_handshake_hello(&pair.client, pair.hello);
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer),
                     SPOTNIK_ERR_ARGUMENT);
    pair = pair_new(12); /* an answer to another question */
    spotnik_handshake_hello(&pair.client, pair.hello);
    pair.hello[11]++;
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer), SPOTNIK_OK);
    assert_int_equal(spotnik_handshake_prove(&pair.client, pair.answer, pair.proof),
                     SPOTNIK_ERR_ARGUMENT);
    pair = pair_new(12);
    pair.client.self.port = 0; /* `spotnik status` does not listen */
    spotnik_handshake_hello(&pair.client, pair.hello);
    assert_int_equal(spotnik_handshake_answer(&pair.server, pair.hello, pair.answer), SPOTNIK_OK);
}

TEST(refusals_have_known_reasons)
{
    struct pair pair = pair_new(13);
    uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES];

    spotnik_handshake_refusal(&pair.server, SPOTNIK_ERR_JOB, refusal);
    for (uint32_t value = 0; value < 256; value++) {
        refusal[11] = (uint8_t)value;
        int rc = spotnik_handshake_refused(&pair.client, refusal);
        assert_int_equal(rc, value == 1   ? SPOTNIK_ERR_VERSION
                             : value == 2 ? SPOTNIK_ERR_JOB
                             : value == 3 ? SPOTNIK_ERR_KEY
                                          : SPOTNIK_ERR_ARGUMENT);
    }
    spotnik_handshake_hello(&pair.client, pair.hello);
    assert_int_equal(spotnik_handshake_refused(&pair.client, pair.hello), SPOTNIK_ERR_ARGUMENT);
}
