/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock: it is a part of what is signed. A service refuses signatures of a machine whose
 * clock is wrong. The error then names both times. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/bucket.h"

#define DIFFERS_S 60 /* services allow minutes */

int64_t spotnik_bucket_now_s(void)
{
    return (int64_t)time(NULL);
}

/* strftime() would take the names of the user's language. */
void spotnik_bucket_date_write(int64_t at_s, char text[40])
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t at = (time_t)at_s;
    struct tm parts;
    gmtime_r(&at, &parts);
    snprintf(text, 40, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * parts.tm_wday,
             parts.tm_mday, months + 3 * parts.tm_mon, 1900 + parts.tm_year, parts.tm_hour,
             parts.tm_min, parts.tm_sec);
}

void spotnik_bucket_clocks_compare(const struct bucket *bucket,
                                   const struct bucket_request *request, char *text, size_t size)
{
    int64_t theirs = bucket->library->curl_getdate(request->date, NULL),
            ours = spotnik_bucket_now_s();
    char there[40], here[40];
    text[0] = '\0';
    if (theirs <= 0 || llabs((long long)(theirs - ours)) < DIFFERS_S)
        return;
    spotnik_bucket_date_write(theirs, there);
    spotnik_bucket_date_write(ours, here);
    snprintf(text, size, "set the clock of this machine: it says %s, and the store's %s; ", here,
             there);
}
