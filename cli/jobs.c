/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the jobs of this host in /proc. */
#include "jobs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"

#define ENVIRONMENT_MAX (128 * 1024)

static size_t read_environment(const char *pid, char *text)
{
    char path[64];
    size_t used = 0;
    ssize_t got;

    snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (used < ENVIRONMENT_MAX - 1
           && (got = read(fd, text + used, ENVIRONMENT_MAX - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = 0;
    return used;
}

static const char *variable(const char *text, size_t size, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        if (!strncmp(at, name, length) && at[length] == '=')
            return at[length + 1] ? at + length + 1 : NULL;
    return NULL;
}

/* Relative paths are relative to where the process is. */
static void absolute(const char *pid, const char *prefix, const char *path, char *ret, size_t size)
{
    char link[64], folder[PATH_MAX];

    snprintf(link, sizeof(link), "/proc/%.20s/cwd", pid);
    ssize_t length = *path == '/' ? -1 : readlink(link, folder, sizeof(folder) - 1);
    if (length < 0)
        snprintf(ret, size, "%s%s", prefix, path);
    else
        snprintf(ret, size, "%s%.*s/%s", prefix, (int)length, folder, path);
}

static bool take(const char *pid, const char *text, size_t size, struct job_at *ret)
{
    const char *peers = variable(text, size, "SPOTNIK_PEERS"),
               *key = variable(text, size, "SPOTNIK_KEY_FILE");
    const char *job = variable(text, size, "SPOTNIK_JOB");

    if (!peers || !key)
        return false;
    memset(ret, 0, sizeof(*ret));
    if (!strncmp(peers, "file:", 5))
        absolute(pid, "file:", peers + 5, ret->peers, sizeof(ret->peers));
    else
        snprintf(ret->peers, sizeof(ret->peers), "%s", peers);
    absolute(pid, "", key, ret->key_file, sizeof(ret->key_file));
    snprintf(ret->job, sizeof(ret->job), "%s", job ? job : "spotnik");
    return true;
}

static bool is_known(const struct job_at *list, uint32_t count, const struct job_at *at)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(list[i].peers, at->peers) && !strcmp(list[i].key_file, at->key_file)
            && !strcmp(list[i].job, at->job))
            return true;
    return false;
}

uint32_t jobs_find(struct job_at ret[JOBS_MAX])
{
    DIR *processes = opendir("/proc");
    char *text = malloc(ENVIRONMENT_MAX);
    uint32_t count = 0;

    for (const struct dirent *entry;
         processes && text && count < JOBS_MAX && (entry = readdir(processes));) {
        size_t size =
            isdigit((unsigned char)entry->d_name[0]) ? read_environment(entry->d_name, text) : 0;

        if (size && take(entry->d_name, text, size, &ret[count])
            && !is_known(ret, count, &ret[count]))
            count++;
    }
    free(text);
    if (processes)
        closedir(processes);
    return count;
}

bool jobs_choose(const char *command, const char *peers, const char *key_file, const char *job,
                 struct job_at *ret, int *ret_status)
{
    struct job_at *found = calloc(JOBS_MAX, sizeof(*found));
    uint32_t count = 0;

    *ret_status = 2;
    if (job_at_fill(peers, key_file, job, ret)) {
        free(found);
        return true;
    }
    if (ret->peers[0])
        option_refuse(
            command,
            "members answer only to the job key. Give --key-file, or set SPOTNIK_KEY_FILE");
    else if (found)
        count = jobs_find(found);
    if (!ret->peers[0] && count == 0)
        option_refuse(command,
                      "no job runs on this host as far as its processes tell. Give --peers and "
                      "--key-file, or set SPOTNIK_PEERS "
                      "and SPOTNIK_KEY_FILE");
    if (count > 1) {
        fprintf(stderr, "spotnik %s: several jobs run here; name one:\n", command);
        for (uint32_t i = 0; i < count; i++)
            fprintf(stderr, "  spotnik %s --job %s --peers %s --key-file %s\n", command,
                    found[i].job, found[i].peers, found[i].key_file);
    }
    if (count == 1)
        *ret = found[0];
    free(found);
    return count == 1;
}
