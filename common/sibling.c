/* SPDX-License-Identifier: Apache-2.0 */
#include "common/sibling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool sibling_find(const char *folder, const char *name, int mode, char ret[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length < 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    slash[1] = 0;
    return snprintf(ret, PATH_MAX, "%s%s%s", self, folder, name) < PATH_MAX && !access(ret, mode);
}

void sibling_command(const char *name, char ret[PATH_MAX])
{
    if (!sibling_find("", name, X_OK, ret) && !sibling_find("../libexec/spotnik/", name, X_OK, ret))
        snprintf(ret, PATH_MAX, "%s", name);
}
