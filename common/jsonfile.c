/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON with jansson. What the keys mean is decided by the callers. */
#include "common/jsonfile.h"
#include "common/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int spotnik_json_parse(const char *name, const char *bytes, size_t size, json_t **json_out,
                       struct spotnik_fault *fault)
{
    json_error_t error;
    json_t *json = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);

    if (!json)
        return spotnik_fault_set(fault, "%s:%d:%d: not JSON: %s", name, error.line, error.column,
                                 error.text);
    *json_out = json;
    return 0;
}

int spotnik_json_load(const char *path, json_t **json_out, struct spotnik_fault *fault)
{
    char *bytes;
    size_t size;

    if (spotnik_file_read(path, &bytes, &size, fault))
        return -1;
    int rc = spotnik_json_parse(path, bytes, size, json_out, fault);
    free(bytes);
    return rc;
}

bool spotnik_json_looks_like(const char *path)
{
    char *bytes;
    size_t size;

    if (spotnik_file_read(path, &bytes, &size, NULL))
        return false;
    size_t at = strspn(bytes, " \t\r\n");
    bool is = bytes[at] == '{' || bytes[at] == '[';
    free(bytes);
    return is;
}

int spotnik_json_number(const char *path, const json_t *object, const char *key, double least,
                        double most, double fallback, double *value_out,
                        struct spotnik_fault *fault)
{
    const json_t *item = json_object_get(object, key);

    if (!item) {
        if (isnan(fallback))
            return spotnik_json_fault(fault, path, object, key, 0, "key '%s' is missing", key);
        *value_out = fallback;
        return 0;
    }
    if (!json_is_number(item))
        return spotnik_json_fault(fault, path, object, key, 0, "key '%s' is not a number", key);
    double value = json_number_value(item);
    if (!(value >= least && value <= most))
        return spotnik_json_fault(fault, path, object, key, 0, "key '%s' is %g, outside [%g, %g]",
                                  key, value, least, most);
    *value_out = value;
    return 0;
}
