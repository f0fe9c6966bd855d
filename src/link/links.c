/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of the links, and what they say to the core. */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "link/inside.h"
#include "spotnik/spotnik.h"

#define STORAGE_ALIGNMENT 64u

static int storage_get(struct spotnik_links *links)
{
    size_t bytes = spotnik_wire_storage_size(links->limits);
    links->storage_memory =
        aligned_alloc(STORAGE_ALIGNMENT,
                      (bytes + STORAGE_ALIGNMENT - 1) & ~(size_t)(STORAGE_ALIGNMENT - 1));
    if (links->storage_memory == NULL)
        return SPOTNIK_ERR_MEMORY;
    links->storage = spotnik_wire_storage_init(links->storage_memory, links->limits);
    return 0;
}

int spotnik_links_new(struct spotnik_loop *loop, const struct spotnik_credentials *credentials,
                      const struct spotnik_limits *limits, const struct spotnik_links_hooks *hooks,
                      struct spotnik_links **ret)
{
    struct spotnik_links *links = calloc(1, sizeof *links);
    if (links == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the links");
    links->loop = loop;
    links->hooks = *hooks;
    links->credentials = credentials;
    links->limits = limits;
    links->listener.fd = -1;
    links->accept_ns = SPOTNIK_NEVER;
    if (storage_get(links) != 0) {
        free(links);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a job of up to %u members",
                                    limits->members_max);
    }
    *ret = links;
    return 0;
}

void spotnik_links_free(struct spotnik_links *links)
{
    if (links == NULL)
        return;
    spotnik_pending_list_cancel(links);
    spotnik_pending_list_run(links, 0); /* nothing is left but to be freed */
    spotnik_links_close(links);
    for (uint32_t i = 0; i < links->accepted_list; i++)
        close(links->accepted[i].fd);
    if (links->listener.fd >= 0)
        close(links->listener.fd);
    free(links->storage_memory);
    free(links);
}

void spotnik_links_tell_ended(struct spotnik_links *links, enum spotnik_event_kind kind,
                              const struct spotnik_member *peer, enum spotnik_proof proof)
{
    struct spotnik_event event = { .kind = kind, .ended = { *peer, proof } };
    spotnik_loop_drive(links->loop, &event);
}
