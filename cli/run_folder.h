/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary folder of a job that is all on this host: its key and its peers folder, which live
 * as long as the run. A cleaner of the temporary folder may empty it meanwhile. */
#ifndef SPOTNIK_CLI_RUN_FOLDER_H
#define SPOTNIK_CLI_RUN_FOLDER_H

#include <stdbool.h>

struct run_folder {
    char *path;    /* NULL: none was made */
    char key[128]; /* the text of its key; "": the user has one elsewhere */
};

/* Make it in TMPDIR, with a key unless the user has one (`key_file`, else NULL). Sets SPOTNIK_PEERS
 * and SPOTNIK_KEY_FILE. False: standard error has why. */
bool run_folder_make(struct run_folder *folder, const char *key_file);

/* Put back what has vanished, so that newcomers find the job. True: it was put back. Members write
 * their own records again. */
bool run_folder_mend(const struct run_folder *folder);

/* With all that is in it. */
void run_folder_remove(struct run_folder *folder);

#endif
