/* SPDX-License-Identifier: Apache-2.0 */
/* A process that waits for the end of the agent: see agent_guard.h. */
#include "agent_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 50000000

static bool signal_all(const struct agent_guard *guard, int number)
{
    bool any = false;

    for (uint32_t i = 0; i < guard->places; i++) {
        pid_t group = __atomic_load_n(&guard->group[i], __ATOMIC_ACQUIRE);
        any |= group && kill(-group, number) == 0;
    }
    return any;
}

/* 0: it has ended, or is no member yet. */
static pid_t member_of(const struct agent_guard *guard, uint32_t place)
{
    uint32_t word = __atomic_load_n(&guard->slots->slot[place].word, __ATOMIC_ACQUIRE);

    return word & FUTEX_OWNER_DIED ? 0 : (pid_t)(word & FUTEX_TID_MASK);
}

/* Groups of processes, and members that are in none of them. */
static bool all(const struct agent_guard *guard, int number)
{
    bool any = signal_all(guard, number);

    for (uint32_t i = 0; i < guard->places; i++) {
        pid_t member = member_of(guard, i);
        if (member && number == SIGTERM)
            spotnik_slots_leave_request(guard->slots, i);
        any |= member && (number == SIGTERM || kill(member, number) == 0);
    }
    return any;
}

/* The guard gives the agent's standard streams back: their reader must see their end when the agent
 * ends. */
static void guard_run(const struct agent_guard *guard, int end, uint64_t grace_ns)
{
    static const struct timespec pause = { .tv_nsec = LOOK_NS };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t blocked;
    char byte;

    sigfillset(&blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    prctl(PR_SET_NAME, "spotnik-guard");
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    while (read(end, &byte, 1) < 0 && errno == EINTR)
        continue;
    all(guard, SIGTERM);
    for (uint64_t waited = 0; all(guard, 0) && waited < grace_ns; waited += LOOK_NS)
        nanosleep(&pause, NULL);
    all(guard, SIGKILL);
    _exit(0);
}

bool agent_guard_start(struct agent_guard *guard, struct spotnik_slots *slots, uint64_t grace_ns)
{
    int ends[2] = { -1, -1 };

    guard->slots = slots;
    guard->places = slots->count;
    guard->group = mmap(NULL, guard->places * sizeof(*guard->group), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (guard->group == MAP_FAILED || pipe2(ends, O_CLOEXEC))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); /* the terminal's Ctrl-C is the agent's */
        close(ends[1]);
        guard_run(guard, ends[0], grace_ns);
    }
    guard->alive = ends[1];
    close(ends[0]);
    return pid > 0;
}

void agent_guard_end(struct agent_guard *guard)
{
    close(guard->alive);
}

void agent_guard_set(struct agent_guard *guard, uint32_t place, pid_t group)
{
    __atomic_store_n(&guard->group[place], group, __ATOMIC_RELEASE);
}

bool agent_guard_bind(pid_t agent)
{
    return prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == agent;
}
