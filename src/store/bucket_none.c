/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the stores that are buckets where the library was built without the headers of
 * libcurl or expat. */
#include "base/error.h"
#include "spotnik/spotnik.h"
#include "store/inside.h"

int spotnik_objects_bucket_open(const char *where, struct spotnik_objects **ret_store)
{
    (void)ret_store;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "%.100s: this library was built without object stores; build it "
                                "again with the headers of libcurl and expat (Debian: "
                                "libcurl4-openssl-dev libexpat1-dev)",
                                where);
}
