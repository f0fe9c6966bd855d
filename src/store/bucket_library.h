/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl and expat, loaded when a bucket is first wanted. */
#ifndef SPOTNIK_STORE_BUCKET_LIBRARY_H
#define SPOTNIK_STORE_BUCKET_LIBRARY_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <expat.h>

#undef curl_easy_setopt
#undef curl_easy_getinfo

#define BUCKET_CURL_CALLS(X)                                                                       \
    X(curl_global_init)                                                                            \
    X(curl_version_info)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_getdate)                                                                                \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

#define BUCKET_EXPAT_CALLS(X)                                                                      \
    X(XML_ParserCreate)                                                                            \
    X(XML_ParserFree)                                                                              \
    X(XML_SetUserData)                                                                             \
    X(XML_SetElementHandler)                                                                       \
    X(XML_SetCharacterDataHandler)                                                                 \
    X(XML_StopParser)                                                                              \
    X(XML_Parse)

struct bucket_library {
#define BUCKET_FIELD(name) __typeof__(name) *name;
    BUCKET_CURL_CALLS(BUCKET_FIELD)
    BUCKET_EXPAT_CALLS(BUCKET_FIELD)
#undef BUCKET_FIELD
};

/* 0, or SPOTNIK_ERR_SYSTEM with what to install. They stay loaded. */
int spotnik_bucket_library(const struct bucket_library **ret);

#endif
