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
/* what the MAC of the answer covers of it: all before */
#define ANSWER_SIGNED_BYTES (SPOTNIK_HANDSHAKE_ANSWER_BYTES - SPOTNIK_MAC_BYTES)

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

static void preamble_write(struct spotnik_writer *writer, enum spotnik_handshake_type type,
                           uint8_t value)
{
    spotnik_writer_bytes(writer, magic, sizeof magic);
    spotnik_writer_u16(writer, SPOTNIK_WIRE_VERSION);
    spotnik_writer_u8(writer, (uint8_t)type);
    spotnik_writer_u8(writer, value);
    spotnik_writer_u32(writer, sizes[type]);
}

/* For another version, read only the version field: what the others mean there is not known. */
static int preamble_read(struct spotnik_reader *reader, struct preamble *ret)
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
    if (ret->version != SPOTNIK_WIRE_VERSION && ret->type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_VERSION;
    if (ret->type == 0 || ret->type >= SPOTNIK_HANDSHAKE_TYPE_COUNT || size != sizes[ret->type])
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
    int rc = preamble_read(&reader, &preamble);
    if (rc != SPOTNIK_ERR_ARGUMENT)
        handshake->peer_version = preamble.version;
    if (rc != SPOTNIK_OK)
        return rc;
    if (preamble.type != expected && preamble.type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_ARGUMENT;
    *ret_type = (enum spotnik_handshake_type)preamble.type;
    *ret_size = sizes[preamble.type];
    return SPOTNIK_OK;
}

static void presence_write(struct spotnik_writer *writer, const struct spotnik_presence *presence)
{
    spotnik_wire_founding_write(writer, &presence->founding);
    spotnik_writer_u64(writer, presence->step);
    spotnik_writer_u32(writer, presence->size);
    spotnik_writer_skip(writer, 4);
}

static bool presence_read(struct spotnik_reader *reader, struct spotnik_presence *ret)
{
    spotnik_wire_founding_read(reader, &ret->founding);
    ret->step = spotnik_reader_u64(reader);
    ret->size = spotnik_reader_u32(reader);
    return spotnik_wire_zeros_read(reader, 4);
}

/* HELLO, and ANSWER up to its MAC. */
static void introduction_write(struct spotnik_writer *writer,
                               const struct spotnik_handshake *handshake,
                               enum spotnik_handshake_type type)
{
    preamble_write(writer, type, handshake->purpose);
    spotnik_writer_bytes(writer, handshake->job, SPOTNIK_JOB_HASH_BYTES);
    spotnik_writer_bytes(writer, handshake->nonce, SPOTNIK_NONCE_BYTES);
    spotnik_wire_member_write(writer, &handshake->self);
    presence_write(writer, &handshake->presence);
}

static int introduction_read(struct spotnik_reader *reader, struct spotnik_handshake *handshake,
                             enum spotnik_handshake_type type, uint8_t *ret_purpose)
{
    struct preamble preamble;
    uint8_t job[SPOTNIK_JOB_HASH_BYTES], nonce[SPOTNIK_NONCE_BYTES];

    int rc = preamble_read(reader, &preamble);
    if (rc != SPOTNIK_ERR_ARGUMENT)
        handshake->peer_version = preamble.version;
    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_reader_bytes(reader, job, sizeof job);
    spotnik_reader_bytes(reader, nonce, sizeof nonce);
    bool good = spotnik_wire_member_read(reader, &handshake->peer);
    good = presence_read(reader, &handshake->peer_presence) && good;
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
    spotnik_writer_bytes(&writer, handshake->hello, SPOTNIK_HANDSHAKE_HELLO_BYTES);
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
    memcpy(handshake->hello, hello, sizeof handshake->hello);
    spotnik_writer_init(&writer, handshake->answer, ANSWER_SIGNED_BYTES);
    introduction_write(&writer, handshake, SPOTNIK_HANDSHAKE_ANSWER);
    transcript_mac(handshake, label_answer, ANSWER_SIGNED_BYTES,
                   handshake->answer + ANSWER_SIGNED_BYTES);
    memcpy(ret_answer, handshake->answer, sizeof handshake->answer);
    return SPOTNIK_OK;
}

int spotnik_handshake_prove(struct spotnik_handshake *handshake,
                            const uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES],
                            uint8_t ret_proof[SPOTNIK_HANDSHAKE_PROOF_BYTES])
{
    struct spotnik_reader reader;
    struct spotnik_writer writer;
    uint8_t mac[SPOTNIK_MAC_BYTES], purpose;

    spotnik_reader_init(&reader, answer, ANSWER_SIGNED_BYTES);
    int rc = introduction_read(&reader, handshake, SPOTNIK_HANDSHAKE_ANSWER, &purpose);
    if (rc != SPOTNIK_OK)
        return rc;
    if (purpose != handshake->purpose)
        return SPOTNIK_ERR_ARGUMENT;
    memcpy(handshake->answer, answer, sizeof handshake->answer);
    transcript_mac(handshake, label_answer, ANSWER_SIGNED_BYTES, mac);
    if (!spotnik_wire_equal(mac, answer + ANSWER_SIGNED_BYTES, SPOTNIK_MAC_BYTES))
        return SPOTNIK_ERR_KEY;
    transcript_mac(handshake, label_proof, sizeof handshake->answer, mac);
    spotnik_writer_init(&writer, ret_proof, SPOTNIK_HANDSHAKE_PROOF_BYTES);
    preamble_write(&writer, SPOTNIK_HANDSHAKE_PROOF, 0);
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
    int rc = preamble_read(&reader, &preamble);
    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_reader_bytes(&reader, found, sizeof found);
    if (preamble.type != SPOTNIK_HANDSHAKE_PROOF || preamble.value != 0)
        return SPOTNIK_ERR_ARGUMENT;
    transcript_mac(handshake, label_proof, sizeof handshake->answer, mac);
    return spotnik_wire_equal(mac, found, sizeof mac) ? SPOTNIK_OK : SPOTNIK_ERR_KEY;
}

void spotnik_handshake_keys(const struct spotnik_handshake *handshake,
                            uint8_t ret_send[SPOTNIK_KEY_BYTES],
                            uint8_t ret_receive[SPOTNIK_KEY_BYTES])
{
    uint8_t *to_server = handshake->is_server ? ret_receive : ret_send;
    uint8_t *to_client = handshake->is_server ? ret_send : ret_receive;

    transcript_mac(handshake, label_to_server, sizeof handshake->answer, to_server);
    transcript_mac(handshake, label_to_client, sizeof handshake->answer, to_client);
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
    preamble_write(&writer, SPOTNIK_HANDSHAKE_REFUSAL, reason);
    spotnik_writer_u16(&writer, handshake->peer_version);
    spotnik_writer_u8(&writer, handshake->tls);
    spotnik_writer_skip(&writer, 5);
}

int spotnik_handshake_refused(struct spotnik_handshake *handshake,
                              const uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES])
{
    struct spotnik_reader reader;
    struct preamble preamble;

    spotnik_reader_init(&reader, refusal, SPOTNIK_HANDSHAKE_REFUSAL_BYTES);
    if (preamble_read(&reader, &preamble) != SPOTNIK_OK
        || preamble.type != SPOTNIK_HANDSHAKE_REFUSAL)
        return SPOTNIK_ERR_ARGUMENT;
    if (preamble.value == 0 || preamble.value >= sizeof refusal_errors / sizeof refusal_errors[0])
        return SPOTNIK_ERR_ARGUMENT;
    handshake->peer_version = preamble.version;
    spotnik_reader_skip(&reader, 2);
    handshake->peer_tls = spotnik_reader_u8(&reader);
    return refusal_errors[preamble.value];
}
