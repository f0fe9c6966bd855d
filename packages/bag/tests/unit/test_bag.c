/* SPDX-License-Identifier: Apache-2.0 */
/* Bags: words, claims, who is dead, saves, and what the age of a machine means. */
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

#include "bag/bag.h"
#include "bag/workers.h"
#include "bag/template.h"
#include "base/time.h"
#include "fixture.h"
#include "tests.h"

/* ---- words ---- */

static const char *lookup(const void *context, const char *name)
{
    (void)context;
    return strcmp(name, "T") == 0 ? "0.5; rm -rf /" : strcmp(name, "empty") == 0 ? "" : NULL;
}

/* Claim: placeholders are replaced, doubled braces and others stay, an unknown name is told. */
TEST(words_are_filled)
{
    static const struct {
        const char *word, *filled;
    } cases[] = {
        { "-T={T}", "-T=0.5; rm -rf /" },   { "{{T}}", "{T}" }, { "{empty}x", "x" },
        { "{ print $1 }", "{ print $1 }" }, { "a{", "a{" },     { "{}", "{}" },
        { "}{T}{", "}0.5; rm -rf /{" },     { "{{T", "{{T" },   { "", "" },
    };
    char unknown[BAG_NAME_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *filled = bag_template_fill_word(cases[i].word, lookup, NULL, unknown);
        assert_string_equal(filled, cases[i].filled);
        free(filled);
    }
    assert_null(bag_template_fill_word("a{U}", lookup, NULL, unknown));
    assert_string_equal(unknown, "U");
}

/* Claim: a line is cut as a shell would, with nothing else that a shell does. */
TEST(words_are_cut)
{
    char **words = bag_template_split("  lmp -in 'in again' \"a\\\"b\" c\\ d'e'  $x ");
    const char *const wanted[] = { "lmp", "-in", "in again", "a\"b", "c de", "$x" };
    assert_non_null(words);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(words[i], wanted[i]);
    assert_null(words[6]);
    bag_template_free(words);
    assert_null(bag_template_split("a 'b"));
    assert_null(bag_template_split("   "));
}

/* ---- a bag ---- */

/* Claim: what is not the same bag is refused, with the reason; the same one is found again. */
TEST_WITH(bags_do_not_mix, bag_begin, bag_end)
{
    static char *command[] = { (char *)"sim", (char *)"{x}", NULL },
                *other[] = { (char *)"sim", (char *)"-{x}", NULL };
    struct bag_terms terms = { .command = command, .restart = (char *)"restart.*", .tries = 3 };
    const char *const none[] = { NULL };
    struct spotnik_fault fault;
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

/* Claim: a URL of no known kind is refused in words, and makes no folder of its name; "file:" names one. */
TEST_WITH(a_bag_needs_a_folder, bag_begin, bag_end)
{
    static char *command[] = { (char *)"sim", (char *)"{x}", NULL };
    static struct bag opened;
    struct bag_terms terms = { .command = command, .restart = (char *)"restart.*", .tries = 3 };
    const char *const none[] = { NULL };
    struct spotnik_fault fault;
    char place[PATH_MAX];
    assert_int_equal(bag_make("ftp://bucket/bag", csv, &terms, none, &fault), -1);
    assert_non_null(strstr(fault.text, "ftp://bucket/bag is neither a folder nor"));
    assert_int_equal(bag_open("ftp://bucket/bag", &opened, &fault), -1);
    assert_non_null(strstr(fault.text, "ftp://bucket/bag is neither a folder nor"));
    snprintf(place, sizeof place, "file:%s", folder);
    assert_int_equal(bag_make(place, csv, &terms, none, &fault), 0);
    assert_int_equal(bag_open(place, &opened, &fault), 0);
    assert_string_equal(opened.folder, folder);
    bag_close(&opened);
}

/* Claim: jobs can be added while others work; names that are there already are refused. */
TEST_WITH(jobs_are_added, bag_begin, bag_end)
{
    struct spotnik_fault fault;
    struct bag reader;
    uint32_t part = 0;
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
TEST_WITH(one_claim_each, bag_begin, bag_end)
{
    enum { RACERS = 6, ROUNDS = 30 };
    struct spotnik_fault fault;
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
TEST_WITH(a_job_passes_through, bag_begin, bag_end)
{
    struct bag_figures figures = { .ran_ms = 7, .saved_ms = 5 }, read;
    struct bag_job *job = bag_job_find(&bag, "a");
    uint64_t worker;
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

/* Claim: of two attempts that both finish, the first one's directory is the result, whole. */
TEST_WITH(the_first_result_stands, bag_begin, bag_end)
{
    const struct bag_figures figures = { 0 };
    struct bag_job *job = bag_job_find(&bag, "c");
    char path[PATH_MAX], text[16] = "";
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
    worker.slots = worker.cores = worker.run_count = 1;
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
TEST_WITH(the_silent_are_dead, bag_begin, bag_end)
{
    enum { T = 60 };
    struct bag_watch watch = { 0 };
    struct bag_figures figures = { 0 };
    struct bag_job *job = bag_job_find(&bag, "a");
    uint64_t now_ns = 5 * SPOTNIK_S, gap_ns = 2 * SPOTNIK_S;
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
