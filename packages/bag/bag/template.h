/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command: placeholders such as {temperature} filled in, and one line cut into
 * words. No shell takes part, so no value of a column can become a command. Pure but for the memory
 * it returns. */
#ifndef BAG_TEMPLATE_H
#define BAG_TEMPLATE_H

#define BAG_NAME_MAX 64

/* The value of a placeholder, NULL: there is none of this name. */
typedef const char *bag_lookup(const void *context, const char *name);

/* The word with every {name} replaced; {{name}} stands for {name} itself, and any other brace for
 * itself. The caller frees it. NULL: `unknown` is the name that has no value, or "" without
 * memory. */
char *bag_template_fill_word(const char *word, bag_lookup *lookup, const void *context,
                             char unknown[BAG_NAME_MAX]);

/* All of them. */
char **bag_template_fill(char *const *words, bag_lookup *lookup, const void *context,
                         char unknown[BAG_NAME_MAX]);

/* Cut at blanks, but not within '...' or "..."; a backslash takes the next character as it is, but
 * not within '...'. NULL: a quote is not closed, there is no word, or no memory. */
char **bag_template_split(const char *text);

/* Accepts NULL. */
void bag_template_free(char **words);

#endif
