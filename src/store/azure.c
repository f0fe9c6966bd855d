/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of Azure Blob Storage: "az://container/job", of the account that the environment
 * names. */
#include "store/azure.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

bool spotnik_azure_field(const char *name, char *to, size_t size)
{
    const char *at = spotnik_bucket_variable("AZURE_STORAGE_CONNECTION_STRING");
    size_t length = strlen(name);
    for (; at != NULL && *at != '\0'; at += *at == ';') {
        size_t end = strcspn(at, ";");
        if (strncmp(at, name, length) == 0 && at[length] == '=' && end - length - 1 < size) {
            snprintf(to, size, "%.*s", (int)(end - length - 1), at + length + 1);
            return *to != '\0';
        }
        at += end;
    }
    return false;
}

static bool account_find(char *to, size_t size)
{
    return spotnik_azure_field("AccountName", to, size)
           || spotnik_bucket_set(to, size, spotnik_bucket_variable("AZURE_STORAGE_ACCOUNT"))
           || spotnik_bucket_set(to, size, spotnik_bucket_variable("AZURE_STORAGE_ACCOUNT_NAME"));
}

static bool azure_base_make(struct bucket *bucket, const char *name)
{
    char url[300], suffix[100] = "core.windows.net";
    bool is_known = account_find(bucket->account, sizeof bucket->account),
         is_given = spotnik_azure_field("BlobEndpoint", url, sizeof url);
    (void)spotnik_azure_field("EndpointSuffix", suffix, sizeof suffix);
    if (!is_given)
        snprintf(url, sizeof url, "https://%s.blob.%s", bucket->account, suffix);
    return (is_known || is_given) && spotnik_bucket_base_set(bucket, url, name);
}

static int azure_list_query(const char *prefix, const char *token, char *query, size_t size)
{
    return snprintf(query, size, "comp=list&delimiter=%%2F%s%s&prefix=%s&restype=container",
                    *token != '\0' ? "&marker=" : "", token, prefix);
}

/* ---- an object in blocks: nothing begins it, and blocks that are not listed go in a week ---- */

static void block_name(uint32_t number, char name[9])
{
    char digits[8];
    snprintf(digits, sizeof digits, "%06u", number % 1000000);
    EVP_EncodeBlock((unsigned char *)name, (const unsigned char *)digits, 6);
}

static void azure_part_query(const struct bucket_upload *upload, uint32_t number, char *query,
                             size_t size)
{
    char name[9];
    (void)upload;
    block_name(number, name);
    snprintf(query, size, "blockid=%s&comp=block", name);
}

static void line_write(const struct bucket_upload *upload, uint32_t number, char *to, size_t size)
{
    char name[9];
    (void)upload;
    block_name(number, name);
    snprintf(to, size, "<Latest>%s</Latest>", name);
}

static int azure_upload_end(struct bucket_upload *upload, uint32_t parts)
{
    static const struct bucket_ending ending = { .method = "PUT",
                                                 .query = "comp=blocklist",
                                                 .begin = "<BlockList>",
                                                 .line = line_write,
                                                 .end = "</BlockList>" };
    return spotnik_bucket_upload_end(upload, parts, &ending);
}

const struct bucket_service spotnik_azure_service = {
    .scheme = "az://",
    .usage = "az://CONTAINER/NAME, and set AZURE_STORAGE_ACCOUNT",
    .characters = "abcdefghijklmnopqrstuvwxyz0123456789-",
    .no_credentials = "no Azure credentials: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or "
                      "give this machine an identity",
    .if_absent = "If-None-Match: *",
    .if_match = "If-Match: ",
    .no_version = "\"0x0123456789ABCDE\"",
    .version_header = "ETag:",
    .id_header = "x-ms-request-id:",
    .exists_code = "BlobAlreadyExists",
    .listing = { .root = "EnumerationResults",
                 .object = "Blob",
                 .folder = "BlobPrefix",
                 .name = "Name",
                 .folder_name = "Name",
                 .size = "Content-Length",
                 .written = "Last-Modified",
                 .next = "NextMarker" },
    .base_make = azure_base_make,
    .credentials_find = spotnik_azure_credentials_find,
    .sign = spotnik_azure_sign,
    .list_query = azure_list_query,
    .part_query = azure_part_query,
    .upload_end = azure_upload_end,
};
