/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the job on record. The agent of a member that has left with the last of them, and
 * whose program has ended with 0, writes it: leaving alone does not say that the work is done. A
 * process that finds the job empty looks for the record before it founds the job anew, or gives up.
 * A living member is always joined, whatever the record says. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "discovery/inside.h"

#define DONE_NAME "done"

int spotnik_discovery_done_write(const char *folder, const struct spotnik_credentials *self,
                                 uint64_t step)
{
    struct spotnik_record record = { .member = self->self, .counter = 1, .step = step };
    struct spotnik_objects *store;
    if (spotnik_objects_open(folder, &store) != 0)
        return -EINVAL;
    int rc = spotnik_record_write(self, &record, store, DONE_NAME, false);
    spotnik_objects_close(store);
    return rc;
}

bool spotnik_discovery_done_read(const char *folder, const struct spotnik_credentials *self,
                                 uint64_t *ret_step, uint64_t *ret_print)
{
    struct spotnik_record record;
    struct spotnik_objects *store;
    if (spotnik_objects_open(folder, &store) != 0)
        return false;
    enum spotnik_reading reading =
        spotnik_record_read(self, store, DONE_NAME, &record, ret_print, NULL);
    spotnik_objects_close(store);
    *ret_step = record.step;
    return reading == SPOTNIK_READING_RECORD;
}

void spotnik_discovery_done_at(struct spotnik_discovery *discovery, const char *folder,
                               uint64_t steps_max)
{
    snprintf(discovery->done_folder, sizeof discovery->done_folder, "%s",
             folder != NULL ? folder : "");
    discovery->steps_max = steps_max;
}

int spotnik_discovery_done_check(const struct spotnik_discovery_search *search)
{
    const struct spotnik_discovery *discovery = search->discovery;
    const char *folder =
        discovery->spec.is_store ? discovery->spec.location : discovery->done_folder;
    uint64_t step, print;
    if (folder[0] == '\0' || !spotnik_discovery_done_read(folder, &search->self, &step, &print)
        || discovery->steps_max > step)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_DONE,
                                "the job is done, after step %llu: %.200s/" DONE_NAME
                                " says it; to train on, remove that file",
                                (unsigned long long)step, folder);
}
