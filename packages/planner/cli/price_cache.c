/* SPDX-License-Identifier: Apache-2.0 */
/* The file of kept prices. Its age is that of the file. */
#include "price_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int spotnik_price_cache_path(char *path, size_t size, bool make, struct spotnik_fault *fault)
{
    const char *own = getenv("SPOTNIK_PRICES"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char folder[900];

    if (own && *own)
        return (size_t)snprintf(path, size, "%s", own) < size
                   ? 0
                   : spotnik_fault_set(fault, "SPOTNIK_PRICES is too long");
    if ((!cache || !*cache) && (!home || !*home))
        return spotnik_fault_set(
            fault, "neither SPOTNIK_PRICES, XDG_CACHE_HOME nor HOME say where prices are kept");
    int used = cache && *cache ? snprintf(folder, sizeof(folder), "%s", cache)
                               : snprintf(folder, sizeof(folder), "%s/.cache", home);
    if (used < 0 || (size_t)used + 24 > sizeof(folder))
        return spotnik_fault_set(fault, "the folder for kept prices has too long a name");
    if (make)
        mkdir(folder, 0755);
    strcat(folder, "/spotnik");
    if (make && mkdir(folder, 0755) && errno != EEXIST)
        return spotnik_fault_set(fault, "%s: cannot make the folder: %s", folder, strerror(errno));
    snprintf(path, size, "%s/prices.csv", folder);
    return 0;
}

double spotnik_price_cache_age_s(const char *path)
{
    struct stat status;
    struct timespec now;

    if (stat(path, &status))
        return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    double age_s = difftime(now.tv_sec, status.st_mtim.tv_sec);
    return age_s > 0 ? age_s : 0;
}

void spotnik_age_print(double age_s, char *text, size_t size)
{
    if (age_s < 2 * 3600)
        snprintf(text, size, "%.0f min", age_s / 60);
    else if (age_s < 2 * 86400)
        snprintf(text, size, "%.0f h", age_s / 3600);
    else
        snprintf(text, size, "%.0f days", age_s / 86400);
}

int spotnik_price_cache_load(struct spotnik_catalog *catalog, double most_s, bool *there_out,
                             struct spotnik_fault *fault)
{
    char path[1024], age[32];

    *there_out = false;
    if (spotnik_price_cache_path(path, sizeof(path), false, NULL))
        return 0;
    double age_s = spotnik_price_cache_age_s(path);
    if (age_s < 0)
        return 0;
    spotnik_age_print(age_s, age, sizeof(age));
    if (age_s > most_s)
        return spotnik_fault_set(
            fault,
            "the prices in %s are %s old; `spotnik prices update` gets today's, or take them as "
            "they "
            "are with --prices-age %.0fd, or the built-in ones with --prices builtin",
            path, age, age_s / 86400 + 1);
    *there_out = true;
    if (spotnik_catalog_read(catalog, path, fault))
        return -1;
    snprintf(catalog->source, sizeof(catalog->source), "kept %s ago (%.200s)", age, path);
    return 0;
}
