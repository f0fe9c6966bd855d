/* SPDX-License-Identifier: Apache-2.0 */
/* What accelerators there are: memory, peak rates by type of number, and the names under which
 * price lists and people know them. Two names of one chip compute alike (A100 and A100-80GB): a
 * profile of one serves for the other, and says so. */
#ifndef SPOTNIK_PLAN_ACCELERATORS_H
#define SPOTNIK_PLAN_ACCELERATORS_H

#include <stdbool.h>
#include <stddef.h>

struct spotnik_accelerator {
    const char *name, *chip; /* `chip` is what computes; several names may share it */
    double memory_gib;
    double fp32_tflops, bf16_tflops,
        /* dense peaks of the data sheets; 0: not offered (bf16: fp16 on older chips) */
        fp8_tflops;
    const char *aliases; /* separated by blanks */
};

/* By name or alias (letter case, blanks, '-' and '_' do not matter); NULL when it is not known. A
 * TPU slice ("tpu-v5p-8", "tpu-v5litepod-16") is found by its generation. */
const struct spotnik_accelerator *spotnik_accelerator_find(const char *name);
/* Both are known and the same chip. */
bool spotnik_accelerator_alike(const char *one, const char *other);
/* The `index`-th of all; NULL behind the last. */
const struct spotnik_accelerator *spotnik_accelerator_at(size_t index);

#endif
