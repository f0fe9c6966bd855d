/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik doctor: is the bucket fit for a job? It writes an object of its own, and removes it. */
#include "doctor.h"

#include <string.h>

#include "base/error.h"
#include "store/store.h"

static int name_count(void *context, const char *name)
{
    uint32_t *members = context;

    *members += !strncmp(name, "member-", 7);
    return 0;
}

void doctor_look_bucket(struct doctor *doctor, const char *use, const char *where)
{
    struct spotnik_objects *store;
    uint32_t members = 0;

    if (spotnik_objects_open(where, &store)) {
        doctor_say(doctor, DOCTOR_BAD, use, "%s", spotnik_last_error());
        return;
    }
    int rc = spotnik_objects_check(store, doctor->credentials.self.id.high);

    if (!rc)
        rc = spotnik_objects_list(store, name_count, &members);
    if (rc)
        doctor_say(doctor, DOCTOR_BAD, use, "%s", spotnik_objects_why(rc));
    else
        doctor_say(doctor, DOCTOR_FINE, use,
                   "%s can be written, honours conditional writes, and has %u records of members",
                   where, members);
    spotnik_objects_close(store);
}
