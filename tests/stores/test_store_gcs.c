/* SPDX-License-Identifier: Apache-2.0 */
/* What signs requests to Google Cloud Storage. The stand-in (stand_in_google.py) refuses in "as-NAME"
 * what has no token of NAME. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "store_tests.h"

static char path[] = "/tmp/spotnik-google-XXXXXX";

static int names_restore(void **state)
{
    unlink(path);
    strcpy(path, "/tmp/spotnik-google-XXXXXX");
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("STORAGE_EMULATOR_HOST");
    return store_close(state);
}

/* A file of credentials: its text stands behind token_uri, which is a path of the stand-in. */
static void credentials_make(const char *token_path, const char *text)
{
    char all[6000];
    snprintf(all, sizeof all, "{\"token_uri\": \"%s%s\", %s}",
             getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"), token_path, text);
    file_make(path, all);
    setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
}

static void account_make(const char *token_path)
{
    char pem[4000] = "", text[5000];
    FILE *file = fopen(getenv("STORE_ACCOUNT_KEY"), "re");
    assert_non_null(file);
    assert_true(fread(pem, 1, sizeof pem - 1, file) > 0);
    fclose(file);
    json_t *key = json_string(pem);
    char *coded = json_dumps(key, JSON_ENCODE_ANY);
    snprintf(text, sizeof text,
             "\"type\": \"service_account\", \"private_key\": %s, "
             "\"client_email\": \"job@project.iam.gserviceaccount.com\"",
             coded);
    free(coded);
    json_decref(key);
    credentials_make(token_path, text);
}

/* Claim: a machine asks for the token of its service account. */
TEST_WITH(machine, NULL, names_restore)
{
    assert_signed_as("as-MACHINE");
}

/* Claim: the key of a service account is exchanged for a token: RFC 7523. */
TEST_WITH(service_account, NULL, names_restore)
{
    account_make("/token/long");
    assert_signed_as("as-ACCOUNT");
}

/* Claim: a token is renewed before it ends. The stand-in takes each of these once. */
TEST_WITH(renewed, NULL, names_restore)
{
    account_make("/token/short");
    store_open("as-SHORT");
    for (int i = 0; i < 3; i++)
        assert_int_equal(spotnik_objects_put(store, "a", 1, "b", 1), 0);
}

/* Claim: gcloud's login is taken, in a file that is named and in gcloud's own place. */
TEST_WITH(login, NULL, names_restore)
{
    char folder[] = "/tmp/spotnik-gcloud-XXXXXX", own[100];
    credentials_make("/token/login", "\"type\": \"authorized_user\", \"client_id\": \"an id\", "
                                     "\"client_secret\": \"a+secret\", "
                                     "\"refresh_token\": \"1//again\"");
    assert_signed_as("as-LOGIN");
    assert_non_null(mkdtemp(folder));
    snprintf(own, sizeof own, "%s/application_default_credentials.json", folder);
    assert_int_equal(rename(path, own), 0);
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    setenv("CLOUDSDK_CONFIG", folder, 1);
    assert_signed_as("as-LOGIN");
    unlink(own);
    rmdir(folder);
    assert_signed_as("as-MACHINE");
}

/* Claim: an emulator is sent no token. */
TEST_WITH(emulator, NULL, names_restore)
{
    const char *url = getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE");
    setenv("STORAGE_EMULATOR_HOST", url, 1);
    assert_signed_as("anonymous");
    setenv("STORAGE_EMULATOR_HOST", url + strlen("http://"), 1);
    assert_signed_as("anonymous");
}

/* Claim: what cannot be used is named, and the machine's token is not taken in its place. */
TEST_WITH(unusable, NULL, names_restore)
{
    setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/file", 1);
    assert_refused("a", "/nowhere/file");
    credentials_make("/token/a", "\"type\": \"external_account\"");
    assert_refused("a", "is of type \"external_account\"");
    unlink(path);
    strcpy(path, "/tmp/spotnik-google-XXXXXX");
    credentials_make("/token/a", "\"type\": \"service_account\", \"private_key\": \"none\"");
    assert_refused("a", "no RSA key in PEM");
    unlink(path);
    strcpy(path, "/tmp/spotnik-google-XXXXXX");
    credentials_make("/token/a", "\"type\": \"authorized_user\"");
    assert_refused("a", "invalid_grant");
}

/* Claim: what is no bucket is an error of its own; without credentials there is a sentence. */
TEST(mistakes)
{
    static const char *const wrong[] = { "gs://", "gs:///a", "gs://Bucket/a", "gs://b/a" };
    struct spotnik_objects *none;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(spotnik_objects_open(wrong[i], &none), SPOTNIK_ERR_ARGUMENT);
    setenv("GCE_METADATA_HOST", "127.0.0.1:9", 1);
    assert_refused("a", "no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS");
}
