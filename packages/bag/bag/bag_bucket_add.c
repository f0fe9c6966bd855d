/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs for a bag in a bucket. See bag_bucket.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bag/bag_bucket.h"

int bag_bucket_names_check(const char *csv, struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    if (spotnik_table_load(csv, &table, fault) != 0)
        return -1;
    int rc = 0, column = spotnik_table_find(table, "job");
    for (size_t row = 0; rc == 0 && column >= 0 && row < spotnik_table_rows(table); row++) {
        const char *name = spotnik_table_text(table, row, column);
        if (strlen(name) > BAG_JOB_NAME_BUCKET_MAX)
            rc = spotnik_fault_set(fault, "the job %.80s...: a bucket takes names of %d bytes",
                                   name, BAG_JOB_NAME_BUCKET_MAX);
    }
    spotnik_table_free(table);
    return rc;
}

/* Under the next number that is free. */
int bag_bucket_add(struct bag *bag, const char *csv, uint32_t *ret_part,
                   struct spotnik_fault *fault)
{
    char object[BAG_OBJECT_MAX];
    int rc = -EEXIST;
    if (bag_bucket_names_check(csv, fault) != 0)
        return -1;
    for (*ret_part = bag->part_count; rc == -EEXIST && *ret_part < BAG_PARTS_MAX;) {
        snprintf(object, sizeof object, "jobs/%u.csv", ++*ret_part);
        rc = bag_bucket_file_put(bag, csv, object);
    }
    return rc == 0 ? bag_jobs_refresh(bag, fault)
                   : spotnik_fault_set(fault, "%s", bag_why(bag, rc));
}
