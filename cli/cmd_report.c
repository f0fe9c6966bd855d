/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik report: finds report.py and a Python, and becomes it. The script is beside the command in a build
 * folder, and in ../share/spotnik where the command is installed. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

static int script_find(char path[PATH_MAX + 64])
{
    static const char *const places[] = { "report.py", "../share/spotnik/report.py" };
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length < 0)
        return -1;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        snprintf(path, PATH_MAX + 64, "%s%s", self, places[i]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return -1;
}

int spotnik_cmd_report(int argc, char **argv)
{
    char path[PATH_MAX + 64];
    const char *wanted = getenv("SPOTNIK_PYTHON"), *python = wanted && *wanted ? wanted : "python3";
    char **command = calloc((size_t)argc + 2, sizeof(*command));

    if (!command || script_find(path)) {
        fprintf(stderr, "spotnik report: report.py is neither beside this command nor in ../share/spotnik; "
                        "install Spotnik again\n");
        return 1;
    }
    command[0] = (char *)(uintptr_t)python;
    command[1] = path;
    memcpy(command + 2, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
    execvp(python, command);
    fprintf(stderr, "spotnik report: cannot run %s: %s; install Python 3, or name it in SPOTNIK_PYTHON\n",
            python, strerror(errno));
    free(command);
    return 1;
}
