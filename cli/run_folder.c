/* SPDX-License-Identifier: Apache-2.0 */
/* See run_folder.h. */
#include "run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "discovery/discovery.h"
#include "spotnik/spotnik.h"

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "spotnik run: cannot make %s: %s\n", what, why);
    return false;
}

static bool make_key(struct run_folder *folder, const char *path)
{
    int rc = spotnik_key_create_for_run(path);
    FILE *file = rc ? NULL : fopen(path, "re");
    bool got = file && fread(folder->key, 1, sizeof(folder->key) - 1, file) > 0;

    if (file)
        fclose(file);
    return got || complain("a key", rc ? spotnik_last_error() : strerror(errno));
}

bool run_folder_make(struct run_folder *folder, const char *key_file)
{
    const char *base = getenv("TMPDIR");
    char path[4096];

    if (asprintf(&folder->path, "%s/spotnik-XXXXXX", base && *base ? base : "/tmp") < 0)
        return false;
    if (!mkdtemp(folder->path)) {
        fprintf(stderr,
                "spotnik run: cannot make %s: %s; set TMPDIR to a folder that can be written\n",
                folder->path, strerror(errno));
        return false;
    }
    snprintf(path, sizeof(path), "%s/peers", folder->path);
    if (spotnik_discovery_fresh(path))
        return complain(path, strerror(errno));
    snprintf(path, sizeof(path), "file:%s/peers", folder->path);
    setenv("SPOTNIK_PEERS", path, 1);
    snprintf(path, sizeof(path), "%s/key", folder->path);
    if (!key_file && !make_key(folder, path))
        return false;
    setenv("SPOTNIK_KEY_FILE", key_file ? key_file : path, 1);
    return true;
}

/* TMPDIR itself may be gone, too. What another user has made meanwhile is not taken. */
static bool make(const char *path)
{
    if (mkdir(path, 0700) == 0)
        return true;
    char *above = errno == ENOENT ? strdup(path) : NULL, *end = above ? strrchr(above, '/') : NULL;
    if (end)
        *end = 0;
    bool made = end && end != above && make(above) && mkdir(path, 0700) == 0;
    free(above);
    return made;
}

/* Another user may have made a folder of that name by now. */
static int open_own(const char *path)
{
    struct stat facts;
    int fd = make(path) || errno == EEXIST
                 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;

    if (fd >= 0 && (fstat(fd, &facts) || facts.st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

static void put_key(int folder, const char *key)
{
    int fd = openat(folder, "key", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t size = strlen(key);

    if (fd < 0)
        return;
    if (write(fd, key, size) != (ssize_t)size)
        unlinkat(folder, "key", 0);
    close(fd);
}

static bool is_whole(const struct run_folder *folder)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/peers", folder->path);
    bool whole = access(path, F_OK) == 0;
    snprintf(path, sizeof(path), "%s/key", folder->path);
    return whole && (!folder->key[0] || access(path, F_OK) == 0);
}

bool run_folder_mend(const struct run_folder *folder)
{
    if (!folder || !folder->path || is_whole(folder))
        return false;
    int fd = open_own(folder->path);
    if (fd < 0)
        return false;
    mkdirat(fd, "peers", 0700); /* not as a fresh one: the job lives */
    if (folder->key[0])
        put_key(fd, folder->key);
    close(fd);
    return is_whole(folder);
}

void run_folder_remove(struct run_folder *folder)
{
    char *command[] = { "rm", "-rf", "--", folder->path, NULL };

    if (!folder->path)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    explicit_bzero(folder->key, sizeof(folder->key));
    free(folder->path);
}
