/* SPDX-License-Identifier: Apache-2.0 */
/* Programs change their working directory while they train. What they named by a relative path
 * stays what it was when they joined: else a member's record, its checkpoints and its list of hosts
 * would be looked for elsewhere, and others would take the member for dead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/job.h"
#include "base/error.h"
#include "store/store.h"

/* In SPOTNIK_PEERS a path follows these. */
static const char *const kinds[] = { "hosts:", "file:" };

static const char *path_of(const char *peers)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(peers, kinds[i], strlen(kinds[i])) == 0)
            return peers + strlen(kinds[i]);
    return NULL;
}

/* Where checkpoints are: a folder, which may have "file:" before it, or a bucket. */
static const char *folder_of(const char **checkpoints)
{
    if (strncmp(*checkpoints, "file:", 5) == 0)
        *checkpoints += 5;
    return spotnik_objects_is_bucket(*checkpoints) ? NULL : *checkpoints;
}

/* `*text` is a path from `path` on; NULL: it is none. Absolute ones stay, and so do all where the
 * working directory has no name any more. */
static int path_resolve(const char *field, const char **text, const char *path, char *to,
                        size_t size)
{
    char here[SPOTNIK_ANCHORED_MAX];

    if (!path || *path == '\0' || *path == '/' || !getcwd(here, sizeof here) || *here != '/')
        return 0;
    int kind = (int)(path - *text),
        length = snprintf(to, size, "%.*s%s/%s", kind, *text, here, path);

    if (length < 0 || (size_t)length >= size)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s: the path %.60s... is too long",
                                    field, path);
    *text = to;
    return 0;
}

int spotnik_config_paths_resolve(spotnik_config *config, struct spotnik_path_resolved *place)
{
    int rc = 0;

    if (config->peers)
        rc = path_resolve("peers", &config->peers, path_of(config->peers), place->peers,
                          sizeof place->peers);
    if (!rc && config->checkpoint_dir)
        rc = path_resolve("checkpoint_dir", &config->checkpoint_dir,
                          folder_of(&config->checkpoint_dir), place->checkpoint_dir,
                          sizeof place->checkpoint_dir);
    place->from = getenv("SPOTNIK_FROM");
    if (!place->from)
        place->from = "";
    return rc ? rc
              : path_resolve("SPOTNIK_FROM", &place->from, folder_of(&place->from),
                             place->from_room, sizeof place->from_room);
}
