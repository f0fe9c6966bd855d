/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of S3 share, and what other services word as S3 does. Private to the folder. */
#ifndef SPOTNIK_STORE_S3_H
#define SPOTNIK_STORE_S3_H

#include "store/bucket.h"

/* s3_credentials.c */
bool spotnik_s3_credentials_find(const struct bucket *bucket, struct bucket_credentials *to);

/* s3_role.c: credentials of the role of a web identity; of the container, or else of the virtual
 * machine. False: there is none, or it does not answer. Blocking. */
bool spotnik_s3_from_identity(const struct bucket_library *library, struct bucket_credentials *to);
bool spotnik_s3_from_machine(const struct bucket_library *library, struct bucket_credentials *to);

/* s3_words.c */
#define S3_LISTING                                                                                 \
    { .root = "ListBucketResult",                                                                  \
      .object = "Contents",                                                                        \
      .folder = "CommonPrefixes",                                                                  \
      .name = "Key",                                                                               \
      .folder_name = "Prefix",                                                                     \
      .size = "Size",                                                                              \
      .written = "LastModified",                                                                   \
      .next = "NextContinuationToken" }
int spotnik_s3_list_query(const char *prefix, const char *token, char *query, size_t size);
int spotnik_s3_upload_begin(struct bucket_upload *upload);
int spotnik_s3_upload_begin_by(struct bucket_upload *upload, const char *query);
void spotnik_s3_part_query(const struct bucket_upload *upload, uint32_t number, char *query,
                           size_t size);
int spotnik_s3_upload_end(struct bucket_upload *upload, uint32_t parts);
void spotnik_s3_upload_abort(struct bucket_upload *upload);

#endif
