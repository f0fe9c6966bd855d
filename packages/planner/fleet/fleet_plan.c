/* SPDX-License-Identifier: Apache-2.0 */
/* How many machines of which kinds a plan wants, and what of them is there. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fleet_engine.h"

/* A kind that was not named before, or that one. NULL: there are too many. */
static struct fleet_kind *kind_at(struct fleet_kind *kind, uint32_t *count, const char *name)
{
    for (uint32_t i = 0; i < *count; i++)
        if (!strcmp(kind[i].name, name))
            return &kind[i];
    if (*count == FLEET_KINDS)
        return NULL;
    snprintf(kind[*count].name, sizeof(kind->name), "%s", name);
    return &kind[(*count)++];
}

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* On-demand machines of every zone are the same to a plan. */
static void kinds_read(const json_t *fleet, struct fleet_plan *plan)
{
    const json_t *machine;
    size_t i;

    json_array_foreach(json_object_get(fleet, "machines"), i, machine)
    {
        char name[sizeof(plan->kind->name)];
        bool spot = !strcmp(word(machine, "capacity"), "spot"),
             placed = spot && *word(machine, "zone");
        snprintf(name, sizeof(name), "%.60s%s%.30s=%.16s", word(machine, "instance"),
                 placed ? "@" : "", placed ? word(machine, "zone") : "", word(machine, "capacity"));
        struct fleet_kind *kind = *word(machine, "instance") && *word(machine, "capacity")
                                      ? kind_at(plan->kind, &plan->kind_count, name)
                                      : NULL;
        uint32_t count = (uint32_t)json_integer_value(json_object_get(machine, "count"));
        if (kind)
            kind->count += count;
    }
}

static uint64_t machines_of(const json_t *fleet)
{
    const json_t *machine;
    uint64_t count = 0;
    size_t i;

    json_array_foreach(json_object_get(fleet, "machines"), i, machine) count +=
        (uint64_t)json_integer_value(json_object_get(machine, "count"));
    return count;
}

uint32_t fleet_plan_read(const char *path, struct fleet_plan *ret, char *ret_error, uint32_t size)
{
    json_error_t error;
    json_t *plan = json_load_file(path, JSON_DECODE_ANY, &error);
    const json_t *object = json_object_get(plan, "plan"), *found = json_object_get(plan, "found");
    const json_t *chosen = json_is_object(object) ? object : plan,
                 *chance = json_object_get(chosen, "chance");
    uint64_t count =
        json_is_integer(plan) ? (uint64_t)json_integer_value(plan) : machines_of(chosen);

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
                 "%s: names no machines; write what spotnik plan -o json prints, or a number",
                 path);
    if (!ret_error[0]) {
        *ret = (struct fleet_plan){ .machines = (uint32_t)count,
                                    .chance =
                                        json_is_number(chance) ? json_number_value(chance) : -1 };
        kinds_read(chosen, ret);
    }
    json_decref(plan);
    return ret_error[0] ? 0 : (uint32_t)count;
}

/* Where the engine does not tell kinds apart, what is not spot stays: on-demand machines are there
 * first. */
static void kinds_guess(const struct fleet_plan *plan, const struct fleet_view *view,
                        struct fleet_kind *ret)
{
    uint32_t left = view->have;

    for (int spot = 0; spot < 2; spot++)
        for (uint32_t i = 0; i < plan->kind_count; i++) {
            uint32_t *count = &ret[i].count;
            if ((strstr(plan->kind[i].name, "=spot") != NULL) != spot)
                continue;
            *count = left < plan->kind[i].count ? left : plan->kind[i].count;
            left -= *count;
        }
}

void fleet_running(const struct fleet_plan *plan, const struct fleet_view *view, char *text,
                   uint32_t size)
{
    struct fleet_kind there[FLEET_KINDS] = { { .count = 0 } };
    uint32_t used = 0;

    text[0] = 0;
    if (!view->kind_count)
        kinds_guess(plan, view, there);
    for (uint32_t i = 0; i < plan->kind_count && used < size; i++) {
        for (uint32_t j = 0; j < view->kind_count; j++)
            if (!strcmp(view->kind[j].name, plan->kind[i].name))
                there[i].count = view->kind[j].count;
        uint32_t wanted =
            plan->kind[i].count > there[i].count ? plan->kind[i].count : there[i].count;
        used += (uint32_t)snprintf(text + used, size - used, "%s--running %s:%u/%u",
                                   used ? " " : "", plan->kind[i].name, there[i].count, wanted);
    }
    for (uint32_t j = 0; j < view->kind_count && used < size; j++) {
        bool wanted = false;
        for (uint32_t i = 0; i < plan->kind_count; i++)
            wanted = wanted || !strcmp(view->kind[j].name, plan->kind[i].name);
        if (!wanted)
            used += (uint32_t)snprintf(text + used, size - used, "%s--running %s:%u/%u",
                                       used ? " " : "", view->kind[j].name, view->kind[j].count,
                                       view->kind[j].count);
    }
}
