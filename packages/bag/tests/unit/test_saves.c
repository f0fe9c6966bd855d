/* SPDX-License-Identifier: Apache-2.0 */
/* What a bag keeps of attempts: restart files, the outputs beside them, results; and what goes. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bag/saves.h"
#include "fixture.h"
#include "tests.h"

/* Claim: a directory that one worker puts into place as a result, while another one removes it, is
 * a whole result, or none. */
TEST_WITH(a_result_is_whole_or_none, bag_begin, bag_end)
{
    const struct bag_figures figures = { 0 };
    struct bag_job *job = bag_job_find(&bag, "c");
    char path[PATH_MAX], file[PATH_MAX], name[16];
    int status, placed = 0, removed = 0;
    bag_path(&bag, path, "results", "c");
    for (int turn = 0; turn < 200 && (placed < 20 || removed < 20); turn++) {
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "file%d", i);
            work_make(job, 1, name, "content");
        }
        pid_t remover = fork();
        if (remover == 0) {
            bag.writer++;
            bag_attempt_remove(&bag, job, 1);
            _exit(0);
        }
        for (int spin = 0; spin < turn % 40; spin++)
            sched_yield();
        bool is_placed = bag_result_put(&bag, job, 1, &figures, "here") == 0;
        assert_int_equal(waitpid(remover, &status, 0), remover);
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "file%d", i);
            bag_join(file, path, name);
            assert_int_equal(access(file, F_OK), is_placed ? 0 : -1);
        }
        placed += is_placed;
        removed += !is_placed;
        assert_int_equal(bag_remove(path), 0);
        bag_attempt_remove(&bag, job, 1); /* what only the evidence made */
    }
    assert_true(placed > 0);
}

/* Claim: a file is whole when it stayed the same and nobody has it open for writing; its copy is
 * found, the newest first, and a damaged one is not used. */
TEST_WITH(saves_are_whole, bag_begin, bag_end)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    struct bag_restart restart = { 0 };
    struct bag_save save, older;
    char work[PATH_MAX], file[PATH_MAX];
    work_make(job, 1, "restart.10", "ten");
    bag_path(&bag, work, "work", "a@1");
    bag_join(file, work, "restart.10");
    int writer = open(file, O_WRONLY | O_APPEND);
    for (int i = 0; i < 3; i++)
        bag_restart_look(work, "restart.*", 1000, &restart);
    assert_false(restart.is_whole);
    close(writer);
    bag_restart_look(work, "restart.*", 2000, &restart);
    assert_true(restart.is_whole);
    assert_int_equal(restart.work_ms, 1000);
    assert_int_equal(bag_save_make(&bag, job, 1, 1, &restart, NULL), 0);
    file_write(file, "eleven");
    /* it is another one now */
    assert_int_equal(bag_save_make(&bag, job, 1, 2, &restart, NULL), -EAGAIN);
    bag_restart_settle(work, "restart.*", 3000, &restart);
    assert_int_equal(bag_save_make(&bag, job, 1, 2, &restart, NULL), 0);
    assert_int_equal(bag_save_find(&bag, job, NULL, &save), 1);
    assert_int_equal(save.work_ms, 3000);
    assert_string_equal(save.file, "restart.10");
    assert_int_equal(bag_save_find(&bag, job, &save, &older), 1);
    assert_int_equal(older.work_ms, 1000);
    assert_int_equal(bag_save_find(&bag, bag_job_find(&bag, "c"), NULL, &older), 0);
    char saves[PATH_MAX], away[PATH_MAX];
    bag_path(&bag, saves, "saves", NULL);
    bag_path(&bag, away, "away", NULL);
    assert_int_equal(rename(saves, away), 0);
    assert_true(bag_save_find(&bag, job, NULL, &older) < 0); /* not: there is none */
    assert_int_equal(rename(away, saves), 0);
    bag_path(&bag, file, "saves", save.name);
    bag_join(file, file, "restart.10");
    file_write(file, "Eleven");
    unlink(strcat(work, "/restart.10"));
    bag_path(&bag, work, "work", "a@1");
    assert_int_equal(bag_save_restore(&bag, job, &save, work), -EILSEQ);
    bag_save_spoil(&bag, &save);
    assert_int_equal(bag_save_find(&bag, job, NULL, &save), 1);
    assert_int_equal(bag_save_restore(&bag, job, &save, work), 0);
    bag_saves_remove(&bag, job, NULL);
    assert_int_equal(bag_save_find(&bag, job, NULL, &save), 0);
}

/* Claim: outputs come back as they were when they were taken: short ones though they were written
 * anew, long ones though they have grown. A long one that was written anew makes the save useless,
 * unless it is loose; then nothing is left behind. */
TEST_WITH(outputs_come_back, bag_begin, bag_end)
{
    static char big[100001];
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX], save[PATH_MAX], back[PATH_MAX], file[PATH_MAX];
    char *loose[] = { (char *)(uintptr_t)"lo*", NULL };
    memset(big, 'x', sizeof big - 1);
    big[99000] = 'y';
    work_make(job, 1, "short", "one");
    bag_path(&bag, work, "work", "a@1");
    bag_path(&bag, save, "saves", "s");
    bag_path(&bag, back, "work", "a@2");
    bag_join(file, work, "long");
    file_write(file, big);
    assert_int_equal(mkdir(save, 0700) | mkdir(back, 0700), 0);
    struct bag_outputs *outputs = bag_outputs_take(&bag, work);
    assert_non_null(outputs);
    assert_true(bag_outputs_bind(&bag, outputs));
    FILE *more = fopen(file, "a");
    assert_true(more != NULL && fputs("later", more) >= 0 && fclose(more) == 0);
    bag_join(file, work, "short");
    file_write(file, "another");
    assert_int_equal(bag_outputs_put(&bag, outputs, work, save), 0);
    assert_int_equal(bag_outputs_restore(&bag, save, work, back), 0);
    file_is(back, "short", "one", 3);
    file_is(back, "long", big, sizeof big - 1);
    bag_join(file, back, "long");
    unlink(file);
    bag_join(file, back, "short");
    unlink(file);
    bag_join(file, work, "long");
    big[99000] = 'z';
    file_write(file, big);
    assert_int_equal(bag_outputs_put(&bag, outputs, work, save), -EAGAIN);
    assert_int_equal(bag_outputs_restore(&bag, save, work, back), -EILSEQ);
    bag_join(file, back, "short");
    assert_int_not_equal(access(file, F_OK), 0);
    bag.terms.loose[0] = loose[0];
    assert_int_equal(bag_outputs_restore(&bag, save, work, back), 0);
    file_is(back, "short", "one", 3);
    bag.terms.loose[0] = NULL;
    bag_outputs_drop(outputs);
}

/* Claim: an output that was changed after the restart file is told from those that were not, though
 * nobody was told of the write; a loose one does not matter. */
TEST_WITH(later_outputs_are_told, bag_begin, bag_end)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX];
    const char *later = NULL;
    work_make(job, 7, "before", "one");
    work_make(job, 7, "restart.1", "state");
    bag_path(&bag, work, "work", "a@7");
    struct bag_outputs *outputs = bag_outputs_take(&bag, work);
    assert_null(bag_outputs_later(&bag, outputs, work, "restart.1"));
    bag_outputs_drop(outputs);
    for (outputs = NULL; later == NULL;
         later = bag_outputs_later(&bag, outputs, work, "restart.1")) {
        bag_outputs_drop(outputs); /* the clock of files moves in steps of milliseconds */
        work_make(job, 7, "after", "two");
        outputs = bag_outputs_take(&bag, work);
    }
    assert_string_equal(later, "after");
    char *loose[] = { (char *)(uintptr_t)"af*", NULL };
    bag.terms.loose[0] = loose[0];
    assert_null(bag_outputs_later(&bag, outputs, work, "restart.1"));
    bag.terms.loose[0] = NULL;
    bag_outputs_drop(outputs);
}

/* What the kernel has told of a directory, and what it told last. */
struct events {
    int fd;
    uint32_t last;
    uint64_t count;
};

static void events_read(struct events *events)
{
    _Alignas(struct inotify_event) char block[16384];
    for (ssize_t got; (got = read(events->fd, block, sizeof block)) > 0;)
        for (const char *at = block; at < block + got; events->count++) {
            const struct inotify_event *event = (const void *)at;
            events->last = event->mask;
            at += sizeof *event + event->len;
        }
}

static uint64_t bytes_of(const struct bag_outputs *outputs, const char *name)
{
    for (size_t i = 0; outputs != NULL && i < outputs->count; i++)
        if (strcmp(outputs->file[i].name, name) == 0)
            return outputs->file[i].bytes;
    return UINT64_MAX;
}

/* Claim: a file that is being written anew, and is seen empty, has been told of: else a save holds
 * it empty, with a restart file that needs it. */
TEST_WITH(a_truncation_is_told_first, bag_begin, bag_end)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX], file[PATH_MAX];
    int status, idle = 0;
    work_make(job, 6, "sum", "one");
    bag_path(&bag, work, "work", "a@6");
    bag_join(file, work, "sum");
    struct events events = { .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
    assert_true(inotify_add_watch(events.fd, work, IN_MODIFY | IN_CLOSE_WRITE) >= 0);
    pid_t writer = fork();
    /* it rests between two writes, since the claim is about looks that begin while it does */
    for (struct timespec pause = { .tv_nsec = 100000 }; writer == 0; nanosleep(&pause, NULL))
        file_write(file, "one");
    while (idle < 2000) {
        events_read(&events);
        if (events.last != IN_CLOSE_WRITE)
            continue; /* it is at work */
        uint64_t before = events.count;
        struct bag_outputs *outputs = bag_outputs_take(&bag, work);
        bool empty = bytes_of(outputs, "sum") == 0;
        bag_outputs_drop(outputs);
        events_read(&events);
        assert_false(empty && events.count == before);
        idle++;
    }
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    close(events.fd);
}

/* A process that takes the folder away and gives it back, until it is killed. */
static pid_t mover_start(const char *from, const char *away)
{
    pid_t mover = fork();
    assert_true(mover >= 0);
    while (mover == 0)
        if (rename(from, away) != 0 || rename(away, from) != 0)
            _exit(1);
    return mover;
}

static void mover_end(pid_t mover, const char *from, const char *away)
{
    int status;
    assert_int_equal(kill(mover, SIGKILL), 0);
    assert_int_equal(waitpid(mover, &status, 0), mover);
    assert_true(WIFSIGNALED(status));
    assert_true(rename(away, from) == 0 || errno == ENOENT);
}

/* Claim: a folder that goes out of reach and comes back (a mount that is lost) never makes a list
 * of outputs shorter, nor a save without outputs of one that has some. Such a save would let a
 * program go on without the files that it appends to. */
TEST_WITH(an_absent_folder_hides_no_output, bag_begin, bag_end)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX], save[PATH_MAX], back[PATH_MAX], away[PATH_MAX], file[PATH_MAX];
    int whole = 0, restored = 0;
    work_make(job, 8, "restart.1", "state");
    work_make(job, 8, "sum", "one");
    work_make(job, 8, "trajectory", "two");
    bag_path(&bag, work, "work", "a@8");
    bag_path(&bag, save, "saves", "t");
    bag_path(&bag, away, "work", "away");
    assert_int_equal(mkdir(save, 0700), 0);
    pid_t mover = mover_start(work, away);
    for (int i = 0; i < 4000 || whole == 0; i++) {
        struct bag_outputs *outputs = bag_outputs_take(&bag, work);
        if (outputs != NULL) {
            whole++;
            assert_int_equal(outputs->count, 2);
        }
        bag_outputs_drop(outputs);
    }
    mover_end(mover, work, away);
    struct bag_outputs *outputs = bag_outputs_take(&bag, work);
    assert_int_equal(bag_outputs_put(&bag, outputs, work, save), 0);
    bag_outputs_drop(outputs);
    bag_path(&bag, away, "saves", "away");
    bag_path(&bag, back, "work", "a@9");
    assert_int_equal(mkdir(back, 0700), 0);
    mover = mover_start(save, away);
    for (int i = 0; i < 2000 || restored == 0; i++)
        if (bag_outputs_restore(&bag, save, work, back) == 0) {
            restored++;
            file_is(back, "sum", "one", 3);
            file_is(back, "trajectory", "two", 3);
            bag_join(file, back, "sum");
            assert_int_equal(unlink(file), 0);
            bag_join(file, back, "trajectory");
            assert_int_equal(unlink(file), 0);
        }
    mover_end(mover, save, away);
}
