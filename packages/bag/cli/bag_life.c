/* SPDX-License-Identifier: Apache-2.0 */
/* --lifetime. See bag_life.h. */
#include "bag_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/lives.h"

static int bathtub_read(const char *text, struct bag_life *ret, struct spotnik_fault *fault)
{
    double a, early_h, late_h, cap_h;
    char rest;
    ret->kind = BAG_LIFE_BATHTUB;
    ret->bathtub = spotnik_bathtub_published;
    if (*text == '\0')
        return 0;
    if (sscanf(text, ":%lf,%lf,%lf,%lf%c", &a, &early_h, &late_h, &cap_h, &rest) != 4
        || !(a > 0 && a <= 1) || !(early_h > 0) || !(late_h > 0) || !(cap_h > 0))
        return spotnik_fault_set(
            fault, "\"bathtub%s\": bathtub:A,TAU1,TAU2,B, such as bathtub:0.41,0.9,0.76,24 (hours)",
            text);
    ret->bathtub = (struct spotnik_bathtub){ a, early_h * 3600, late_h * 3600, cap_h * 3600 };
    return 0;
}

int bag_life_parse(const char *text, struct bag_life *ret, struct spotnik_fault *fault)
{
    if (strncmp(text, "bathtub", 7) == 0 && (text[7] == '\0' || text[7] == ':'))
        return bathtub_read(text + 7, ret, fault);
    if (strncmp(text, "mttf:", 5) != 0) {
        ret->kind = BAG_LIFE_CURVE;
        return spotnik_survival_load(text, &ret->curve, fault);
    }
    ret->kind = BAG_LIFE_MTTF;
    if (spotnik_duration_parse(text + 5, &ret->mttf_s) && ret->mttf_s > 0)
        return 0;
    return spotnik_fault_set(fault, "\"%s\": mttf:TIME, such as mttf:3h", text);
}
