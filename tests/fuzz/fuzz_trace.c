/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files of `spotnik run --churn`. What is accepted is in order, names each node once, and
 * never adds a node that is there or removes one that is not; what is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "churn.h"
#include "fuzz.h"

static void trace_check(const struct churn *churn)
{
    bool *present = calloc(churn->node_count + 1, sizeof *present);

    SPOTNIK_ASSERT(present);
    for (size_t i = 0; i < churn->event_count; i++) {
        const struct churn_event *event = &churn->event[i];
        SPOTNIK_ASSERT(i == 0 || churn->event[i - 1].at_ms <= event->at_ms);
        SPOTNIK_ASSERT(event->node < churn->node_count);
        SPOTNIK_ASSERT(present[event->node] != event->add);
        present[event->node] = event->add;
    }
    for (uint32_t i = 1; i < churn->node_count && i < 8; i++)
        SPOTNIK_ASSERT(strcmp(churn->node[i - 1], churn->node[i]) != 0);
    free(present);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct churn churn;
    char error[200] = "";

    if (churn_parse((const char *)data, size, &churn, error, sizeof error)) {
        trace_check(&churn);
        churn_free(&churn);
    } else {
        SPOTNIK_ASSERT(strlen(error) > 0 && strlen(error) < sizeof error);
    }
    return 0;
}
