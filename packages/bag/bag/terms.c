/* SPDX-License-Identifier: Apache-2.0 */
/* Terms to JSON and back. See terms.h. */
#include "bag/terms.h"

#include <stdlib.h>
#include <string.h>

#include "bag/template.h"

static json_t *list_write(char *const *words)
{
    json_t *list = json_array();
    for (; words != NULL && *words != NULL; words++)
        json_array_append_new(list, json_string(*words));
    return list;
}

json_t *bag_terms_write(const struct bag_terms *terms)
{
    return json_pack("{si so so ss? so so so si si}", "spotnik_bag", 1, "command",
                     list_write(terms->command), "resume",
                     terms->resume != NULL ? list_write(terms->resume) : json_null(), "restart",
                     terms->restart, "expect", list_write(terms->expect), "loose",
                     list_write(terms->loose), "inputs", list_write(terms->input), "ask",
                     terms->ask, "tries", (int)terms->tries);
}

/* NULL: it is no list of words. */
static char **list_read(const json_t *list)
{
    size_t count = json_array_size(list);
    char **words = calloc(count + 1, sizeof *words);
    for (size_t i = 0; words != NULL && i < count; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        words[i] = word != NULL ? strdup(word) : NULL;
        if (words[i] == NULL) {
            bag_template_free(words);
            return NULL;
        }
    }
    return words;
}

static bool short_list_read(const json_t *list, char *ret[BAG_LIST_MAX + 1])
{
    char **words = list_read(list);
    if (words == NULL || json_array_size(list) > BAG_LIST_MAX) {
        bag_template_free(words);
        return false;
    }
    memcpy(ret, words, (json_array_size(list) + 1) * sizeof *ret);
    free(words);
    return true;
}

int bag_terms_read(const json_t *root, struct bag_terms *ret, struct spotnik_fault *fault)
{
    const json_t *resume = json_object_get(root, "resume");
    const char *restart = json_string_value(json_object_get(root, "restart"));
    memset(ret, 0, sizeof *ret);
    if (json_integer_value(json_object_get(root, "spotnik_bag")) != 1)
        return spotnik_fault_set(
            fault, "bag.json is not of this version of spotnik: use the same version everywhere");
    ret->command = list_read(json_object_get(root, "command"));
    ret->resume = json_is_array(resume) ? list_read(resume) : NULL;
    ret->restart = restart != NULL ? strdup(restart) : NULL;
    ret->ask = (int)json_integer_value(json_object_get(root, "ask"));
    ret->tries = (uint32_t)json_integer_value(json_object_get(root, "tries"));
    if (ret->command == NULL || ret->command[0] == NULL
        || (json_is_array(resume) && ret->resume == NULL)
        || !short_list_read(json_object_get(root, "expect"), ret->expect)
        || !short_list_read(json_object_get(root, "loose"), ret->loose)
        || !short_list_read(json_object_get(root, "inputs"), ret->input))
        return spotnik_fault_set(fault, "bag.json is damaged");
    return 0;
}

void bag_terms_free(struct bag_terms *terms)
{
    bag_template_free(terms->command);
    bag_template_free(terms->resume);
    free(terms->restart);
    for (int i = 0; i <= BAG_LIST_MAX; i++) {
        free(terms->expect[i]);
        free(terms->loose[i]);
        free(terms->input[i]);
    }
    memset(terms, 0, sizeof *terms);
}

const char *bag_terms_differ(const json_t *a, const json_t *b)
{
    static const char *const keys[] = { "spotnik_bag", "command", "resume", "restart", "expect",
                                        "loose",       "inputs",  "ask",    "tries" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return keys[i];
    return NULL;
}
