/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders and words. See template.h. */
#include "bag/template.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t size, room;
};

static bool text_add(struct text *text, const char *bytes, size_t size)
{
    if (text->size + size + 1 > text->room) {
        size_t room = 2 * (text->size + size + 1);
        char *grown = realloc(text->bytes, room);
        if (grown == NULL)
            return false;
        text->bytes = grown;
        text->room = room;
    }
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
    return true;
}

/* The length of {name} at `at`, 0: there is none. */
static size_t placeholder(const char *at)
{
    size_t length = 1;
    while (isalnum((unsigned char)at[length])
           || (at[length] != '\0' && strchr("_.-", at[length]) != NULL))
        length++;
    return length > 1 && length - 1 < BAG_NAME_MAX && at[length] == '}' ? length + 1 : 0;
}

/* What stands at *at: adds its value and moves on. */
static bool fill_one(struct text *text, const char **at, bag_lookup *lookup, const void *context,
                     char *unknown)
{
    size_t length = **at == '{' ? placeholder(*at) : 0;
    if (length == 0 && **at == '{' && (*at)[1] == '{' && (length = placeholder(*at + 1)) > 0
        && (*at)[1 + length] == '}') {
        const char *inner = *at + 1;
        *at += length + 2;
        return text_add(text, inner, length);
    }
    if (**at != '{' || length == 0 || placeholder(*at) == 0)
        return text_add(text, (*at)++, 1);
    memcpy(unknown, *at + 1, length - 2);
    unknown[length - 2] = '\0';
    const char *value = lookup(context, unknown);
    if (value == NULL)
        return false;
    unknown[0] = '\0';
    *at += length;
    return text_add(text, value, strlen(value));
}

char *bag_template_fill_word(const char *word, bag_lookup *lookup, const void *context,
                             char unknown[BAG_NAME_MAX])
{
    struct text text = { 0 };
    unknown[0] = '\0';
    bool fine = text_add(&text, "", 0);
    while (fine && *word != '\0')
        fine = fill_one(&text, &word, lookup, context, unknown);
    if (fine)
        return text.bytes;
    free(text.bytes);
    return NULL;
}

char **bag_template_fill(char *const *words, bag_lookup *lookup, const void *context,
                         char unknown[BAG_NAME_MAX])
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    char **filled = calloc(count + 1, sizeof *filled);
    unknown[0] = '\0';
    for (size_t i = 0; filled != NULL && i < count; i++) {
        filled[i] = bag_template_fill_word(words[i], lookup, context, unknown);
        if (filled[i] == NULL) {
            bag_template_free(filled);
            return NULL;
        }
    }
    return filled;
}

/* One word from *at on. False: a quote is not closed, or no memory. */
static bool cut(const char **at, struct text *word)
{
    char quote = '\0';
    for (; **at != '\0' && (quote != '\0' || !isspace((unsigned char)**at)); (*at)++) {
        if (quote != '\'' && **at == '\\' && (*at)[1] != '\0')
            (*at)++;
        else if (quote == '\0' && (**at == '\'' || **at == '"')) {
            quote = **at;
            continue;
        } else if (quote != '\0' && **at == quote) {
            quote = '\0';
            continue;
        }
        if (!text_add(word, *at, 1))
            return false;
    }
    return quote == '\0';
}

char **bag_template_split(const char *text)
{
    size_t count = 0;
    char **words = calloc(strlen(text) / 2 + 2, sizeof *words);
    while (words != NULL) {
        struct text word = { 0 };
        while (isspace((unsigned char)*text))
            text++;
        if (*text == '\0')
            break;
        if (!text_add(&word, "", 0) || !cut(&text, &word)) {
            free(word.bytes);
            bag_template_free(words);
            return NULL;
        }
        words[count++] = word.bytes;
    }
    if (count > 0)
        return words;
    free(words);
    return NULL;
}

void bag_template_free(char **words)
{
    for (char **word = words; word != NULL && *word != NULL; word++)
        free(*word);
    free(words);
}
