/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of a role: of a web identity (a token in a file, which STS takes), of the container
 * (ECS, EKS Pod Identity), or of the virtual machine (IMDSv2). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3.h"

#define METADATA "http://169.254.169.254"
#define METADATA_ROLES "/latest/meta-data/iam/security-credentials/"
#define CONTAINER "http://169.254.170.2"
static bool role_parse(const char *text, struct bucket_credentials *to)
{
    json_t *root = json_loads(text, 0, NULL);
    bool all = spotnik_bucket_set(to->key, sizeof to->key,
                                  json_string_value(json_object_get(root, "AccessKeyId")))
               && spotnik_bucket_set(to->secret, sizeof to->secret,
                                     json_string_value(json_object_get(root, "SecretAccessKey")))
               && spotnik_bucket_set(to->token, sizeof to->token,
                                     json_string_value(json_object_get(root, "Token")));
    json_decref(root);
    return all;
}

/* ---- the container, the machine ---- */

static bool from_container(const struct bucket_library *library, struct bucket_credentials *to)
{
    const char *relative = spotnik_bucket_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = spotnik_bucket_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
               *given = spotnik_bucket_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char url[1024], token[BUCKET_TOKEN_MAX] = "", header[BUCKET_TOKEN_MAX + 32];
    struct bucket_reply reply;
    if (relative == NULL && full == NULL)
        return false;
    snprintf(url, sizeof url, "%s%s", relative != NULL ? CONTAINER : "",
             relative != NULL ? relative : full);
    if (!spotnik_bucket_line_read(spotnik_bucket_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                                  token)
        && given != NULL)
        snprintf(token, sizeof token, "%s", given);
    snprintf(header, sizeof header, "Authorization: %s", token);
    struct bucket_question question = { .method = "GET",
                                        .url = url,
                                        .header = token[0] != '\0' ? header : NULL };
    return spotnik_bucket_ask(library, &question, &reply) && role_parse(reply.text, to);
}

static bool metadata_ask(const struct bucket_library *library, const char *method, const char *path,
                         const char *header, struct bucket_reply *reply)
{
    const char *endpoint = spotnik_bucket_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char url[600];
    snprintf(url, sizeof url, "%s%s", endpoint != NULL ? endpoint : METADATA, path);
    return spotnik_bucket_ask(library,
                              &(struct bucket_question){
                                  .method = method, .url = url, .header = header },
                              reply);
}

static bool from_metadata(const struct bucket_library *library, struct bucket_credentials *to)
{
    char header[600], path[400];
    struct bucket_reply reply;
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

bool spotnik_s3_from_machine(const struct bucket_library *library, struct bucket_credentials *to)
{
    return from_container(library, to) || from_metadata(library, to);
}

/* ---- a web identity ---- */

/* The text of an element of the answer. */
static bool element_take(const char *text, const char *begin, char *to, size_t size)
{
    const char *at = strstr(text, begin);
    size_t length = at != NULL ? strcspn(at + strlen(begin), "<") : 0;
    bool fits = length > 0 && length < size;
    if (fits)
        snprintf(to, size, "%.*s", (int)length, at + strlen(begin));
    return fits;
}

static void sts_url(char *url, size_t size)
{
    const char *endpoint = spotnik_bucket_variable("AWS_ENDPOINT_URL_STS"),
               *region = spotnik_bucket_variable("AWS_REGION");
    if (endpoint != NULL)
        snprintf(url, size, "%s", endpoint);
    else
        snprintf(url, size, "https://sts.%s.amazonaws.com/", region != NULL ? region : "us-east-1");
}

bool spotnik_s3_from_identity(const struct bucket_library *library, struct bucket_credentials *to)
{
    const char *role = spotnik_bucket_variable("AWS_ROLE_ARN");
    char url[600], token[BUCKET_TOKEN_MAX], coded[3 * BUCKET_TOKEN_MAX], arn[1024],
        body[sizeof coded + sizeof arn + 200];
    struct bucket_reply reply;
    if (role == NULL
        || !spotnik_bucket_line_read(spotnik_bucket_variable("AWS_WEB_IDENTITY_TOKEN_FILE"), token)
        || !spotnik_bucket_encode(token, coded, sizeof coded)
        || !spotnik_bucket_encode(role, arn, sizeof arn))
        return false;
    sts_url(url, sizeof url);
    snprintf(
        body, sizeof body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=spotnik&RoleArn=%s"
        "&WebIdentityToken=%s",
        arn, coded);
    struct bucket_question question = { .method = "POST", .url = url, .body = body, .far = true };
    return spotnik_bucket_ask(library, &question, &reply)
           && element_take(reply.text, "<AccessKeyId>", to->key, sizeof to->key)
           && element_take(reply.text, "<SecretAccessKey>", to->secret, sizeof to->secret)
           && element_take(reply.text, "<SessionToken>", to->token, sizeof to->token);
}
