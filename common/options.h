/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the command line turned into numbers, strictly: what is not wholly understood is
 * refused. */
#ifndef SPOTNIK_COMMON_OPTIONS_H
#define SPOTNIK_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "5s", "500ms", "2m", "1h" to nanoseconds; a unit is required. */
bool option_duration(const char *text, uint64_t *ret_ns);
/* "4" or "2:8". */
bool option_span(const char *text, uint32_t *ret_min, uint32_t *ret_max);
bool option_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/* A positive number such as "60" or "2.5". */
bool option_ratio(const char *text, double *ret);
/* "4096", "64K", "4MiB", "2GiB": bytes, powers of 1024. */
bool option_bytes(const char *text, uint64_t *ret);

/* Processes of a group, as `spotnik run --group` takes them: "8", or "auto". */
bool option_is_group(const char *text);

/* One word as a shell reads it back: as it is, or in single quotes. Returns how far it got. */
size_t option_quote(const char *word, char *to, size_t room);

/* A word of a container's command, of twice its length at most: Kubernetes reads "$$" as "$", and
 * puts a variable in for "$(NAME)". */
void option_container_word(const char *word, char *to);

/* Print "spotnik COMMAND: ..." and where to read more; returns 2, the exit status of a wrong
 * command line. */
int option_refuse(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
