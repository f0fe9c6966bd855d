/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the planner reads. The first byte says which: `p` a profile, `c` a list of prices of
 * any kind, `t` a trace of capacity. What is taken has numbers that can be reckoned with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "common/trace.h"
#include "fuzz.h"
#include "plan/catalog.h"
#include "plan/profile.h"

static void profile(const char *text, size_t size)
{
    static struct spotnik_profile found;
    struct spotnik_fault fault;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

    if (json && spotnik_profile_parse("profile.json", json, &found, &fault) == 0)
        json_decref(spotnik_profile_json(&found));
    json_decref(json);
}

static void prices(const char *text, size_t size)
{
    static struct spotnik_catalog found;
    struct spotnik_fault fault;

    if (spotnik_catalog_source(&found, "prices", text, size, &fault) == 0)
        for (size_t i = 0; i < found.count; i++)
            SPOTNIK_ASSERT(!(found.offers[i].on_demand_usd_per_h < 0)
                           && !(found.offers[i].spot_usd_per_h < 0)
                           && !isinf(found.offers[i].spot_usd_per_h));
    spotnik_catalog_free(&found);
    memset(&found, 0, sizeof found);
}

static void capacity(const char *text, size_t size)
{
    struct spotnik_trace trace;
    struct spotnik_fault fault;
    double stays_s;

    if (spotnik_trace_parse("trace", text, size, "", &trace, &fault) != 0)
        return;
    spotnik_trace_at(&trace, 0, &stays_s);
    SPOTNIK_ASSERT(stays_s >= 0);
    spotnik_trace_free(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size); /* readers of text may want its end */
    SPOTNIK_ASSERT(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'p')
        profile(text, size - 1);
    else if (data[0] == 'c')
        prices(text, size - 1);
    else if (data[0] == 't')
        capacity(text, size - 1);
    free(text);
    return 0;
}
