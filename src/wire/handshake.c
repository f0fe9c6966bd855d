/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake; the order of messages and the reasons are in handshake.h, the layouts in
 * docs/reference/wire-format.md. */
#include "wire/handshake.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "spotnik/spotnik.h"
#include "wire/fields.h"
#include "wire/frame.h"

#define LABEL_BYTES 16

static const uint8_t magic[8] = { 'S', 'P', 'O', 'T', 'N', 'I', 'K', '1' };

/* What a MAC is for stands first in what it covers. */
static const uint8_t label_answer[LABEL_BYTES] = "spotnik answer 1";
static const uint8_t label_proof[LABEL_BYTES] = "spotnik proof  1";
static const uint8_t label_to_server[LABEL_BYTES] = "spotnik key c>s1";
static const uint8_t label_to_client[LABEL_BYTES] = "spotnik key s>c1";

static const uint32_t sizes[SPOTNIK_HANDSHAKE_TYPE_COUNT] = {
    [SPOTNIK_HANDSHAKE_HELLO] = SPOTNIK_HANDSHAKE_HELLO_BYTES,
    [SPOTNIK_HANDSHAKE_ANSWER] = SPOTNIK_HANDSHAKE_ANSWER_BYTES,
    [SPOTNIK_HANDSHAKE_PROOF] = SPOTNIK_HANDSHAKE_PROOF_BYTES,
    [SPOTNIK_HANDSHAKE_REFUSAL] = SPOTNIK_HANDSHAKE_REFUSAL_BYTES,
};

static const int refusal_errors[] = { 0, SPOTNIK_ERR_VERSION, SPOTNIK_ERR_JOB, SPOTNIK_ERR_KEY };

struct preamble {
    uint16_t version;
    uint8_t type;
    uint8_t value; /* HELLO and ANSWER: purpose; REFUSAL: reason; PROOF: 0 */
};

static uint16_t speech(const struct spotnik_handshake *handshake)
{
    return handshake->speech != 0 ? handshake->speech : SPOTNIK_WIRE_VERSION;
}

static size_t bytes_in(uint16_t version, uint8_t type)
{
    bool long_one = type == SPOTNIK_HANDSHAKE_HELLO || type == SPOTNIK_HANDSHAKE_ANSWER;

    return sizes[type]
           - (long_one && version < SPOTNIK_SPEECH_LINEAGE ? SPOTNIK_HANDSHAKE_PRESENCE_BYTES : 0);
}

size_t spotnik_handshake_bytes(const struct spotnik_handshake *handshake,
                               enum spotnik_handshake_type type)
{
    return bytes_in(speech(handshake), (uint8_t)type);
}

/* What the MAC of the answer covers of it: all before. */
static size_t answer_signed_bytes(const struct spotnik_handshake *handshake)
{
    return spotnik_handshake_bytes(handshake, SPOTNIK_HANDSHAKE_ANSWER) - SPOTNIK_MAC_BYTES;
}

static void preamble_write(struct spotnik_writer *writer, const struct spotnik_handshake *handshake,
                           enum spotnik_handshake_type type, uint8_t value)
{
    spotnik_writer_bytes(writer, magic, sizeof magic);
    spotnik_writer_u16(writer, speech(handshake));
    spotnik_writer_u8(writer, (uint8_t)type);
    spotnik_writer_u8(writer, value);
    spotnik_writer_u32(writer, (uint32_t)spotnik_handshake_bytes(handshake, type));
}

/* Of a version that we do not speak only the version is looked at: what the other fields mean there
 * is not known here. */
static int preamble_read(struct spotnik_reader *reader, const struct spotnik_handshake *handshake,
                         struct preamble *ret)
{
    uint8_t found[sizeof magic];

    spotnik_reader_bytes(reader, found, sizeof found);
    ret->version = spotnik_reader_u16(reader);
    ret->type = spotnik_reader_u8(reader);
    ret->value = spotnik_reader_u8(reader);
    uint32_t size = spotnik_reader_u32(reader);
    if (reader->failed || memcmp(found, magic, sizeof magic) != 0)
        return SPOTNIK_ERR_ARGUMENT;
    /* Refusals are the same in all versions: this is how a version is refused. */
    bool spoken = ret->version >= SPOTNIK_WIRE_OLDEST && ret->version <= speech(handshake);
    if (!spoken && ret->type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_VERSION;
    if (ret->type == 0 || ret->type >= SPOTNIK_HANDSHAKE_TYPE_COUNT
        || size != bytes_in(ret->version, ret->type))
        return SPOTNIK_ERR_ARGUMENT;
    return SPOTNIK_OK;
}

int spotnik_handshake_preamble(struct spotnik_handshake *handshake,
                               const uint8_t bytes[SPOTNIK_HANDSHAKE_PREAMBLE_BYTES],
                               enum spotnik_handshake_type expected,
                               enum spotnik_handshake_type *ret_type, size_t *ret_size)
{
    struct spotnik_reader reader;
    struct preamble preamble;

    spotnik_reader_init(&reader, bytes, SPOTNIK_HANDSHAKE_PREAMBLE_BYTES);
    int rc = preamble_read(&reader, handshake, &preamble);
    if (rc != SPOTNIK_ERR_ARGUMENT)
        handshake->peer_version = preamble.version;
    if (rc != SPOTNIK_OK)
        return rc;
    if (preamble.type != expected && preamble.type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_ARGUMENT;
    *ret_type = (enum spotnik_handshake_type)preamble.type;
    *ret_size = bytes_in(preamble.version, preamble.type);
    return SPOTNIK_OK;
}

static void presence_write(struct spotnik_writer *writer, const struct spotnik_presence *presence)
{
    spotnik_wire_founding_write(writer, &presence->founding);
    spotnik_writer_u64(writer, presence->epoch);
    spotnik_writer_u64(writer, presence->chain);
    spotnik_writer_u64(writer, presence->step);
    spotnik_writer_u8(writer, presence->parked);
    spotnik_writer_skip(writer, 7);
}

static bool presence_read(struct spotnik_reader *reader, uint16_t version,
                          struct spotnik_presence *ret)
{
    *ret = (struct spotnik_presence){ .epoch = 0 };
    if (version < SPOTNIK_SPEECH_LINEAGE)
        return true;
    spotnik_wire_founding_read(reader, &ret->founding);
    ret->epoch = spotnik_reader_u64(reader);
    ret->chain = spotnik_reader_u64(reader);
    ret->step = spotnik_reader_u64(reader);
    uint8_t parked = spotnik_reader_u8(reader);
    ret->parked = parked == 1;
    return spotnik_wire_zeros_read(reader, 7) && parked <= 1;
}

/* HELLO, and ANSWER up to its MAC. */
static void introduction_write(struct spotnik_writer *writer,
                               const struct spotnik_handshake *handshake,
                               enum spotnik_handshake_type type)
{
    preamble_write(writer, handshake, type, handshake->purpose);
    spotnik_writer_bytes(writer, handshake->job, SPOTNIK_JOB_HASH_BYTES);
    spotnik_writer_bytes(writer, handshake->nonce, SPOTNIK_NONCE_BYTES);
    spotnik_wire_member_write(writer, &handshake->self);
    if (speech(handshake) >= SPOTNIK_SPEECH_LINEAGE)
        presence_write(writer, &handshake->presence);
}

static int introduction_read(struct spotnik_reader *reader, struct spotnik_handshake *handshake,
                             enum spotnik_handshake_type type, uint8_t *ret_purpose)
{
    struct preamble preamble;
    uint8_t job[SPOTNIK_JOB_HASH_BYTES], nonce[SPOTNIK_NONCE_BYTES];

    int rc = preamble_read(reader, handshake, &preamble);
    if (rc != SPOTNIK_ERR_ARGUMENT)
        handshake->peer_version = preamble.version;
    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_reader_bytes(reader, job, sizeof job);
    spotnik_reader_bytes(reader, nonce, sizeof nonce);
    bool good = spotnik_wire_member_read(reader, &handshake->peer);
    good = presence_read(reader, preamble.version, &handshake->peer_presence) && good;
    if (preamble.type != type || preamble.value == 0 || !good || reader->failed)
        return SPOTNIK_ERR_ARGUMENT;
    *ret_purpose = preamble.value;
    return memcmp(job, handshake->job, sizeof job) == 0 ? SPOTNIK_OK : SPOTNIK_ERR_JOB;
}

/* MAC over the label, the hello and the first `answer_bytes` of the answer. */
static void transcript_mac(const struct spotnik_handshake *handshake,
                           const uint8_t label[LABEL_BYTES], size_t answer_bytes,
                           uint8_t ret_mac[SPOTNIK_MAC_BYTES])
{
    uint8_t input[LABEL_BYTES + SPOTNIK_HANDSHAKE_HELLO_BYTES + SPOTNIK_HANDSHAKE_ANSWER_BYTES];
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, input, sizeof input);
    spotnik_writer_bytes(&writer, label, LABEL_BYTES);
    spotnik_writer_bytes(&writer, handshake->hello,
                         spotnik_handshake_bytes(handshake, SPOTNIK_HANDSHAKE_HELLO));
    spotnik_writer_bytes(&writer, handshake->answer, answer_bytes);
    handshake->mac(handshake->mac_context, handshake->key, input, writer.at, ret_mac);
}

void spotnik_handshake_hello(struct spotnik_handshake *handshake,
                             uint8_t ret_hello[SPOTNIK_HANDSHAKE_HELLO_BYTES])
{
    struct spotnik_writer writer;

    SPOTNIK_ASSERT(handshake->purpose > 0);
    handshake->is_server = 0;
    spotnik_writer_init(&writer, handshake->hello, SPOTNIK_HANDSHAKE_HELLO_BYTES);
    introduction_write(&writer, handshake, SPOTNIK_HANDSHAKE_HELLO);
    memcpy(ret_hello, handshake->hello, writer.at);
}

int spotnik_handshake_answer(struct spotnik_handshake *handshake,
                             const uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES],
                             uint8_t ret_answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES])
{
    struct spotnik_reader reader;
    struct spotnik_writer writer;

    handshake->is_server = 1;
    spotnik_reader_init(&reader, hello, SPOTNIK_HANDSHAKE_HELLO_BYTES);
    int rc = introduction_read(&reader, handshake, SPOTNIK_HANDSHAKE_HELLO, &handshake->purpose);
    if (rc != SPOTNIK_OK)
        return rc;
    handshake->speech = handshake->peer_version; /* the client's, which may be older than ours */
    memcpy(handshake->hello, hello, spotnik_handshake_bytes(handshake, SPOTNIK_HANDSHAKE_HELLO));
    size_t signed_bytes = answer_signed_bytes(handshake);
    spotnik_writer_init(&writer, handshake->answer, signed_bytes);
    introduction_write(&writer, handshake, SPOTNIK_HANDSHAKE_ANSWER);
    transcript_mac(handshake, label_answer, signed_bytes, handshake->answer + signed_bytes);
    memcpy(ret_answer, handshake->answer, signed_bytes + SPOTNIK_MAC_BYTES);
    return SPOTNIK_OK;
}

int spotnik_handshake_prove(struct spotnik_handshake *handshake,
                            const uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES],
                            uint8_t ret_proof[SPOTNIK_HANDSHAKE_PROOF_BYTES])
{
    struct spotnik_reader reader;
    struct spotnik_writer writer;
    uint8_t mac[SPOTNIK_MAC_BYTES], purpose;

    size_t signed_bytes = answer_signed_bytes(handshake);
    spotnik_reader_init(&reader, answer, signed_bytes);
    int rc = introduction_read(&reader, handshake, SPOTNIK_HANDSHAKE_ANSWER, &purpose);
    if (rc != SPOTNIK_OK)
        return rc;
    if (purpose != handshake->purpose || handshake->peer_version != speech(handshake))
        return SPOTNIK_ERR_ARGUMENT;
    memcpy(handshake->answer, answer, signed_bytes + SPOTNIK_MAC_BYTES);
    transcript_mac(handshake, label_answer, signed_bytes, mac);
    if (!spotnik_wire_equal(mac, answer + signed_bytes, SPOTNIK_MAC_BYTES))
        return SPOTNIK_ERR_KEY;
    transcript_mac(handshake, label_proof, signed_bytes + SPOTNIK_MAC_BYTES, mac);
    spotnik_writer_init(&writer, ret_proof, SPOTNIK_HANDSHAKE_PROOF_BYTES);
    preamble_write(&writer, handshake, SPOTNIK_HANDSHAKE_PROOF, 0);
    spotnik_writer_bytes(&writer, mac, SPOTNIK_MAC_BYTES);
    return SPOTNIK_OK;
}

int spotnik_handshake_admit(struct spotnik_handshake *handshake,
                            const uint8_t proof[SPOTNIK_HANDSHAKE_PROOF_BYTES])
{
    struct spotnik_reader reader;
    struct preamble preamble;
    uint8_t mac[SPOTNIK_MAC_BYTES], found[SPOTNIK_MAC_BYTES];

    spotnik_reader_init(&reader, proof, SPOTNIK_HANDSHAKE_PROOF_BYTES);
    int rc = preamble_read(&reader, handshake, &preamble);
    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_reader_bytes(&reader, found, sizeof found);
    if (preamble.type != SPOTNIK_HANDSHAKE_PROOF || preamble.value != 0
        || preamble.version != speech(handshake))
        return SPOTNIK_ERR_ARGUMENT;
    transcript_mac(handshake, label_proof,
                   spotnik_handshake_bytes(handshake, SPOTNIK_HANDSHAKE_ANSWER), mac);
    return spotnik_wire_equal(mac, found, sizeof mac) ? SPOTNIK_OK : SPOTNIK_ERR_KEY;
}

void spotnik_handshake_keys(const struct spotnik_handshake *handshake,
                            uint8_t ret_send[SPOTNIK_KEY_BYTES],
                            uint8_t ret_receive[SPOTNIK_KEY_BYTES])
{
    uint8_t *to_server = handshake->is_server ? ret_receive : ret_send;
    uint8_t *to_client = handshake->is_server ? ret_send : ret_receive;
    size_t answer_bytes = spotnik_handshake_bytes(handshake, SPOTNIK_HANDSHAKE_ANSWER);

    transcript_mac(handshake, label_to_server, answer_bytes, to_server);
    transcript_mac(handshake, label_to_client, answer_bytes, to_client);
}

void spotnik_handshake_refusal(const struct spotnik_handshake *handshake, int error,
                               uint8_t ret_refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES])
{
    struct spotnik_writer writer;
    uint8_t reason = 1;

    while (reason < sizeof refusal_errors / sizeof refusal_errors[0]
           && refusal_errors[reason] != error)
        reason++;
    SPOTNIK_ASSERT(reason < sizeof refusal_errors / sizeof refusal_errors[0]);
    spotnik_writer_init(&writer, ret_refusal, SPOTNIK_HANDSHAKE_REFUSAL_BYTES);
    preamble_write(&writer, handshake, SPOTNIK_HANDSHAKE_REFUSAL, reason);
    spotnik_writer_u16(&writer, handshake->peer_version);
    spotnik_writer_skip(&writer, 6);
}

int spotnik_handshake_refused(struct spotnik_handshake *handshake,
                              const uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES])
{
    struct spotnik_reader reader;
    struct preamble preamble;

    spotnik_reader_init(&reader, refusal, SPOTNIK_HANDSHAKE_REFUSAL_BYTES);
    if (preamble_read(&reader, handshake, &preamble) != SPOTNIK_OK
        || preamble.type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_ARGUMENT;
    if (preamble.value == 0 || preamble.value >= sizeof refusal_errors / sizeof refusal_errors[0])
        return SPOTNIK_ERR_ARGUMENT;
    handshake->peer_version = preamble.version;
    return refusal_errors[preamble.value];
}
