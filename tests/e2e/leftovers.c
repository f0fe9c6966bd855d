/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for what is left, by /proc and the folders; see leftovers.h. */
#include "leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "probe.h"

static char folder[320];

void leftovers_watch(struct cluster *cluster)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1))
        cluster_fail(cluster, "prctl: %m");
    snprintf(folder, sizeof folder, "%s/tmp", cluster->dir);
    if (mkdir(folder, 0700) || setenv("TMPDIR", folder, 1))
        cluster_fail(cluster, "mkdir %s: %m", folder);
}

static int lines_with(pid_t pid, const char *word)
{
    char path[64], line[512];
    int count = 0;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, word) != NULL;
    fclose(maps);
    return count;
}

/* Shared memory: that of the member itself and of those it adds up with. */
static int mappings(pid_t pid)
{
    return lines_with(pid, "memfd:");
}

/* What would stay behind if all of them were killed now. */
static bool has_named_memory(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (lines_with(cluster->worker[i].pid, "/dev/shm/") > 0)
            return true;
    return false;
}

/* Connections that a member has added to its channels of other hosts stay while the view needs the
 * channel (add_connection.c). So members that came at other times differ by three each way. */
static int spread(const struct cluster *cluster)
{
    uint32_t near = cluster->hosts ? cluster->places / cluster->hosts : cluster->places;

    return 2 * (int)cluster->places + 6 * (int)(cluster->places - near);
}

static bool is_even(struct cluster *cluster, int (*count_of)(pid_t), const char *what)
{
    int least = -1, most = -1;

    for (uint32_t i = 0; i < cluster->places; i++) {
        int count = count_of(cluster->worker[i].pid);

        if (count < 0)
            return false;
        least = least < 0 || count < least ? count : least;
        most = count > most ? count : most;
    }
    if (most > least + spread(cluster))
        return false;
    printf("%s of a member: %d to %d\n", what, least, most);
    return true;
}

bool leftovers_are_dropped(struct cluster *cluster)
{
    if (has_named_memory(cluster))
        cluster_fail(
            cluster,
            "a member has memory with a name in /dev/shm, which a SIGKILL would leave there");
    return cluster_is_whole(cluster) && is_even(cluster, probe_files, "open files")
           && is_even(cluster, mappings, "shared mappings");
}

/* The first entry of a folder. */
static bool find(const char *path, char *ret_name, size_t size)
{
    const struct dirent *entry;
    bool found = false;
    DIR *entries = opendir(path);

    while (entries && !found && (entry = readdir(entries))) {
        found = strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")
                && strncmp(entry->d_name, "tsan.", 5); /* of the thread sanitizer's own start */
        snprintf(ret_name, size, "%s/%s", path, entry->d_name);
    }
    if (entries)
        closedir(entries);
    return found;
}

void leftovers_expect_none(struct cluster *cluster)
{
    char name[640];
    pid_t pid = waitpid(-1, NULL, WNOHANG);

    if (pid >= 0 || errno != ECHILD)
        cluster_fail(cluster, "a process that a member had started is still there");
    if (find(folder, name, sizeof name))
        cluster_fail(cluster, "left behind: %s", name);
}
