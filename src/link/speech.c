/* SPDX-License-Identifier: Apache-2.0 */
/* The wire version of each peer. Two successive versions can be in one job
 * (docs/design/0026-rolling-upgrade.md). A process that refuses ours names its own, and we use that
 * one from then on. Only peers of an older version are kept. A process never changes its version,
 * and one that is restarted has another id. */
#include "link/inside.h"

_Static_assert(SPOTNIK_SPEECH_NEWEST == SPOTNIK_WIRE_VERSION,
               "a link without a word of its version speaks the newest");

static uint32_t find(const struct spotnik_links *links, struct spotnik_id peer)
{
    uint32_t at = 0;
    while (at < SPOTNIK_SPEECHES
           && !(links->speech[at].version != 0 && spotnik_id_equal(links->speech[at].peer, peer)))
        at++;
    return at;
}

uint8_t spotnik_speech_of(const struct spotnik_links *links, struct spotnik_id peer)
{
    uint32_t at = find(links, peer);
    if (at < SPOTNIK_SPEECHES)
        return links->speech[at].version;
    uint16_t newest = links->credentials->speech;
    return newest != 0 ? (uint8_t)newest : SPOTNIK_WIRE_VERSION;
}

void spotnik_speech_note(struct spotnik_links *links, struct spotnik_id peer, uint16_t version)
{
    if (version == spotnik_speech_of(links, peer))
        return;
    uint32_t at = find(links, peer);
    if (at == SPOTNIK_SPEECHES)
        at = links->speech_next++ % SPOTNIK_SPEECHES;
    links->speech[at] = (struct spotnik_speech){ .peer = peer, .version = (uint8_t)version };
}
