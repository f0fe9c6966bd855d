/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of Azure Blob Storage share. Private to the folder. */
#ifndef SPOTNIK_STORE_AZURE_H
#define SPOTNIK_STORE_AZURE_H

#include "store/bucket.h"

/* A field of AZURE_STORAGE_CONNECTION_STRING. False: there is none, or it is too long. */
bool spotnik_azure_field(const char *name, char *to, size_t size);

/* azure_credentials.c: the account's key, a SAS (with "SAS" as the key, and its query as the token),
 * or a token of a workload, of an application, or of the machine. */
bool spotnik_azure_credentials_find(const struct bucket *bucket, struct bucket_credentials *to);
#define AZURE_SAS "SAS"

/* azure_sign.c */
bool spotnik_azure_sign(const struct bucket *bucket, const struct bucket_request *request,
                        const struct bucket_credentials *credentials,
                        struct bucket_message *message);

#endif
