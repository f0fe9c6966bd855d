/* SPDX-License-Identifier: Apache-2.0 */
/* Bags: words, claims, who is dead, saves, and what the age of a machine means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bag/bag.h"
#include "bag/saves.h"
#include "bag/watch.h"
#include "bag/words.h"
#include "base/time.h"

static char top[64], folder[128], csv[128];
static struct bag bag;

/* ---- words ---- */

static const char *lookup(const void *context, const char *name)
{
    (void)context;
    return strcmp(name, "T") == 0 ? "0.5; rm -rf /" : strcmp(name, "empty") == 0 ? "" : NULL;
}

/* Claim: placeholders are replaced, doubled braces and others stay, an unknown name is told. */
static void words_are_filled(void **state)
{
    static const struct {
        const char *word, *filled;
    } cases[] = {
        { "-T={T}", "-T=0.5; rm -rf /" },   { "{{T}}", "{T}" }, { "{empty}x", "x" },
        { "{ print $1 }", "{ print $1 }" }, { "a{", "a{" },     { "{}", "{}" },
        { "}{T}{", "}0.5; rm -rf /{" },     { "{{T", "{{T" },   { "", "" },
    };
    char unknown[BAG_NAME_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *filled = bag_word_fill(cases[i].word, lookup, NULL, unknown);
        assert_string_equal(filled, cases[i].filled);
        free(filled);
    }
    assert_null(bag_word_fill("a{U}", lookup, NULL, unknown));
    assert_string_equal(unknown, "U");
}

/* Claim: a line is cut as a shell would, with nothing else that a shell does. */
static void words_are_cut(void **state)
{
    (void)state;
    char **words = bag_words_split("  lmp -in 'in again' \"a\\\"b\" c\\ d'e'  $x ");
    const char *const wanted[] = { "lmp", "-in", "in again", "a\"b", "c de", "$x" };
    assert_non_null(words);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(words[i], wanted[i]);
    assert_null(words[6]);
    bag_words_free(words);
    assert_null(bag_words_split("a 'b"));
    assert_null(bag_words_split("   "));
}

/* ---- a bag ---- */

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int bag_begin(void **state)
{
    static char *command[] = { (char *)"sim", (char *)"{x}", NULL };
    const struct bag_terms terms = { .command = command,
                                     .restart = (char *)"restart.*",
                                     .tries = 3 };
    const char *const none[] = { NULL };
    struct spotnik_fault fault;
    (void)state;
    snprintf(top, sizeof top, "/tmp/spotnik-test-bag-XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(folder, sizeof folder, "%s/b", top);
    snprintf(csv, sizeof csv, "%s/jobs.csv", top);
    file_write(csv, "job,x\na,1\nb.2,2\nc,3\n");
    return bag_make(folder, csv, &terms, none, &fault) != 0 || bag_open(folder, &bag, &fault) != 0;
}

static int bag_end(void **state)
{
    (void)state;
    bag_close(&bag);
    return bag_remove(top);
}

/* Claim: what is not the same bag is refused, with the reason; the same one is found again. */
static void bags_do_not_mix(void **state)
{
    static char *command[] = { (char *)"sim", (char *)"{x}", NULL },
                *other[] = { (char *)"sim", (char *)"-{x}", NULL };
    struct bag_terms terms = { .command = command, .restart = (char *)"restart.*", .tries = 3 };
    const char *const none[] = { NULL };
    struct spotnik_fault fault;
    (void)state;
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), 0);
    terms.command = other;
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "\"command\""));
    terms.command = command;
    file_write(csv, "job,x\na,1\n");
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "another bag"));
    file_write(csv, "job,x\na,1\na,2\n");
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "two jobs are called \"a\""));
    file_write(csv, "job,y\na,1\n");
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "{x}"));
    file_write(csv, "job,x\n../a,1\n");
    assert_int_equal(bag_make(folder, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "letters"));
    terms.tries = 0; /* a folder with other things in it is not touched */
    snprintf(csv, sizeof csv, "%s/more.csv", top);
    file_write(csv, "x\n1\n");
    assert_int_equal(bag_make(top, csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "holds other things"));
}

/* Claim: jobs can be added while others work; names that are there already are refused. */
static void jobs_are_added(void **state)
{
    struct spotnik_fault fault;
    struct bag reader;
    uint32_t part = 0;
    (void)state;
    assert_int_equal(bag_open(folder, &reader, &fault), 0);
    const struct bag_job *first = bag_job_find(&reader, "a");
    file_write(csv, "job,x\nd,4\n");
    assert_int_equal(bag_add(&bag, csv, &part, &fault), 0);
    assert_int_equal(part, 2);
    assert_int_equal(bag_add(&bag, csv, &part, &fault), -1);
    assert_non_null(strstr(fault.text, "already"));
    assert_int_equal(bag_jobs_refresh(&reader, &fault), 0);
    assert_int_equal(reader.job_count, 4);
    assert_ptr_equal(first, bag_job_find(&reader, "a"));
    assert_non_null(bag_job_find(&reader, "d"));
    bag_close(&reader);
}

/* Claim: of many processes that want an attempt, one gets it, round after round. */
static void one_claim_each(void **state)
{
    enum { RACERS = 6, ROUNDS = 30 };
    struct spotnik_fault fault;
    (void)state;
    for (int racer = 0; racer < RACERS; racer++) {
        if (fork() != 0)
            continue;
        struct bag own;
        const struct bag_figures none = { 0 };
        int won = 0;
        if (bag_open(folder, &own, &fault) != 0)
            _exit(255);
        struct bag_job *job = bag_job_find(&own, "b.2");
        for (int round = 0; round < ROUNDS; round++) {
            int rc = bag_claim(&own, job, own.writer, &none);
            won += rc == 0;
            job->attempt = (uint32_t)round + 1;
            if (rc != 0 && rc != -EEXIST)
                _exit(255);
        }
        _exit(won);
    }
    int status, sum = 0;
    while (wait(&status) > 0)
        sum += WEXITSTATUS(status);
    assert_int_equal(sum, ROUNDS);
    assert_int_equal(bag_look(&bag), 0);
    assert_int_equal(bag_job_find(&bag, "b.2")->attempt, ROUNDS);
}

/* Claim: the names of the folder say how a job is: open, held, open again, set aside after its
 * failures, done. */
static void a_job_passes_through(void **state)
{
    struct bag_figures figures = { .ran_ms = 7, .saved_ms = 5 }, read;
    struct bag_job *job = bag_job_find(&bag, "a");
    uint64_t worker;
    (void)state;
    assert_int_equal(bag_look(&bag), 0);
    assert_true(bag_job_is_open(job));
    assert_int_equal(bag_claim(&bag, job, 42, &figures), 0);
    assert_int_equal(bag_look(&bag), 0);
    assert_false(bag_job_is_open(job));
    assert_int_equal(bag_end_put(&bag, job, 1, BAG_END_FAILED, &figures), 0);
    /* said twice is said once */
    assert_int_equal(bag_end_put(&bag, job, 1, BAG_END_FAILED, &figures), 0);
    assert_true(bag_figures_read(&bag, "a", 1, BAG_END_FAILED, &read, &worker));
    assert_int_equal(worker, 42);
    assert_int_equal(read.saved_ms, 5);
    assert_int_equal(bag_look(&bag), 0);
    assert_true(bag_job_is_open(job));
    assert_int_equal(job->failures, 1);
    assert_int_equal(bag_aside_put(&bag, job), 0);
    assert_int_equal(bag_look(&bag), 0);
    assert_true(bag_job_is_over(job));
    assert_int_equal(bag_retry(&bag, job), 0);
    assert_int_equal(bag_look(&bag), 0);
    assert_true(bag_job_is_open(job));
    assert_int_equal(job->failures, 0);
}

static void work_make(const struct bag_job *job, uint32_t attempt, const char *file,
                      const char *text)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    bag_attempt_name(job, attempt, name);
    bag_path(&bag, path, "work", name);
    mkdir(path, 0700);
    bag_join(path, path, file);
    file_write(path, text);
}

/* Claim: of two attempts that both finish, the first one's directory is the result, whole. */
static void the_first_result_stands(void **state)
{
    const struct bag_figures figures = { 0 };
    struct bag_job *job = bag_job_find(&bag, "c");
    char path[PATH_MAX], text[16] = "";
    (void)state;
    work_make(job, 1, "result", "one");
    work_make(job, 2, "result", "two");
    assert_int_equal(bag_result_put(&bag, job, 2, &figures, "here"), 0);
    assert_int_equal(bag_result_put(&bag, job, 1, &figures, "here"), -EEXIST);
    bag_path(&bag, path, "results", "c");
    bag_join(path, path, "result");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "two");
    bag_sweep(&bag, job);
    assert_int_equal(bag_look(&bag), 0);
    assert_true(job->done);
}

/* ---- who is dead ---- */

static void worker_write(uint64_t id, uint64_t boot, uint64_t counter)
{
    static struct bag_worker worker;
    memset(&worker, 0, sizeof worker);
    spotnik_process_self(&worker.process);
    worker.process.boot = boot != 0 ? boot : worker.process.boot;
    worker.id = id;
    worker.counter = counter;
    worker.places = worker.cores = worker.run_count = 1;
    strcpy(worker.host, "far");
    strcpy(worker.run[0].job, "a");
    worker.run[0].attempt = 1;
    worker.run[0].ran_ms = 900;
    worker.run[0].saved_ms = 400;
    assert_int_equal(bag_worker_put(&bag, &worker), 0);
}

/* Claim: a worker of another machine is dead when its record has not changed for T of our own time,
 * and only such time counts in which we looked and could write; one of this machine that lives is
 * never dead, and one that has ended is so at once. */
static void the_silent_are_dead(void **state)
{
    enum { T = 60 };
    struct bag_watch watch = { 0 };
    struct bag_figures figures = { 0 };
    struct bag_job *job = bag_job_find(&bag, "a");
    uint64_t now_ns = 5 * SPOTNIK_S, gap_ns = 2 * SPOTNIK_S;
    (void)state;
    assert_int_equal(bag_claim(&bag, job, 42, &figures), 0);
    worker_write(42, 1, 1);
    for (int i = 0; i < T; i++, now_ns += SPOTNIK_S) {
        assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns, gap_ns), 0);
        assert_false(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    }
    now_ns += 1000 * SPOTNIK_S; /* we were stopped: two seconds of it count */
    for (int i = 0; i < 3; i++, now_ns += SPOTNIK_S)
        /* we cannot write: none of it does */
        assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns, 0), 0);
    assert_false(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns, gap_ns), 0);
    assert_true(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    assert_true(bag_watch_figures(&watch, 42, "a", 1, &figures));
    assert_int_equal(figures.saved_ms, 400);
    worker_write(42, 1, 2);
    assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns += SPOTNIK_S, gap_ns), 0);
    assert_false(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    worker_write(42, 0, 2); /* this very process */
    for (int i = 0; i < 2 * T; i++)
        assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns += SPOTNIK_S, gap_ns), 0);
    assert_false(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    pid_t child = fork();
    if (child == 0) {
        worker_write(42, 0, 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(bag_watch_look(&watch, &bag, 7, now_ns += SPOTNIK_S, gap_ns), 0);
    assert_true(bag_watch_is_dead(&watch, 42, T * SPOTNIK_S));
    bag_watch_done(&watch);
}

/* ---- saves ---- */

/* Claim: a file is whole when it stayed the same and nobody has it open for writing; its copy is
 * found, the newest first, and a damaged one is not used. */
static void saves_are_whole(void **state)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    struct bag_restart restart = { 0 };
    struct bag_save save, older;
    char work[PATH_MAX], file[PATH_MAX];
    (void)state;
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

static void file_is(const char *directory, const char *name, const char *content, size_t size)
{
    char path[PATH_MAX], *bytes = malloc(size + 1);
    bag_join(path, directory, name);
    FILE *file = fopen(path, "r");
    assert_true(file != NULL && bytes != NULL);
    assert_int_equal(fread(bytes, 1, size + 1, file), size);
    assert_memory_equal(bytes, content, size);
    fclose(file);
    free(bytes);
}

/* Claim: outputs come back as they were when they were taken: short ones though they were written
 * anew, long ones though they have grown. A long one that was written anew makes the save useless,
 * unless it is loose; then nothing is left behind. */
static void outputs_come_back(void **state)
{
    static char big[100001];
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX], save[PATH_MAX], back[PATH_MAX], file[PATH_MAX];
    char *loose[] = { (char *)(uintptr_t)"lo*", NULL };
    (void)state;
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
static void later_outputs_are_told(void **state)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX];
    const char *later = NULL;
    (void)state;
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
static void an_absent_folder_hides_no_output(void **state)
{
    struct bag_job *job = bag_job_find(&bag, "a");
    char work[PATH_MAX], save[PATH_MAX], back[PATH_MAX], away[PATH_MAX], file[PATH_MAX];
    int whole = 0, restored = 0;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_filled),
        cmocka_unit_test(words_are_cut),
        cmocka_unit_test_setup_teardown(bags_do_not_mix, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(jobs_are_added, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(one_claim_each, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(a_job_passes_through, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(the_first_result_stands, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(the_silent_are_dead, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(saves_are_whole, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(outputs_come_back, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(later_outputs_are_told, bag_begin, bag_end),
        cmocka_unit_test_setup_teardown(an_absent_folder_hides_no_output, bag_begin, bag_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
