/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials that sign requests. They are looked for again before they end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/time.h"
#include "store/bucket.h"

#define TRY_AGAIN_NS (10 * SPOTNIK_S) /* the old ones may still be good */

bool spotnik_bucket_set(char *to, size_t size, const char *from)
{
    return from != NULL && snprintf(to, size, "%s", from) < (int)size && *to != '\0';
}

const char *spotnik_bucket_variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

bool spotnik_bucket_line_read(const char *path, char line[BUCKET_TOKEN_MAX])
{
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    bool read = file != NULL && fgets(line, BUCKET_TOKEN_MAX, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (read)
        line[strcspn(line, "\r\n")] = '\0';
    return read && line[0] != '\0';
}

/* The last service that was asked has set a reason. */
static void failure_word(const struct bucket *bucket)
{
    char why[250];
    snprintf(why, sizeof why, "%s", spotnik_objects_why(-EACCES));
    spotnik_objects_fail(-EACCES, "%s (%s)", bucket->service->no_credentials, why);
}

bool spotnik_bucket_credentials_fill(struct bucket *bucket)
{
    uint64_t now_ns = spotnik_clock_ns();
    bool are_known = bucket->renew_ns != 0;
    if (are_known && !bucket->have_expired && now_ns < bucket->renew_ns)
        return true;
    struct bucket_credentials found = { .renew_after_ns = TRY_AGAIN_NS };
    bool any = bucket->service->credentials_find(bucket, &found);
    if (any)
        bucket->credentials = found;
    if (any || are_known)
        bucket->renew_ns = spotnik_time_add(now_ns, found.renew_after_ns);
    bucket->have_expired = false;
    explicit_bzero(&found, sizeof found);
    if (!any && !are_known)
        failure_word(bucket);
    return any || are_known;
}
