/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, loaded when it is first wanted. Its header says what its functions are; where they
 * are, dlopen(). */
#ifndef SPOTNIK_HTTP_LIBRARY_H
#define SPOTNIK_HTTP_LIBRARY_H

#include <microhttpd.h>

#define SPOTNIK_HTTP_CALLS(X)                                                                      \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)                                                                             \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_create_response_from_callback)                                                           \
    X(MHD_add_response_header)                                                                     \
    X(MHD_queue_response)                                                                          \
    X(MHD_destroy_response)                                                                        \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_suspend_connection)                                                                      \
    X(MHD_resume_connection)

struct spotnik_http_library {
#define SPOTNIK_HTTP_FIELD(name) __typeof__(name) *name;
    SPOTNIK_HTTP_CALLS(SPOTNIK_HTTP_FIELD)
#undef SPOTNIK_HTTP_FIELD
};

/* 0, or SPOTNIK_ERR_SYSTEM with what to install. It stays loaded. */
int spotnik_http_library(const struct spotnik_http_library **ret);

#endif
