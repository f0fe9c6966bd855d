/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around the JSON of a manifest: its digest, and the name of the key if it is signed.
 *
 *     {"xxh3":"<16 digits>",<newline>"manifest":<JSON>}<newline>
 *     {"hmac":"<32 digits>","key":"<16 digits>",<newline>"manifest":<JSON>}<newline>
 *
 * The digest is that of the text of <JSON>, and all around it is fixed: not a single byte can be
 * changed or cut off. A signed one stands for its own entry only (signature.h). Bytes only. */
#ifndef SPOTNIK_CHECKPOINT_MANIFEST_FRAME_H
#define SPOTNIK_CHECKPOINT_MANIFEST_FRAME_H

#include "checkpoint/signature.h"

enum spotnik_manifest_state {
    SPOTNIK_MANIFEST_UNSIGNED,
    SPOTNIK_MANIFEST_SIGNED,
    SPOTNIK_MANIFEST_ANOTHERS, /* by a key that the reader has not: nothing was verified */
};

struct spotnik_manifest_framed {
    const char *body; /* in the bytes that were read */
    size_t length;
    enum spotnik_manifest_state state;
    char signer[SPOTNIK_SIGNER_NAME]; /* the name of the key; "": unsigned */
};

/* For checkpoint `entry`. The caller frees *ret_text. Errors: MEMORY, SYSTEM. */
int spotnik_manifest_frame(const struct spotnik_signer *signer, const char *entry, const char *body,
                           char **ret_text, size_t *ret_size);

/* Untrusted bytes. Errors: PEERS (cut short, altered, or another entry's), SYSTEM. */
int spotnik_manifest_unframe(const struct spotnik_signer *signer, const char *entry,
                             const uint8_t *bytes, size_t size,
                             struct spotnik_manifest_framed *ret);

#endif
