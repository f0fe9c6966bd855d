/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this host. See run_host.h. */
#include "run_host.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/options.h"

/* One for each worker's output and errors, and of each member for its links to the others. */
#define FILES_BASE 64
#define FILES_WORKER 4

/* Two numbers of a file, or of two files; false: the first one is no number ("max"). */
static bool read_pair(const char *first, const char *second, long long *ret_a, long long *ret_b)
{
    FILE *file = fopen(first, "re");
    bool got = file && fscanf(file, "%lld", ret_a) == 1;

    if (got && second) {
        fclose(file);
        file = fopen(second, "re");
    }
    got = got && file && fscanf(file, "%lld", ret_b) == 1;
    if (file)
        fclose(file);
    return got;
}

/* Whole processors of the quota of one control group; UINT32_MAX: it has none. */
static uint32_t quota(const char *folder)
{
    char first[PATH_MAX + 24], second[PATH_MAX + 24];
    long long us, period_us;

    snprintf(first, sizeof(first), "%s/cpu.max", folder);
    bool got = read_pair(first, NULL, &us, &period_us);
    if (!got) {
        snprintf(first, sizeof(first), "%s/cpu.cfs_quota_us", folder);
        snprintf(second, sizeof(second), "%s/cpu.cfs_period_us", folder);
        got = read_pair(first, second, &us, &period_us);
    }
    if (!got || us <= 0 || period_us <= 0)
        return UINT32_MAX;
    return us < period_us ? 1 : (uint32_t)(us / period_us);
}

/* The least quota on the way from group `path` up to `root`. Inside of a container the path may be
 * that of the host, of which only the end, or nothing, is there. */
static uint32_t quota_up(const char *root, char *path)
{
    char folder[PATH_MAX];
    uint32_t least = quota(root);

    for (char *end; *path; *end = 0) {
        snprintf(folder, sizeof(folder), "%s%s", root, path);
        uint32_t found = quota(folder);

        least = found < least ? found : least;
        end = strrchr(path, '/');
        if (!end)
            break;
    }
    return least;
}

static bool has_controller(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}

/* A line of /proc/self/cgroup: "0::PATH", or "N:cpu,cpuacct:PATH" with the first version. The path,
 * or NULL: the line is of other controllers. */
static char *line_cut(char *line, const char *controller, char **ret_controllers)
{
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!path)
        return NULL;
    *path++ = 0;
    *ret_controllers = ++controllers;
    path[strcspn(path, "\n")] = 0;
    return *controllers && !has_controller(controllers, controller) ? NULL : path;
}

static uint32_t quota_of_line(char *line, const char *root)
{
    char mount[PATH_MAX], *controllers, *path = line_cut(line, "cpu", &controllers);

    if (!path)
        return UINT32_MAX;
    snprintf(mount, sizeof(mount), "%s%s%s", root, *controllers ? "/" : "", controllers);
    return quota_up(mount, path);
}

uint32_t run_host_processors(const char *self, const char *root)
{
    char line[PATH_MAX];
    cpu_set_t set;
    uint32_t least = sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    FILE *file = fopen(self, "re");

    while (file && fgets(line, sizeof(line), file)) {
        uint32_t found = quota_of_line(line, root);

        least = found < least ? found : least;
    }
    if (file)
        fclose(file);
    return least;
}

static bool read_kills(const char *folder, const char *name, uint64_t *ret_kills)
{
    char path[2 * PATH_MAX + 32], word[64];
    unsigned long long count;
    bool got = false;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    while (file && !got && fscanf(file, "%63s %llu", word, &count) == 2)
        got = strcmp(word, "oom_kill") == 0;
    if (file)
        fclose(file);
    if (got)
        *ret_kills = count;
    return got;
}

/* Inside of a container the path may be that of the host: then the group is the root. */
static uint64_t kills_of_line(char *line, const char *root)
{
    char mount[PATH_MAX], folder[2 * PATH_MAX], *controllers,
        *path = line_cut(line, "memory", &controllers);
    uint64_t kills = 0;

    if (!path)
        return 0;
    const char *name = *controllers ? "memory.oom_control" : "memory.events";
    snprintf(mount, sizeof(mount), "%s%s%s", root, *controllers ? "/" : "", controllers);
    snprintf(folder, sizeof(folder), "%s%s", mount, path);
    if (!read_kills(folder, name, &kills))
        read_kills(mount, name, &kills);
    return kills;
}

uint64_t run_host_oom_kills(const char *self, const char *root)
{
    char line[PATH_MAX];
    uint64_t kills = 0;
    FILE *file = fopen(self, "re");

    while (file && fgets(line, sizeof(line), file))
        kills += kills_of_line(line, root);
    if (file)
        fclose(file);
    return kills;
}

uint32_t run_host_gpus(const char *folder)
{
    DIR *gpus = opendir(folder);
    uint32_t count = 0;

    for (const struct dirent *one; gpus && (one = readdir(gpus));)
        count += one->d_name[0] != '.';
    if (gpus)
        closedir(gpus);
    return count;
}

bool run_host_files(uint32_t workers)
{
    struct rlimit files;
    rlim_t wanted = FILES_BASE + (rlim_t)FILES_WORKER * workers;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return true;
    files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
    if (files.rlim_cur == wanted && setrlimit(RLIMIT_NOFILE, &files) == 0)
        return true;
    fprintf(stderr,
            "spotnik run: a process may open %llu files here, and a job of %u workers needs %llu: "
            "no member could reach the others. Raise the limit with: ulimit -n 4096\n",
            (unsigned long long)files.rlim_max, workers, (unsigned long long)wanted);
    return false;
}

bool run_host_members(uint32_t needed)
{
    const char *most = getenv("SPOTNIK_MAX");
    uint64_t max = 256;

    if ((most && !option_u64(most, 1, UINT32_MAX, &max)) || needed <= max)
        return true; /* the library refuses what is no number */
    fprintf(stderr,
            "spotnik run: the first step waits for %u members, and the job admits %llu (--max)\n",
            needed, (unsigned long long)max);
    return false;
}
