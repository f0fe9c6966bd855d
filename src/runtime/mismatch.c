/* SPDX-License-Identifier: Apache-2.0 */
/* In words, in which bucket the programs of two members differ. */
#include "runtime/mismatch.h"

#include <stdio.h>

#include "link/address.h"
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
static bool is_about_empty(const struct spotnik_mismatch *found)
{
    return found->bucket == SPOTNIK_BUCKET_BARRIER && found->held[0].count == 0
           && found->held[1].count == 0;
}

static void held_text(const struct spotnik_mismatch *found, const struct spotnik_held *held,
                      char *text, size_t size)
{
    if (is_about_empty(found))
        snprintf(text, size, held->has ? "no buckets" : "buckets");
    else if (found->bucket == SPOTNIK_MISMATCH_OF_NUMBER)
        snprintf(text, size, "%llu buckets", (unsigned long long)held->count);
    else if (held->has)
        snprintf(text, size, "%llu elements, %s, %s", (unsigned long long)held->count,
                 dtype_text(held->dtype), op_text(held->op));
    else
        snprintf(text, size, "no such bucket");
}

static void member_text(const struct spotnik_view *view, struct spotnik_id id,
                        struct spotnik_id self, char *text, size_t size)
{
    char address[SPOTNIK_ADDRESS_TEXT];
    uint32_t rank = spotnik_view_rank(view, id);

    if (spotnik_id_equal(id, self))
        snprintf(text, size, "this member");
    else if (rank == SPOTNIK_NO_RANK)
        snprintf(text, size, "member %016llx", (unsigned long long)id.high);
    else
        snprintf(text, size, "member %u at %s", rank,
                 spotnik_address_format(address, view->entry[rank].member.address,
                                        view->entry[rank].member.port));
}

static bool are_equal(const struct spotnik_held *a, const struct spotnik_held *b)
{
    return a->has == b->has && a->count == b->count && a->dtype == b->dtype && a->op == b->op;
}

void spotnik_mismatch_text(const struct spotnik_mismatch *found, const struct spotnik_view *view,
                           struct spotnik_id self, char *text, size_t size)
{
    const struct spotnik_held *held = found->held;
    char who[2][80], what[2][64], where[32] = "";

    for (int i = 0; i < 2; i++) {
        member_text(view, held[i].member, self, who[i], sizeof who[i]);
        held_text(found, &held[i], what[i], sizeof what[i]);
    }
    if (found->bucket != SPOTNIK_MISMATCH_OF_NUMBER && !is_about_empty(found))
        snprintf(where, sizeof where, ", bucket %u", found->bucket);
    if (are_equal(&held[0], &held[1]))
        snprintf(text, size,
                 "in step %llu%s, %s and %s send %s by different ways; give all the same "
                 "settings",
                 (unsigned long long)found->step, where, who[0], who[1], what[0]);
    else
        snprintf(text, size, "in step %llu%s, %s has %s, and %s has %s",
                 (unsigned long long)found->step, where, who[0], what[0], who[1], what[1]);
}
