/* SPDX-License-Identifier: Apache-2.0 */
/* What the links ask of the runtime (link/links.h): who takes a connection, and what our acceptor
 * answers. */
#include <unistd.h>

#include "runtime/inside.h"

static void adopt(void *context, struct spotnik_pending *pending, enum spotnik_purpose purpose,
                  bool dialled)
{
    spotnik_transport_adopt(((struct spotnik_runtime *)context)->transport, pending, purpose,
                            dialled);
}

static void failed(void *context, enum spotnik_purpose purpose, const struct spotnik_member *peer,
                   const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    spotnik_transport_failed(((struct spotnik_runtime *)context)->transport, purpose, peer, name);
}

static int connect_share(void *context, const struct spotnik_member *peer, int *ret_fd)
{
    return spotnik_transport_connect(((struct spotnik_runtime *)context)->transport, peer, ret_fd);
}

static void presence(void *context, struct spotnik_presence *ret)
{
    spotnik_presence_get(context, ret);
}

static bool differs(void *context, const struct spotnik_shake *shake)
{
    return spotnik_shake_differs(context, shake);
}

static void answer(void *context, const struct spotnik_member *asker, struct spotnik_answer *ret)
{
    struct spotnik_runtime *runtime = context;
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    spotnik_caller_note(runtime, asker);
    *ret =
        (struct spotnik_answer){ .self = runtime->config.credentials.self, .vote = runtime->vote };
    if (status.role == SPOTNIK_ROLE_MEMBER) {
        ret->epoch = view->epoch;
        ret->size = view->size;
        ret->parked = status.parked;
    }
}

static void dump(void *context, char *ret_line, size_t size)
{
    spotnik_recorder_dump(((struct spotnik_runtime *)context)->recorder, "spotnik dump asked", true,
                          ret_line, size);
}

static void service(void *context, enum spotnik_purpose purpose, struct spotnik_duplex *duplex,
                    const struct spotnik_member *peer)
{
    const struct spotnik_runtime_hooks *hooks = &((struct spotnik_runtime *)context)->config.hooks;
    void (*take)(void *, struct spotnik_duplex *, const struct spotnik_member *) =
        purpose == SPOTNIK_PURPOSE_EXCHANGE ? hooks->exchange_connection : hooks->state_connection;
    if (take == NULL)
        spotnik_duplex_close(duplex);
    else
        take(hooks->context, duplex, peer);
}

static size_t status(void *context, char *text, size_t size)
{
    const struct spotnik_runtime_hooks *hooks = &((struct spotnik_runtime *)context)->config.hooks;
    return hooks->status_text != NULL ? hooks->status_text(hooks->context, text, size) : 0;
}

int spotnik_arrivals_new(struct spotnik_runtime *runtime)
{
    const struct spotnik_links_hooks hooks = { .context = runtime,
                                               .adopt = adopt,
                                               .failed = failed,
                                               .connect = connect_share,
                                               .presence = presence,
                                               .differs = differs,
                                               .answer = answer,
                                               .dump = dump,
                                               .service = service,
                                               .status = status };
    return spotnik_links_new(&runtime->loop, &runtime->config.credentials, &runtime->config.limits,
                             &hooks, &runtime->links);
}
