/* SPDX-License-Identifier: Apache-2.0 */
/* What instance types have, for price lists that tell prices only: accelerators and their number by
 * type (AWS and GCP), vCPUs by the sizes of AWS. */
#include "plan/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fact {
    const char *type, *accelerator;
    double accelerators, vcpus, memory_gib, link_gbps;
};

static const struct fact facts[] = {
    { "p2.xlarge", "K80", 1, 4, 61, 1.2 },
    { "p2.8xlarge", "K80", 8, 32, 488, 10 },
    { "p2.16xlarge", "K80", 16, 64, 732, 25 },
    { "p3.2xlarge", "V100", 1, 8, 61, 2.5 },
    { "p3.8xlarge", "V100", 4, 32, 244, 10 },
    { "p3.16xlarge", "V100", 8, 64, 488, 25 },
    { "p3dn.24xlarge", "V100-32GB", 8, 96, 768, 100 },
    { "p4d.24xlarge", "A100", 8, 96, 1152, 400 },
    { "p4de.24xlarge", "A100-80GB", 8, 96, 1152, 400 },
    { "p5.4xlarge", "H100", 1, 16, 256, 100 },
    { "p5.48xlarge", "H100", 8, 192, 2048, 3200 },
    { "p5e.48xlarge", "H200", 8, 192, 2048, 3200 },
    { "p5en.48xlarge", "H200", 8, 192, 2048, 3200 },
    { "p6-b200.48xlarge", "B200", 8, 192, 2048, 3200 },
    { "p6-b300.48xlarge", "B300", 8, 192, 4096, 6400 },
    { "g3s.xlarge", "M60", 1, 4, 30.5, 10 },
    { "g3.4xlarge", "M60", 1, 16, 122, 10 },
    { "g3.8xlarge", "M60", 2, 32, 244, 10 },
    { "g3.16xlarge", "M60", 4, 64, 488, 25 },
    { "g4ad.xlarge", "Radeon-Pro-V520", 1, 4, 16, 10 },
    { "g4ad.2xlarge", "Radeon-Pro-V520", 1, 8, 32, 10 },
    { "g4ad.4xlarge", "Radeon-Pro-V520", 1, 16, 64, 10 },
    { "g4ad.8xlarge", "Radeon-Pro-V520", 2, 32, 128, 15 },
    { "g4ad.16xlarge", "Radeon-Pro-V520", 4, 64, 256, 25 },
    { "g4dn.xlarge", "T4", 1, 4, 16, 5 },
    { "g4dn.2xlarge", "T4", 1, 8, 32, 10 },
    { "g4dn.4xlarge", "T4", 1, 16, 64, 20 },
    { "g4dn.8xlarge", "T4", 1, 32, 128, 50 },
    { "g4dn.12xlarge", "T4", 4, 48, 192, 50 },
    { "g4dn.16xlarge", "T4", 1, 64, 256, 50 },
    { "g4dn.metal", "T4", 8, 96, 384, 100 },
    { "g5.xlarge", "A10G", 1, 4, 16, 2.5 },
    { "g5.2xlarge", "A10G", 1, 8, 32, 5 },
    { "g5.4xlarge", "A10G", 1, 16, 64, 10 },
    { "g5.8xlarge", "A10G", 1, 32, 128, 25 },
    { "g5.12xlarge", "A10G", 4, 48, 192, 40 },
    { "g5.16xlarge", "A10G", 1, 64, 256, 25 },
    { "g5.24xlarge", "A10G", 4, 96, 384, 50 },
    { "g5.48xlarge", "A10G", 8, 192, 768, 100 },
    { "g5g.xlarge", "T4g", 1, 4, 8, 10 },
    { "g5g.2xlarge", "T4g", 1, 8, 16, 10 },
    { "g5g.4xlarge", "T4g", 1, 16, 32, 10 },
    { "g5g.8xlarge", "T4g", 1, 32, 64, 12 },
    { "g5g.16xlarge", "T4g", 2, 64, 128, 25 },
    { "g5g.metal", "T4g", 2, 64, 128, 25 },
    { "g6.xlarge", "L4", 1, 4, 16, 10 },
    { "g6.2xlarge", "L4", 1, 8, 32, 10 },
    { "g6.4xlarge", "L4", 1, 16, 64, 25 },
    { "g6.8xlarge", "L4", 1, 32, 128, 25 },
    { "g6.12xlarge", "L4", 4, 48, 192, 40 },
    { "g6.16xlarge", "L4", 1, 64, 256, 25 },
    { "g6.24xlarge", "L4", 4, 96, 384, 50 },
    { "g6.48xlarge", "L4", 8, 192, 768, 100 },
    { "gr6.4xlarge", "L4", 1, 16, 128, 25 },
    { "gr6.8xlarge", "L4", 1, 32, 256, 25 },
    { "g6e.xlarge", "L40S", 1, 4, 32, 20 },
    { "g6e.2xlarge", "L40S", 1, 8, 64, 20 },
    { "g6e.4xlarge", "L40S", 1, 16, 128, 20 },
    { "g6e.8xlarge", "L40S", 1, 32, 256, 25 },
    { "g6e.12xlarge", "L40S", 4, 48, 384, 100 },
    { "g6e.16xlarge", "L40S", 1, 64, 512, 35 },
    { "g6e.24xlarge", "L40S", 4, 96, 768, 200 },
    { "g6e.48xlarge", "L40S", 8, 192, 1536, 400 },
    { "trn1.2xlarge", "Trainium", 1, 8, 32, 12.5 },
    { "trn1.32xlarge", "Trainium", 16, 128, 512, 800 },
    { "trn1n.32xlarge", "Trainium", 16, 128, 512, 1600 },
    { "trn2.48xlarge", "Trainium2", 16, 192, 2048, 3200 },
    { "inf1.xlarge", "Inferentia", 1, 4, 8, 25 },
    { "inf1.2xlarge", "Inferentia", 1, 8, 16, 25 },
    { "inf1.6xlarge", "Inferentia", 4, 24, 48, 25 },
    { "inf1.24xlarge", "Inferentia", 16, 96, 192, 100 },
    { "inf2.xlarge", "Inferentia2", 1, 4, 16, 15 },
    { "inf2.8xlarge", "Inferentia2", 1, 32, 128, 25 },
    { "inf2.24xlarge", "Inferentia2", 6, 96, 384, 50 },
    { "inf2.48xlarge", "Inferentia2", 12, 192, 768, 100 },
    { "dl1.24xlarge", "HL-205", 8, 96, 768, 400 },
    { "a2-highgpu-1g", "A100", 1, 12, 85, 24 },
    { "a2-highgpu-2g", "A100", 2, 24, 170, 32 },
    { "a2-highgpu-4g", "A100", 4, 48, 340, 50 },
    { "a2-highgpu-8g", "A100", 8, 96, 680, 100 },
    { "a2-megagpu-16g", "A100", 16, 96, 1360, 100 },
    { "a2-ultragpu-1g", "A100-80GB", 1, 12, 170, 24 },
    { "a2-ultragpu-2g", "A100-80GB", 2, 24, 340, 32 },
    { "a2-ultragpu-4g", "A100-80GB", 4, 48, 680, 50 },
    { "a2-ultragpu-8g", "A100-80GB", 8, 96, 1360, 100 },
    { "a3-highgpu-1g", "H100", 1, 26, 234, 25 },
    { "a3-highgpu-2g", "H100", 2, 52, 468, 50 },
    { "a3-highgpu-4g", "H100", 4, 104, 936, 100 },
    { "a3-highgpu-8g", "H100", 8, 208, 1872, 1000 },
    { "a3-edgegpu-8g", "H100", 8, 208, 1872, 600 },
    { "a3-megagpu-8g", "H100-MEGA", 8, 208, 1872, 1800 },
    { "a3-ultragpu-8g", "H200", 8, 224, 2952, 3600 },
    { "a4-highgpu-8g", "B200", 8, 224, 3968, 3600 },
    { "a4x-highgpu-4g", "GB200", 4, 140, 884, 2000 },
    { "g4-standard-48", "RTXPRO6000", 1, 48, 180, 50 },
    { "g4-standard-96", "RTXPRO6000", 2, 96, 360, 100 },
    { "g4-standard-192", "RTXPRO6000", 4, 192, 720, 200 },
    { "g4-standard-384", "RTXPRO6000", 8, 384, 1440, 400 },
    { "g2-standard-4", "L4", 1, 4, 16, 10 },
    { "g2-standard-8", "L4", 1, 8, 32, 16 },
    { "g2-standard-12", "L4", 1, 12, 48, 16 },
    { "g2-standard-16", "L4", 1, 16, 64, 32 },
    { "g2-standard-24", "L4", 2, 24, 96, 32 },
    { "g2-standard-32", "L4", 1, 32, 128, 32 },
    { "g2-standard-48", "L4", 4, 48, 192, 50 },
    { "g2-standard-96", "L4", 8, 96, 384, 100 },
};

/* AWS: medium and small 1, large 2, xlarge 4, Nxlarge 4 N; of metal the type must be known. */
static double vcpus_of(const char *type)
{
    const char *size = strchr(type, '.');
    double times;
    int end = 0;

    if (!size)
        return 0;
    size++;
    if (!strcmp(size, "medium") || !strcmp(size, "small") || !strcmp(size, "micro")
        || !strcmp(size, "nano"))
        return 1;
    if (!strcmp(size, "large"))
        return 2;
    if (!strcmp(size, "xlarge"))
        return 4;
    return sscanf(size, "%lfxlarge%n", &times, &end) == 1 && end && !size[end] ? 4 * times : 0;
}

bool spotnik_catalog_host_only(const char *type)
{
    static const char *const families[] = { "a2-", "a3-", "a4-", "a4x-", "g2-", "g4-" };

    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
        if (!strncmp(type, families[i], strlen(families[i])))
            return true;
    return false;
}

bool spotnik_catalog_fact(const char *type, struct spotnik_offer *offer)
{
    for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
        const struct fact *fact = &facts[i];
        if (strcmp(fact->type, type))
            continue;
        snprintf(offer->accelerator, sizeof(offer->accelerator), "%s", fact->accelerator);
        offer->accelerators = fact->accelerators;
        offer->vcpus = fact->vcpus;
        offer->memory_gib = fact->memory_gib;
        offer->link_gbps = fact->link_gbps;
        return true;
    }
    offer->vcpus = vcpus_of(type);
    return offer->vcpus > 0;
}
