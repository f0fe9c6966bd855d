/* SPDX-License-Identifier: Apache-2.0 */
/* What signs requests to S3. The stand-in refuses in "as-NAME" what the key NAME has not signed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "store_tests.h"

static int keys_restore(void **state)
{
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    unsetenv("AWS_PROFILE");
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    unsetenv("AWS_ROLE_ARN");
    setenv("AWS_ACCESS_KEY_ID", "key", 1);
    return store_close(state);
}

/* Claim: a web identity comes before the role of a container, and that before the machine's. Each
 * shows its token. A service that is busy is asked again. */
TEST_WITH(roles, NULL, keys_restore)
{
    char token[] = "/tmp/spotnik-token-XXXXXX", url[100];
    file_make(token, "the+token/of=this\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", getenv("AWS_ENDPOINT_URL"), 1);
    unsetenv("AWS_ACCESS_KEY_ID");
    snprintf(url, sizeof url, "%s/latest/container", getenv("AWS_ENDPOINT_URL"));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    assert_signed_as("as-ROLE"); /* the container's service refuses: no token */
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token, 1);
    assert_signed_as("as-CONTAINER");
    snprintf(url, sizeof url, "%s/latest/busy/container", getenv("AWS_ENDPOINT_URL"));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    assert_signed_as("as-CONTAINER");
    snprintf(url, sizeof url, "%s/latest/sts", getenv("AWS_ENDPOINT_URL"));
    setenv("AWS_ENDPOINT_URL_STS", url, 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a", 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token, 1);
    assert_signed_as("as-IDENTITY");
    unlink(token);
    assert_signed_as("as-ROLE");
}

/* Claim: the variables come first, then the profile of the file, then the role of the machine. */
TEST_WITH(credentials, NULL, keys_restore)
{
    char path[] = "/tmp/spotnik-credentials-XXXXXX";
    file_make(path, "[default]\naws_access_key_id = NONE\naws_secret_access_key = x\n"
                    "[other]\r\naws_access_key_id=FILE\r\naws_secret_access_key =  y \r\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    setenv("AWS_PROFILE", "other", 1);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", getenv("AWS_ENDPOINT_URL"), 1);
    assert_signed_as("as-key");
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_signed_as("as-FILE");
    unlink(path);
    assert_signed_as("as-ROLE");
}

/* Claim: what is no bucket is an error of its own; without credentials there is a sentence. */
TEST(mistakes)
{
    static const char *const wrong[] = { "s3://", "s3:///a", "s3://Bucket/a", "s3://b/a" };
    struct spotnik_objects *none;
    char text[4];
    size_t size;
    uint64_t version;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(spotnik_objects_open(wrong[i], &none), SPOTNIK_ERR_ARGUMENT);
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9", 1);
    assert_int_equal(spotnik_objects_open("s3://bucket/a", &none), 0);
    int rc = spotnik_objects_get(none, "a", text, sizeof text, &size, &version);
    assert_int_equal(rc, -EACCES);
    assert_non_null(strstr(spotnik_objects_why(rc), "no AWS credentials"));
    spotnik_objects_close(none);
}
