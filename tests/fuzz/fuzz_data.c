/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of frames as a connection reads it: header, then what the header lets follow, until
 * something is refused. Whatever is accepted must encode to the same bytes. */
#include <string.h>

#include "base/assert.h"
#include "fuzz.h"
#include "sample.h"
#include "wire/data.h"
#include "wire/frame.h"

static int data_take(const struct spotnik_frame *frame, const uint8_t *bytes)
{
    struct spotnik_chunk_header header;
    uint8_t again[SPOTNIK_DATA_PREFIX_BYTES];
    uint32_t element_bytes;
    int rc = spotnik_data_decode(bytes + SPOTNIK_FRAME_BYTES, frame, &header, &element_bytes);

    if (rc != SPOTNIK_OK)
        return rc;
    SPOTNIK_ASSERT(element_bytes == frame->payload_bytes - SPOTNIK_DATA_HEAD_BYTES);
    spotnik_data_encode(&header, frame->turn, element_bytes, again);
    SPOTNIK_ASSERT(memcmp(again, bytes, SPOTNIK_DATA_ELEMENTS_TAG_AT) == 0);
    return SPOTNIK_OK;
}

static int goodbye_take(const uint8_t *payload)
{
    enum spotnik_goodbye reason;
    uint8_t again[SPOTNIK_GOODBYE_BYTES];
    int rc = spotnik_goodbye_decode(payload, &reason);

    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_goodbye_encode(reason, again);
    SPOTNIK_ASSERT(memcmp(again, payload, sizeof again) == 0);
    return SPOTNIK_OK;
}

/* Returns the bytes of the first frame, 0 when it is refused or not all there. */
static size_t frame_take(const uint8_t *data, size_t size)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    struct spotnik_frame frame;
    uint8_t again[SPOTNIK_FRAME_BYTES];
    int rc = SPOTNIK_OK;

    if (size < SPOTNIK_FRAME_BYTES || spotnik_frame_decode(data, &limits, &frame) != SPOTNIK_OK)
        return 0;
    SPOTNIK_ASSERT(frame.payload_bytes <= spotnik_frame_payload_max(frame.kind, &limits));
    spotnik_frame_encode(&frame, again);
    SPOTNIK_ASSERT(memcmp(again, data, sizeof again) == 0);
    if (size - SPOTNIK_FRAME_BYTES < frame.payload_bytes)
        return 0;
    if (frame.kind == SPOTNIK_FRAME_DATA)
        rc = data_take(&frame, data);
    else if (frame.kind == SPOTNIK_FRAME_GOODBYE)
        rc = goodbye_take(data + SPOTNIK_FRAME_BYTES);
    return rc == SPOTNIK_OK ? SPOTNIK_FRAME_BYTES + frame.payload_bytes : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t taken; (taken = frame_take(data, size)) > 0; data += taken)
        size -= taken;
    return 0;
}
