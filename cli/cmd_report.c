/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik report, spotnik trace: find report.py or trace.py and a Python, and become it. The script
 * is beside the command in a build folder, and in ../share/spotnik where the command is
 * installed. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

static int script_find(const char *name, char path[PATH_MAX + 64])
{
    static const char *const places[] = { "", "../share/spotnik/" };
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length < 0)
        return -1;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        snprintf(path, PATH_MAX + 64, "%s%s%s", self, places[i], name);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return -1;
}

static int become(const char *name, int argc, char **argv)
{
    char path[PATH_MAX + 64];
    const char *wanted = getenv("SPOTNIK_PYTHON"), *python = wanted && *wanted ? wanted : "python3";
    char **command = calloc((size_t)argc + 2, sizeof(*command));

    if (!command || script_find(name, path)) {
        fprintf(stderr,
                "spotnik %s: %s is neither beside this command nor in ../share/spotnik; install "
                "Spotnik again\n",
                argv[0], name);
        return 1;
    }
    command[0] = (char *)(uintptr_t)python;
    command[1] = path;
    memcpy(command + 2, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
    execvp(python, command);
    fprintf(stderr,
            "spotnik %s: cannot run %s: %s; install Python 3, or name it in SPOTNIK_PYTHON\n",
            argv[0], python, strerror(errno));
    free(command);
    return 1;
}

int spotnik_cmd_report(int argc, char **argv)
{
    return become("report.py", argc, argv);
}

int spotnik_cmd_trace(int argc, char **argv)
{
    return become("trace.py", argc, argv);
}
