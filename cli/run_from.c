/* SPDX-License-Identifier: Apache-2.0 */
/* See run_from.h. */
#include "run_from.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/key.h"
#include "checkpoint/resume.h"
#include "spotnik/spotnik.h"
#include "store/store.h"

static bool is_usable(const char *path, const char *key_file)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof(*manifest));
    struct spotnik_signer signer[2];
    bool good = manifest && !spotnik_key_signer(key_file, signer)
                && !spotnik_checkpoint_manifest_at(path, signer, manifest);

    if (good)
        spotnik_manifest_done(manifest);
    spotnik_signer_done(signer);
    spotnik_signer_done(signer + 1);
    free(manifest);
    return good;
}

bool run_from_set(const char *from, const char *key_file)
{
    if (!from)
        return true;
    char *path = spotnik_objects_is_bucket(from) ? strdup(from) : realpath(from, NULL);
    bool good = path && is_usable(path, key_file) && setenv("SPOTNIK_FROM", path, 1) == 0;

    if (!good)
        fprintf(stderr, "spotnik run: --from %s cannot be used: %s\n", from,
                path ? spotnik_last_error() : strerror(errno));
    free(path);
    return good;
}
