/* SPDX-License-Identifier: Apache-2.0 */
/* What signs requests to Azure: the account's key, a SAS, or a token of a workload or of the
 * machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "store/azure.h"
#include "store/bucket_bearer.h"

#define AUTHORITY "https://login.microsoftonline.com"
#define METADATA "http://169.254.169.254"
#define METADATA_TOKEN                                                                             \
    "/metadata/identity/oauth2/token?api-version=2018-02-01"                                       \
    "&resource=https%3A%2F%2Fstorage.azure.com%2F"
#define SCOPE "https%3A%2F%2Fstorage.azure.com%2F.default"
#define ASSERTION "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
#define RENEW_AFTER_NS (240 * SPOTNIK_S) /* as S3's: the environment does not change by itself */

static bool take(char *to, size_t size, const char *field, const char *variable)
{
    return spotnik_azure_field(field, to, size)
           || spotnik_bucket_set(to, size, spotnik_bucket_variable(variable));
}

static bool from_environment(struct bucket_credentials *to)
{
    if (take(to->secret, sizeof to->secret, "AccountKey", "AZURE_STORAGE_KEY")
        || spotnik_bucket_set(to->secret, sizeof to->secret,
                              spotnik_bucket_variable("AZURE_STORAGE_ACCOUNT_KEY")))
        return true;
    snprintf(to->key, sizeof to->key, AZURE_SAS);
    bool good =
        take(to->token, sizeof to->token, "SharedAccessSignature", "AZURE_STORAGE_SAS_TOKEN");
    if (!good)
        to->key[0] = '\0';
    return good;
}

/* What proves that this is the application: a token of its cluster, or a secret. False: neither is
 * there. */
static bool proof_write(char *proof, size_t size)
{
    const char *path = spotnik_bucket_variable("AZURE_FEDERATED_TOKEN_FILE"),
               *secret = spotnik_bucket_variable("AZURE_CLIENT_SECRET");
    char token[BUCKET_TOKEN_MAX], coded[3 * BUCKET_TOKEN_MAX];
    bool is_token = spotnik_bucket_line_read(path, token);
    if (path != NULL ? !is_token : secret == NULL)
        return false;
    if (!spotnik_bucket_encode(is_token ? token : secret, coded, sizeof coded))
        return false;
    snprintf(proof, size, "%s%s",
             is_token ? "client_assertion_type=" ASSERTION "&client_assertion=" : "client_secret=",
             coded);
    return true;
}

static bool from_application(const struct bucket *bucket, const char *client, const char *tenant,
                             struct bucket_credentials *to)
{
    const char *host = spotnik_bucket_variable("AZURE_AUTHORITY_HOST");
    char url[400], proof[3 * BUCKET_TOKEN_MAX + 200], body[sizeof proof + 400];
    host = host != NULL ? host : AUTHORITY;
    size_t end = strlen(host);
    end -= end > 0 && host[end - 1] == '/';
    if (!proof_write(proof, sizeof proof))
        return spotnik_objects_fail(-EACCES, "AZURE_FEDERATED_TOKEN_FILE cannot be read") == 0;
    snprintf(url, sizeof url, "%.*s/%.100s/oauth2/v2.0/token", (int)end, host, tenant);
    snprintf(body, sizeof body, "grant_type=client_credentials&client_id=%.100s&scope=%s&%s",
             client, SCOPE, proof);
    struct bucket_question question = { .method = "POST", .url = url, .body = body, .far = true };
    bool good = spotnik_bucket_token_ask(bucket, &question, to);
    explicit_bzero(body, sizeof body);
    explicit_bzero(proof, sizeof proof);
    return good;
}

/* A machine with several identities is asked for one of them. */
static bool from_machine(const struct bucket *bucket, const char *client,
                         struct bucket_credentials *to)
{
    const char *host = spotnik_bucket_variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
    char url[500];
    snprintf(url, sizeof url, "%.200s%s%s%.100s", host != NULL ? host : METADATA, METADATA_TOKEN,
             client != NULL ? "&client_id=" : "", client != NULL ? client : "");
    struct bucket_question question = { .method = "GET", .url = url, .header = "Metadata: true" };
    return spotnik_bucket_token_ask(bucket, &question, to);
}

bool spotnik_azure_credentials_find(const struct bucket *bucket, struct bucket_credentials *to)
{
    const char *client = spotnik_bucket_variable("AZURE_CLIENT_ID"),
               *tenant = spotnik_bucket_variable("AZURE_TENANT_ID");
    bool is_application = spotnik_bucket_variable("AZURE_FEDERATED_TOKEN_FILE") != NULL
                          || spotnik_bucket_variable("AZURE_CLIENT_SECRET") != NULL;
    to->renew_after_ns = RENEW_AFTER_NS;
    if (from_environment(to))
        return true;
    return client != NULL && tenant != NULL && is_application
               ? from_application(bucket, client, tenant, to)
               : from_machine(bucket, client, to);
}
