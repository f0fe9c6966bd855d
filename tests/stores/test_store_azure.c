/* SPDX-License-Identifier: Apache-2.0 */
/* What signs requests to Azure. The stand-in (stand_in_azure.py) checks signatures by the account's
 * key, and refuses in "as-NAME" what has no token of NAME. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "store_tests.h"

#define KEY "AccountKey="

static char address[100], full[500], key[200];

/* The connection string without the key. */
static int names_take(void **state)
{
    (void)state;
    const char *text = getenv("AZURE_STORAGE_CONNECTION_STRING");
    snprintf(full, sizeof full, "%s", text);
    snprintf(key, sizeof key, "%.*s", (int)strcspn(strstr(text, KEY) + strlen(KEY), ";"),
             strstr(text, KEY) + strlen(KEY));
    const char *endpoint = strstr(text, "BlobEndpoint=");
    snprintf(address, sizeof address, "%s", strchr(endpoint, '=') + 1);
    char given[300];
    snprintf(given, sizeof given, "AccountName=account;%s", endpoint);
    setenv("AZURE_STORAGE_CONNECTION_STRING", given, 1);
    *strstr(address, "/account") = '\0'; /* where tokens are given, too */
    setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", address, 1);
    return 0;
}

static int names_restore(void **state)
{
    static const char *const names[] = {
        "AZURE_STORAGE_KEY",    "AZURE_STORAGE_SAS_TOKEN",    "AZURE_CLIENT_ID",
        "AZURE_TENANT_ID",      "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_SECRET",
        "AZURE_AUTHORITY_HOST", "AZURE_STORAGE_ACCOUNT"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("AZURE_STORAGE_CONNECTION_STRING", full, 1);
    return store_close(state);
}

/* Claim: the account's key signs, whether the connection string has it or a variable. */
TEST_WITH(account_key, names_take, names_restore)
{
    setenv("AZURE_STORAGE_KEY", key, 1);
    assert_signed_as("as-KEY");
    unsetenv("AZURE_STORAGE_KEY");
    setenv("AZURE_STORAGE_ACCOUNT_KEY", key, 1);
    assert_signed_as("as-KEY");
    unsetenv("AZURE_STORAGE_ACCOUNT_KEY");
    setenv("AZURE_STORAGE_CONNECTION_STRING", full, 1);
    setenv("AZURE_STORAGE_KEY", "b3RoZXI=", 1);
    assert_signed_as("as-KEY");
}

/* Claim: a SAS stands in the query, with a question mark before it or not. */
TEST_WITH(sas, names_take, names_restore)
{
    setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2021-12-02&sig=of%2Bthe%3D", 1);
    assert_signed_as("as-SAS");
    setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2021-12-02&sig=of%2Bthe%3D", 1);
    assert_signed_as("as-SAS");
}

/* Claim: a workload's token comes before an application's secret, and that before the machine's
 * identity, of which there may be several. */
TEST_WITH(identities, names_take, names_restore)
{
    char token[] = "/tmp/spotnik-token-XXXXXX";
    assert_signed_as("as-MACHINE");
    setenv("AZURE_CLIENT_ID", "client", 1);
    assert_signed_as("as-MACHINE");
    setenv("AZURE_TENANT_ID", "tenant", 1);
    setenv("AZURE_AUTHORITY_HOST", address, 1);
    setenv("AZURE_CLIENT_SECRET", "a+secret", 1);
    assert_signed_as("as-APPLICATION");
    file_make(token, "the+token/of=this\n");
    setenv("AZURE_FEDERATED_TOKEN_FILE", token, 1);
    assert_signed_as("as-WORKLOAD");
    unlink(token);
    assert_refused("as-WORKLOAD", "AZURE_FEDERATED_TOKEN_FILE cannot be read");
}

/* Claim: a wrong key, and one that is none, are refused with a sentence. */
TEST_WITH(unusable, names_take, names_restore)
{
    setenv("AZURE_STORAGE_KEY", "b3RoZXI=", 1);
    assert_refused("as-KEY", "AuthenticationFailed");
    setenv("AZURE_STORAGE_KEY", "not base64", 1);
    assert_refused("as-KEY", "no base64");
}

/* Claim: what is no container is an error of its own, as is an account that is not named; without
 * credentials there is a sentence. */
TEST_WITH(mistakes, names_take, names_restore)
{
    static const char *const wrong[] = { "az://", "az:///a", "az://Bucket/a", "az://b/a" };
    struct spotnik_objects *none;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(spotnik_objects_open(wrong[i], &none), SPOTNIK_ERR_ARGUMENT);
    setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:9", 1);
    assert_refused("a", "no Azure credentials: set AZURE_STORAGE_KEY");
    unsetenv("AZURE_STORAGE_CONNECTION_STRING");
    assert_int_equal(spotnik_objects_open("az://bucket/a", &none), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "set AZURE_STORAGE_ACCOUNT"));
    setenv("AZURE_STORAGE_ACCOUNT", "account", 1);
    assert_int_equal(spotnik_objects_open("az://bucket/a", &none), 0);
    spotnik_objects_close(none);
}
