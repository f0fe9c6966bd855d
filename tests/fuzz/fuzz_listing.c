/* SPDX-License-Identifier: Apache-2.0 */
/* A page of a listing in XML, sent by a server or by a machine in between. The first byte chooses
 * the service. A caller gets only names that lie below the prefix and fit their room. The token for
 * the next page fits its room, also where the page is refused. */
#include "store/bucket_list.c"

#include "base/assert.h"
#include "fuzz.h"

static int object_check(void *context, const struct spotnik_object *object)
{
    size_t *left = context;

    SPOTNIK_ASSERT(object->name[0] && strlen(object->name) <= SPOTNIK_OBJECTS_NAME_MAX);
    return (*left)-- > 0 ? 0 : -ECANCELED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bucket_service *const services[] = { &spotnik_s3_service,
                                                             &spotnik_gcs_service,
                                                             &spotnik_azure_service };
    static struct bucket bucket = { .base = "http://server/bucket", .prefix = "job/" };
    static char next[BUCKET_PAGE_MAX + 1];
    size_t left = 1000;

    if (size == 0 || (!bucket.library && spotnik_bucket_library(&bucket.library) != 0))
        return 0; /* without libcurl and expat there is nothing to try */
    bucket.service = services[data[0] % 3];
    int rc = page_read(&bucket, data[0] & 0x80 ? "step-" : "", (const char *)data + 1, size - 1,
                       object_check, &left, next);
    SPOTNIK_ASSERT(rc <= 0 && strnlen(next, sizeof next) <= BUCKET_PAGE_MAX);
    return 0;
}
