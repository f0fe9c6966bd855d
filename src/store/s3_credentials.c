/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials that sign requests: from the environment, the credentials file, or the role of
 * the virtual machine (IMDSv2). They are read again now and then, since those of a role end. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "store/s3.h"

/* New ones of a role are there five minutes before the old ones end. */
#define READ_AGAIN_NS (240 * SPOTNIK_S)
#define METADATA "http://169.254.169.254"
#define METADATA_ROLES "/latest/meta-data/iam/security-credentials/"
#define METADATA_MS 1000L

static bool set(char *to, size_t size, const char *from)
{
    return from != NULL && snprintf(to, size, "%s", from) < (int)size && *to != '\0';
}

static bool from_environment(struct s3_credentials *to)
{
    const char *token = getenv("AWS_SESSION_TOKEN");
    to->token[0] = '\0';
    if (token != NULL && *token != '\0' && !set(to->token, sizeof to->token, token))
        return false;
    return set(to->key, sizeof to->key, getenv("AWS_ACCESS_KEY_ID"))
           && set(to->secret, sizeof to->secret, getenv("AWS_SECRET_ACCESS_KEY"));
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
        (void)set(to->key, sizeof to->key, value);
    else if ((value = value_of(line, "aws_secret_access_key")) != NULL)
        (void)set(to->secret, sizeof to->secret, value);
    else if ((value = value_of(line, "aws_session_token")) != NULL)
        (void)set(to->token, sizeof to->token, value);
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

/* ---- the role of this virtual machine ---- */

struct reply {
    char text[8192];
    size_t size;
};

static size_t on_reply(char *bytes, size_t one, size_t count, void *context)
{
    struct reply *reply = context;
    if (one * count > sizeof reply->text - 1 - reply->size)
        return 0; /* no metadata service answers so much */
    memcpy(reply->text + reply->size, bytes, one * count);
    reply->size += one * count;
    reply->text[reply->size] = '\0';
    return one * count;
}

static bool metadata_ask(const struct s3_library *library, const char *method, const char *path,
                         const char *header, struct reply *reply)
{
    const char *endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char url[600];
    long status = 0;
    CURL *easy = library->curl_easy_init();
    struct curl_slist *headers = library->curl_slist_append(NULL, header);
    reply->size = 0;
    reply->text[0] = '\0';
    snprintf(url, sizeof url, "%s%s", endpoint != NULL && *endpoint ? endpoint : METADATA, path);
    if (easy != NULL && headers != NULL) {
        library->curl_easy_setopt(easy, CURLOPT_URL, url);
        library->curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
        library->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        library->curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
        library->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        library->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, METADATA_MS);
        library->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_reply);
        library->curl_easy_setopt(easy, CURLOPT_WRITEDATA, reply);
        if (library->curl_easy_perform(easy) == CURLE_OK)
            library->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    }
    library->curl_slist_free_all(headers);
    if (easy != NULL)
        library->curl_easy_cleanup(easy);
    return status == 200 && reply->size > 0;
}

static bool role_parse(const char *text, struct s3_credentials *to)
{
    json_t *root = json_loads(text, 0, NULL);
    bool all =
        set(to->key, sizeof to->key, json_string_value(json_object_get(root, "AccessKeyId")))
        && set(to->secret, sizeof to->secret,
               json_string_value(json_object_get(root, "SecretAccessKey")))
        && set(to->token, sizeof to->token, json_string_value(json_object_get(root, "Token")));
    json_decref(root);
    return all;
}

static bool from_role(const struct s3_library *library, struct s3_credentials *to)
{
    char header[600], path[400];
    struct reply reply;
    if (!metadata_ask(library, "PUT", "/latest/api/token",
                      "X-aws-ec2-metadata-token-ttl-seconds: 300", &reply))
        return false;
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %.500s", reply.text);
    if (!metadata_ask(library, "GET", METADATA_ROLES, header, &reply))
        return false;
    snprintf(path, sizeof path, METADATA_ROLES "%.*s", (int)strcspn(reply.text, "\r\n"),
             reply.text);
    return metadata_ask(library, "GET", path, header, &reply) && role_parse(reply.text, to);
}

bool spotnik_s3_credentials_fill(struct s3 *s3)
{
    uint64_t now_ns = spotnik_clock_ns();
    if (s3->read_ns != 0 && now_ns < s3->read_ns + READ_AGAIN_NS)
        return true;
    struct s3_credentials found;
    bool any = from_environment(&found) || from_file(&found) || from_role(s3->library, &found);
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
