/* SPDX-License-Identifier: Apache-2.0 */
/* How many machines a plan wants. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"

static uint64_t machines_of(const json_t *fleet)
{
    const json_t *machine;
    uint64_t count = 0;
    size_t i;

    json_array_foreach(json_object_get(fleet, "machines"), i, machine) count +=
        (uint64_t)json_integer_value(json_object_get(machine, "count"));
    return count;
}

uint32_t fleet_plan_read(const char *path, char *ret_error, uint32_t size)
{
    json_error_t error;
    json_t *plan = json_load_file(path, JSON_DECODE_ANY, &error);
    const json_t *chosen = json_object_get(plan, "plan"), *found = json_object_get(plan, "found");
    uint64_t count = json_is_integer(plan) ? (uint64_t)json_integer_value(plan)
                                           : machines_of(json_is_object(chosen) ? chosen : plan);

    ret_error[0] = 0;
    if (!plan)
        snprintf(ret_error, size, "%s: %s", path, error.text);
    else if (json_is_false(found))
        snprintf(ret_error, size, "%s: there is no plan: %.100s", path,
                 json_string_value(json_object_get(plan, "binding"))
                     ? json_string_value(json_object_get(plan, "binding"))
                     : "the wishes cannot be met");
    else if (count < 1 || count > FLEET_MAX)
        snprintf(ret_error, size,
                 "%s: names no machines; write what spotnik plan -o json prints, or a number", path);
    json_decref(plan);
    return ret_error[0] ? 0 : (uint32_t)count;
}
