/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik report, spotnik trace: find report.py or trace.py and a Python, and become it. The script
 * is beside the command in a build folder, and in ../share/spotnik where the command is
 * installed. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "common/sibling.h"
#include "run_folder.h"
#include "spotnik/spotnik.h"
#include "store/store.h"
#include "watch/watch.h"

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

/* ---- a log in a bucket ----
 * Its parts become files of a folder. A part never changes: one that is there is not asked for. */

struct saving {
    struct spotnik_objects *store;
    const char *folder;
};

static int part_write(const char *path, const char *bytes, size_t size)
{
    char fresh[PATH_MAX + 8];

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    FILE *file = fopen(fresh, "we");
    bool written = file && fwrite(bytes, 1, size, file) == size;

    written = file && fclose(file) == 0 && written;
    return written && rename(fresh, path) == 0 ? 0 : -errno;
}

static int part_save(void *context, const char *name)
{
    const struct saving *saving = context;
    char path[PATH_MAX];
    size_t end = strlen(name), size;
    uint64_t version;

    snprintf(path, sizeof(path), "%s/%s", saving->folder, name);
    if (end < 6 || strcmp(name + end - 6, ".jsonl") || access(path, F_OK) == 0)
        return 0;
    char *bytes = malloc(SPOTNIK_WATCH_PART_MAX);
    int rc = bytes ? spotnik_objects_get(saving->store, name, bytes, SPOTNIK_WATCH_PART_MAX, &size,
                                         &version)
                   : -ENOMEM;

    rc = rc ? rc : part_write(path, bytes, size);
    free(bytes);
    return rc;
}

static int log_save(const char *folder, const char *where)
{
    struct saving saving = { .folder = folder };
    int rc = spotnik_objects_open(where, &saving.store);

    if (rc) {
        fprintf(stderr, "spotnik report: %s\n", spotnik_last_error());
        return 1;
    }
    rc = mkdir(folder, 0700) && errno != EEXIST ? -errno : 0;
    rc = rc ? rc : spotnik_objects_list(saving.store, part_save, &saving);
    if (rc)
        fprintf(stderr, "spotnik report: cannot copy the event log from %s to %s: %s\n", where,
                folder, spotnik_objects_why(rc));
    spotnik_objects_close(saving.store);
    return rc ? 1 : 0;
}

static int report_run(int argc, char **argv)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        _exit(become("report.py", argc, argv));
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : 1;
}

static int report_bucket(int argc, char **argv, char **where)
{
    const char *base = getenv("TMPDIR");
    struct run_folder copy = { .path = NULL };

    if (asprintf(&copy.path, "%s/spotnik-XXXXXX", base && *base ? base : "/tmp") < 0)
        return 1;
    if (!mkdtemp(copy.path)) {
        fprintf(stderr, "spotnik report: cannot make %s: %s; set TMPDIR\n", copy.path,
                strerror(errno));
        free(copy.path);
        return 1;
    }
    int rc = log_save(copy.path, *where);

    *where = copy.path;
    rc = rc ? rc : report_run(argc, argv);
    run_folder_remove(&copy);
    return rc;
}

int spotnik_cmd_report(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--save"))
        return log_save(argv[2], argv[3]);
    for (int i = 1; i < argc; i++)
        if (spotnik_objects_is_bucket(argv[i]))
            return report_bucket(argc, argv, &argv[i]);
    return become("report.py", argc, argv);
}

int spotnik_cmd_trace(int argc, char **argv)
{
    return become("trace.py", argc, argv);
}
