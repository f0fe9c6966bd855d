/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of jansson are valid UTF-8: U+0080 to U+009F are 0xc2 and a byte below 0xa0. */
#include "printable.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void clean(json_t *string)
{
    size_t size = json_string_length(string), used = 0;
    const unsigned char *from = (const unsigned char *)json_string_value(string);
    char *to = malloc(size + 1);

    for (size_t i = 0; to && i < size; i++) {
        bool is_long = from[i] == 0xc2 && i + 1 < size && from[i + 1] < 0xa0;
        bool control = from[i] < 0x20 || from[i] == 0x7f || is_long;
        to[used++] = control ? '?' : (char)from[i];
        i += is_long;
    }
    if (!to || json_string_setn(string, to, used) != 0)
        json_string_set(string, "");
    free(to);
}

void json_make_printable(json_t *value)
{
    const char *name;
    json_t *part;
    size_t index;

    if (json_is_string(value))
        clean(value);
    json_object_foreach(value, name, part) json_make_printable(part);
    json_array_foreach(value, index, part) json_make_printable(part);
}
