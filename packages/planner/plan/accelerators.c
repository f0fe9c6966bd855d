/* SPDX-License-Identifier: Apache-2.0 */
/* The table of accelerators. Figures are those of the makers' data sheets, without sparsity, for
 * one device. A device is what clouds count as one (a K80 board is two, an M60 board too). */
#include "plan/accelerators.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct spotnik_accelerator table[] = {
    { "K80", "K80", 12, 4.1, 0, 0, "" },
    { "M60", "M60", 8, 4.8, 0, 0, "" },
    { "P4", "P4", 8, 5.5, 0, 0, "" },
    { "P100", "P100", 16, 9.5, 19, 0, "P100-PCIE-16GB" },
    { "V100", "V100", 16, 15.7, 125, 0, "V100-16GB V100-SXM2 V100-SXM2-16GB V100-PCIE-16GB" },
    { "V100-32GB", "V100", 32, 15.7, 125, 0, "V100-SXM2-32GB V100-SXM3-32GB" },
    { "T4", "T4", 16, 8.1, 65, 0, "" },
    { "T4g", "T4", 16, 8.1, 65, 0, "" },
    { "RTX6000", "RTX6000", 24, 16.3, 130, 0, "Quadro-RTX-6000" },
    { "A10", "A10", 24, 31.2, 125, 0, "" },
    { "A10G", "A10", 24, 31.5, 125, 0, "" },
    { "A16", "A16", 16, 4.5, 18, 0, "" },
    { "A30", "A30", 24, 10.3, 165, 0, "" },
    { "A40", "A40", 48, 37.4, 150, 0, "" },
    { "RTXA6000", "RTXA6000", 48, 38.7, 155, 0, "A6000 RTX-A6000" },
    { "A100", "A100", 40, 19.5, 312, 0, "A100-40GB A100-SXM4-40GB A100-PCIE-40GB" },
    { "A100-80GB", "A100", 80, 19.5, 312, 0,
      "A100-SXM4-80GB A100-80GB-SXM A100-SXM-80GB A100-80GB-PCIe" },
    { "L4", "L4", 24, 30.3, 121, 242, "" },
    { "L40", "L40", 48, 90.5, 181, 362, "" },
    { "L40S", "L40S", 48, 91.6, 362, 733, "" },
    { "RTX6000-Ada", "RTX6000-Ada", 48, 91.1, 364, 729, "RTX-6000-Ada-Generation" },
    { "RTXPRO6000", "RTXPRO6000", 96, 117, 504, 1007, "RTX-PRO-6000" },
    { "H100", "H100", 80, 66.9, 989, 1979, "H100-80GB H100-SXM H100-SXM5-80GB H100-80GB-HBM3" },
    { "H100-MEGA", "H100", 80, 66.9, 989, 1979, "H100-MEGA-80GB" },
    { "H100-NVL", "H100-NVL", 94, 60, 835, 1671, "" },
    { "GH200", "H100", 96, 66.9, 989, 1979, "" },
    { "H200", "H200", 141, 66.9, 989, 1979, "H200-SXM H200-141GB" },
    { "B200", "B200", 180, 75, 2250, 4500, "" },
    { "GB200", "GB200", 186, 80, 2500, 5000, "" },
    { "B300", "B300", 270, 75, 2250, 4500, "" },
    { "GB300", "GB300", 278, 80, 2500, 5000, "" },
    { "MI250X", "MI250X", 128, 47.9, 383, 0, "" },
    { "MI300X", "MI300X", 192, 163.4, 1307, 2615, "" },
    { "MI325X", "MI325X", 256, 163.4, 1307, 2615, "" },
    { "Radeon-Pro-V520", "V520", 8, 7.4, 0, 0, "Radeon-Pro-V520-8GB" },
    { "Radeon-MI25", "MI25", 16, 12.3, 24.6, 0, "MI25" },
    { "HL-205", "HL-205", 32, 0, 0, 0, "Gaudi Gaudi-HL-205" },
    { "Inferentia", "Inferentia", 8, 0, 0, 0, "" },
    { "Inferentia2", "Inferentia2", 32, 0, 190, 0, "" },
    { "Trainium", "Trainium", 32, 0, 190, 190, "Trainium1" },
    { "Trainium2", "Trainium2", 96, 0, 667, 1299, "" },
    { "tpu-v2", "tpu-v2", 16, 0, 46, 0, "" },
    { "tpu-v3", "tpu-v3", 32, 0, 123, 0, "" },
    { "tpu-v4", "tpu-v4", 32, 0, 275, 0, "" },
    { "tpu-v5e", "tpu-v5e", 16, 0, 197, 0, "tpu-v5litepod tpu-v5lite" },
    { "tpu-v5p", "tpu-v5p", 95, 0, 459, 0, "" },
    { "tpu-v6e", "tpu-v6e", 32, 0, 918, 0, "" },
};

static bool same(const char *one, size_t length, const char *other)
{
    size_t at = 0;

    for (; *other; other++) {
        while (at < length && strchr("-_ ", one[at]))
            at++;
        if (strchr("-_ ", *other))
            continue;
        if (at == length || tolower((unsigned char)one[at++]) != tolower((unsigned char)*other))
            return false;
    }
    while (at < length && strchr("-_ ", one[at]))
        at++;
    return at == length;
}

static bool named(const struct spotnik_accelerator *entry, const char *name)
{
    if (same(entry->name, strlen(entry->name), name))
        return true;
    for (const char *alias = entry->aliases; *alias;) {
        size_t length = strcspn(alias, " ");
        if (same(alias, length, name))
            return true;
        alias += length + strspn(alias + length, " ");
    }
    return false;
}

/* "tpu-v5p-8" without its size. */
static bool tpu_split(const char *name, char generation[24], double *size_out)
{
    const char *last = strrchr(name, '-');

    if (strncasecmp(name, "tpu-", 4) || !last || last == name + 3
        || !isdigit((unsigned char)last[1]))
        return false;
    snprintf(generation, 24, "%.*s", (int)(last - name), name);
    *size_out = atof(last + 1);
    return true;
}

/* "NVIDIA A100-SXM4-80GB" and "nvidia-tesla-v100" without the maker and its brand, as drivers and GCP
 * write them. */
static const char *without_maker(const char *name)
{
    static const char *const makers[] = { "nvidia", "tesla" };

    for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
        size_t length = strlen(makers[i]);
        if (!strncasecmp(name, makers[i], length) && name[length] && strchr("-_ ", name[length]))
            name += length + 1;
    }
    return name;
}

const struct spotnik_accelerator *spotnik_accelerator_find(const char *name)
{
    char generation[24];
    double size;

    name = without_maker(name);
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (named(&table[i], name))
            return &table[i];
    return tpu_split(name, generation, &size) ? spotnik_accelerator_find(generation) : NULL;
}

bool spotnik_accelerator_alike(const char *one, const char *other)
{
    const struct spotnik_accelerator *a = spotnik_accelerator_find(one),
                                     *b = spotnik_accelerator_find(other);

    return a && b && !strcmp(a->chip, b->chip);
}

const struct spotnik_accelerator *spotnik_accelerator_at(size_t index)
{
    return index < sizeof(table) / sizeof(*table) ? &table[index] : NULL;
}
