/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint a job goes on from, and loading it. */
#include "checkpoint/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/checkpoint_store.h"
#include "checkpoint/reading.h"

/* ---- may it be used? ---- */

int spotnik_checkpoint_look_at(const char *dir, const char *entry,
                               const struct spotnik_signer *signer, struct spotnik_manifest *ret)
{
    uint8_t *bytes;
    size_t size;

    if (!spotnik_checkpoint_store_has(dir, entry, SPOTNIK_MANIFEST_NAME)
        && (errno == ENOENT || errno == ENOTDIR)) /* else reading it says what is wrong */
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "it has no manifest, so it was never completed");
    int rc = spotnik_checkpoint_store_get(dir, entry, SPOTNIK_MANIFEST_NAME,
                                          SPOTNIK_MANIFEST_BYTES_MAX, &bytes, &size);

    if (rc)
        return rc;
    rc = spotnik_manifest_read(ret, signer, entry, bytes, size);
    free(bytes);
    return rc;
}

/* A job with a key that was given takes what that key has signed, and any other job what is not
 * signed. */
static int admit(const char *dir, const char *entry, const struct spotnik_signer *signer,
                 const struct spotnik_manifest *manifest)
{
    if (manifest->state == (signer->has_key ? SPOTNIK_MANIFEST_SIGNED : SPOTNIK_MANIFEST_UNSIGNED))
        return 0;
    if (manifest->state == SPOTNIK_MANIFEST_UNSIGNED)
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "checkpoint %s is not signed, and a job with a key file takes only what its key has "
            "signed: if you trust it, say spotnik checkpoint adopt %.200s %s",
            entry, dir, entry);
    if (signer->has_key)
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "checkpoint %s is signed by key %s, and this is key %s: give that key, or say spotnik "
            "checkpoint adopt %.200s %s --old-key-file FILE",
            entry, manifest->signer, signer->name, dir, entry);
    return spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                "checkpoint %s in %.200s is signed: give the key %s that signed it "
                                "(--key-file or SPOTNIK_KEY_FILE)",
                                entry, dir, manifest->signer);
}

int spotnik_checkpoint_manifest(const char *dir, const char *entry,
                                const struct spotnik_signer *signer, struct spotnik_manifest *ret)
{
    int rc = spotnik_checkpoint_look_at(dir, entry, signer, ret);

    if (rc)
        return rc;
    rc = admit(dir, entry, signer, ret);
    if (rc)
        spotnik_manifest_done(ret);
    return rc;
}

int spotnik_checkpoint_verify(const char *dir, const char *entry,
                              const struct spotnik_signer *signer, struct spotnik_manifest *ret)
{
    int rc = spotnik_checkpoint_manifest(dir, entry, signer, ret);

    if (rc)
        return rc;
    rc = spotnik_reading_verify(&(struct spotnik_reading){
        .dir = dir, .entry = entry, .signer = signer, .manifest = ret });
    if (rc)
        spotnik_manifest_done(ret);
    return rc;
}

/* ---- loading ---- */

static bool is_damage(int rc)
{
    return rc == SPOTNIK_ERR_PEERS || rc == SPOTNIK_ERR_VERSION;
}

static void say(struct spotnik_resume *resume, const char *entry)
{
    size_t have = strlen(resume->message);

    snprintf(resume->message + have, sizeof resume->message - have,
             "%scheckpoint %s was left out: %s", have ? "; " : "", entry, spotnik_last_error());
}

/* Is it ours? Asked before its gigabytes are read. `job` NULL: its user has said so. */
static int belongs(const struct spotnik_manifest *manifest, const char *dir, const char *job,
                   const struct spotnik_registry *registry)
{
    if (job && strcmp(manifest->job, job))
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "%s holds checkpoints of job \"%s\", this is job \"%s\": give each job its own "
            "checkpoint directory",
            dir, manifest->job, job);
    if (spotnik_registry_compare(registry, &manifest->schema)) {
        char why[300];

        snprintf(why, sizeof why, "%s", spotnik_last_error());
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "the checkpoint in %s is of another model: %s. Start the program that wrote it, or "
            "give this one another directory",
            dir, why);
    }
    return 0;
}

static int take(struct spotnik_reading reading, struct spotnik_registry *registry,
                struct spotnik_resume *ret)
{
    const struct spotnik_manifest *manifest = reading.manifest;

    reading.into = registry;
    int rc = spotnik_reading_parts(&reading);

    if (!rc)
        rc = spotnik_reading_blobs(&reading, &registry->blobs);
    if (!rc && spotnik_registry_is_failed(registry))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                  "the program could not take over the state that was loaded");
    if (rc)
        return rc;
    ret->step = manifest->step;
    ret->founding = manifest->founding;
    spotnik_ledger_copy(&ret->ledger, &manifest->ledger);
    snprintf(ret->name, sizeof ret->name, "%s", reading.entry);
    return 0;
}

/* What loading a checkpoint needs. */
struct loading {
    const char *dir, *job; /* job NULL: any */
    const struct spotnik_signer *signer;
    struct spotnik_registry *registry;
};

static int try_entry(const struct loading *loading, const char *entry, struct spotnik_resume *ret)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    struct spotnik_reading reading = {
        .dir = loading->dir, .entry = entry, .signer = loading->signer, .manifest = manifest
    };
    int rc = manifest ? spotnik_checkpoint_manifest(loading->dir, entry, loading->signer, manifest)
                      : SPOTNIK_ERR_MEMORY;

    if (!rc)
        rc = belongs(manifest, loading->dir, loading->job, loading->registry);
    /* A bucket is read once: what turns out damaged is loaded over by an older checkpoint, or is an
     * error, after which the state is not used. */
    if (!rc && !spotnik_objects_is_bucket(loading->dir))
        rc = spotnik_reading_verify(&reading);
    if (!rc)
        rc = take(reading, loading->registry, ret);
    if (manifest)
        spotnik_manifest_done(manifest);
    free(manifest);
    return rc;
}

/* Those newer than the one loaded belong to a past that did not happen: never again to be taken for
 * the newest. */
static void set_aside(const char *dir, const struct spotnik_checkpoint_store_list *list,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list->entry[i].written_s)
            spotnik_checkpoint_store_set_aside(dir, list->entry[i].name);
}

static int load_newest(const struct loading *loading,
                       const struct spotnik_checkpoint_store_list *list, struct spotnik_resume *ret)
{
    uint32_t damaged = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        int rc = try_entry(loading, list->entry[i].name, ret);

        if (!rc)
            set_aside(loading->dir, list, i);
        if (!is_damage(rc))
            return rc;
        damaged += list->entry[i].written_s != 0;
        say(ret, list->entry[i].name);
    }
    if (damaged)
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "no checkpoint in %s can be used, and a job does not start from scratch over one that "
            "was complete; move them away if you want that. %s",
            loading->dir, ret->message);
    return 0;
}

int spotnik_checkpoint_load(const char *dir, const char *job, const struct spotnik_signer *signer,
                            struct spotnik_registry *registry, struct spotnik_resume *ret)
{
    struct loading loading = { .dir = dir, .job = job, .signer = signer, .registry = registry };
    struct spotnik_checkpoint_store_list list;

    memset(ret, 0, sizeof *ret);
    int rc = spotnik_checkpoint_store_list(dir, &list);
    if (rc)
        return rc;
    rc = load_newest(&loading, &list, ret);
    spotnik_checkpoint_store_list_done(&list);
    return rc;
}

/* ---- one that was named ---- */

/* The folder that `path` is in, and its own name. False: it is no name of a checkpoint. */
static bool split(const char *path, char dir[PATH_MAX],
                  char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;

    if (!slash || length >= PATH_MAX || strlen(slash + 1) > SPOTNIK_CHECKPOINT_STORE_NAME_MAX)
        return false;
    snprintf(dir, PATH_MAX, "%.*s", (int)length, path);
    strcpy(name, slash + 1);
    return true;
}

int spotnik_checkpoint_manifest_at(const char *path, const struct spotnik_signer *signer,
                                   struct spotnik_manifest *ret)
{
    char dir[PATH_MAX], name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    if (!split(path, dir, name))
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "it has no name of a checkpoint");
    return spotnik_checkpoint_manifest(dir, name, signer, ret);
}

int spotnik_checkpoint_load_from(const char *path, const struct spotnik_signer *signer,
                                 struct spotnik_registry *registry, struct spotnik_resume *ret)
{
    char dir[PATH_MAX], name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], why[300];
    struct loading loading = { .dir = dir, .signer = signer, .registry = registry };

    memset(ret, 0, sizeof *ret);
    int rc = split(path, dir, name)
                 ? try_entry(&loading, name, ret)
                 : spotnik_error_return(SPOTNIK_ERR_PEERS, "it has no name of a checkpoint");

    snprintf(why, sizeof why, "%s", rc ? spotnik_last_error() : "");
    return is_damage(rc) ? spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                                "the checkpoint %s cannot be used: %s", path, why)
                         : rc;
}
