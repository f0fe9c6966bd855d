/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of what somebody else may be using just now: the owner of a directory puts it into place
 * as a result, another worker goes on from a save. So it goes away in one piece, by a rename, and
 * its content after that. Were the files removed where they lie, a result could lack some of them,
 * and a save could look like one without outputs. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bag/bag.h"

#define GONE ".gone-"

static int one_take_away(struct bag *bag, const char *part, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX], gone[NAME_MAX + 1];
    int length = snprintf(gone, sizeof gone, GONE "%016" PRIx64 "-%s", bag->writer, name);
    if (length < 0 || (size_t)length >= sizeof gone)
        return -ENAMETOOLONG;
    bag_path(bag, from, part, name);
    bag_path(bag, to, part, gone);
    int rc = rename(from, to) == 0 ? 0 : -errno;
    if (rc == -ENOTEMPTY || rc == -EEXIST) { /* we did not come to its end the last time */
        bag_remove(to);
        rc = rename(from, to) == 0 ? 0 : -errno;
    }
    return rc == 0 ? bag_remove(to) : rc;
}

int bag_take_away(struct bag *bag, const char *part, const char *name)
{
    int rc = one_take_away(bag, part, name);
    return rc == -ENOENT ? 0 : rc;
}

void bag_attempt_remove(struct bag *bag, const struct bag_job *job, uint32_t attempt)
{
    char name[NAME_MAX + 1];
    bag_attempt_name(job, attempt, name);
    (void)bag_take_away(bag, "work", name);
}

void bag_leftovers_remove(const struct bag *bag)
{
    static const char *const part[] = { "work", "saves" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        bag_path(bag, path, part[i], NULL);
        DIR *list = opendir(path);
        for (const struct dirent *at; list != NULL && (at = readdir(list)) != NULL;)
            if (strncmp(at->d_name, GONE, sizeof GONE - 1) == 0) {
                bag_path(bag, path, part[i], at->d_name);
                (void)bag_remove(path);
            }
        if (list != NULL)
            closedir(list);
    }
}
