/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials that sign requests: from the environment, the credentials file, or a role
 * (s3_role.c). They are read again now and then, since those of a role end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/time.h"
#include "store/s3.h"

/* New ones of a role are there five minutes before the old ones end. */
#define READ_AGAIN_NS (240 * SPOTNIK_S)

bool spotnik_s3_set(char *to, size_t size, const char *from)
{
    return from != NULL && snprintf(to, size, "%s", from) < (int)size && *to != '\0';
}

static bool from_environment(struct s3_credentials *to)
{
    const char *token = getenv("AWS_SESSION_TOKEN");
    to->token[0] = '\0';
    if (token != NULL && *token != '\0' && !spotnik_s3_set(to->token, sizeof to->token, token))
        return false;
    return spotnik_s3_set(to->key, sizeof to->key, getenv("AWS_ACCESS_KEY_ID"))
           && spotnik_s3_set(to->secret, sizeof to->secret, getenv("AWS_SECRET_ACCESS_KEY"));
}

/* ---- the file ---- */

static FILE *file_open(void)
{
    const char *path = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME");
    char text[4096];
    snprintf(text, sizeof text, "%s/.aws/credentials", home != NULL ? home : "");
    return fopen(path != NULL && *path != '\0' ? path : text, "re");
}

/* "name = value": its value, NULL: another name. */
static const char *value_of(const char *line, const char *name)
{
    line += strspn(line, " \t");
    if (strncmp(line, name, strlen(name)) != 0)
        return NULL;
    line += strlen(name);
    line += strspn(line, " \t");
    return *line == '=' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static void line_take(const char *line, struct s3_credentials *to)
{
    const char *value;
    if ((value = value_of(line, "aws_access_key_id")) != NULL)
        (void)spotnik_s3_set(to->key, sizeof to->key, value);
    else if ((value = value_of(line, "aws_secret_access_key")) != NULL)
        (void)spotnik_s3_set(to->secret, sizeof to->secret, value);
    else if ((value = value_of(line, "aws_session_token")) != NULL)
        (void)spotnik_s3_set(to->token, sizeof to->token, value);
}

static bool from_file(struct s3_credentials *to)
{
    const char *profile = getenv("AWS_PROFILE");
    char line[4200], head[256];
    bool inside = false;
    FILE *file = file_open();
    if (file == NULL)
        return false;
    snprintf(head, sizeof head, "[%s]", profile != NULL && *profile != '\0' ? profile : "default");
    memset(to, 0, sizeof *to);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        for (size_t end = strlen(line); end > 0 && strchr(" \t", line[end - 1]) != NULL;)
            line[--end] = '\0';
        if (line[0] == '[')
            inside = strcmp(line, head) == 0;
        else if (inside)
            line_take(line, to);
    }
    fclose(file);
    return to->key[0] != '\0' && to->secret[0] != '\0';
}

bool spotnik_s3_credentials_fill(struct s3 *s3)
{
    uint64_t now_ns = spotnik_clock_ns();
    if (s3->read_ns != 0 && now_ns < s3->read_ns + READ_AGAIN_NS)
        return true;
    struct s3_credentials found;
    bool any = from_environment(&found) || spotnik_s3_from_identity(s3->library, &found)
               || from_file(&found) || spotnik_s3_from_machine(s3->library, &found);
    if (any) {
        s3->credentials = found;
        s3->read_ns = now_ns;
    }
    explicit_bzero(&found, sizeof found);
    if (!any && s3->credentials.key[0] == '\0')
        spotnik_objects_fail(-EACCES, "no AWS credentials: set AWS_ACCESS_KEY_ID and "
                                      "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this "
                                      "machine a role");
    return s3->credentials.key[0] != '\0';
}
