/* SPDX-License-Identifier: Apache-2.0 */
/* What Google's and Azure's stores have in common: tokens that end, digests by MD5. Private to the
 * folder. */
#ifndef SPOTNIK_STORE_BUCKET_BEARER_H
#define SPOTNIK_STORE_BUCKET_BEARER_H

#include "store/bucket.h"

/* Add a header ("Content-MD5: ") by which the server compares what arrives; md5: its text, ""
 * without a body. False with the reason set: OpenSSL does not make it. */
bool spotnik_bucket_md5_add(const struct bucket *bucket, const struct bucket_request *request,
                            struct bucket_message *message, const char *header, char md5[32]);

/* Ask for a token and for how long it is good. False, with the reason set. Blocking. */
bool spotnik_bucket_token_ask(const struct bucket *bucket, const struct bucket_question *question,
                              struct bucket_credentials *to);

#endif
