/* SPDX-License-Identifier: Apache-2.0 */
/* The records genesis-<n>: which process founded the job for the n-th time. The store lets one
 * process make each. Only its maker removes one, before it founds. A lineage
 * that finds a younger one has lost the job to it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "link/auth.h"
#include "discovery/inside.h"

void spotnik_discovery_founding_make(const struct spotnik_founding *before, uint64_t generation,
                                     struct spotnik_founding *ret)
{
    *ret = (struct spotnik_founding){ .generation = generation };
    while (ret->id == 0) {
        spotnik_auth_random((uint8_t *)&ret->id, sizeof ret->id);
        ret->id &= ~UINT64_C(1); /* no witness, unless it gets one */
    }
    bool first = before == NULL || before->id == 0;
    ret->root = first ? ret->id : before->root;
    ret->founded_at_ms = first ? spotnik_discovery_founded_at_ms() : before->founded_at_ms;
}

struct spotnik_founding
spotnik_founding_record_lineage(const struct spotnik_watcher_entry *founding_record,
                                uint64_t generation)
{
    const struct spotnik_record *record = &founding_record->record;
    if (generation == 0 || founding_record->reading != SPOTNIK_READING_RECORD
        || record->founding == 0)
        return (struct spotnik_founding){ .id = 0 };
    return (struct spotnik_founding){ .id = record->founding,
                                      .root = record->root,
                                      .founded_at_ms = record->founded_at_ms,
                                      .generation = generation };
}

/* A file of a number that no founding made, a copy say, may leave none that others would read. */
int spotnik_founding_record_make(struct spotnik_discovery *discovery,
                                 const struct spotnik_founding *founding, uint64_t step)
{
    struct spotnik_credentials credentials = spotnik_discovery_credentials(discovery);
    struct spotnik_record record = { .member = credentials.self,
                                     .process = discovery->process,
                                     .counter = 1,
                                     .generation = founding->generation,
                                     .founding = founding->id,
                                     .root = founding->root,
                                     .founded_at_ms = founding->founded_at_ms,
                                     .step = step,
                                     .standing = SPOTNIK_STANDING_ENTERED };
    char name[64];
    spotnik_founding_record_name(founding->generation, name);
    int rc = spotnik_founding_record_parse(name) == founding->generation
                 ? spotnik_record_write(&credentials, &record, discovery->store, name, true)
                 : -ERANGE;
    return rc;
}

static enum spotnik_reading founding_record_read(struct spotnik_discovery *discovery,
                                                 uint64_t generation, struct spotnik_record *ret,
                                                 uint64_t *ret_print)
{
    struct spotnik_credentials credentials = spotnik_discovery_credentials(discovery);
    char name[64];
    spotnik_founding_record_name(generation, name);
    return spotnik_record_read(&credentials, discovery->store, name, ret, ret_print, NULL);
}

void spotnik_founding_record_take_back(struct spotnik_discovery *discovery,
                                       const struct spotnik_founding *founding)
{
    struct spotnik_record record;
    uint64_t print;
    char name[64];
    spotnik_founding_record_name(founding->generation, name);
    if (founding_record_read(discovery, founding->generation, &record, &print)
            == SPOTNIK_READING_RECORD
        && record.founding == founding->id)
        (void)spotnik_objects_delete_if(discovery->store, name, print);
}

bool spotnik_founding_record_stands(struct spotnik_discovery *discovery,
                                    const struct spotnik_founding *founding)
{
    struct spotnik_record record;
    uint64_t last, print;
    return spotnik_founding_record_highest(discovery->store, &last) == 0
           && last == founding->generation
           && founding_record_read(discovery, last, &record, &print) == SPOTNIK_READING_RECORD
           && record.founding == founding->id;
}

/* ---- what members see ---- */

static int last_liveness_check(struct spotnik_discovery *discovery,
                               const struct spotnik_founding *ours, uint64_t last,
                               struct spotnik_record *ret)
{
    uint64_t print;
    enum spotnik_reading reading = founding_record_read(discovery, last, ret, &print);
    bool replaced = last >= ours->generation ? ret->founding != ours->id
                                             : ours->root != 0 && ret->root != ours->root;
    if (reading == SPOTNIK_READING_RECORD && replaced)
        return spotnik_error_return(
            SPOTNIK_ERR_LINEAGE,
            "%s/genesis-%llu: the job was founded again without this lineage; this member stops",
            discovery->spec.location, (unsigned long long)last);
    if (last >= ours->generation && reading != SPOTNIK_READING_RECORD)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "%s/genesis-%llu is no founding that can be read: %s; members "
                                    "go on",
                                    discovery->spec.location, (unsigned long long)last,
                                    last > ours->generation ? "remove it" : "put the file back");
    return 0;
}

int spotnik_founding_record_guard(struct spotnik_discovery *discovery, struct spotnik_record *ret)
{
    struct spotnik_founding ours = spotnik_discovery_lineage(discovery);
    uint64_t last;
    int rc = 0;
    if (ours.id == 0)
        return 0;
    if (spotnik_founding_record_highest(discovery->store, &last) != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "%s cannot be listed",
                                    discovery->spec.location);
    if (last > 0)
        rc = last_liveness_check(discovery, &ours, last, ret);
    if (rc == 0 && last < ours.generation)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "%s/genesis-%llu has vanished, and no process can found the "
                                    "job again; members go on: put the file back",
                                    discovery->spec.location, (unsigned long long)ours.generation);
    return rc;
}
