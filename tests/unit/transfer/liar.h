/* SPDX-License-Identifier: Apache-2.0 */
/* A donor that is none, for test_transfer.c: it says that it has what everybody else has. */
#ifndef SPOTNIK_TEST_TRANSFER_LIAR_H
#define SPOTNIK_TEST_TRANSFER_LIAR_H

struct liar {
    struct spotnik_duplex duplex;
    int member;
};

static void lie_view(struct spotnik_duplex *duplex)
{
    static struct spotnik_standing standing;
    struct spotnik_writer writer;
    uint8_t text[4096];

    standing = (struct spotnik_standing){ .serving = true,
                                          .epoch = 3,
                                          .bytes = replica[0].registry.bytes };
    spotnik_writer_init(&writer, text, sizeof text);
    spotnik_standing_write(&standing, &replica[0].registry, &writer);
    assert_false(writer.failed);
    spotnik_packet_send(duplex, SPOTNIK_PACKET_VIEW, text, writer.at, NULL, 0);
}

/* Says that it has the snapshot everybody else has, then delivers bytes with a wrong tag, or
 * dies. */
static void *lie(void *argument)
{
    struct liar liar = *(struct liar *)argument;
    struct spotnik_packet packet = { 0 };
    static uint8_t piece[8 + SPOTNIK_PIECE_BYTES];
    uint8_t taken[16];
    struct spotnik_writer writer;
    struct spotnik_reader reader;

    free(argument);
    is_liar = true;
    while (spotnik_packet_receive(&liar.duplex, &packet, 64) == 0) {
        spotnik_reader_init(&reader, packet.body, packet.size);
        if (packet.kind == SPOTNIK_PACKET_ASK) {
            lie_view(&liar.duplex);
        } else if (packet.kind == SPOTNIK_PACKET_SNAPSHOT) {
            spotnik_writer_init(&writer, taken, sizeof taken);
            spotnik_writer_u64(&writer, HOLD_STEP);
            spotnik_writer_u64(&writer, replica[0].registry.bytes);
            spotnik_packet_send(&liar.duplex, SPOTNIK_PACKET_TAKEN, taken, sizeof taken, NULL, 0);
        } else if (packet.kind == SPOTNIK_PACKET_FETCH) {
            __atomic_add_fetch(&pieces_asked_of_liar, 1, __ATOMIC_SEQ_CST);
            turn_end();
            if (fault_of[liar.member] == DIES)
                break;
            spotnik_writer_init(&writer, piece, 8);
            spotnik_writer_u64(&writer, spotnik_reader_u64(&reader));
            liar.duplex.sent++; /* another tag than these bytes have */
            spotnik_packet_send(&liar.duplex, SPOTNIK_PACKET_PIECE, piece, sizeof piece, NULL, 0);
        }
    }
    turn_end(); /* not asked at all: the test fails, and does not hang */
    spotnik_packet_done(&packet);
    spotnik_duplex_close(&liar.duplex);
    return NULL;
}

#endif
