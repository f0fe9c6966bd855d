/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of spotnik run: workers' output, workers' ends, the clock (kills, the trace, patience with leavers) and the user's signals. */
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

#include "base/prng.h"
#include "base/time.h"
#include "run.h"
#include "sync/policy.h"

/* A worker that fails by itself within this time was never well: so many in a row, and respawning stops. */
#define EARLY_NS (2 * SPOTNIK_S)
#define EARLY_MAX 5
#define WAITING_TOLD_NS (10 * SPOTNIK_S) /* between two lines on what a member waits for */
#define LOOK_SELDOM_MS 1000 /* how often to look whether a member waits */
#define LOOK_MS 200 /* how often to look whether members have changed strategy */

struct run {
    const struct run_options *options;
    struct agent agent;
    struct spotnik_prng prng;
    int signals;
    uint64_t begun_ns, kill_ns, patience_ns;
    uint32_t early_failures, respawns;
    uint64_t told_waiting_ns; /* when we told last that a member waits */
    uint64_t told_step;   /* of the last change of strategy we have told of */
    uint32_t stage;       /* how often the user, or patience, has asked to end: 0 none, 1 leave, 2 SIGTERM, 3 SIGKILL */
    size_t churn_at;
    bool finished;        /* a worker has ended with 0: the job is done, nobody is replaced any more */
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SPOTNIK_S + (uint64_t)time.tv_nsec;
}

static void say(const struct run *run, const char *format, ...)
{
    va_list arguments;

    if (run->options->quiet)
        return;
    fprintf(stderr, "spotnik: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
}

static struct agent_worker *start(struct run *run)
{
    struct agent_worker *worker = agent_start(&run->agent);
    if (!worker)
        say(run, "cannot start a worker: %s", strerror(errno));
    return worker;
}

/* A place among the running workers, chosen by the seed. */
static struct agent_worker *victim(struct run *run)
{
    uint32_t running = agent_running(&run->agent);
    uint32_t skip = running ? (uint32_t)spotnik_prng_below(&run->prng, running) : 0;

    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid && !skip--)
            return &run->agent.worker[i];
    return NULL;
}

static void kill_one(struct run *run)
{
    struct agent_worker *worker = victim(run);
    if (run->finished || !worker || agent_running(&run->agent) <= run->options->min)
        return;
    say(run, "killing w%u", worker->number);
    agent_kill(&run->agent, worker);
}

static void churn_apply(struct run *run, const struct churn_event *event)
{
    const char *name = run->options->churn.node[event->node];

    if (event->add) {
        struct agent_worker *worker = agent_running(&run->agent) < run->options->max ? start(run) : NULL;
        if (!worker)
            return;
        worker->node = event->node;
        say(run, "%s comes: w%u", name, worker->number);
        return;
    }
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        if (worker->pid && worker->node == event->node) {
            say(run, "%s goes: w%u", name, worker->number);
            agent_kill(&run->agent, worker);
        }
    }
}

static uint64_t churn_due_ns(const struct run *run)
{
    const struct churn *churn = &run->options->churn;
    if (run->churn_at == churn->event_count || run->finished || run->stage)
        return SPOTNIK_NEVER;
    double after_ns = (double)(churn->event[run->churn_at].at_ms - churn->event[0].at_ms) * 1e6 / run->options->speedup;
    return run->begun_ns + (uint64_t)after_ns;
}

static void ask_to_end(struct run *run)
{
    static const char *const words[] = {"", "leaving; press again to insist", "still there: SIGTERM", "still there: SIGKILL"};

    if (run->stage < 3)
        run->stage++;
    say(run, "%s", words[run->stage]);
    run->patience_ns = now_ns() + run->options->grace_ns;
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        if (!worker->pid)
            continue;
        if (run->stage == 1)
            agent_leave(&run->agent, worker);
        else
            kill(worker->pid, run->stage == 2 ? SIGTERM : SIGKILL);
    }
}

static uint64_t due_ns(const struct run *run)
{
    uint64_t due = churn_due_ns(run);
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

static bool replace(struct run *run, enum agent_end end, uint64_t lived_ns)
{
    if (!run->options->respawn || run->finished || run->stage || end == AGENT_DONE || end == AGENT_INTERRUPTED)
        return false;
    bool early = end == AGENT_FAILED && lived_ns < EARLY_NS;
    run->early_failures = early ? run->early_failures + 1 : 0;
    if (run->early_failures < EARLY_MAX)
        return true;
    say(run, "%u workers in a row failed within %u s of their start: not replacing any more", EARLY_MAX,
        (unsigned)(EARLY_NS / SPOTNIK_S));
    return false;
}

/* A worker that started too late to become a member would wait for the job, or found it anew and train from the start.
 * Members are not harmed: the end of the job comes before the request to leave. */
static void send_late_ones_home(struct run *run)
{
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid)
            agent_leave(&run->agent, &run->agent.worker[i]);
}

static void reap_one(struct run *run, struct agent_worker *worker, int status)
{
    char text[64];
    uint32_t number = worker->number;
    uint64_t lived_ns = now_ns() - worker->started_ns;
    enum agent_end end = agent_reaped(&run->agent, worker, status, text, sizeof(text));

    if (end == AGENT_DONE && !run->finished) {
        run->finished = true;
        send_late_ones_home(run);
    }
    struct agent_worker *next = replace(run, end, lived_ns) ? start(run) : NULL;
    if (next) {
        run->respawns++;
        say(run, "w%u %s; w%u starts", number, text, next->number);
    } else if (end != AGENT_DONE) {
        say(run, "w%u %s", number, text);
    }
}

static void reap(struct run *run)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < run->agent.places; i++)
            if (run->agent.worker[i].pid == pid) {
                reap_one(run, &run->agent.worker[i], status);
                break;
            }
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(run);
        else
            ask_to_end(run);
    }
}

static uint32_t gather(struct run *run, struct pollfd *fds, struct agent_pipe **pipes, struct agent_worker **owners)
{
    uint32_t count = 0;

    fds[count] = (struct pollfd){.fd = run->signals, .events = POLLIN};
    pipes[count++] = NULL;
    for (uint32_t i = 0; i < run->agent.places; i++) {
        struct agent_worker *worker = &run->agent.worker[i];
        struct agent_pipe *both[] = {&worker->out, &worker->err};
        for (int j = 0; j < 2 && worker->pid; j++)
            if (both[j]->fd >= 0) {
                fds[count] = (struct pollfd){.fd = both[j]->fd, .events = POLLIN};
                owners[count] = worker;
                pipes[count++] = both[j];
            }
    }
    return count;
}

static int wait_ms(const struct run *run)
{
    uint64_t due = due_ns(run), now = now_ns(), most = run->options->watch_sync ? LOOK_MS : LOOK_SELDOM_MS;
    if (due == SPOTNIK_NEVER)
        return (int)most;
    return due <= now ? 0 : (int)spotnik_time_min((due - now) / SPOTNIK_MS + 1, most);
}

static double real(const uint64_t *bits)
{
    uint64_t read = __atomic_load_n(bits, __ATOMIC_RELAXED);
    double value;
    memcpy(&value, &read, sizeof(value));
    return value;
}

/* Members change strategy together: whoever is seen first speaks for all. */
static void look_at_sync(struct run *run)
{
    for (uint32_t i = 0; i < run->agent.places && run->options->watch_sync; i++) {
        const struct spotnik_slot *slot = &run->agent.slots->slot[i];
        uint64_t step = __atomic_load_n(&slot->told_step, __ATOMIC_ACQUIRE);
        if (step <= run->told_step)
            continue;
        uint64_t what = __atomic_load_n(&slot->told_what, __ATOMIC_RELAXED);
        run->told_step = step;
        say(run, "step %llu: %s from here on: %s (%.3f, limit %.3f)", (unsigned long long)step,
            (what & 0xff) == SPOTNIK_SYNC_ASYNCHRONOUS ? "asynchronous" : "synchronous",
            spotnik_sync_reason_text((enum spotnik_sync_reason)(what >> 8 & 0xff)), real(&slot->told_value),
            real(&slot->told_limit));
    }
}

/* A member looks for the job, and somebody who does not answer may be in it. */
static void look_at_waiting(struct run *run)
{
    const struct spotnik_slots *slots = run->agent.slots;
    uint64_t ms = __atomic_load_n(&slots->waiting_ms, __ATOMIC_ACQUIRE);
    uint64_t of_ms = __atomic_load_n(&slots->waiting_of_ms, __ATOMIC_RELAXED);

    if (of_ms == 0 || now_ns() < run->told_waiting_ns + WAITING_TOLD_NS)
        return;
    run->told_waiting_ns = now_ns();
    say(run, "looking for the job: somebody who does not answer may be in it; so far it has been silent for %.0f of %.0f s "
             "(which: spotnik status)", (double)ms / 1e3, (double)of_ms / 1e3);
}

static void turn(struct run *run, struct pollfd *fds, struct agent_pipe **pipes, struct agent_worker **owners)
{
    uint32_t count = gather(run, fds, pipes, owners);

    if (poll(fds, count, wait_ms(run)) < 0 && errno != EINTR)
        return;
    for (uint32_t i = 1; i < count; i++)
        if (fds[i].revents)
            agent_read(owners[i], pipes[i]);
    look_at_sync(run);
    look_at_waiting(run);
    take_signals(run);
    do_due(run);
}

static int verdict(const struct run *run)
{
    const struct agent *agent = &run->agent;
    if (agent->ended[AGENT_DONE])
        return 0;
    if (agent->ended[AGENT_INTERRUPTED] || run->stage)
        return 75;
    return agent->first_error ? agent->first_error : 1;
}

static void sum_up(const struct run *run)
{
    const struct agent *agent = &run->agent;
    say(run, "%s after %.1f s: %u workers started, %u killed by us, %u lost, %u left, %u failed, %u done",
        verdict(run) == 0 ? "done" : verdict(run) == 75 ? "interrupted" : "ended", (double)(now_ns() - run->begun_ns) / 1e9,
        agent->started, agent->killed, agent->ended[AGENT_LOST], agent->ended[AGENT_INTERRUPTED],
        agent->ended[AGENT_FAILED], agent->ended[AGENT_DONE]);
}

static bool watch_signals(struct run *run)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals >= 0;
}

static void loop(struct run *run)
{
    uint32_t places = run->agent.places;
    struct pollfd *fds = calloc(1 + 2 * places, sizeof(*fds));
    struct agent_pipe **pipes = calloc(1 + 2 * places, sizeof(*pipes));
    struct agent_worker **owners = calloc(1 + 2 * places, sizeof(*owners));

    while (fds && pipes && owners && (agent_running(&run->agent) || churn_due_ns(run) != SPOTNIK_NEVER))
        turn(run, fds, pipes, owners);
    free(fds);
    free(pipes);
    free(owners);
}

int run_loop(const struct run_options *options)
{
    struct run run = {.options = options, .begun_ns = now_ns()};

    run.kill_ns = run.begun_ns + options->kill_every_ns;
    spotnik_prng_seed(&run.prng, options->seed);
    if (!agent_init(&run.agent, options->command, options->max) || !watch_signals(&run)) {
        fprintf(stderr, "spotnik run: cannot start: %s\n", strerror(errno));
        agent_done(&run.agent);
        return 1;
    }
    if (options->churn.event_count)
        do_due(&run);
    else
        for (uint32_t i = 0; i < options->max; i++)
            start(&run);
    loop(&run);
    sum_up(&run);
    int status = verdict(&run);
    agent_done(&run.agent);
    return status;
}
