/* SPDX-License-Identifier: Apache-2.0 */
/* A few instance types with rounded list prices, so that a first command works without files. Give
 * --prices for anything that is to be rented: prices change, and these carry their date in every output. */
#include "plan/catalog.h"

#include <math.h>
#include <stdio.h>

const char spotnik_catalog_builtin_date[] = "2023-01 (rounded; us-east-1)";

static const struct spotnik_offer builtin[] = {
    { "p2.xlarge", "us-east-1", "", "K80", 1, 4, 61, 0.90, 0.27, NAN, 1.2, NULL, NULL, 0, 0 },
    { "p2.8xlarge", "us-east-1", "", "K80", 8, 32, 488, 7.20, 2.16, NAN, 10, NULL, NULL, 0, 0 },
    { "g3.4xlarge", "us-east-1", "", "M60", 1, 16, 122, 1.14, 0.35, NAN, 10, NULL, NULL, 0, 0 },
    { "g3.8xlarge", "us-east-1", "", "M60", 2, 32, 244, 2.28, 0.75, NAN, 10, NULL, NULL, 0, 0 },
    { "g3.16xlarge", "us-east-1", "", "M60", 4, 64, 488, 4.56, 1.40, NAN, 25, NULL, NULL, 0, 0 },
    { "g4dn.xlarge", "us-east-1", "", "T4", 1, 4, 16, 0.526, 0.18, NAN, 5, NULL, NULL, 0, 0 },
    { "g4dn.4xlarge", "us-east-1", "", "T4", 1, 16, 64, 1.204, 0.40, NAN, 20, NULL, NULL, 0, 0 },
    { "g4dn.12xlarge", "us-east-1", "", "T4", 4, 48, 192, 3.912, 1.25, NAN, 50, NULL, NULL, 0, 0 },
    { "p3.2xlarge", "us-east-1", "", "V100", 1, 8, 61, 3.06, 1.20, NAN, 2.5, NULL, NULL, 0, 0 },
    { "p3.8xlarge", "us-east-1", "", "V100", 4, 32, 244, 12.24, 3.90, NAN, 10, NULL, NULL, 0, 0 },
    { "p3.16xlarge", "us-east-1", "", "V100", 8, 64, 488, 24.48, 8.50, NAN, 25, NULL, NULL, 0, 0 },
    { "g5.xlarge", "us-east-1", "", "A10G", 1, 4, 16, 1.006, 0.45, NAN, 2.5, NULL, NULL, 0, 0 },
    { "g5.12xlarge", "us-east-1", "", "A10G", 4, 48, 192, 5.672, 2.20, NAN, 40, NULL, NULL, 0, 0 },
    { "g5.48xlarge", "us-east-1", "", "A10G", 8, 192, 768, 16.288, 6.50, NAN, 100, NULL, NULL, 0, 0 },
    { "p4d.24xlarge", "us-east-1", "", "A100", 8, 96, 1152, 32.77, 12.00, NAN, 400, NULL, NULL, 0, 0 },
    { "c5.4xlarge", "us-east-1", "", "", 0, 16, 32, 0.68, 0.28, NAN, 5, NULL, NULL, 0, 0 },
    { "m5.4xlarge", "us-east-1", "", "", 0, 16, 64, 0.768, 0.30, NAN, 5, NULL, NULL, 0, 0 },
};

int spotnik_catalog_builtin(struct spotnik_catalog *catalog_out, struct spotnik_fault *fault)
{
    struct spotnik_catalog catalog = { 0 };

    for (size_t i = 0; i < sizeof(builtin) / sizeof(*builtin); i++) {
        if (spotnik_catalog_add(&catalog, &builtin[i], fault)) {
            spotnik_catalog_free(&catalog);
            return -1;
        }
    }
    snprintf(catalog.source, sizeof(catalog.source), "built-in table of %s", spotnik_catalog_builtin_date);
    *catalog_out = catalog;
    return 0;
}
