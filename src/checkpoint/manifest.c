/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests as JSON. */
#include "checkpoint/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/manifest_frame.h"
#include "checkpoint/safetensors.h"

#define FORMAT "spotnik-checkpoint-1"

void spotnik_manifest_role(uint32_t number, uint32_t parts, char ret[SPOTNIK_MANIFEST_ROLE])
{
    if (number < parts)
        snprintf(ret, SPOTNIK_MANIFEST_ROLE, "part-%05u-of-%05u-", number + 1, parts);
    else
        snprintf(ret, SPOTNIK_MANIFEST_ROLE, "blobs-");
}

void spotnik_manifest_name(const char *role, const char *digest,
                           char ret[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1])
{
    snprintf(ret, SPOTNIK_MANIFEST_FILE_NAME_MAX + 1, "%s%s.safetensors", role, digest);
}

void spotnik_manifest_done(struct spotnik_manifest *manifest)
{
    spotnik_registry_done(&manifest->schema);
    memset(manifest, 0, sizeof *manifest);
}

/* ---- writing ---- */

static json_t *hex(uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
    return json_string(text);
}

static json_t *ledger_json(const struct spotnik_ledger *ledger)
{
    json_t *returned = json_array();

    for (uint32_t i = 0; i < ledger->returned_count; i++)
        json_array_append_new(returned, json_pack("[I,I]", (json_int_t)ledger->returned[i].begin,
                                                  (json_int_t)ledger->returned[i].end));
    return json_pack("{s:I, s:I, s:b, s:I, s:I, s:o}", "samples", (json_int_t)ledger->samples,
                     "batch", (json_int_t)ledger->batch, "per_member", ledger->per_member, "epoch",
                     (json_int_t)ledger->data_epoch, "cursor", (json_int_t)ledger->cursor,
                     "returned", returned);
}

static json_t *tensors_json(const struct spotnik_registry *registry)
{
    json_t *tensors = json_array();

    for (uint32_t i = 0; i < registry->count; i++)
        json_array_append_new(tensors,
                              json_pack("{s:s, s:s, s:I}", "name", registry->tensor[i].name,
                                        "dtype",
                                        spotnik_safetensors_dtype(registry->tensor[i].dtype),
                                        "count", (json_int_t)registry->tensor[i].count));
    return tensors;
}

static json_t *file_json(const struct spotnik_manifest_file *file)
{
    bool plain = strlen(file->digest) == SPOTNIK_DIGEST_PLAIN;

    return json_pack("{s:s, s:I, s:s}", "file", file->name, "bytes", (json_int_t)file->bytes,
                     plain ? "xxh3" : "hmac", file->digest);
}

static json_t *parts_json(const struct spotnik_manifest *manifest)
{
    json_t *parts = json_array();

    for (uint32_t i = 0; i < manifest->part_count; i++)
        json_array_append_new(parts, file_json(&manifest->part[i]));
    return parts;
}

static json_t *manifest_json(const struct spotnik_manifest *manifest,
                             const struct spotnik_registry *registry)
{
    return json_pack("{s:s, s:s, s:I, s:o, s:i, s:o*, s:o, s:o, s:o, s:o}", "format", FORMAT, "job",
                     manifest->job, "step", (json_int_t)manifest->step, "founding",
                     hex(manifest->founding), "size", (int)manifest->size, "minority",
                     manifest->minority ? json_true() : NULL, "data",
                     ledger_json(&manifest->ledger), "tensors", tensors_json(registry), "parts",
                     parts_json(manifest), "blobs", file_json(&manifest->blobs));
}

static bool fits(const struct spotnik_ledger *ledger)
{
    return ledger->samples <= INT64_MAX && ledger->batch <= INT64_MAX
           && ledger->data_epoch <= INT64_MAX;
}

int spotnik_manifest_write(const struct spotnik_manifest *manifest,
                           const struct spotnik_registry *registry,
                           const struct spotnik_signer *signer, const char *entry, char **ret_text,
                           size_t *ret_size)
{
    json_t *json = fits(&manifest->ledger) ? manifest_json(manifest, registry) : NULL;
    char *body = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    int rc = body ? spotnik_manifest_frame(signer, entry, body, ret_text, ret_size)
                  : spotnik_error_return(
                        SPOTNIK_ERR_ARGUMENT,
                        "no manifest can be written: not UTF-8, numbers beyond 2^63, or no memory");

    json_decref(json);
    free(body);
    return rc;
}

/* ---- reading: all bytes may be anybody's ---- */

static bool copy_word(char *to, size_t room, const char *word)
{
    size_t length = strlen(word);

    if (!length || length >= room)
        return false;
    memcpy(to, word, length + 1);
    return true;
}

static bool hex_read(const char *text, uint64_t *ret)
{
    char again[24];
    unsigned long long number = strtoull(text, NULL, 16);

    snprintf(again, sizeof again, "%016llx", number);
    *ret = number;
    return !strcmp(again, text);
}

static bool file_read(json_t *json, bool is_signed, struct spotnik_manifest_file *ret)
{
    const char *name, *digest;
    json_int_t bytes;

    if (json_unpack_ex(json, NULL, JSON_STRICT, "{s:s, s:I, s:s}", "file", &name, "bytes", &bytes,
                       is_signed ? "hmac" : "xxh3", &digest))
        return false;
    ret->bytes = (uint64_t)bytes;
    return bytes >= 0 && copy_word(ret->name, sizeof ret->name, name) && name[0] != '.'
           && !strchr(name, '/')
           && spotnik_digest_is(digest, is_signed ? SPOTNIK_DIGEST_SIGNED : SPOTNIK_DIGEST_PLAIN)
           && copy_word(ret->digest, sizeof ret->digest, digest);
}

static bool range_read(json_t *json, struct spotnik_range *ret)
{
    json_int_t begin, end;

    if (json_unpack_ex(json, NULL, JSON_STRICT, "[I,I!]", &begin, &end) || begin < 0 || end < 0)
        return false;
    *ret = (struct spotnik_range){ (uint64_t)begin, (uint64_t)end };
    return true;
}

static bool ledger_read(json_t *json, struct spotnik_ledger *ret)
{
    json_int_t samples, batch, epoch, cursor;
    json_t *returned;
    int per_member;

    if (json_unpack_ex(json, NULL, JSON_STRICT, "{s:I, s:I, s:b, s:I, s:I, s:o}", "samples",
                       &samples, "batch", &batch, "per_member", &per_member, "epoch", &epoch,
                       "cursor", &cursor, "returned", &returned)
        || samples < 0 || batch < 0 || epoch < 0 || cursor < 0 || !json_is_array(returned)
        || json_array_size(returned) > SPOTNIK_LEDGER_RETURNED_MAX)
        return false;
    ret->samples = (uint64_t)samples;
    ret->batch = (uint64_t)batch;
    ret->per_member = per_member != 0;
    ret->data_epoch = (uint64_t)epoch;
    ret->cursor = (uint64_t)cursor;
    ret->returned_count = (uint32_t)json_array_size(returned);
    for (uint32_t i = 0; i < ret->returned_count; i++)
        if (!range_read(json_array_get(returned, i), &ret->returned[i]))
            return false;
    return spotnik_ledger_is_valid(ret);
}

static bool tensor_read(json_t *json, struct spotnik_registry *schema)
{
    const char *name, *dtype;
    json_int_t count;

    if (json_unpack_ex(json, NULL, JSON_STRICT, "{s:s, s:s, s:I}", "name", &name, "dtype", &dtype,
                       "count", &count))
        return false;
    return count >= 0
           && !spotnik_registry_add_shape(schema, name, (uint64_t)count,
                                          spotnik_safetensors_dtype_read(dtype));
}

static bool lists_read(struct spotnik_manifest *ret, json_t *tensors, json_t *parts)
{
    if (!json_is_array(tensors) || !json_is_array(parts)
        || json_array_size(parts) > SPOTNIK_PARTS_MAX || !json_array_size(parts))
        return false;
    for (size_t i = 0; i < json_array_size(tensors); i++)
        if (!tensor_read(json_array_get(tensors, i), &ret->schema))
            return false;
    ret->part_count = (uint32_t)json_array_size(parts);
    for (uint32_t i = 0; i < ret->part_count; i++)
        if (!file_read(json_array_get(parts, i), ret->signer[0], &ret->part[i]))
            return false;
    return true;
}

static bool body_read(struct spotnik_manifest *ret, json_t *json)
{
    const char *format, *job, *founding;
    json_t *data, *tensors, *parts, *blobs;
    json_int_t step, size;
    int minority = 0;

    if (json_unpack_ex(json, NULL, JSON_STRICT,
                       "{s:s, s:s, s:I, s:s, s:I, s?b, s:o, s:o, s:o, s:o}", "format", &format,
                       "job", &job, "step", &step, "founding", &founding, "size", &size, "minority",
                       &minority, "data", &data, "tensors", &tensors, "parts", &parts, "blobs",
                       &blobs)
        || step < 1 || size < 1 || size > UINT32_MAX)
        return false;
    ret->step = (uint64_t)step;
    ret->minority = minority != 0;
    ret->size = (uint32_t)size;
    return copy_word(ret->job, sizeof ret->job, job) && hex_read(founding, &ret->founding)
           && ledger_read(data, &ret->ledger) && lists_read(ret, tensors, parts)
           && file_read(blobs, ret->signer[0], &ret->blobs);
}

static int format_check(json_t *json)
{
    const char *format = json_string_value(json_object_get(json, "format"));

    if (format && strcmp(format, FORMAT))
        return spotnik_error_return(SPOTNIK_ERR_VERSION,
                                    "its format is %.40s, this version reads " FORMAT, format);
    return 0;
}

static int json_judge(struct spotnik_manifest *ret, json_t *json)
{
    int rc = format_check(json);

    return rc || body_read(ret, json)
               ? rc
               : spotnik_error_return(SPOTNIK_ERR_PEERS,
                                      "its manifest is whole but makes no sense");
}

int spotnik_manifest_read(struct spotnik_manifest *ret, const struct spotnik_signer *signer,
                          const char *entry, const uint8_t *bytes, size_t size)
{
    struct spotnik_manifest_framed framed;
    int rc = spotnik_manifest_unframe(signer, entry, bytes, size, &framed);

    if (rc)
        return rc;
    ret->state = framed.state;
    memcpy(ret->signer, framed.signer, sizeof ret->signer);
    json_t *json = json_loadb(framed.body, framed.length, JSON_REJECT_DUPLICATES, NULL);

    rc = json_judge(ret, json);
    json_decref(json);
    if (rc)
        spotnik_manifest_done(ret);
    return rc;
}
