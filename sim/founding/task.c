/* SPDX-License-Identifier: Apache-2.0 */
#include "task.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/assert.h"
#include "base/prng.h"
#include "base/time.h"
#include "world.h"

#define TASKS_MAX 512
#define STACK_BYTES (256 << 10)

struct task {
    ucontext_t context;
    struct spotnik_runtime *process;
    void *(*body)(void *);
    void *argument;
    void *stack;
    const void *on;    /* what it waits for; NULL: for time alone */
    uint64_t wake_ns;  /* UINT64_MAX: not by time */
    bool over, joined; /* joined: nobody waits for its end any more */
};

static struct task task[TASKS_MAX], *running;
static uint32_t task_count;
static ucontext_t scheduler;
static uint64_t now_ns;
static struct spotnik_prng prng;

void task_reset(uint64_t seed)
{
    for (uint32_t i = 0; i < task_count; i++)
        task[i].over = task[i].joined = true;
    now_ns = 0;
    spotnik_prng_seed(&prng, seed);
}

struct spotnik_runtime *task_process(void)
{
    return running != NULL ? running->process : NULL;
}

uint64_t task_now_ns(void)
{
    return now_ns;
}

uint64_t task_below(uint64_t limit)
{
    return spotnik_prng_below(&prng, limit);
}

static void run(void)
{
    running->body(running->argument);
    running->over = true;
    task_wake(running);
    swapcontext(&running->context, &scheduler);
}

/* The place of one that has ended, and is no longer asked for, serves again, with its stack. */
static struct task *place(void)
{
    for (uint32_t i = 0; i < task_count; i++)
        if (task[i].over && task[i].joined)
            return &task[i];
    SPOTNIK_ASSERT(task_count < TASKS_MAX);
    return &task[task_count++];
}

struct task *task_new(struct spotnik_runtime *process, void *(*body)(void *), void *argument)
{
    struct task *new = place();
    void *stack = new->stack != NULL ? new->stack : malloc(STACK_BYTES);

    SPOTNIK_ASSERT(stack != NULL);
    memset(new, 0, sizeof *new);
    *new = (struct task){
        .process = process, .body = body, .argument = argument, .stack = stack, .wake_ns = now_ns
    };
    getcontext(&new->context);
    new->context.uc_stack.ss_sp = stack;
    new->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&new->context, run, 0);
    return new;
}

void task_detach(struct task *one)
{
    one->joined = true;
}

void task_wait(const void *on, uint64_t until_ns)
{
    running->on = on;
    running->wake_ns = until_ns;
    swapcontext(&running->context, &scheduler);
}

void task_sleep(uint64_t ns)
{
    task_wait(NULL, now_ns + ns);
}

void task_wake(const void *on)
{
    for (uint32_t i = 0; i < task_count; i++)
        if (!task[i].over && task[i].on == on) {
            task[i].on = NULL;
            task[i].wake_ns = now_ns;
        }
}

void task_kill(const struct spotnik_runtime *process)
{
    for (uint32_t i = 0; i < task_count; i++)
        if (task[i].process == process)
            task[i].over = task[i].joined = true;
}

/* When it could run: not before its process is continued. */
static uint64_t due_ns(const struct task *one)
{
    uint64_t paused_ns = one->process != NULL ? one->process->paused_until_ns : 0;

    return one->wake_ns > paused_ns ? one->wake_ns : paused_ns;
}

static struct task *next(void)
{
    struct task *best = NULL;
    uint32_t ties = 1;

    for (uint32_t i = 0; i < task_count; i++) {
        if (task[i].over)
            continue;
        if (best == NULL || due_ns(&task[i]) < due_ns(best)) {
            best = &task[i];
            ties = 1;
        } else if (due_ns(&task[i]) == due_ns(best) && task_below(++ties) == 0) {
            best = &task[i];
        }
    }
    return best;
}

void task_run(uint64_t until_ns)
{
    for (struct task *one; (one = next()) != NULL && due_ns(one) < until_ns;) {
        now_ns = due_ns(one) > now_ns ? due_ns(one) : now_ns;
        one->on = NULL;
        running = one;
        swapcontext(&scheduler, &one->context);
        running = NULL;
    }
}

/* ---- what stands for the system's threads and clocks ---- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument)
{
    (void)attributes;
    *thread = (pthread_t)task_new(running->process, body, argument);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
    struct task *other = (struct task *)thread;

    (void)ret;
    while (!other->over)
        task_wait(other, UINT64_MAX);
    other->joined = true;
    return 0;
}

/* A mutex is the task that has it. */
static struct task **owner(pthread_mutex_t *mutex)
{
    return (struct task **)(void *)mutex;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    *owner(mutex) = NULL;
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    SPOTNIK_ASSERT(*owner(mutex) == NULL);
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    while (*owner(mutex) != NULL)
        task_wait(mutex, UINT64_MAX);
    *owner(mutex) = running;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    *owner(mutex) = NULL;
    task_wake(mutex);
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    uint64_t until_ns =
        (uint64_t)until->tv_sec * SPOTNIK_S + (uint64_t)until->tv_nsec - running->process->clock_ns;

    __wrap_pthread_mutex_unlock(mutex);
    task_wait(condition, until_ns);
    __wrap_pthread_mutex_lock(mutex);
    return now_ns >= until_ns ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    task_wake(condition);
    return 0;
}

/* Each machine has booted at another time, and its wall clock is wrong by some seconds. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    uint64_t ns =
        now_ns + (running != NULL && running->process != NULL ? running->process->clock_ns : 0);

    if (clock == CLOCK_REALTIME)
        ns += UINT64_C(1800000000) * SPOTNIK_S;
    ret->tv_sec = (time_t)(ns / SPOTNIK_S);
    ret->tv_nsec = (long)(ns % SPOTNIK_S);
    return 0;
}
