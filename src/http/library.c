/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libmicrohttpd, once for the process. */
#include "http/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define SONAME "libmicrohttpd.so.12"

static struct spotnik_http_library library;
static const char *missing; /* NULL: all is there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

    missing = handle ? NULL : SONAME;
    if (!handle)
        return;
#define TAKE(name)                                                                                 \
    *(void **)(&library.name) = dlsym(handle, #name);                                              \
    if (!library.name)                                                                             \
        missing = #name;
    SPOTNIK_HTTP_CALLS(TAKE)
#undef TAKE
}

int spotnik_http_library(const struct spotnik_http_library **ret)
{
    pthread_once(&once, load);
    if (missing)
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "SPOTNIK_HTTP needs libmicrohttpd, and %s cannot be loaded; install it (Debian: "
            "libmicrohttpd12), or unset SPOTNIK_HTTP",
            missing);
    *ret = &library;
    return 0;
}
