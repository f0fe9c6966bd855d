/* SPDX-License-Identifier: Apache-2.0 */
#include "dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

/* The member answers when it begins to write. On its own host we wait for the end. */
static bool is_there(const char *path)
{
    for (int i = 0; i < 100 && access(path, F_OK); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return access(path, F_OK) == 0;
}

static bool ask_member(const struct spotnik_credentials *credentials,
                       const struct spotnik_member *member)
{
    char *line = NULL, where[SPOTNIK_ADDRESS_TEXT];
    size_t size;
    int rc = spotnik_net_question(credentials, member->address, member->port, SPOTNIK_PURPOSE_DUMP,
                                  2 * SPOTNIK_S, &line, &size);
    bool wrote = !rc && line[0] == '/';
    const char *note = wrote && !is_there(line) ? "   (not seen from here: it is on that member's "
                                                  "host, or the folder cannot be written)"
                                                : "";
    printf("%s %s%s\n", spotnik_address_format(where, member->address, member->port),
           rc ? spotnik_last_error() : line, note);
    free(line);
    return wrote;
}

static int complain(const char *why)
{
    fprintf(stderr, "spotnik status: %s\n", why);
    return 1;
}

static int ask_all(const struct job_at *at, struct spotnik_credentials *credentials)
{
    static struct spotnik_member member[QUESTION_MEMBERS_MAX], all[QUESTION_MEMBERS_MAX];
    uint32_t count = 0, failed = 0;

    if (!question_members(at, credentials, member, &count))
        return complain(spotnik_last_error());
    json_t *answer = question_first(credentials, member, count);
    if (!answer)
        return complain("no member of the job answered");
    count = question_named(answer, all, QUESTION_MEMBERS_MAX);
    json_decref(answer);
    for (uint32_t i = 0; i < count; i++)
        failed += !ask_member(credentials, &all[i]);
    return failed || !count;
}

int dump_ask(const struct job_at *at)
{
    struct spotnik_credentials credentials;

    if (!question_credentials(at, &credentials))
        return complain(spotnik_last_error());
    return ask_all(at, &credentials);
}
