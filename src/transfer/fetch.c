/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching the pieces of a snapshot: one thread per donor takes the next piece none has, and
 * gives back what it could not deliver. Each thread keeps two requests under way, so that the donor
 * reads ahead while we verify. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "spotnik/spotnik.h"
#include "transfer/joiner_inside.h"
#include "transfer/thread.h"

#define NO_PIECE UINT64_MAX

enum piece_state { PIECE_WANTED, PIECE_ASKED, PIECE_HERE };

static uint64_t piece_bytes(const struct spotnik_joiner *joiner, uint64_t piece)
{
    uint64_t left = joiner->config.registry->bytes - piece * SPOTNIK_PIECE_BYTES;

    return left < SPOTNIK_PIECE_BYTES ? left : SPOTNIK_PIECE_BYTES;
}

static uint64_t first_wanted(struct spotnik_joiner *joiner)
{
    for (; joiner->piece_next < joiner->piece_count; joiner->piece_next++)
        if (joiner->piece[joiner->piece_next] == PIECE_WANTED)
            return joiner->piece_next;
    return NO_PIECE;
}

/* The next piece for a thread that has `under_way` requests out. Waits only when it has none: a
 * piece that another donor fails to deliver may yet come back. */
static uint64_t take(struct spotnik_joiner *joiner, uint32_t under_way)
{
    pthread_mutex_lock(&joiner->lock);
    uint64_t piece = first_wanted(joiner);

    while (piece == NO_PIECE && !under_way && joiner->piece_left) {
        pthread_cond_wait(&joiner->changed, &joiner->lock);
        piece = first_wanted(joiner);
    }
    if (piece != NO_PIECE)
        joiner->piece[piece] = PIECE_ASKED;
    pthread_mutex_unlock(&joiner->lock);
    return piece;
}

static void put_back(struct spotnik_joiner *joiner, uint64_t piece)
{
    if (piece == NO_PIECE)
        return;
    pthread_mutex_lock(&joiner->lock);
    SPOTNIK_ASSERT(joiner->piece[piece] == PIECE_ASKED);
    joiner->piece[piece] = PIECE_WANTED;
    if (piece < joiner->piece_next)
        joiner->piece_next = piece;
    pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
}

static bool is_complete(struct spotnik_joiner *joiner)
{
    pthread_mutex_lock(&joiner->lock);
    bool complete = !joiner->piece_left;
    pthread_mutex_unlock(&joiner->lock);
    return complete;
}

static void arrive(struct spotnik_joiner *joiner, uint64_t piece, const uint8_t *bytes,
                   uint64_t size)
{
    spotnik_registry_write(joiner->config.registry, piece * SPOTNIK_PIECE_BYTES, bytes, size);
    pthread_mutex_lock(&joiner->lock);
    joiner->piece[piece] = PIECE_HERE;
    joiner->piece_left--;
    if (!joiner->piece_left)
        pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
}

/* Read the answer to the request for `piece`: 0 when it is what was asked for. */
static int read_piece(struct spotnik_giver *source, uint64_t piece, const uint8_t **ret_bytes,
                      size_t *ret_size)
{
    struct spotnik_reader reader;

    do {
        if (spotnik_packet_receive(&source->duplex, &source->packet, SPOTNIK_PIECE_BYTES + 8))
            return -1;
    } while (source->packet.kind == SPOTNIK_PACKET_WAIT);
    spotnik_reader_init(&reader, source->packet.body, source->packet.size);
    uint64_t number = spotnik_reader_u64(&reader);
    *ret_size = spotnik_reader_left(&reader);
    *ret_bytes = spotnik_reader_skip(&reader, *ret_size);
    return source->packet.kind != SPOTNIK_PACKET_PIECE || reader.failed || number != piece
           || *ret_size != piece_bytes(source->joiner, piece);
}

/* Take delivery of `piece`, or give it back. False: this donor is of no more use. */
static bool receive(struct spotnik_giver *source, uint64_t piece)
{
    const uint8_t *bytes;
    size_t size;

    if (read_piece(source, piece, &bytes, &size)) {
        put_back(source->joiner, piece);
        return false;
    }
    arrive(source->joiner, piece, bytes, size);
    return true;
}

/* Two requests under way: `first` is answered before `second`. Ends when all pieces are here or the
 * donor fails. */
static void fetch(struct spotnik_giver *source)
{
    struct spotnik_joiner *joiner = source->joiner;
    uint64_t first = NO_PIECE, second;

    do {
        second = take(joiner, first != NO_PIECE);
        if (second != NO_PIECE
            && spotnik_packet_send_u64(&source->duplex, SPOTNIK_PACKET_FETCH, second)) {
            put_back(joiner, first);
            break;
        }
        if (first != NO_PIECE && !receive(source, first))
            break;
        first = second;
    } while (first != NO_PIECE || !is_complete(joiner));
    if (is_complete(joiner))
        return;
    put_back(joiner, second);
    spotnik_giver_close(source);
}

static void *run(void *argument)
{
    struct spotnik_giver *source = argument;
    struct spotnik_joiner *joiner = source->joiner;

    fetch(source);
    pthread_mutex_lock(&joiner->lock);
    joiner->fetching--;
    pthread_cond_broadcast(&joiner->changed);
    pthread_mutex_unlock(&joiner->lock);
    return NULL;
}

static void start(struct spotnik_joiner *joiner)
{
    for (uint32_t i = 0; i < joiner->source_count; i++) {
        struct spotnik_giver *source = &joiner->source[i];

        source->started = false;
        if (source->duplex.fd < 0)
            continue;
        pthread_mutex_lock(&joiner->lock);
        joiner->fetching++;
        pthread_mutex_unlock(&joiner->lock);
        source->started = spotnik_thread_start(run, source, &source->thread) == 0;
        if (!source->started) {
            pthread_mutex_lock(&joiner->lock);
            joiner->fetching--;
            pthread_mutex_unlock(&joiner->lock);
        }
    }
}

int spotnik_joiner_fetch(struct spotnik_joiner *joiner)
{
    uint64_t bytes = joiner->config.registry->bytes;

    joiner->piece_count = (bytes + SPOTNIK_PIECE_BYTES - 1) / SPOTNIK_PIECE_BYTES;
    joiner->piece_left = joiner->piece_count;
    joiner->piece_next = 0;
    joiner->piece = calloc(joiner->piece_count + 1, 1);
    if (!joiner->piece)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to join");
    joiner->wrote = true;
    start(joiner);
    pthread_mutex_lock(&joiner->lock);
    while (joiner->fetching)
        pthread_cond_wait(&joiner->changed, &joiner->lock);
    uint64_t left = joiner->piece_left;
    pthread_mutex_unlock(&joiner->lock);
    for (uint32_t i = 0; i < joiner->source_count; i++)
        if (joiner->source[i].started)
            pthread_join(joiner->source[i].thread, NULL);
    free(joiner->piece);
    joiner->piece = NULL;
    if (left)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "all donors were lost while the state was copied");
    return 0;
}
