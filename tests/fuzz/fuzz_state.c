/* SPDX-License-Identifier: Apache-2.0 */
/* A state connection as a donor (first byte 0) or a joiner (else) reads it: frame after frame from
 * a socket, and each body by its kind, until something is refused. What is accepted must encode to
 * the same bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_state.h"
#include "transfer/packet.h"
#include "transfer/standing.h"

#define INPUT_MAX 65536 /* what a socket takes without a reader */

static void request_take(const struct spotnik_packet *frame)
{
    struct spotnik_reader reader;

    SPOTNIK_ASSERT(frame->size <= SPOTNIK_REQUEST_BYTES_MAX);
    spotnik_reader_init(&reader, frame->body, frame->size);
    spotnik_reader_u64(&reader);
    SPOTNIK_ASSERT(spotnik_reader_is_done(&reader) == (frame->size == 8));
}

static void result_take(const struct spotnik_packet *frame)
{
    struct spotnik_reader reader;
    struct spotnik_result result;
    uint8_t again[SPOTNIK_RESULT_BYTES];

    spotnik_reader_init(&reader, frame->body, frame->size);
    spotnik_result_read(&reader, &result);
    SPOTNIK_ASSERT(reader.failed == (frame->size < SPOTNIK_RESULT_BYTES));
    if (reader.failed)
        return;
    spotnik_result_write(&result, again);
    SPOTNIK_ASSERT(memcmp(again, frame->body, sizeof again) == 0);
}

static void view_take(const struct spotnik_packet *frame, const struct spotnik_registry *registry)
{
    static struct spotnik_standing standing;
    struct spotnik_reader reader;
    struct spotnik_writer writer;

    spotnik_reader_init(&reader, frame->body, frame->size);
    if (spotnik_standing_read(&standing, registry, &reader) != 0 || !standing.serving)
        return;
    size_t size = spotnik_standing_size(&standing, registry);
    uint8_t *again = malloc(size);
    SPOTNIK_ASSERT(again != NULL && size <= frame->size);
    spotnik_writer_init(&writer, again, size);
    spotnik_standing_write(&standing, registry, &writer);
    SPOTNIK_ASSERT(!writer.failed && writer.at == size);
    SPOTNIK_ASSERT(memcmp(again + 2, frame->body + 2, size - 2) == 0); /* behind the two flags */
    free(again);
}

static void extra_take(const struct spotnik_packet *frame, struct spotnik_registry *registry)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, frame->body, frame->size);
    if (spotnik_registry_extra_read(registry, &reader) != 0)
        return;
    SPOTNIK_ASSERT(spotnik_registry_extra_size(registry) <= frame->size);
}

static void body_take(const struct spotnik_packet *frame, struct spotnik_registry *registry,
                      bool donor)
{
    if (donor)
        request_take(frame);
    else if (frame->kind == SPOTNIK_PACKET_RESULT)
        result_take(frame);
    else if (frame->kind == SPOTNIK_PACKET_VIEW)
        view_take(frame, registry);
    else if (frame->kind == SPOTNIK_PACKET_EXTRA)
        extra_take(frame, registry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spotnik_registry registry;
    struct spotnik_packet frame = { 0 };
    int pair[2];

    if (size == 0 || size > INPUT_MAX)
        return 0;
    bool donor = data[0] == 0;
    SPOTNIK_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    SPOTNIK_ASSERT(send(pair[0], data + 1, size - 1, 0) == (ssize_t)(size - 1));
    close(pair[0]);
    spotnik_fuzz_registry(&registry);
    struct spotnik_duplex duplex = spotnik_duplex_bare(pair[1]);
    while (spotnik_packet_receive(&duplex, &frame,
                                  donor ? SPOTNIK_REQUEST_BYTES_MAX : SPOTNIK_PACKET_BYTES_MAX)
           == 0)
        body_take(&frame, &registry, donor);
    spotnik_packet_done(&frame);
    spotnik_registry_done(&registry);
    close(pair[1]);
    return 0;
}
