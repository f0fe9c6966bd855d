/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of a lineage: a register in its store that decides exact ties
 * (docs/design/0014-ties.md). Its number is an epoch, its text the member that it names for that
 * epoch. The founder makes it before any other process knows of the founding. From then on only the
 * member that it then names moves it, to a later epoch. So no two members ever have it for one
 * epoch. */
#include <stdio.h>

#include "base/thread.h"
#include "discovery/inside.h"

#define NAME_BYTES 32
#define TEXT_BYTES 33

static void name_make(uint64_t founding, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "witness-%016llx", (unsigned long long)founding);
}

static void text_make(struct spotnik_id id, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "%016llx%016llx", (unsigned long long)id.high,
             (unsigned long long)id.low);
}

bool spotnik_witness_offer(struct spotnik_discovery *discovery, struct spotnik_founding *founding)
{
    bool first = founding->root == founding->id;
    char name[NAME_BYTES], text[TEXT_BYTES];
    name_make(founding->id | 1, name);
    text_make(spotnik_runtime_id(discovery->runtime), text);
    if ((!discovery->witness && !spotnik_objects_has_registers(discovery->store))
        || spotnik_objects_register_make(discovery->store, name, text) != 0)
        return false;
    founding->id |= 1;
    if (first)
        founding->root = founding->id;
    return true;
}

bool spotnik_witness_take(struct spotnik_objects *store, uint64_t founding, uint64_t epoch,
                          struct spotnik_id self)
{
    char name[NAME_BYTES], text[TEXT_BYTES];
    name_make(founding, name);
    text_make(self, text);
    return spotnik_objects_register_advance(store, name, epoch, text);
}

void spotnik_witness_remove(struct spotnik_objects *store, uint64_t founding)
{
    char name[NAME_BYTES];
    name_make(founding, name);
    if (founding & 1)
        spotnik_objects_register_delete(store, name);
}

/* ---- the thread that answers ---- */

static void *witness_main(void *context)
{
    struct spotnik_discovery *discovery = context;
    struct spotnik_tie tie;
    while (spotnik_runtime_tie_wait(discovery->runtime, &tie))
        spotnik_runtime_tie_tell(discovery->runtime, &tie,
                                 spotnik_witness_take(discovery->store, tie.founding, tie.epoch,
                                                      tie.self));
    return NULL;
}

int spotnik_witness_start(struct spotnik_discovery *discovery)
{
    spotnik_runtime_tie_close(discovery->runtime, false);
    int rc = spotnik_thread_create(&discovery->witness_thread, witness_main, discovery);
    discovery->witnessing = rc == 0;
    return rc;
}

void spotnik_witness_stop(struct spotnik_discovery *discovery)
{
    if (!discovery->witnessing)
        return;
    spotnik_runtime_tie_close(discovery->runtime, true);
    pthread_join(discovery->witness_thread, NULL);
    discovery->witnessing = false;
}
