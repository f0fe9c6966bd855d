/* SPDX-License-Identifier: Apache-2.0 */
/* See manifest_frame.h. */
#include "checkpoint/manifest_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define BEGIN_PLAIN "{\"xxh3\":\""
#define BEGIN_SIGNED "{\"hmac\":\""
#define KEY "\",\"key\":\""
#define END "\",\n\"manifest\":"
#define HEAD_PLAIN_BYTES (sizeof BEGIN_PLAIN + sizeof END - 2 + SPOTNIK_DIGEST_PLAIN)
#define HEAD_SIGNED_BYTES                                                                          \
    (sizeof BEGIN_SIGNED + sizeof KEY + sizeof END - 3 + SPOTNIK_DIGEST_SIGNED + KEY_DIGITS)
#define KEY_DIGITS (SPOTNIK_SIGNER_NAME - 1)
#define HEAD_ROOM (HEAD_SIGNED_BYTES + 1)
#define TAIL "}\n"
#define TAIL_BYTES 2
#define ROLE "manifest"

/* All that stands before the body. Returns its length. */
static size_t head_make(const char *digest, const char *signer, char ret[HEAD_ROOM])
{
    int length = signer[0]
                     ? snprintf(ret, HEAD_ROOM, BEGIN_SIGNED "%s" KEY "%s" END, digest, signer)
                     : snprintf(ret, HEAD_ROOM, BEGIN_PLAIN "%s" END, digest);

    return (size_t)length;
}

int spotnik_manifest_frame(const struct spotnik_signer *signer, const char *entry, const char *body,
                           char **ret_text, size_t *ret_size)
{
    char digest[SPOTNIK_DIGEST_TEXT], head[HEAD_ROOM];
    size_t length = strlen(body);
    int rc = spotnik_signature_make(signer, entry, ROLE, body, length, digest);

    if (rc)
        return rc;
    size_t before = head_make(digest, signer->name, head);
    char *text = malloc(before + length + TAIL_BYTES + 1);

    if (!text)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");
    memcpy(text, head, before);
    memcpy(text + before, body, length);
    memcpy(text + before + length, TAIL, TAIL_BYTES + 1);
    *ret_text = text;
    *ret_size = before + length + TAIL_BYTES;
    return 0;
}

/* ---- reading: all bytes may be anybody's ---- */

struct head {
    const char *text;
    size_t bytes;
};

static int damaged(void)
{
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "its manifest is cut short or damaged");
}

/* Cut into head and body. False: it is neither form. */
static bool cut(const uint8_t *bytes, size_t size, bool is_signed, struct head *ret_head,
                struct spotnik_manifest_framed *ret)
{
    ret_head->text = (const char *)bytes;
    ret_head->bytes = is_signed ? HEAD_SIGNED_BYTES : HEAD_PLAIN_BYTES;
    if (size < ret_head->bytes + TAIL_BYTES)
        return false;
    ret->body = ret_head->text + ret_head->bytes;
    ret->length = size - ret_head->bytes - TAIL_BYTES;
    return !memcmp(ret->body + ret->length, TAIL, TAIL_BYTES);
}

/* *ret_same: the head is what `signer` puts before this body, but for the name of the key. */
static int head_compare(const struct head *head, const struct spotnik_manifest_framed *framed,
                        const struct spotnik_signer *signer, const char *entry, bool *ret_same)
{
    char digest[SPOTNIK_DIGEST_TEXT], ours[HEAD_ROOM];
    int rc = spotnik_signature_make(signer, entry, ROLE, framed->body, framed->length, digest);

    *ret_same =
        !rc && head_make(digest, framed->signer, ours) == head->bytes
        && spotnik_auth_equal((const uint8_t *)ours, (const uint8_t *)head->text, head->bytes);
    return rc;
}

/* The name of the key. False: the head is not of this form. */
static bool signer_find(const struct head *head, char ret[SPOTNIK_SIGNER_NAME])
{
    const char *at = head->text + sizeof BEGIN_SIGNED - 1;
    char digest[SPOTNIK_DIGEST_TEXT], again[HEAD_ROOM];

    memcpy(digest, at, SPOTNIK_DIGEST_SIGNED);
    digest[SPOTNIK_DIGEST_SIGNED] = '\0';
    memcpy(ret, at + SPOTNIK_DIGEST_SIGNED + sizeof KEY - 1, KEY_DIGITS);
    ret[KEY_DIGITS] = '\0';
    return spotnik_digest_is(digest, SPOTNIK_DIGEST_SIGNED) && spotnik_digest_is(ret, KEY_DIGITS)
           && head_make(digest, ret, again) == head->bytes
           && !memcmp(again, head->text, head->bytes);
}

/* Our MAC under another key's name is damage, too. */
static int judge_signed(const struct head *head, const struct spotnik_signer *signer,
                        const char *entry, struct spotnik_manifest_framed *ret)
{
    bool same = false, named;

    if (!signer_find(head, ret->signer))
        return damaged();
    signer = spotnik_signer_named(signer, ret->signer);
    int rc = signer->has_key ? head_compare(head, ret, signer, entry, &same) : 0;

    if (rc)
        return rc;
    named = !strcmp(ret->signer, signer->name);
    ret->state = same ? SPOTNIK_MANIFEST_SIGNED : SPOTNIK_MANIFEST_ANOTHERS;
    return same == named ? 0
                         : spotnik_error_return(
                               SPOTNIK_ERR_PEERS,
                               "its manifest is not as its key signed it: altered, cut short, or "
                               "moved from another checkpoint; spotnik checkpoint adopt refuses "
                               "it, too");
}

int spotnik_manifest_unframe(const struct spotnik_signer *signer, const char *entry,
                             const uint8_t *bytes, size_t size, struct spotnik_manifest_framed *ret)
{
    static const struct spotnik_signer no_key;
    size_t begin = sizeof BEGIN_SIGNED - 1;
    bool is_signed = size >= begin && !memcmp(bytes, BEGIN_SIGNED, begin), same = false;
    struct head head;

    memset(ret, 0, sizeof *ret);
    if (!cut(bytes, size, is_signed, &head, ret))
        return damaged();
    if (is_signed)
        return judge_signed(&head, signer, entry, ret);
    int rc = head_compare(&head, ret, &no_key, entry, &same);

    return rc || same ? rc : damaged();
}
