/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, durations and times of day as people write them in files and on command lines. The
 * locale takes no part: a German desktop must read the same price as an American one. */
#include "common/table.h"

#include <stdio.h>
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The C locale, made once; if it cannot be made, numbers fall back to the process locale. */
static locale_t locale_c(void)
{
    static locale_t locale;

    if (!locale)
        locale = newlocale(LC_ALL_MASK, "C", NULL);
    return locale;
}

bool spotnik_number_parse(const char *text, double *value_out)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    if (!*text || strspn(text, "+-.0123456789eE") < strcspn(text, " \t\r"))
        return false;
    double value = locale_c() ? strtod_l(text, &end, locale_c()) : strtod(text, &end);
    while (isspace((unsigned char)*end))
        end++;
    if (*end || !isfinite(value))
        return false;
    *value_out = value;
    return true;
}

bool spotnik_duration_parse(const char *text, double *seconds_out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "s", 1 }, { "m", 60 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
    size_t digits = strspn(text, "0123456789.");
    char number[32];
    double value;

    if (!digits || digits >= sizeof(number))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (!spotnik_number_parse(number, &value))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (!strcmp(text + digits, units[i].unit)) {
            *seconds_out = value * units[i].seconds;
            return true;
        }
    }
    return false;
}

void spotnik_duration_print(double seconds, char *text, size_t size)
{
    if (!isfinite(seconds))
        snprintf(text, size, "for ever");
    else if (seconds < 5400)
        snprintf(text, size, "%.0f min", seconds / 60);
    else if (seconds < 3 * 86400.0)
        snprintf(text, size, "%.1f h", seconds / 3600);
    else
        snprintf(text, size, "%.0f days", seconds / 86400);
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static long days_from_civil(long year, long month, long day)
{
    year -= month <= 2;
    long era = (year >= 0 ? year : year - 399) / 400;
    long of_era = year - era * 400;
    long of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static long days_in_month(long year, long month)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return month == 2 ? 28 + leap : 30 + (month + month / 8) % 2;
}

/* Reads exactly `digits` digits. */
static bool digits_read(const char **at, int digits, long *value_out)
{
    long value = 0;

    for (int i = 0; i < digits; i++, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        value = value * 10 + (**at - '0');
    }
    *value_out = value;
    return true;
}

static bool zone_read(const char **at, double *offset_s_out)
{
    long hours, minutes;
    double sign = **at == '-' ? -1 : 1;

    if (**at == 'Z' || **at == 'z') {
        (*at)++;
        *offset_s_out = 0;
        return true;
    }
    if (**at != '+' && **at != '-')
        return false;
    (*at)++;
    if (!digits_read(at, 2, &hours) || *(*at)++ != ':' || !digits_read(at, 2, &minutes))
        return false;
    *offset_s_out = sign * (double)(hours * 3600 + minutes * 60);
    return hours <= 23 && minutes <= 59;
}

bool spotnik_timestamp_parse(const char *text, double *unix_s_out)
{
    long year, month, day, hour, minute, second;
    double fraction = 0, offset_s, place = 0.1;
    const char *at = text;

    if (!digits_read(&at, 4, &year) || *at++ != '-' || !digits_read(&at, 2, &month) || *at++ != '-'
        || !digits_read(&at, 2, &day) || !*at || !strchr("Tt ", *at++)
        || !digits_read(&at, 2, &hour) || *at++ != ':' || !digits_read(&at, 2, &minute)
        || *at++ != ':' || !digits_read(&at, 2, &second))
        return false;
    if (*at == '.')
        for (at++; isdigit((unsigned char)*at); at++, place /= 10)
            fraction += place * (*at - '0');
    if (!zone_read(&at, &offset_s) || *at)
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23
        || minute > 59 || second > 60)
        return false;
    *unix_s_out = (double)days_from_civil(year, month, day) * 86400
                  + (double)(hour * 3600 + minute * 60 + second) + fraction - offset_s;
    return true;
}
