/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens for Google Cloud Storage: by a service account's key, by gcloud's login, or of the
 * machine. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "store/bucket_bearer.h"
#include "store/gcs.h"

#define METADATA "169.254.169.254"
#define METADATA_TOKEN "/computeMetadata/v1/instance/service-accounts/default/token"
#define EVER_NS (1000 * 3600 * SPOTNIK_S)

static const char *text_of(const json_t *file, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(file, name));
    return text != NULL ? text : otherwise;
}

static bool exchange(const struct bucket *bucket, const json_t *file, const char *body,
                     struct bucket_credentials *to)
{
    struct bucket_question question = { .method = "POST",
                                        .url = text_of(file, "token_uri", GCS_TOKEN_URI),
                                        .body = body,
                                        .far = true };
    return spotnik_bucket_token_ask(bucket, &question, to);
}

static bool from_service_account(const struct bucket *bucket, const json_t *file,
                                 struct bucket_credentials *to)
{
    char body[4096] = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    size_t used = strlen(body);
    return spotnik_gcs_jwt_make(text_of(file, "client_email", ""), text_of(file, "private_key", ""),
                                body + used, sizeof body - used)
           && exchange(bucket, file, body, to);
}

static bool from_login(const struct bucket *bucket, const json_t *file,
                       struct bucket_credentials *to)
{
    static const char *const names[] = { "client_id", "client_secret", "refresh_token" };
    char body[6000] = "grant_type=refresh_token", value[1500];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t used = strlen(body);
        if (!spotnik_bucket_encode(text_of(file, names[i], ""), value, sizeof value))
            return spotnik_objects_fail(-EACCES, "%s of gcloud's login is too long", names[i]) == 0;
        snprintf(body + used, sizeof body - used, "&%s=%s", names[i], value);
    }
    bool good = exchange(bucket, file, body, to);
    explicit_bzero(body, sizeof body);
    return good;
}

static bool from_file(const struct bucket *bucket, const char *path, struct bucket_credentials *to)
{
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (file == NULL)
        return spotnik_objects_fail(-EACCES, "%.150s: %s", path, error.text) == 0;
    const char *type = text_of(file, "type", "");
    bool good = strcmp(type, "service_account") == 0 ? from_service_account(bucket, file, to)
                : strcmp(type, "authorized_user") == 0
                    ? from_login(bucket, file, to)
                    : spotnik_objects_fail(-EACCES,
                                           "%.150s is of type \"%.40s\"; service_account "
                                           "and authorized_user are taken",
                                           path, type)
                          == 0;
    json_decref(file);
    return good;
}

static bool from_machine(const struct bucket *bucket, struct bucket_credentials *to)
{
    const char *host = spotnik_bucket_variable("GCE_METADATA_HOST");
    char url[400];
    snprintf(url, sizeof url, "http://%.200s" METADATA_TOKEN, host != NULL ? host : METADATA);
    struct bucket_question question = { .method = "GET",
                                        .url = url,
                                        .header = "Metadata-Flavor: Google" };
    return spotnik_bucket_token_ask(bucket, &question, to);
}

/* The file of `gcloud auth application-default login`. */
static void login_path(char *path, size_t size)
{
    const char *folder = spotnik_bucket_variable("CLOUDSDK_CONFIG"), *home = getenv("HOME");
    if (folder != NULL)
        snprintf(path, size, "%s/application_default_credentials.json", folder);
    else
        snprintf(path, size, "%s/.config/gcloud/application_default_credentials.json",
                 home != NULL ? home : "");
}

bool spotnik_gcs_credentials_find(const struct bucket *bucket, struct bucket_credentials *to)
{
    const char *path = spotnik_bucket_variable("GOOGLE_APPLICATION_CREDENTIALS");
    char login[4096];
    login_path(login, sizeof login);
    if (strcmp(bucket->account, GCS_ANONYMOUS) == 0) {
        to->renew_after_ns = EVER_NS;
        return true;
    }
    if (path != NULL)
        return from_file(bucket, path, to);
    return access(login, R_OK) == 0 ? from_file(bucket, login, to) : from_machine(bucket, to);
}
