/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of spotnik run: workers' output, workers' ends, the clock (kills, the trace, patience
 * with leavers) and the user's signals. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "run_line.h"
#include "run_state.h"

#define FAILURES_MAX 3 /* workers in a row that end without a committed step: respawning stops */
#define FIRST_PIPE 3   /* behind the descriptors that are no pipes */
#define LOOK_MS 200    /* how often to look at what the members tell */
#define WAITING_TOLD_NS (10 * SPOTNIK_S) /* between two lines on what a member waits for */

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SPOTNIK_S + (uint64_t)time.tv_nsec;
}

void run_say(const struct run *run, const char *format, ...)
{
    va_list arguments;

    if (run->options->quiet)
        return;
    char text[1024];
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    run_line_say(NULL, text);
}

void run_tell(const struct run *run, enum spotnik_said kind, const char *format, ...)
{
    va_list arguments;

    if (run->options->quiet)
        return;
    char text[1024];
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    run_line_say(spotnik_said_info(kind), text);
}

static struct agent_worker *start(struct run *run)
{
    if (run->most_step) /* a replacement joins the job, or goes on from where that was */
        unsetenv("SPOTNIK_FROM");
    struct agent_worker *worker = agent_start(&run->agent);
    if (!worker)
        run_say(run, "cannot start a worker: %s", strerror(errno));
    return worker;
}

static void kill_one(struct run *run)
{
    struct agent_worker *worker = run->state == RUN_DONE ? NULL : run_victim(run);

    if (!worker)
        return;
    run_say(run, "killing w%u", worker->number);
    agent_kill(&run->agent, worker);
}

static void churn_apply(struct run *run, const struct churn_event *event)
{
    const char *name = run->options->churn.node[event->node];

    if (event->add) {
        struct agent_worker *worker =
            agent_running(&run->agent) < run->options->max ? start(run) : NULL;
        if (!worker)
            return;
        worker->node = event->node;
        run_say(run, "%s comes: w%u", name, worker->number);
        return;
    }
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        if (worker->pid && worker->node == event->node) {
            run_say(run, "%s goes: w%u", name, worker->number);
            agent_kill(&run->agent, worker);
        }
    }
}

/* The next machine comes into the place of one that goes: its worker is killed, and has not ended
 * yet. Its end wakes us. */
static bool awaits_a_place(const struct run *run)
{
    bool dying = false;
    for (uint32_t i = 0; i < run->agent.places; i++)
        dying |= run->agent.worker[i].pid != 0 && run->agent.worker[i].killed;
    return run->options->churn.event[run->churn_at].add && dying
           && agent_running(&run->agent) >= run->options->max;
}

static uint64_t churn_due_ns(const struct run *run)
{
    const struct churn *churn = &run->options->churn;
    if (run->churn_at == churn->event_count || run->state == RUN_DONE || run->stage
        || awaits_a_place(run))
        return SPOTNIK_NEVER;
    double after_ns = (double)(churn->event[run->churn_at].at_ms - churn->event[0].at_ms) * 1e6
                      / run->options->speedup;
    return run->begun_ns + (uint64_t)after_ns;
}

static void ask_to_end(struct run *run)
{
    static const char *const words[] = { "", "leaving; press again to insist",
                                         "still there: SIGTERM", "still there: SIGKILL" };

    if (run->stage < 3)
        run->stage++;
    run_say(run, "%s", words[run->stage]);
    run->patience_ns = now_ns() + run->options->grace_ns;
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        if (!worker->pid)
            continue;
        if (run->stage == 1)
            agent_leave(&run->agent, worker);
        else
            agent_signal(worker, run->stage == 2 ? SIGTERM : SIGKILL);
    }
}

/* ---- notices ---- */

static int64_t wall_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void leave_for_notice(struct run *run, const struct notice *notice)
{
    int64_t left_ms = notice->deadline_ms - wall_ms();

    run_say(run, "%s: this machine goes in %.0f s (%s); leaving", notice->source,
            left_ms > 0 ? (double)left_ms / 1e3 : 0., notice->text);
    run->coming_back = false;
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid && !run->agent.worker[i].leaving)
            agent_leave(&run->agent, &run->agent.worker[i]);
}

static void heed_notices(struct run *run)
{
    struct notice notice;

    while (notice_watcher_next(&run->watcher, &notice)) {
        enum notice_watcher_act act =
            notice_watcher_heed(&run->watcher, &notice, now_ns(), wall_ms());
        if (run->stage || run->state == RUN_DONE)
            continue;
        if (act == NOTICE_WATCHER_LEAVE)
            leave_for_notice(run, &notice);
        else
            run_say(run, "%s: %s: %s", notice.source,
                    notice.kind == NOTICE_OVER   ? "no longer"
                    : notice.kind == NOTICE_RISK ? "at risk"
                                                 : "again",
                    notice.text);
        run->coming_back |= act == NOTICE_WATCHER_BACK;
        notice_watcher_hook(&run->watcher, &notice);
    }
}

/* The machine stays after all: one leave, one join. */
static void come_back(struct run *run)
{
    if (notice_watcher_lied(&run->watcher, now_ns()) && !run->stage && run->state != RUN_DONE) {
        run_say(run, "the notice is past, and this machine is still here");
        run->coming_back = true;
    }
    if (!run->coming_back || run->stage || run->state == RUN_DONE || agent_running(&run->agent))
        return;
    run->coming_back = false;
    for (uint32_t i = 0; i < run->options->max; i++)
        start(run);
}

static bool is_waiting_to_come_back(const struct run *run)
{
    return (run->watcher.away || run->coming_back) && !run->stage && run->state != RUN_DONE;
}

static uint64_t due_ns(const struct run *run)
{
    uint64_t due = spotnik_time_min(churn_due_ns(run), run->watcher.back_ns);
    if (run->options->kill_every_ns && !run->stage)
        due = spotnik_time_min(due, run->kill_ns);
    if (run->stage && run->stage < 3)
        due = spotnik_time_min(due, run->patience_ns);
    return due;
}

static void do_due(struct run *run)
{
    uint64_t now = now_ns();

    while (churn_due_ns(run) <= now)
        churn_apply(run, &run->options->churn.event[run->churn_at++]);
    if (run->options->kill_every_ns && !run->stage && run->kill_ns <= now) {
        kill_one(run);
        run->kill_ns = now + run->options->kill_every_ns;
    }
    if (run->stage && run->stage < 3 && run->patience_ns <= now)
        ask_to_end(run);
}

/* A worker that ended by itself and has never committed a step. A program that cannot start is not
 * started for ever. */
static bool is_stillborn(const struct agent_worker *worker, enum agent_end end, uint64_t committed)
{
    return !committed && !worker->killed && (end == AGENT_FAILED || end == AGENT_LOST);
}

/* The status is that of an error. With 75 an engine would start the same crash again, for ever. */
static void stop_replacing(struct run *run, int status)
{
    run_state_reach(run, RUN_CRASHING);
    if (!run->agent.first_error && WIFSIGNALED(status))
        run->agent.first_error = 128 + WTERMSIG(status);
}

static bool replace(struct run *run, enum agent_end end, const struct agent_worker *worker,
                    bool stillborn)
{
    int status = worker->group.status;

    if (!run->options->respawn || run->state >= RUN_REFUSING || run->stage || run->watcher.away
        || end == AGENT_DONE || end == AGENT_INTERRUPTED)
        return false;
    run->failures = stillborn ? run->failures + 1 : 0;
    if (run->state == RUN_TRAINS && run->failures >= FAILURES_MAX) {
        stop_replacing(run, status);
        run_say(run,
                "%u workers in a row ended before their first step was committed: not replacing "
                "any more; see what they said",
                FAILURES_MAX);
    }
    if (run->state == RUN_TRAINS && worker->failures >= run->options->failures_max) {
        stop_replacing(run, status);
        run_say(
            run,
            "w%u is the last of %u in a row that ended so within 10 minutes of their start: not "
            "replacing any more (--max-failures); see what the first of them said",
            worker->number, worker->failures);
    }
    return run->state == RUN_TRAINS;
}

/* A worker that started too late to become a member would wait for the job, or found it anew and
 * train from the start. Members are not harmed: the end of the job comes before the request to
 * leave. */
static void send_late_ones_home(struct run *run)
{
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid)
            agent_leave(&run->agent, &run->agent.worker[i]);
}

/* No worker is left that would go on training. */
static void finish(struct run *run)
{
    if (run->state != RUN_DONE && !run_is_done(run))
        return;
    run_state_reach(run, RUN_DONE);
    send_late_ones_home(run);
}

static void reap_one(struct run *run, struct agent_worker *worker)
{
    char text[64];
    uint32_t number = worker->number;
    int status = worker->group.status;
    bool late = run->state == RUN_DONE;
    enum agent_end end = agent_reaped(&run->agent, worker, text, sizeof(text));
    bool stillborn = is_stillborn(worker, end, run_committed(run, worker));

    if (end == AGENT_FAILED)
        run_verdict_note_failed(run, number, status);
    run_look_at_minority(run, worker);
    if (end == AGENT_DONE || end == AGENT_INTERRUPTED)
        run_look_at_checkpoints(run, worker);
    run_look(run, now_ns()); /* it may have gone further than it had when we looked last */
    if (end == AGENT_DONE)
        run_ended(run, worker);
    if (end == AGENT_DONE)
        run_done_write(run, worker);
    if (end == AGENT_DONE && agent_is_late(&run->agent, worker))
        run_say(run, "w%u %s: nothing is left to do here (to train on, remove %s/done)", number,
                text, run->options->done_folder ? run->options->done_folder : "");
    if (!late && run->ended.any)
        finish(run);
    run->agent.told &= run->state == RUN_DONE; /* it has left, and the others train on */
    struct agent_worker *next = replace(run, end, worker, stillborn) ? start(run) : NULL;
    if (next) {
        run_say(run, "w%u %s; w%u starts", number, text, next->number);
    } else if (late && end == AGENT_INTERRUPTED) {
        run_say(run, "w%u ended with the job: it came too late for the last step", number);
    } else if (end != AGENT_DONE) {
        run_say(run, "w%u %s", number, text);
    }
}

static void reap(struct run *run)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < run->agent.places; i++) {
            struct agent_worker *worker = &run->agent.worker[i];
            if (!worker->pid || !agent_group_ended(&worker->group, worker->pid, pid, status))
                continue;
            if (!worker->group.running)
                reap_one(run, worker);
            break;
        }
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(run);
        /* Slurm sends SIGTERM three times within milliseconds */
        else if (info.ssi_signo == SIGINT || !run->stage)
            ask_to_end(run);
    }
}

static uint32_t gather(struct run *run, struct pollfd *fds, struct agent_pipe **pipes,
                       struct agent_worker **owners)
{
    uint32_t count = 0;

    fds[count] = (struct pollfd){ .fd = run->signals, .events = POLLIN };
    pipes[count++] = NULL;
    fds[count] = (struct pollfd){ .fd = run->watcher.fd, .events = POLLIN }; /* -1 is passed over */
    pipes[count++] = NULL;
    fds[count] = (struct pollfd){ .fd = run->options->output.grows, .events = POLLIN };
    pipes[count++] = NULL;
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        struct agent_pipe *both[] = { &worker->out, &worker->err };
        for (int j = 0; j < 2 && worker->pid; j++)
            if (both[j]->fd >= 0 && !both[j]->is_file) {
                fds[count] = (struct pollfd){ .fd = both[j]->fd, .events = POLLIN };
                owners[count] = worker;
                pipes[count++] = both[j];
            }
    }
    return count;
}

static int wait_ms(const struct run *run)
{
    uint64_t due = due_ns(run), now = now_ns();

    return due <= now ? 0 : (int)spotnik_time_min((due - now) / SPOTNIK_MS + 1, LOOK_MS);
}

/* The members would wait for ever: better end, so that somebody can start the job again. */
static void look_for_company(struct run *run)
{
    if (run_is_left_over(run)) {
        run_say(run,
                "the job is done after step %llu; who waits for others to make another step leaves",
                (unsigned long long)run->ended.step);
        run_state_reach(run, RUN_DONE);
        send_late_ones_home(run);
    }
    if (!run_is_stuck(run))
        return;
    run_state_reach(run, RUN_STUCK);
    run_say(run,
            "%u of %u needed are here, and nobody can come: ending. Start it again, with %sa lower "
            "minimum (-n MIN:MAX)",
            run->waits.members, run->waits.needed, run->options->respawn ? "" : "--respawn or ");
    ask_to_end(run);
}

/* A member looks for the job, and somebody who cannot be reached may be in it. */
static void look_at_waiting(struct run *run)
{
    const struct spotnik_slots *slots = run->agent.slots;
    uint64_t ms, of_ms;

    if (!spotnik_slots_wait(slots, &ms, &of_ms)
        || now_ns() < run->told.waiting_ns + WAITING_TOLD_NS)
        return;
    run->told.waiting_ns = now_ns();
    run_say(
        run,
        "looking for the job: a process that cannot be reached may be in it; waited %.0f of %.0f "
        "s (spotnik status names it)",
        (double)ms / 1e3, (double)of_ms / 1e3);
}

static void look_at_folder(struct run *run)
{
    if (now_ns() < run->mended_ns + SPOTNIK_S)
        return;
    run->mended_ns = now_ns();
    if (run_folder_mend(run->options->folder))
        run_say(run,
                "%s was emptied: its key and peers folder are there again. Keep cleaners of "
                "temporary folders from it, or set TMPDIR to another place",
                run->options->folder->path);
}

static void read_files(struct run *run)
{
    char events[4096];

    while (read(run->options->output.grows, events, sizeof(events)) > 0)
        continue;
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid && run->agent.worker[i].out.is_file)
            agent_read(&run->agent, &run->agent.worker[i], &run->agent.worker[i].out);
}

static void turn(struct run *run, struct pollfd *fds, struct agent_pipe **pipes,
                 struct agent_worker **owners)
{
    uint32_t count = gather(run, fds, pipes, owners);

    if (poll(fds, count, wait_ms(run)) < 0 && errno != EINTR)
        return;
    for (uint32_t i = FIRST_PIPE; i < count; i++)
        if (fds[i].revents)
            agent_read(&run->agent, owners[i], pipes[i]);
    read_files(run);
    run_look(run, now_ns());
    look_at_waiting(run);
    look_at_folder(run);
    if (run_done_appears(run, now_ns())) {
        run_state_reach(run, RUN_DONE);
        send_late_ones_home(run);
    }
    take_signals(run);
    heed_notices(run);
    come_back(run);
    do_due(run);
    look_for_company(run);
}

static bool watch_signals(struct run *run)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (signal(SIGHUP, SIG_DFL) == SIG_IGN) /* nohup: it trains on without its terminal */
        signal(SIGHUP, SIG_IGN);
    else
        sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1); /* sbatch --signal=USR1@60 and its like */
    sigprocmask(SIG_BLOCK, &set, NULL);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals >= 0;
}

static void loop(struct run *run)
{
    uint32_t places = run->agent.places;
    struct pollfd *fds = calloc(FIRST_PIPE + 2 * places, sizeof(*fds));
    struct agent_pipe **pipes = calloc(FIRST_PIPE + 2 * places, sizeof(*pipes));
    struct agent_worker **owners = calloc(FIRST_PIPE + 2 * places, sizeof(*owners));

    while (fds && pipes && owners
           && (agent_running(&run->agent) || churn_due_ns(run) != SPOTNIK_NEVER
               || is_waiting_to_come_back(run)))
        turn(run, fds, pipes, owners);
    free(fds);
    free(pipes);
    free(owners);
}

int run_loop(const struct run_options *options)
{
    struct run run = { .options = options, .begun_ns = now_ns(), .kill_ns = SPOTNIK_NEVER };

    spotnik_prng_seed(&run.prng, options->seed);
    if (!agent_init(&run.agent, options->command, options->max, options->grace_ns, &options->output)
        || !watch_signals(&run)) {
        fprintf(stderr, "spotnik run: cannot start: %s\n", strerror(errno));
        agent_done(&run.agent);
        return 1;
    }
    run.agent.bind = options->bind;
    run.agent.bind_port = options->bind_port;
    if (!notice_watcher_start(&run.watcher, &options->notice))
        run_say(&run, "cannot watch for notices: %s; SIGTERM still asks the workers to leave",
                errno == ENOENT ? "spotnik-notice is not installed" : strerror(errno));
    run_done_begin(&run);
    run.agent.torchrun = options->torchrun;
    run.agent.group = options->group;
    run.agent.gpus = &options->gpus;
    run.agent.slots->start = options->start;
    run.agent.slots->listens = !options->quiet;
    if (options->churn.event_count)
        do_due(&run);
    else
        for (uint32_t i = 0; i < options->max; i++)
            start(&run);
    run_line_start(options->quiet);
    loop(&run);
    run_line_stop();
    notice_watcher_end(&run.watcher);
    run_verdict_say(&run, now_ns());
    int status = run_verdict(&run);
    agent_done(&run.agent);
    return status;
}
