/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the planner's commands; decides no policy. */
#include "plan_args.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int spotnik_cli_refuse(const char *command, int code, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "spotnik %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return code;
}

/* "plan" for "/usr/libexec/spotnik/spotnik-plan", as users call it. */
static const char *command_of(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

    return strncmp(name, "spotnik-", 8) ? name : name + 8;
}

int spotnik_cli_options(int argc, char **argv, const char *letters, const struct option *options,
                        const char *usage, bool (*take)(void *call, int option), void *call)
{
    const char *command = command_of(argv[0]);
    int option, which = -1;

    optind = 0; /* from the beginning, even after an earlier look */
    while ((option = getopt_long(argc, argv, letters, options, &which)) != -1) {
        if (option != '?' && optarg && !*optarg && which >= 0)
            return spotnik_cli_refuse(command, SPOTNIK_EXIT_USAGE,
                                      "--%s has no value: what stands behind it is empty",
                                      options[which].name);
        if (option == 'h') {
            fputs(usage, stdout);
            return SPOTNIK_EXIT_OK;
        }
        /* it, or getopt, has said what is wrong: that is not to scroll away */
        if (!take(call, option))
            return spotnik_cli_refuse(command, SPOTNIK_EXIT_USAGE,
                                      "spotnik %s --help tells all options", command);
    }
    return -1;
}

bool spotnik_cli_append(const char *command, const char *text, const char **list, size_t *count,
                        size_t most)
{
    if (*count == most) {
        spotnik_cli_refuse(command, 0, "more than %zu of one kind: '%s'", most, text);
        return false;
    }
    list[(*count)++] = text;
    return true;
}

bool spotnik_cli_duration(const char *command, const char *option, const char *text, bool bare_s,
                          double *seconds_out)
{
    if (spotnik_duration_parse(text, seconds_out)
        || (bare_s && spotnik_number_parse(text, seconds_out)))
        if (*seconds_out >= 0)
            return true;
    spotnik_cli_refuse(command, 0, "%s '%s' is not a duration; write 90s, 12m, 1.5h or 2d%s",
                       option, text,
                       strchr(text, ',') ? " (with a decimal point)"
                       : bare_s          ? " or plain seconds"
                                         : "");
    return false;
}

bool spotnik_cli_number(const char *command, const char *option, const char *text, double least,
                        double most, double *value_out)
{
    double value;

    if (spotnik_number_parse(text, &value) && value >= least && value <= most) {
        *value_out = value;
        return true;
    }
    spotnik_cli_refuse(command, 0, "%s '%s' is not a number in [%g, %g]%s", option, text, least,
                       most, strchr(text, ',') ? " (decimals are written with a point)" : "");
    return false;
}

bool spotnik_cli_count(const char *command, const char *option, const char *text, unsigned least,
                       unsigned most, unsigned *count_out)
{
    double value;

    if (spotnik_number_parse(text, &value) && value >= least && value <= most
        && value == floor(value)) {
        *count_out = (unsigned)value;
        return true;
    }
    spotnik_cli_refuse(command, 0, "%s '%s' is not a whole number in [%u, %u]", option, text, least,
                       most);
    return false;
}

bool spotnik_cli_list(const char *text, double least, double *values, size_t most,
                      size_t *count_out)
{
    size_t count = 0;
    char *copy = strdup(text), *rest = copy, *item;
    bool good = copy != NULL;

    while (good && (item = strsep(&rest, ","))) {
        good = count < most && spotnik_number_parse(item, &values[count]) && values[count] >= least;
        count++;
    }
    free(copy);
    *count_out = count;
    return good;
}

int spotnik_cli_json(json_t *json)
{
    if (!json
        || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(8) | JSON_PRESERVE_ORDER))
        return spotnik_cli_refuse("", SPOTNIK_EXIT_FAILED, "out of memory for the answer");
    putchar('\n');
    json_decref(json);
    return SPOTNIK_EXIT_OK;
}

const char *spotnik_cli_rule_broken(const struct spotnik_cli_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].broken)
            return rules[i].says;
    return NULL;
}
