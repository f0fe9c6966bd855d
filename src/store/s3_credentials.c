/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials of S3: from the environment, the credentials file, or a role (s3_role.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "store/s3.h"

/* New ones of a role are there five minutes before the old ones end. */
#define RENEW_AFTER_NS (240 * SPOTNIK_S)

static bool from_environment(struct bucket_credentials *to)
{
    const char *token = getenv("AWS_SESSION_TOKEN");
    to->token[0] = '\0';
    if (token != NULL && *token != '\0' && !spotnik_bucket_set(to->token, sizeof to->token, token))
        return false;
    return spotnik_bucket_set(to->key, sizeof to->key, getenv("AWS_ACCESS_KEY_ID"))
           && spotnik_bucket_set(to->secret, sizeof to->secret, getenv("AWS_SECRET_ACCESS_KEY"));
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

static void line_take(const char *line, struct bucket_credentials *to)
{
    const char *value;
    if ((value = value_of(line, "aws_access_key_id")) != NULL)
        (void)spotnik_bucket_set(to->key, sizeof to->key, value);
    else if ((value = value_of(line, "aws_secret_access_key")) != NULL)
        (void)spotnik_bucket_set(to->secret, sizeof to->secret, value);
    else if ((value = value_of(line, "aws_session_token")) != NULL)
        (void)spotnik_bucket_set(to->token, sizeof to->token, value);
}

static bool from_file(struct bucket_credentials *to)
{
    const char *profile = getenv("AWS_PROFILE");
    char line[4200], head[256];
    bool inside = false;
    FILE *file = file_open();
    if (file == NULL)
        return false;
    snprintf(head, sizeof head, "[%s]", profile != NULL && *profile != '\0' ? profile : "default");
    to->key[0] = to->secret[0] = to->token[0] = '\0';
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

bool spotnik_s3_credentials_find(const struct bucket *bucket, struct bucket_credentials *to)
{
    to->renew_after_ns = RENEW_AFTER_NS;
    return from_environment(to) || spotnik_s3_from_identity(bucket->library, to) || from_file(to)
           || spotnik_s3_from_machine(bucket->library, to);
}
