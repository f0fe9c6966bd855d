/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the first inputs of the fuzzer of state frames, as seeds.c does for the wire. Usage:
 * fuzz_seeds_state CORPUS (with a folder state in it) */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_state.h"
#include "transfer/packet.h"
#include "transfer/standing.h"

static const char *corpus;
static int pair[2];
static struct spotnik_duplex duplex;

static void begin(void)
{
    SPOTNIK_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    duplex = spotnik_duplex_bare(pair[0]);
}

/* All that was sent since begin(), behind the byte that says who reads it. */
static void put(const char *name, uint8_t reader)
{
    static uint8_t bytes[65536];
    char path[4096];

    close(pair[0]);
    bytes[0] = reader;
    ssize_t got = recv(pair[1], bytes + 1, sizeof bytes - 1, MSG_WAITALL);
    close(pair[1]);
    snprintf(path, sizeof path, "%s/state/%s", corpus, name);
    FILE *file = fopen(path, "wb");
    if (got < 0 || !file || fwrite(bytes, 1, (size_t)got + 1, file) != (size_t)got + 1
        || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void requests(void)
{
    begin();
    spotnik_packet_send(&duplex, SPOTNIK_PACKET_ASK, NULL, 0, NULL, 0);
    spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_SNAPSHOT, 7);
    spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_FETCH, 0);
    spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_STREAM, 8);
    spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_ACK, 8);
    put("requests", 0);
}

static void results(void)
{
    struct spotnik_result result = { .header = { .dtype = SPOTNIK_F32,
                                                 .op = SPOTNIK_SUM,
                                                 .bucket = 1,
                                                 .step = 8,
                                                 .count = 2,
                                                 .weight = 3 },
                                     .latest = 9 };
    const uint8_t payload[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    uint8_t head[SPOTNIK_RESULT_BYTES];

    spotnik_result_write(&result, head);
    begin();
    spotnik_packet_send(&duplex, SPOTNIK_PACKET_WAIT, NULL, 0, NULL, 0);
    spotnik_packet_send(&duplex, SPOTNIK_PACKET_RESULT, head, sizeof head, payload, sizeof payload);
    spotnik_packet_send_u64(&duplex, SPOTNIK_PACKET_DRY, 8);
    put("results", 1);
}

static void answer(const struct spotnik_registry *registry)
{
    static struct spotnik_standing standing = {
        .serving = true, .epoch = 3, .committed = 8, .bytes = 32, .member_count = 2
    };
    struct spotnik_writer writer;
    size_t size = spotnik_standing_size(&standing, registry);
    uint8_t *bytes = malloc(size);

    SPOTNIK_ASSERT(bytes != NULL);
    standing.member[0] = (struct spotnik_member){ .id = { 1, 2 }, .port = 7000 };
    standing.member[1] = (struct spotnik_member){ .id = { 1, 3 }, .port = 7001 };
    spotnik_writer_init(&writer, bytes, size);
    spotnik_standing_write(&standing, registry, &writer);
    begin();
    spotnik_packet_send(&duplex, SPOTNIK_PACKET_VIEW, bytes, size, NULL, 0);
    put("view", 1);
    free(bytes);
}

static void extra(struct spotnik_registry *registry)
{
    SPOTNIK_ASSERT(spotnik_blobs_set(&registry->blobs, "optimizer", "momentum", 8) == 0);
    SPOTNIK_ASSERT(spotnik_blobs_set(&registry->blobs, "empty", NULL, 0) == 0);
    struct spotnik_writer writer;
    size_t size = spotnik_registry_extra_size(registry);
    uint8_t *bytes = malloc(size);

    SPOTNIK_ASSERT(bytes != NULL);
    spotnik_writer_init(&writer, bytes, size);
    spotnik_registry_extra_write(registry, &writer);
    begin();
    spotnik_packet_send(&duplex, SPOTNIK_PACKET_EXTRA, NULL, 0, bytes, size);
    put("extra", 1);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct spotnik_registry registry;

    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    corpus = argv[1];
    spotnik_fuzz_registry(&registry);
    requests();
    results();
    answer(&registry);
    extra(&registry);
    spotnik_registry_done(&registry);
    return 0;
}
