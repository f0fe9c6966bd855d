/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik report, spotnik trace: find report.py or trace.py and a Python, and become it. The script
 * is beside the command in a build folder, and in ../share/spotnik where the command is
 * installed. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "common/sibling.h"

static bool script_find(const char *name, char path[PATH_MAX])
{
    return sibling_find("", name, R_OK, path)
           || sibling_find("../share/spotnik/", name, R_OK, path);
}

static int become(const char *name, int argc, char **argv)
{
    char path[PATH_MAX];
    const char *wanted = getenv("SPOTNIK_PYTHON"), *python = wanted && *wanted ? wanted : "python3";
    char **command = calloc((size_t)argc + 2, sizeof(*command));

    if (!command || !script_find(name, path)) {
        fprintf(stderr,
                "spotnik %s: %s is neither beside this command nor in ../share/spotnik; install "
                "Spotnik again\n",
                argv[0], name);
        free(command);
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
