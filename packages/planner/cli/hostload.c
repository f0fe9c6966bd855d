/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/stat for everybody, /proc/PID/stat for ourselves: a process counts as ours when its parents
 * lead to this one. One that loses its parent on the way is counted as somebody else's; the jobs
 * that are measured here keep theirs. */
#include "hostload.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct process {
    long pid, parent;
    double used_s;
    bool ours;
};

struct processes {
    struct process *at;
    size_t count, room;
};

static double ticks_s(double ticks)
{
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

static bool busy_read(double *busy_s_out)
{
    double user, nice, system, idle, wait, irq, softirq, steal = 0;
    FILE *file = fopen("/proc/stat", "re");
    int got = file ? fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system,
                            &idle, &wait, &irq, &softirq, &steal)
                   : 0;

    if (file)
        fclose(file);
    if (got < 7)
        return false;
    *busy_s_out = ticks_s(user + nice + system + irq + softirq + steal);
    return true;
}

/* What comes after the name, which may hold anything, is: state, parent, nine numbers, then four
 * times. */
static bool process_read(const char *pid, struct process *process_out)
{
    char path[64], line[1024];
    double user, system, children_user, children_system;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file)
        fclose(file);
    line[length] = '\0';
    const char *rest = strrchr(line, ')');
    *process_out = (struct process){ .pid = atol(pid), .ours = atol(pid) == getpid() };
    if (!rest
        || sscanf(rest + 1, " %*c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %lf %lf %lf %lf",
                  &process_out->parent, &user, &system, &children_user, &children_system)
               != 5)
        return false;
    process_out->used_s = ticks_s(user + system + children_user + children_system);
    return true;
}

static bool processes_read(struct processes *list)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        struct process process;
        if (!isdigit((unsigned char)entry->d_name[0]) || !process_read(entry->d_name, &process))
            continue;
        if (list->count == list->room) {
            size_t room = list->room ? 2 * list->room : 256;
            struct process *more = realloc(list->at, room * sizeof(*more));
            if (!more)
                break;
            list->at = more;
            list->room = room;
        }
        list->at[list->count++] = process;
    }
    if (folder)
        closedir(folder);
    return list->count > 0;
}

static bool is_ours(const struct processes *list, long pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].pid == pid)
            return list->at[i].ours;
    return false;
}

/* Children of ours are ours, until there are no more. */
static double ours(struct processes *list)
{
    double used_s = 0;

    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; i < list->count; i++)
            if (!list->at[i].ours && is_ours(list, list->at[i].parent))
                found = list->at[i].ours = true;
    }
    for (size_t i = 0; i < list->count; i++)
        used_s += list->at[i].ours ? list->at[i].used_s : 0;
    return used_s;
}

bool spotnik_host_look(struct spotnik_host_look *look_out)
{
    struct processes list = { 0 };
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    look_out->at_s = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
    bool told = busy_read(&look_out->busy_s) && processes_read(&list);
    look_out->ours_s = told ? ours(&list) : 0;
    free(list.at);
    return told;
}

double spotnik_host_others(const struct spotnik_host_look *from, const struct spotnik_host_look *to)
{
    double busy_s = to->busy_s - from->busy_s, ours_s = to->ours_s - from->ours_s;

    return to->at_s > from->at_s ? fmax(0, (busy_s - ours_s) / (to->at_s - from->at_s)) : 0;
}

double spotnik_host_processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (double)count : 1;
}
