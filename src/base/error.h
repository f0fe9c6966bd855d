/* SPDX-License-Identifier: Apache-2.0 */
/* The detail behind an error code: one line per thread, read by the user through
 * spotnik_last_error(). The code says what kind of thing happened; the detail names the address,
 * the file, the errno. It decides nothing. */
#ifndef SPOTNIK_BASE_ERROR_H
#define SPOTNIK_BASE_ERROR_H

/* Keep a line for spotnik_last_error() on the calling thread; longer ones are cut. `%m` is the
 * current errno. errno itself is left as it was. Words only, no newline: "cannot open
 * /run/keys/job: Permission denied". */
void spotnik_error_set(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same, and the value is `code`: `return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot
 * listen on %s: %m", name);`. A macro, so that an analyser sees the code. */
#define spotnik_error_return(code, ...) (spotnik_error_set(__VA_ARGS__), (code))

#endif
