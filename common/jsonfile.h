/* SPDX-License-Identifier: Apache-2.0 */
/* JSON files (plain or gzip) with faults that name line and column, of the text and of the values
 * in it. */
#ifndef SPOTNIK_COMMON_JSONFILE_H
#define SPOTNIK_COMMON_JSONFILE_H

#include "common/fault.h"

#include <jansson.h>
#include <stdbool.h>

/* The caller calls json_decref on *json_out. */
int spotnik_json_load(const char *path, json_t **json_out, struct spotnik_fault *fault);
/* The same on bytes. */
int spotnik_json_parse(const char *name, const char *bytes, size_t size, json_t **json_out,
                       struct spotnik_fault *fault);
/* True when the file's first byte that is not white space opens a JSON object or array. */
bool spotnik_json_looks_like(const char *path);
/* A finite number in [least, most] under `key`; when the key is missing, `fallback` if that is a
 * number, else a fault. Pass NAN for "must be there". */
int spotnik_json_number(const char *path, const json_t *object, const char *key, double least,
                        double most, double fallback, double *value_out,
                        struct spotnik_fault *fault);

/* Says what is wrong with a value, naming its line and column in the file; those of the container
 * when the value is missing. The value is the one under `key` of an object (or, key null, the
 * index-th of a list). Returns -1. */
int spotnik_json_fault(struct spotnik_fault *fault, const char *path, const json_t *container,
                       const char *key, size_t index, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
