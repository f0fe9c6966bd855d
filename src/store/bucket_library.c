/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl and expat, once for the process. */
#include "store/bucket_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define CURL_SONAME "libcurl.so.4"
#define EXPAT_SONAME "libexpat.so.1"
#define CURL_OLDEST 0x075800 /* 7.88 signs conditions, and what S3 wants signed */

static struct bucket_library library;
static const char *missing; /* NULL: all is there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *curl = dlopen(CURL_SONAME, RTLD_NOW | RTLD_LOCAL),
         *expat = dlopen(EXPAT_SONAME, RTLD_NOW | RTLD_LOCAL);

    missing = curl == NULL ? CURL_SONAME : expat == NULL ? EXPAT_SONAME : NULL;
    if (missing != NULL)
        return;
#define TAKE(from, name)                                                                           \
    *(void **)(&library.name) = dlsym(from, #name);                                                \
    if (library.name == NULL)                                                                      \
        missing = #name;
#define TAKE_CURL(name) TAKE(curl, name)
#define TAKE_EXPAT(name) TAKE(expat, name)
    BUCKET_CURL_CALLS(TAKE_CURL)
    BUCKET_EXPAT_CALLS(TAKE_EXPAT)
    if (missing == NULL
        && (library.curl_version_info(CURLVERSION_NOW)->version_num < CURL_OLDEST
            || library.curl_global_init(CURL_GLOBAL_DEFAULT) != 0))
        missing = CURL_SONAME " of version 7.88 or later";
}

int spotnik_bucket_library(const struct bucket_library **ret)
{
    pthread_once(&once, load);
    if (missing != NULL)
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "a bucket needs libcurl 7.88 and expat, and %s cannot be loaded; "
            "install them (Debian: libcurl4 libexpat1)",
            missing);
    *ret = &library;
    return 0;
}
