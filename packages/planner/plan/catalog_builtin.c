/* SPDX-License-Identifier: Apache-2.0 */
/* A few instance types with list prices, so that a first command works without files. `spotnik
 * prices update` or --prices have those of today: prices change, and these carry their date in
 * every output. */
#include "plan/catalog.h"

#include <math.h>
#include <stdio.h>

const char spotnik_catalog_builtin_date[] = "2026-07, spot of 2025-06 (AWS, us-east-1)";

/* On-demand of July 2026; spot by the savings that the Spot Advisor told in June 2025, where it
 * did. */
static const struct {
    const char *type;
    double on_demand_usd_per_h, spot_usd_per_h;
} builtin[] = {
    { "p2.xlarge", 0.9, 0.315 },          { "p2.8xlarge", 7.2, 2.304 },
    { "g3.4xlarge", 1.14, NAN },          { "g3.8xlarge", 2.28, NAN },
    { "g3.16xlarge", 4.56, NAN },         { "g4dn.xlarge", 0.526, 0.1894 },
    { "g4dn.4xlarge", 1.204, 0.3853 },    { "g4dn.12xlarge", 3.912, 1.408 },
    { "p3.2xlarge", 3.06, 0.612 },        { "p3.8xlarge", 12.24, 1.714 },
    { "p3.16xlarge", 24.48, 4.162 },      { "p3dn.24xlarge", 31.212, 4.058 },
    { "g5.xlarge", 1.006, 0.4125 },       { "g5.12xlarge", 5.672, 2.382 },
    { "g5.48xlarge", 16.288, 4.724 },     { "g6.xlarge", 0.8048, 0.4104 },
    { "g6.12xlarge", 4.6016, 1.887 },     { "g6.48xlarge", 13.3504, 4.139 },
    { "g6e.xlarge", 1.861, 0.7816 },      { "g6e.12xlarge", 10.4926, 4.617 },
    { "g6e.48xlarge", 30.1312, 9.642 },   { "p4d.24xlarge", 21.9576, 7.246 },
    { "p4de.24xlarge", 27.4471, 9.606 },  { "p5.4xlarge", 6.88, NAN },
    { "p5.48xlarge", 55.04, 26.42 },      { "p5en.48xlarge", 63.296, 22.79 },
    { "p6-b200.48xlarge", 113.933, NAN }, { "trn1.32xlarge", 21.5, 4.515 },
    { "c5.4xlarge", 0.68, 0.2312 },       { "m5.4xlarge", 0.768, 0.3226 },
};

/* Memory of the two without accelerators, which the facts do not have. */
static void memory_set(struct spotnik_offer *offer)
{
    if (offer->memory_gib == 0)
        offer->memory_gib = offer->vcpus * (offer->instance[0] == 'm' ? 4 : 2);
}

int spotnik_catalog_builtin(struct spotnik_catalog *catalog_out, struct spotnik_fault *fault)
{
    struct spotnik_catalog catalog = { 0 };

    for (size_t i = 0; i < sizeof(builtin) / sizeof(*builtin); i++) {
        struct spotnik_offer offer = { .on_demand_usd_per_h = builtin[i].on_demand_usd_per_h,
                                       .spot_usd_per_h = builtin[i].spot_usd_per_h,
                                       .losses_per_h = NAN,
                                       .link_gbps = 5,
                                       .region = "us-east-1",
                                       .cloud = "aws" };
        snprintf(offer.instance, sizeof(offer.instance), "%s", builtin[i].type);
        spotnik_catalog_fact(builtin[i].type, &offer);
        memory_set(&offer);
        if (spotnik_catalog_add(&catalog, &offer, fault)) {
            spotnik_catalog_free(&catalog);
            return -1;
        }
    }
    snprintf(catalog.source, sizeof(catalog.source), "built-in table of %s",
             spotnik_catalog_builtin_date);
    *catalog_out = catalog;
    return 0;
}
