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
#define NEAR_MS 1000L
#define FAR_MS 5000L
#define TOKEN_MAX 4096

struct question {
    const char *method, *url;
    const char *header, *body; /* NULL: none */
    bool far;                  /* a proxy may be on the way */
};

struct reply {
    char text[8192];
    size_t size;
};

static size_t on_reply(char *bytes, size_t one, size_t count, void *context)
{
    struct reply *reply = context;
    if (one * count > sizeof reply->text - 1 - reply->size)
        return 0; /* no service of credentials answers so much */
    memcpy(reply->text + reply->size, bytes, one * count);
    reply->size += one * count;
    reply->text[reply->size] = '\0';
    return one * count;
}

static void options_set(const struct s3_library *library, CURL *easy,
                        const struct question *question, struct reply *reply)
{
    __typeof__(&curl_easy_setopt) setopt = library->curl_easy_setopt;
    setopt(easy, CURLOPT_URL, question->url);
    if (question->body != NULL)
        setopt(easy, CURLOPT_POSTFIELDS, question->body);
    setopt(easy, CURLOPT_CUSTOMREQUEST, question->method);
    if (!question->far)
        setopt(easy, CURLOPT_NOPROXY, "*");
    setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    setopt(easy, CURLOPT_NOSIGNAL, 1L);
    setopt(easy, CURLOPT_TIMEOUT_MS, question->far ? FAR_MS : NEAR_MS);
    setopt(easy, CURLOPT_WRITEFUNCTION, on_reply);
    setopt(easy, CURLOPT_WRITEDATA, reply);
}

static bool ask(const struct s3_library *library, const struct question *question,
                struct reply *reply)
{
    long status = 0;
    CURL *easy = library->curl_easy_init();
    struct curl_slist *headers =
        question->header != NULL ? library->curl_slist_append(NULL, question->header) : NULL;
    reply->size = 0;
    reply->text[0] = '\0';
    if (easy == NULL)
        return false;
    options_set(library, easy, question, reply);
    library->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (library->curl_easy_perform(easy) == CURLE_OK)
        library->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    library->curl_slist_free_all(headers);
    library->curl_easy_cleanup(easy);
    return status == 200 && reply->size > 0;
}

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/* The first line of the file. */
static bool token_read(const char *path, char token[TOKEN_MAX])
{
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    bool read = file != NULL && fgets(token, TOKEN_MAX, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (read)
        token[strcspn(token, "\r\n")] = '\0';
    return read && token[0] != '\0';
}

static bool role_parse(const char *text, struct s3_credentials *to)
{
    json_t *root = json_loads(text, 0, NULL);
    bool all = spotnik_s3_set(to->key, sizeof to->key,
                              json_string_value(json_object_get(root, "AccessKeyId")))
               && spotnik_s3_set(to->secret, sizeof to->secret,
                                 json_string_value(json_object_get(root, "SecretAccessKey")))
               && spotnik_s3_set(to->token, sizeof to->token,
                                 json_string_value(json_object_get(root, "Token")));
    json_decref(root);
    return all;
}

/* ---- the container, the machine ---- */

static bool from_container(const struct s3_library *library, struct s3_credentials *to)
{
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
               *given = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char url[1024], token[TOKEN_MAX] = "", header[TOKEN_MAX + 32];
    struct reply reply;
    if (relative == NULL && full == NULL)
        return false;
    snprintf(url, sizeof url, "%s%s", relative != NULL ? CONTAINER : "",
             relative != NULL ? relative : full);
    if (!token_read(variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), token) && given != NULL)
        snprintf(token, sizeof token, "%s", given);
    snprintf(header, sizeof header, "Authorization: %s", token);
    struct question question = { .method = "GET",
                                 .url = url,
                                 .header = token[0] != '\0' ? header : NULL };
    return ask(library, &question, &reply) && role_parse(reply.text, to);
}

static bool metadata_ask(const struct s3_library *library, const char *method, const char *path,
                         const char *header, struct reply *reply)
{
    const char *endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char url[600];
    snprintf(url, sizeof url, "%s%s", endpoint != NULL ? endpoint : METADATA, path);
    return ask(library, &(struct question){ .method = method, .url = url, .header = header },
               reply);
}

static bool from_metadata(const struct s3_library *library, struct s3_credentials *to)
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

bool spotnik_s3_from_machine(const struct s3_library *library, struct s3_credentials *to)
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
    const char *endpoint = variable("AWS_ENDPOINT_URL_STS"), *region = variable("AWS_REGION");
    if (endpoint != NULL)
        snprintf(url, size, "%s", endpoint);
    else
        snprintf(url, size, "https://sts.%s.amazonaws.com/", region != NULL ? region : "us-east-1");
}

bool spotnik_s3_from_identity(const struct s3_library *library, struct s3_credentials *to)
{
    const char *role = variable("AWS_ROLE_ARN");
    char url[600], token[TOKEN_MAX], coded[3 * TOKEN_MAX], arn[1024],
        body[sizeof coded + sizeof arn + 200];
    struct reply reply;
    if (role == NULL || !token_read(variable("AWS_WEB_IDENTITY_TOKEN_FILE"), token)
        || !spotnik_s3_encode(token, coded, sizeof coded)
        || !spotnik_s3_encode(role, arn, sizeof arn))
        return false;
    sts_url(url, sizeof url);
    snprintf(
        body, sizeof body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=spotnik&RoleArn=%s"
        "&WebIdentityToken=%s",
        arn, coded);
    struct question question = { .method = "POST", .url = url, .body = body, .far = true };
    return ask(library, &question, &reply)
           && element_take(reply.text, "<AccessKeyId>", to->key, sizeof to->key)
           && element_take(reply.text, "<SecretAccessKey>", to->secret, sizeof to->secret)
           && element_take(reply.text, "<SessionToken>", to->token, sizeof to->token);
}
