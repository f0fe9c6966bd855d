/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as processes: start, output, death. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run_host.h"
#include "spotnik/spotnik.h"

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t oom_kills(void)
{
    return run_host_oom_kills("/proc/self/cgroup", "/sys/fs/cgroup");
}

bool agent_init(struct agent *agent, char **command, uint32_t places, uint64_t grace_ns,
                const struct output *output)
{
    *agent = (struct agent){
        .command = command, .places = places, .slots_fd = -1, .output = *output, .pid = getpid()
    };
    agent->worker = calloc(places, sizeof(*agent->worker));
    agent->oom_kills = oom_kills();
    return agent->worker && spotnik_slots_new(places, &agent->slots_fd, &agent->slots) == 0
           && agent_guard_start(&agent->guard, agent->slots, grace_ns);
}

void agent_done(struct agent *agent)
{
    agent_guard_end(&agent->guard);
    spotnik_slots_unmap(agent->slots);
    if (agent->slots_fd >= 0)
        close(agent->slots_fd);
    free(agent->worker);
}

uint32_t agent_running(const struct agent *agent)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < agent->places; i++)
        running += agent->worker[i].pid != 0;
    return running;
}

static void variable_set(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", (unsigned)value);
    setenv(name, text, 1);
}

/* What torchrun tells its workers, for libraries that look for it. A rank here is a place on this
 * host, which a replacement takes over. The rank and size in the job change, and only the library
 * knows them. MASTER_* are set once for all, by cmd_run.c. */
static void set_torchrun_variables(const struct agent *agent, uint32_t place)
{
    variable_set("RANK", place);
    variable_set("LOCAL_RANK", place);
    variable_set("WORLD_SIZE", agent->places);
    variable_set("LOCAL_WORLD_SIZE", agent->places);
    variable_set("GROUP_RANK", 0);
    variable_set("GROUP_WORLD_SIZE", 1);
    variable_set("ROLE_RANK", place);
    variable_set("ROLE_WORLD_SIZE", agent->places);
}

/* A place keeps its port, so that a replacement is found where its predecessor was. */
static void set_bind(const struct agent *agent, uint32_t place)
{
    char text[80];

    if (!agent->bind_port)
        return;
    snprintf(text, sizeof(text), strchr(agent->bind, ':') ? "[%s]:%u" : "%s:%u", agent->bind,
             agent->bind_port + place);
    setenv("SPOTNIK_BIND", text, 1);
}

static void set_gpus(const struct agent *agent, uint32_t place)
{
    char text[AGENT_GPUS_MAX * AGENT_GPU_NAME];

    if (agent_gpus_of(agent->gpus, place, text, sizeof(text)))
        setenv("CUDA_VISIBLE_DEVICES", text, 1);
}

/* In the child: environment, standard streams, a process group of its own so that the terminal's
 * Ctrl-C reaches the agent alone. */
static void become_worker(const struct agent *agent, const struct agent_worker *worker,
                          uint32_t rank, const int ends[2])
{
    char text[32];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Slurm sends it to every process of the step: for the agent it is a notice, others it would
     * end */
    signal(SIGUSR1, SIG_IGN);
    setpgid(0, rank ? worker->pid : 0);
    if (!agent_guard_bind(agent->pid))
        _exit(75);
    dup2(ends[0], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    fcntl(agent->slots_fd, F_SETFD, 0);
    snprintf(text, sizeof(text), "%d", agent->slots_fd);
    setenv("SPOTNIK_SLOTS_FD", text, 1);
    variable_set("SPOTNIK_SLOTS_PID", (uint32_t)getppid());
    variable_set("SPOTNIK_SLOT", (uint32_t)(worker - agent->worker));
    variable_set("SPOTNIK_WORKER", worker->number);
    if (agent->torchrun)
        set_torchrun_variables(agent, (uint32_t)(worker - agent->worker));
    if (agent->group)
        agent_group_environment(&worker->group, worker->number, rank, agent->group);
    set_bind(agent, (uint32_t)(worker - agent->worker));
    set_gpus(agent, (uint32_t)(worker - agent->worker));
    execvp(agent->command[0], agent->command);
    fprintf(stderr, "cannot run %s: %s\n", agent->command[0], strerror(errno));
    _exit(127);
}

static struct agent_worker *free_place(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->places; i++)
        if (!agent->worker[i].pid)
            return &agent->worker[i];
    return NULL;
}

static void close_pair(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* With --log-dir a worker writes its file itself, and the agent reads along: what it printed is
 * there, however the agent ends. `ends`: what the worker gets as its standard streams. */
static bool open_file(const struct agent *agent, struct agent_worker *worker, int ends[2])
{
    int read_fd;

    if (!output_open(&agent->output, worker->number, &ends[0], &read_fd))
        return false;
    ends[1] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
    if (ends[1] < 0) {
        close(ends[0]);
        close(read_fd);
        return false;
    }
    worker->out = (struct agent_pipe){ .fd = read_fd, .is_file = true };
    worker->err = (struct agent_pipe){ .fd = -1 };
    return true;
}

static bool open_pipes(struct agent_worker *worker, int ends[2])
{
    int out[2], err[2];

    if (pipe2(out, O_CLOEXEC))
        return false;
    if (pipe2(err, O_CLOEXEC)) {
        close_pair(out);
        return false;
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    worker->out = (struct agent_pipe){ .fd = out[0] };
    worker->err = (struct agent_pipe){ .fd = err[0], .error = true };
    ends[0] = out[1];
    ends[1] = err[1];
    return true;
}

static void close_streams(struct agent_worker *worker)
{
    if (worker->out.fd >= 0)
        close(worker->out.fd);
    if (worker->err.fd >= 0)
        close(worker->err.fd);
}

/* A group that lacks a process would wait for it: it is ended, and counts as lost. */
static void start_processes(const struct agent *agent, struct agent_worker *worker,
                            const int ends[2])
{
    uint32_t count = agent->group ? agent->group : 1;

    fflush(NULL);
    for (uint32_t rank = 0; rank < count; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            become_worker(agent, worker, rank, ends);
        if (pid < 0 && worker->pid)
            kill(-worker->pid, SIGKILL);
        if (pid < 0)
            return;
        worker->pid = rank ? worker->pid : pid;
        setpgid(pid, worker->pid); /* in both: the guard may need its group at once */
        agent_group_add(&worker->group, pid);
    }
}

struct agent_worker *agent_start(struct agent *agent)
{
    struct agent_worker *worker = free_place(agent);
    int ends[2];

    if (!worker)
        return NULL;
    *worker = (struct agent_worker){ .number = agent->started,
                                     .started_ns = now_ns(),
                                     .failures = worker->failures,
                                     .last_failure = worker->last_failure };
    if (!(agent->output.log_dir ? open_file(agent, worker, ends) : open_pipes(worker, ends)))
        return NULL;
    spotnik_slots_assign(agent->slots, (uint32_t)(worker - agent->worker));
    worker->group.started_ns = worker->started_ns;
    worker->group.port = agent->group ? agent_group_port() : 0;
    start_processes(agent, worker, ends);
    close_pair(ends);
    if (!worker->pid) {
        close_streams(worker);
        return NULL;
    }
    agent_guard_set(&agent->guard, (uint32_t)(worker - agent->worker), worker->pid);
    agent->started++;
    return worker;
}

void agent_kill(struct agent *agent, struct agent_worker *worker)
{
    agent->killed++;
    worker->killed = true;
    agent_signal(worker, SIGKILL);
}

void agent_signal(const struct agent_worker *worker, int number)
{
    if (kill(-worker->pid, number))
        kill(worker->pid, number); /* its group does not exist yet */
}

void agent_leave(struct agent *agent, struct agent_worker *worker)
{
    uint32_t slot = (uint32_t)(worker - agent->worker);
    struct spotnik_id id;

    worker->leaving = true;
    if (spotnik_slots_member(agent->slots, slot, &id))
        spotnik_slots_leave_request(agent->slots, slot);
    else
        kill(worker->pid, SIGTERM);
}

/* The rank its program knows, plus 1. A worker that has begun no step comes behind all that
 * have. */
static uint32_t place_of(const struct agent *agent, const struct agent_worker *worker)
{
    uint32_t place =
        __atomic_load_n(&agent->slots->slot[worker - agent->worker].place, __ATOMIC_ACQUIRE);

    return place ? place : UINT32_MAX;
}

static bool is_before(const struct agent *agent, const struct agent_worker *a,
                      const struct agent_worker *b)
{
    uint32_t place_a = place_of(agent, a), place_b = place_of(agent, b);

    return place_a != place_b ? place_a < place_b : place_a == UINT32_MAX && a->number < b->number;
}

/* The member of lowest rank that runs here; before the first step, the worker that was started
 * first. Of two with one rank the first is dead and not reaped yet, or has heard of the new view
 * later. Both count as senior, so that no line is lost. */
static bool is_senior(const struct agent *agent, const struct agent_worker *worker)
{
    if (agent->told)
        return false;
    for (uint32_t i = 0; i < agent->places; i++)
        if (agent->worker[i].pid && is_before(agent, &agent->worker[i], worker))
            return false;
    return true;
}

static void pass_line(struct agent *agent, struct agent_worker *worker,
                      const struct agent_pipe *pipe, const char *text, size_t length)
{
    const struct output_line line = { .worker = worker->number,
                                      .error = pipe->error,
                                      .kept = pipe->error || pipe->is_file,
                                      .text = text,
                                      .length = length,
                                      .senior = agent->output.whose == OUTPUT_SENIOR
                                                && is_senior(agent, worker) };

    output_pass(&agent->output, &line, &worker->tail);
}

static void pass_lines(struct agent *agent, struct agent_worker *worker, struct agent_pipe *pipe)
{
    char *start = pipe->line, *end;
    while ((end = memchr(start, '\n', pipe->used - (size_t)(start - pipe->line)))) {
        pass_line(agent, worker, pipe, start, (size_t)(end - start));
        start = end + 1;
    }
    pipe->used -= (uint32_t)(start - pipe->line);
    memmove(pipe->line, start, pipe->used);
    if (pipe->used == sizeof(pipe->line)) { /* a line longer than we hold is cut */
        pass_line(agent, worker, pipe, pipe->line, pipe->used);
        pipe->used = 0;
    }
}

static void pipe_end(struct agent *agent, struct agent_worker *worker, struct agent_pipe *pipe)
{
    if (pipe->fd < 0)
        return;
    close(pipe->fd);
    pipe->fd = -1;
    if (pipe->used)
        pass_line(agent, worker, pipe, pipe->line, pipe->used);
    pipe->used = 0;
}

/* After copytruncate of logrotate the file ends before our place: the next line is its first. */
static bool is_truncated(int fd)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    struct stat file;

    return at > 0 && !fstat(fd, &file) && file.st_size < at && lseek(fd, 0, SEEK_SET) == 0;
}

void agent_read(struct agent *agent, struct agent_worker *worker, struct agent_pipe *pipe)
{
    while (pipe->fd >= 0) {
        ssize_t got = read(pipe->fd, pipe->line + pipe->used, sizeof(pipe->line) - pipe->used);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == 0 && pipe->is_file) {
            if (!is_truncated(pipe->fd))
                return;
            pipe->used = 0;
            continue;
        }
        if (got <= 0) {
            pipe_end(agent, worker, pipe);
            return;
        }
        pipe->used += (uint32_t)got;
        pass_lines(agent, worker, pipe);
    }
}

static bool has_left(const struct agent *agent, const struct agent_worker *worker)
{
    return __atomic_load_n(&agent->slots->slot[worker - agent->worker].left, __ATOMIC_ACQUIRE);
}

bool agent_is_late(const struct agent *agent, const struct agent_worker *worker)
{
    return __atomic_load_n(&agent->slots->slot[worker - agent->worker].done, __ATOMIC_ACQUIRE)
           == SPOTNIK_SLOT_LATE;
}

/* As sigabbrev_np(), which glibc has from 2.32 on; NULL: not one that ends a process by itself. */
static const char *signal_name(int number)
{
#define NAME(name) [SIG##name] = #name
    static const char *const names[] = { NAME(HUP),  NAME(INT),  NAME(QUIT), NAME(ILL),  NAME(TRAP),
                                         NAME(ABRT), NAME(BUS),  NAME(FPE),  NAME(KILL), NAME(USR1),
                                         NAME(SEGV), NAME(USR2), NAME(PIPE), NAME(ALRM), NAME(TERM),
                                         NAME(XCPU), NAME(XFSZ), NAME(SYS) };
#undef NAME
    return (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

static enum agent_end judge_signal(int number, bool left, bool oom, char *text, size_t size)
{
    const char *name = signal_name(number);

    snprintf(text, size, left ? "left, and was ended by SIG%s%s" : "lost (SIG%s%s)",
             name ? name : "?", oom ? ": out of memory" : "");
    return left ? AGENT_INTERRUPTED : AGENT_LOST;
}

/* A member that has left is no loss, whatever its process does afterwards. An interpreter that
 * takes down a large program may need longer than our patience. */
static enum agent_end judge(struct agent *agent, struct agent_worker *worker, int status,
                            char *text, size_t size)
{
    worker->oom =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && oom_kills() > agent->oom_kills;
    agent->oom_kills += worker->oom;
    if (WIFSIGNALED(status))
        return judge_signal(WTERMSIG(status), has_left(agent, worker), worker->oom, text, size);
    int code = WEXITSTATUS(status);
    if (agent_is_late(agent, worker)) {
        snprintf(text, size, "came when the job was done");
        return AGENT_DONE;
    }
    if (code != 0 && code != 75 && worker->leaving && has_left(agent, worker)) {
        snprintf(text, size, "left, and ended with exit status %d", code);
        return AGENT_INTERRUPTED;
    }
    if (code == 0) {
        snprintf(text, size, "done");
        return AGENT_DONE;
    }
    if (code == 75) {
        snprintf(text, size, "left (75)");
        return AGENT_INTERRUPTED;
    }
    snprintf(text, size, "failed (exit status %d)", code);
    if (!agent->first_error)
        agent->first_error = code;
    return AGENT_FAILED;
}

/* A machine that goes, or a person, kills with SIGKILL: that is no error of the program. The kernel
 * does, too, where the program has taken all the memory of its control group: that is one. */
static void count_failure(struct agent_worker *worker, enum agent_end end, int status)
{
    bool is_error = end == AGENT_FAILED
                    || (end == AGENT_LOST && (WTERMSIG(status) != SIGKILL || worker->oom)),
         soon = now_ns() - worker->started_ns < AGENT_SOON_NS;

    if (end == AGENT_LOST && !is_error)
        return;
    worker->failures = !is_error || !soon               ? 0
                       : worker->last_failure == status ? worker->failures + 1
                                                        : 1;
    worker->last_failure = status;
}

enum agent_end agent_reaped(struct agent *agent, struct agent_worker *worker, char *text,
                            size_t size)
{
    int status = worker->group.status;
    enum agent_end end = judge(agent, worker, status, text, size);

    agent_read(agent, worker, &worker->out);
    agent_read(agent, worker, &worker->err);
    pipe_end(agent, worker, &worker->out); /* a grandchild may hold the other end */
    pipe_end(agent, worker, &worker->err);
    count_failure(worker, end, status);
    bool unexpected = end == AGENT_FAILED || end == AGENT_LOST;
    if (worker->tail.holds || (unexpected && !worker->killed && worker->failures <= 1))
        output_tail_show(&agent->output, worker->number, &worker->tail);
    agent->told |= end == AGENT_DONE && is_senior(agent, worker);
    agent->ended[end]++;
    agent_guard_set(&agent->guard, (uint32_t)(worker - agent->worker), 0);
    worker->pid = 0;
    return end;
}
