/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder by itself: when it writes, what, and that it keeps within its memory. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "record/dump.h"
#include "record/recorder.h"
#include "tests.h"

struct bench {
    char dir[64];
    struct spotnik_limits limits;
    struct spotnik_member self;
    void *memory;
    struct spotnik_core *core;
    struct spotnik_recorder *recorder;
};

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);

    strcpy(bench->dir, "/tmp/spotnik-recorder-XXXXXX");
    assert_non_null(mkdtemp(bench->dir));
    spotnik_limits_init(&bench->limits, 4);
    bench->self = (struct spotnik_member){ .id = { 7, 9 }, .host = 1 };
    bench->memory = aligned_alloc(64, (spotnik_core_size(&bench->limits) + 63) & ~(size_t)63);
    bench->core = spotnik_core_init(bench->memory, &bench->limits, &bench->self, 1, 0, 0);
    struct spotnik_recorder_config config = { .limits = &bench->limits,
                                              .dir = bench->dir,
                                              .stall_ns = SPOTNIK_S };
    assert_int_equal(spotnik_recorder_new(&config, &bench->recorder), 0);
    spotnik_recorder_begin(bench->recorder, bench->core, &bench->self);
    *state = bench;
    return 0;
}

/* The path of the only file there; false: there is none. */
static bool file_find(const struct bench *bench, char path[400])
{
    DIR *dir = opendir(bench->dir);
    bool found = false;

    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') {
            assert_false(found);
            found = true;
            snprintf(path, 400, "%s/%s", bench->dir, entry->d_name);
        }
    closedir(dir);
    return found;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    char path[400];

    spotnik_recorder_free(bench->recorder); /* and waits for what is being written */
    if (file_find(bench, path))
        unlink(path);
    rmdir(bench->dir);
    free(bench->memory);
    free(bench);
    return 0;
}

static void tell(struct bench *bench, enum spotnik_event_kind kind, uint64_t now_ns)
{
    struct spotnik_event event = { .kind = kind, .now_ns = now_ns };
    struct spotnik_action action;

    spotnik_recorder_event(bench->recorder, bench->core, &event);
    spotnik_core_step(bench->core, &event);
    while (spotnik_core_poll(bench->core, &action))
        spotnik_recorder_action(bench->recorder, &action);
}

static struct spotnik_dump_head head_read(const struct bench *bench)
{
    struct spotnik_dump_head head;
    struct stat facts;
    char path[400];

    assert_true(file_find(bench, path));
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(&head, sizeof head, 1, file), 1);
    fclose(file);
    assert_memory_equal(head.magic, SPOTNIK_DUMP_MAGIC, sizeof head.magic);
    return head;
}

TEST_WITH(assertion_writes, set_up, tear_down)
{
    struct bench *bench = *state;
    int status;

    tell(bench, SPOTNIK_EVENT_FOUND, SPOTNIK_S);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        SPOTNIK_ASSERT(bench == NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    struct spotnik_dump_head head = head_read(bench);
    assert_non_null(strstr(head.reason, "bench == NULL"));
    assert_int_equal(head.self.id.low, 9);
}

/* A step that takes longer than the limit is dumped once; one that ends in time is not. */
TEST_WITH(stall_writes, set_up, tear_down)
{
    struct bench *bench = *state;
    char path[400];

    tell(bench, SPOTNIK_EVENT_FOUND, SPOTNIK_S);
    tell(bench, SPOTNIK_EVENT_STEP_BEGIN, SPOTNIK_S);
    tell(bench, SPOTNIK_EVENT_STEP_SEAL, SPOTNIK_S); /* alone: committed at once */
    tell(bench, SPOTNIK_EVENT_TICK, 5 * SPOTNIK_S);
    assert_int_equal(spotnik_recorder_stalls(bench->recorder), 0);
    struct spotnik_event seal = { .kind = SPOTNIK_EVENT_STEP_SEAL, .now_ns = 6 * SPOTNIK_S };
    spotnik_recorder_event(bench->recorder, bench->core, &seal); /* and nothing comes of it */
    tell(bench, SPOTNIK_EVENT_TICK, 6 * SPOTNIK_S + SPOTNIK_S / 2);
    assert_int_equal(spotnik_recorder_stalls(bench->recorder), 0);
    tell(bench, SPOTNIK_EVENT_TICK, 8 * SPOTNIK_S);
    tell(bench, SPOTNIK_EVENT_TICK, 9 * SPOTNIK_S);
    assert_int_equal(spotnik_recorder_stalls(bench->recorder), 1);
    spotnik_recorder_free(bench->recorder);
    bench->recorder = NULL;
    assert_true(file_find(bench, path));
    assert_string_equal(head_read(bench).reason, "a step stalled");
}

/* However long it goes on, a dump has two parts at most, and the newest record is in it. */
TEST_WITH(old_is_forgotten, set_up, tear_down)
{
    struct bench *bench = *state;
    char line[400];
    struct stat facts;

    tell(bench, SPOTNIK_EVENT_FOUND, SPOTNIK_S);
    for (uint64_t i = 0; i < 200000; i++)
        tell(bench, SPOTNIK_EVENT_TICK, SPOTNIK_S + i);
    assert_true(spotnik_recorder_dump(bench->recorder, "a test", true, line, sizeof line));
    spotnik_recorder_free(bench->recorder);
    bench->recorder = NULL;
    struct spotnik_dump_head head = head_read(bench);
    assert_int_equal(head.parts, 2);
    assert_int_equal(head.now_ns, SPOTNIK_S + 199999);
    assert_int_equal(stat(line, &facts), 0);
    assert_in_range(facts.st_size, 2 << 20, 12 << 20);
}

/* Without a folder nothing is written by itself. */
TEST_WITH(no_folder_no_file, set_up, tear_down)
{
    struct bench *bench = *state;
    struct spotnik_recorder_config config = { .limits = &bench->limits };
    struct spotnik_recorder *recorder;
    char line[400];

    assert_int_equal(spotnik_recorder_new(&config, &recorder), 0);
    spotnik_recorder_begin(recorder, bench->core, &bench->self);
    assert_false(spotnik_recorder_dump(recorder, "a test", false, line, sizeof line));
    spotnik_recorder_free(recorder);
    assert_false(spotnik_recorder_dump(NULL, "a test", true, line, sizeof line));
}
