/* SPDX-License-Identifier: Apache-2.0 */
/* In words, in which bucket this member's program differs from the others'. */
#include "engine/mismatch.h"

#include <stdio.h>

#include "spotnik/spotnik.h"

static const char *dtype_text(uint8_t dtype)
{
    static const char *const names[] = {
        [SPOTNIK_F32] = "F32",   [SPOTNIK_F64] = "F64", [SPOTNIK_I32] = "I32",
        [SPOTNIK_I64] = "I64",   [SPOTNIK_U8] = "U8",   [SPOTNIK_F16] = "F16",
        [SPOTNIK_BF16] = "BF16", [SPOTNIK_I8] = "I8",   [SPOTNIK_I16] = "I16",
        [SPOTNIK_U16] = "U16",   [SPOTNIK_U32] = "U32", [SPOTNIK_U64] = "U64",
        [SPOTNIK_Q8] = "Q8",
    };
    return dtype < sizeof names / sizeof names[0] && names[dtype] != NULL ? names[dtype] : "?";
}

static const char *op_text(uint8_t op)
{
    static const char *const names[] = {
        [SPOTNIK_SUM] = "SUM", [SPOTNIK_MEAN] = "MEAN",       [SPOTNIK_MIN] = "MIN",
        [SPOTNIK_MAX] = "MAX", [SPOTNIK_PRODUCT] = "PRODUCT",
    };
    return op < sizeof names / sizeof names[0] && names[op] != NULL ? names[op] : "?";
}

/* A step without any bucket of the caller's has one of the library's, without elements, whose
 * number means nothing to anybody else. Whether another member has one there, or none. */
static bool is_about_empty(const struct spotnik_claim *claim)
{
    return claim->bucket == SPOTNIK_BUCKET_BARRIER && claim->count == 0;
}

static void claim_text(const struct spotnik_claim *claim, char *text, size_t size)
{
    if (is_about_empty(claim))
        snprintf(text, size, claim->kind == SPOTNIK_CLAIM_BUCKET ? "no buckets" : "buckets");
    else if (claim->bucket == SPOTNIK_CLAIM_OF_NUMBER)
        snprintf(text, size, "%llu buckets", (unsigned long long)claim->count);
    else if (claim->kind == SPOTNIK_CLAIM_BUCKET)
        snprintf(text, size, "%llu elements, %s, %s", (unsigned long long)claim->count,
                 dtype_text(claim->dtype), op_text(claim->op));
    else
        snprintf(text, size, "no such bucket");
}

void spotnik_mismatch_say(const struct spotnik_claim *own, const struct spotnik_claim *found,
                          uint32_t agreeing, uint32_t members, char *text, size_t size)
{
    char ours[64], theirs[64], who[64], where[32] = "";

    claim_text(own, ours, sizeof ours);
    claim_text(found, theirs, sizeof theirs);
    if (agreeing > 0)
        snprintf(who, sizeof who, "%u of %u members have", agreeing, members);
    else
        snprintf(who, sizeof who, "another member has, and no majority says which is right,");
    if (own->bucket != SPOTNIK_CLAIM_OF_NUMBER && !(is_about_empty(own) && is_about_empty(found)))
        snprintf(where, sizeof where, ", bucket %u,", own->bucket);
    snprintf(text, size, ": in step %llu%s this member has %s; %s %s",
             (unsigned long long)own->step, where, ours, who, theirs);
}

void spotnik_mismatch_text(const struct spotnik_core *core, char *text, size_t size)
{
    struct spotnik_claim own, found;
    uint32_t agreeing;

    text[0] = 0;
    if (spotnik_core_dispute(core, &own, &found, &agreeing))
        spotnik_mismatch_say(&own, &found, agreeing, spotnik_core_view(core)->size, text, size);
}
