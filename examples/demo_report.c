/* SPDX-License-Identifier: Apache-2.0 */
/* What `make demo` shows: a live line while a job runs, and a table at the end. All figures come
 * from the lines that the members logged (demo_log.h); the exit status says whether every promise
 * in the table was kept.
 *
 * demo_report plan LOG SECONDS
 *     how many steps fill the seconds, by a trial run's log
 * demo_report follow LOG STEPS OUTPUT COMMAND..
 *     run COMMAND, its output in the file OUTPUT, and show its progress
 * demo_report table LOG REFERENCE STEPS
 *     the table, with the log of an undisturbed run beside it */
#include "demo_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAIL_STEPS = 100 };

/* Largest difference of final losses that churn may explain: a step that somebody was lost in
 * averages over fewer samples. The loss falls from 5.5 to below 2, and noise of the last 100 steps
 * is 0.01. */
static const double loss_tolerance = 0.05;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("demo_report: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static double ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open_log(struct demo_log *log, const char *path)
{
    if (demo_log_open(log, path) < 0)
        fail("cannot read %s: %s", path, strerror(errno));
}

static uint64_t positive(const char *text)
{
    uint64_t value = strtoull(text, NULL, 10);

    if (!value)
        fail("\"%s\" is not a number above 0", text);
    return value;
}

/* ---- follow ---- */

struct screen {
    bool live, colour;
    uint64_t begin_ns, printed_ns, steps;
};

/* Escape sequences, or nothing where the output is no terminal or the user wants none
 * (no-color.org). */
static const char *paint(const struct screen *s, const char *sequence)
{
    return s->colour ? sequence : "";
}

/* Members in the first step that was committed in this view or a later one; 0: none is in the log
 * yet. */
static uint32_t size_from_view(const struct demo_log *log, uint64_t view)
{
    uint32_t size = 0;

    for (size_t s = log->step_count;
         s-- > 0 && (!log->steps[s].t_ns || log->steps[s].view >= view);)
        if (log->steps[s].t_ns)
            size = log->steps[s].size;
    return size;
}

static void show_event(struct screen *s, const struct demo_view *v, uint32_t size)
{
    printf("%s%6.1f s  ", s->live ? "\r" : "", ms(s->begin_ns, v->committed_ns) / 1e3);
    if (v->lost)
        printf("%s%u lost%s, ", paint(s, "\033[31m"), v->lost, paint(s, "\033[0m"));
    if (v->left)
        printf("%u left, ", v->left);
    if (v->joined)
        printf("%s%u joined%s, ", paint(s, "\033[32m"), v->joined, paint(s, "\033[0m"));
    printf("%u go on", size);
    if (v->lost)
        printf(": new view after %.1f ms, next commit after %.1f ms",
               ms(v->detected_ns, v->restarted_ns), ms(v->detected_ns, v->committed_ns));
    printf("%s\n", s->live ? "\033[K" : "");
}

/* A view without a step after it is not through yet, or everybody leaves: that is the end, and no
 * event. */
static void show_events(struct screen *s, struct demo_log *log)
{
    for (size_t i = 0; i < log->view_count; i++) {
        struct demo_view *v = &log->views[i];
        uint32_t size = size_from_view(log, v->view);

        if (v->shown || !v->committed_ns || !size || v->view < demo_log_first_loss(log))
            continue;
        v->shown = true;
        show_event(s, v, size);
    }
}

/* From the first evidence of a loss to the next commit, for the latest loss. */
static double last_recovery_ms(const struct demo_log *log)
{
    for (size_t i = log->view_count; i-- > 0;)
        if (log->views[i].lost && log->views[i].committed_ns)
            return ms(log->views[i].detected_ns, log->views[i].committed_ns);
    return 0;
}

static void show_status(struct screen *s, const struct demo_log *log, bool last)
{
    uint64_t now = now_ns();
    double recovery = last_recovery_ms(log);

    if (!log->step_count || (!last && !s->live && now - s->printed_ns < 5000000000u))
        return;
    s->printed_ns = now;
    /* A terminal narrower than the line cuts it instead of wrapping it (?7l), so that \r gets back
     * to its start. */
    printf("%s%6.1f s  step %zu/%" PRIu64 "  loss %s%.3f%s  %u members  %.0f samples/s",
           s->live ? "\r\033[?7l" : "", ms(s->begin_ns, now) / 1e3, log->step_count, s->steps,
           paint(s, "\033[1m"), demo_log_loss(log, 20), paint(s, "\033[0m"),
           log->steps[log->step_count - 1].size, demo_log_rate(log, 3));
    if (recovery > 0)
        printf("  recovery %.1f ms", recovery);
    printf("%s%s", s->live ? "\033[K\033[?7h" : "", s->live && !last ? "" : "\n");
    fflush(stdout);
}

static pid_t start(char **command, const char *output)
{
    pid_t pid = fork();

    if (pid < 0)
        fail("cannot start %s: %s", command[0], strerror(errno));
    if (pid)
        return pid;
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        fail("cannot write %s: %s", output, strerror(errno));
    execvp(command[0], command);
    fail("cannot start %s: %s", command[0], strerror(errno));
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static int follow(const char *path, uint64_t steps, const char *output, char **command)
{
    struct screen s = {
        .live = isatty(1), .steps = steps, .begin_ns = now_ns(), .printed_ns = now_ns()
    };
    struct sigaction action = { .sa_handler = on_signal };
    struct demo_log log;
    const char *no_color = getenv("NO_COLOR");
    int status;

    s.colour = s.live && !(no_color && *no_color);
    open_log(&log, path);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    pid_t pid = start(command, output);

    while (waitpid(pid, &status, WNOHANG) == 0) {
        poll(NULL, 0, 100); /* the rate at which the line is drawn anew */
        if (interrupted) {
            interrupted = 0;
            kill(pid, SIGTERM);
        }
        demo_log_read(&log);
        show_events(&s, &log);
        show_status(&s, &log, false);
    }
    demo_log_read(&log);
    show_events(&s, &log);
    show_status(&s, &log, true);
    demo_log_close(&log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- table ---- */

struct figures {
    size_t steps, recoveries;
    uint64_t lost, joined, left, unfinished;
    double *agreed_ms, *committed_ms; /* per view that lost somebody */
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A view that nobody committed in was overtaken by the next loss: its recovery lasts until somebody
 * committed. */
static uint64_t commit_after(const struct demo_log *log, size_t view)
{
    for (; view < log->view_count; view++)
        if (log->views[view].committed_ns)
            return log->views[view].committed_ns;
    return 0;
}

static void collect(const struct demo_log *log, struct figures *f)
{
    *f = (struct figures){ .steps = log->step_count - (size_t)demo_log_steps_lost(log) };
    f->agreed_ms = calloc(log->view_count + 1, sizeof *f->agreed_ms);
    f->committed_ms = calloc(log->view_count + 1, sizeof *f->committed_ms);
    if (!f->agreed_ms || !f->committed_ms)
        fail("out of memory");
    for (size_t i = 0; i < log->view_count; i++) {
        const struct demo_view *v = &log->views[i];

        if (v->view < demo_log_first_loss(log))
            continue;
        f->lost += v->lost;
        f->joined += v->joined;
        f->left += v->left;
        if (!v->lost)
            continue;
        uint64_t committed_ns = commit_after(log, i);

        f->unfinished += !committed_ns;
        f->agreed_ms[f->recoveries] = ms(v->detected_ns, v->restarted_ns);
        f->committed_ms[f->recoveries++] = ms(v->detected_ns, committed_ns);
    }
    qsort(f->agreed_ms, f->recoveries, sizeof *f->agreed_ms, compare);
    qsort(f->committed_ms, f->recoveries, sizeof *f->committed_ms, compare);
}

static void show_times(const char *what, const double *sorted_ms, size_t count)
{
    if (count)
        printf("  %-42s median %.1f ms, max %.1f ms\n", what, sorted_ms[count / 2],
               sorted_ms[count - 1]);
}

static int broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int broken(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("  BROKEN: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    return 1;
}

/* What the table promises, checked. Returns how many promises are broken. */
static int judge(const struct demo_log *log, const struct figures *f, uint64_t steps, double loss,
                 double reference)
{
    int count = 0;

    if (f->steps != steps || log->step_count != steps)
        count += broken("%zu steps committed instead of %" PRIu64, f->steps, steps);
    if (log->steps_out_of_order)
        count += broken("%" PRIu64 " times a member skipped or repeated a step",
                        log->steps_out_of_order);
    if (log->digests_differing)
        count += broken("%" PRIu64 " digests differ: replicas have drifted apart",
                        log->digests_differing);
    if (!log->digests_compared)
        count += broken("there were no two digests to compare");
    if (log->samples_twice)
        count += broken("%" PRIu64 " samples used twice", log->samples_twice);
    if (log->lines_bad)
        count += broken("%" PRIu64 " lines of the log cannot be read", log->lines_bad);
    if (!f->lost || !f->joined)
        count += broken("nobody was %s, so nothing was shown", f->lost ? "joining" : "lost");
    if (f->unfinished)
        count += broken("%" PRIu64 " recoveries did not come to an end", f->unfinished);
    if (!(loss - reference < loss_tolerance && reference - loss < loss_tolerance))
        count += broken("final losses differ by more than %.2f", loss_tolerance);
    return count;
}

static int table(const char *path, const char *reference_path, uint64_t steps)
{
    struct demo_log log, reference;
    struct figures f;

    open_log(&log, path);
    open_log(&reference, reference_path);
    demo_log_read(&log);
    demo_log_read(&reference);
    demo_log_finish(&log);
    collect(&log, &f);
    double loss = demo_log_loss(&log, TAIL_STEPS),
           loss_reference = demo_log_loss(&reference, TAIL_STEPS);

    printf("  %-42s %zu of %" PRIu64 "\n", "steps committed", f.steps, steps);
    printf("  %-42s %" PRIu64 "\n", "steps lost", demo_log_steps_lost(&log));
    printf("  %-42s %" PRIu64 " and %" PRIu64 "\n", "revocations and joins survived", f.lost,
           f.joined);
    if (demo_log_rejoined(&log))
        printf("  %-42s %" PRIu64 "\n", "  of them a slow member taken for lost",
               demo_log_rejoined(&log));
    show_times("recovery: loss detected to new view", f.agreed_ms, f.recoveries);
    show_times("recovery: loss detected to next commit", f.committed_ms, f.recoveries);
    printf("  %-42s %" PRIu64 " compared, %s\n", "digests of replicas, after every step",
           log.digests_compared, log.digests_differing ? "NOT EQUAL" : "all equal");
    printf("  %-42s %" PRIu64 ", %s twice\n", "samples used", log.samples_used,
           log.samples_twice ? "SOME" : "none");
    printf("  %-42s %.0f (undisturbed %.0f)\n", "samples per second", demo_log_rate(&log, 0),
           demo_log_rate(&reference, 0));
    printf("  %-42s %.3f (undisturbed %.3f)\n", "final loss, mean of the last 100 steps", loss,
           loss_reference);
    if (reference.step_count != steps)
        fail("the undisturbed run made %zu steps instead of %" PRIu64, reference.step_count, steps);
    int count = judge(&log, &f, steps, loss, loss_reference);

    demo_log_close(&log);
    demo_log_close(&reference);
    free(f.agreed_ms);
    free(f.committed_ms);
    return count != 0;
}

/* ---- plan ---- */

/* The second half of the trial counts: the first one starts cold. */
static int plan(const char *path, uint64_t seconds)
{
    struct demo_log log;

    open_log(&log, path);
    demo_log_read(&log);
    size_t last = log.step_count, half = last / 2;

    if (last < 4 || !log.steps[last - 1].t_ns || !log.steps[half].t_ns)
        fail("the trial run made too few steps");
    double per_step_ms =
        ms(log.steps[half].t_ns, log.steps[last - 1].t_ns) / (double)(last - 1 - half);
    double steps = (double)seconds * 1e3 / (per_step_ms > 0.1 ? per_step_ms : 0.1);

    printf("%.0f\n", steps < 300 ? 300 : steps > 20000 ? 20000 : steps);
    demo_log_close(&log);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";

    if (strcmp(verb, "plan") == 0 && argc == 4)
        return plan(argv[2], positive(argv[3]));
    if (strcmp(verb, "follow") == 0 && argc > 5)
        return follow(argv[2], positive(argv[3]), argv[4], argv + 5);
    if (strcmp(verb, "table") == 0 && argc == 5)
        return table(argv[2], argv[3], positive(argv[4]));
    fail("usage: demo_report plan LOG SECONDS | follow LOG STEPS OUTPUT COMMAND.. | table LOG "
         "REFERENCE "
         "STEPS");
}
