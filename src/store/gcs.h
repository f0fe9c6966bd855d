/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of Google Cloud Storage share. Private to the folder. */
#ifndef SPOTNIK_STORE_GCS_H
#define SPOTNIK_STORE_GCS_H

#include "store/bucket.h"

#define GCS_ANONYMOUS "anonymous" /* as the account: an emulator wants no token */

#define GCS_TOKEN_URI "https://oauth2.googleapis.com/token" /* and whom a JWT is made for */

/* gcs_credentials.c: a token by the file that GOOGLE_APPLICATION_CREDENTIALS names, by the login of
 * gcloud, or of the machine's service account. */
bool spotnik_gcs_credentials_find(const struct bucket *bucket, struct bucket_credentials *to);

/* gcs_jwt.c: what a service account shows to get a token, signed by its key in PEM. False with the
 * reason set. */
bool spotnik_gcs_jwt_make(const char *account, const char *key, char *jwt, size_t size);

#endif
