/* SPDX-License-Identifier: Apache-2.0 */
/* Are our descriptors still ours? A program that closes all it does not know (daemonisers do, with
 * close_range) closes our links, too: the others read the end of this member. And this member reads
 * the end of all the others, from whatever file has taken the number of a link. So the file behind
 * our listener is looked at before every event that may decide or commit. When it is another one,
 * this member is over: it touches no descriptor any more, and every call says why. A child that has
 * inherited the sockets can shut them down, with the same effect. Then the door finds that it does
 * not listen any more, or a link that its voice was shut (door.c, link.c). */
#include "base/time.h"
#include "engine/inside.h"

#define LATELY_NS (100 * SPOTNIK_US)

void spotnik_owns_note(struct spotnik_engine *engine)
{
    engine->listener_inode = spotnik_socket_inode(spotnik_door_socket(engine->links)->fd);
}

void spotnik_owns_lost(struct spotnik_engine *engine)
{
    engine->revoked = true;
    engine->failed = SPOTNIK_ERR_SYSTEM;
    /* whose they are now nobody knows: none is closed */
    engine->loop.epoll_fd = spotnik_door_socket(engine->links)->fd = engine->loop.wake.fd = -1;
    engine->loop.data.fd = engine->attend.timer.fd = engine->attend.wake.fd = -1;
    spotnik_carriage_lost(engine->carriage);
    spotnik_engine_changed(engine);
}

bool spotnik_owns(struct spotnik_engine *engine, uint64_t now_ns)
{
    int fd = spotnik_door_socket(engine->links)->fd;
    engine->looked_ns = now_ns;
    if (!engine->revoked
        && (engine->loop.lost || spotnik_socket_inode(fd) != engine->listener_inode))
        spotnik_owns_lost(engine);
    return !engine->revoked;
}

bool spotnik_owns_lately(struct spotnik_engine *engine, uint64_t now_ns)
{
    bool lately = !engine->loop.lost && spotnik_time_since(now_ns, engine->looked_ns) < LATELY_NS;
    return lately ? !engine->revoked : spotnik_owns(engine, now_ns);
}
