/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: what is marked is in the file, in the order of the marks, or counted there as lost. Each
 * mark is whole, whatever the disk refuses. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "record/tracer.h"
#include "record/tracer_file.h"
#include "tests.h"

enum { STEPS = 40000 }; /* more parts than a ring holds */

static char dir[64];
static const struct spotnik_member self = { .id = { 7, 9 }, .host = 1 };

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/spotnik-tracer-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static FILE *file_open(char *ret_path, size_t size)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;

    assert_non_null(folder);
    do
        entry = readdir(folder);
    while (entry != NULL && entry->d_name[0] == '.');
    assert_non_null(entry);
    snprintf(ret_path, size, "%.63s/%.250s", dir, entry->d_name);
    closedir(folder);
    return fopen(ret_path, "r");
}

static int tear_down(void **state)
{
    char path[512];
    FILE *file = file_open(path, sizeof path);

    (void)state;
    fclose(file);
    unlink(path);
    return rmdir(dir);
}

/* A step's four parts, each of which ends where the next one begins. */
static void step_mark(struct spotnik_tracer *trace, uint64_t step)
{
    for (int part = 0; part < SPOTNIK_TRACER_PARTS; part++)
        spotnik_tracer_turn(trace, (enum spotnik_tracer_part)((part + 1) % SPOTNIK_TRACER_PARTS),
                            step, 1000 * step + (uint64_t)part + 1);
}

/* What the file says, mark by mark. */
struct told {
    uint64_t parts, lost, other, last_ns, name;
    bool joined; /* the part that ends next has begun at last_ns */
};

static void cell_tell(struct told *told, const struct spotnik_trace_cell *cell)
{
    if ((cell->what & 15) == SPOTNIK_TRACE_TURN) {
        assert_true(told->joined && cell->at_ns > told->last_ns);
        assert_int_equal(cell->what >> 16, cell->at_ns / 1000); /* of step_mark() */
        assert_int_equal(cell->what >> 4 & 0xfff, (cell->at_ns % 1000) - 1);
        told->parts++;
    }
    told->joined = true;
    assert_true(cell->at_ns >= told->last_ns);
    told->last_ns = cell->at_ns;
}

static void mark_tell(struct told *told, const struct spotnik_trace_mark *mark)
{
    uint64_t kind = mark->cell.what & 15;

    told->lost += kind == SPOTNIK_TRACE_LOST ? mark->more : 0;
    told->name = kind == SPOTNIK_TRACE_NAME ? mark->peer : told->name;
    told->other += kind != SPOTNIK_TRACE_LOST && kind != SPOTNIK_TRACE_NAME;
}

static bool next_tell(struct told *told, FILE *file)
{
    struct spotnik_trace_mark mark;

    if (fread(&mark.cell, sizeof mark.cell, 1, file) != 1)
        return false;
    if ((mark.cell.what & 15) <= SPOTNIK_TRACE_TURN) {
        cell_tell(told, &mark.cell);
        return true;
    }
    assert_int_equal(fread(&mark.cell + 1, sizeof mark - sizeof mark.cell, 1, file), 1);
    mark_tell(told, &mark);
    return true;
}

static struct told file_tell(void)
{
    struct told told = { .joined = false };
    char path[512], head[1024];
    FILE *file = file_open(path, sizeof path);

    assert_non_null(fgets(head, sizeof head, file));
    assert_non_null(strstr(head, "{\"spotnik_trace\":1,"));
    assert_non_null(strstr(head, "\"member\":\"0000000000000007\""));
    while (next_tell(&told, file))
        ;
    fclose(file);
    return told;
}

TEST_WITH(nothing_is_dropped_unsaid, set_up, tear_down)
{
    struct spotnik_tracer *trace;

    assert_int_equal(spotnik_tracer_new(dir, &self, 0, &trace), 0);
    spotnik_tracer_name(trace, self.id, 1);
    for (uint64_t step = 1; step <= STEPS; step++)
        step_mark(trace, step);
    spotnik_tracer_free(trace);

    struct told told = file_tell();
    assert_int_equal(told.parts + told.lost, 4 * STEPS - 1); /* the first turn only begins a part */
    assert_true(told.parts >= SPOTNIK_TRACE_CELLS - 1);
    assert_int_equal(told.name, self.id.high);
    assert_int_equal(told.other, 0);
}

/* A disk that is full is played by a limit of the file's size. The kernel tells of it by a signal,
 * which a thread of the library blocks: it stays pending there, and ends nobody. */
static bool is_refused(void)
{
    char path[300], line[200];
    unsigned long long pending = 0;
    DIR *tasks = opendir("/proc/self/task");

    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%.200s/status", task->d_name);
        FILE *file = fopen(path, "re");
        unsigned long long mask;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "SigPnd: %llx", &mask) == 1)
                pending |= mask;
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return (pending >> (SIGXFSZ - 1)) & 1;
}

static void limit_set(rlim_t bytes)
{
    struct rlimit limit = { bytes, RLIM_INFINITY };

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_WITH(a_full_disk_is_told_and_spoils_nothing, set_up, tear_down)
{
    struct spotnik_tracer *trace;
    const struct spotnik_action parked = { .kind = SPOTNIK_ACTION_PARKED };

    assert_int_equal(spotnik_tracer_new(dir, &self, 0, &trace), 0);
    limit_set(1000); /* within a mark, behind the head */
    for (int i = 0; i < 100; i++)
        spotnik_tracer_action(trace, NULL, &parked);
    while (!is_refused())
        usleep(1000);
    limit_set(RLIM_INFINITY);
    for (int i = 0; i < 10; i++)
        spotnik_tracer_action(trace, NULL, &parked);
    spotnik_tracer_free(trace);

    struct told told = file_tell();
    assert_int_equal(told.lost + told.other, 110);
    assert_in_range(told.lost, 1, 100);
}

TEST_WITH(others_read_no_trace, set_up, tear_down)
{
    struct spotnik_trace_file *file;
    struct stat facts;
    char path[512];
    mode_t mask = umask(0);

    assert_int_equal(rmdir(dir), 0); /* it is made again */
    assert_int_equal(spotnik_trace_file_new(dir, &self, 0, &file), 0);
    umask(mask);
    spotnik_trace_file_free(file);
    fclose(file_open(path, sizeof path));
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(dir, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
}
