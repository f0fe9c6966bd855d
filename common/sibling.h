/* SPDX-License-Identifier: Apache-2.0 */
/* Files that come with this command: other commands, and the scripts of reports. They are beside
 * its own executable, as in a build folder, or in a folder of the same installation. */
#ifndef SPOTNIK_COMMON_SIBLING_H
#define SPOTNIK_COMMON_SIBLING_H

#include <limits.h>
#include <stdbool.h>

/* `folder` is "" or the way from the executable's folder, such as "../share/spotnik/". False: no
 * such file, or it does not grant `mode`, as access(2) takes it. */
bool sibling_find(const char *folder, const char *name, int mode, char ret[PATH_MAX]);

/* The command `name`: beside this one, in ../libexec/spotnik, or the bare name, which exec looks up
 * in PATH. */
void sibling_command(const char *name, char ret[PATH_MAX]);

#endif
