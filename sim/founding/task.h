/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of simulated processes, under virtual time. The code of src/discovery is linked as it is;
 * its threads, locks, clocks and waits are these (the linker's --wrap). So a search that waits a
 * minute takes none, and the same seed is the same run. One task runs at a time, until it waits. */
#ifndef SPOTNIK_SIM_FOUNDING_TASK_H
#define SPOTNIK_SIM_FOUNDING_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_runtime; /* a simulated process, see world.h */
struct task;

/* Forget all tasks of the seed before, and begin at virtual time 0. */
void task_reset(uint64_t seed);

/* A thread of `process`; NULL: of nobody, as the world itself. */
struct task *task_new(struct spotnik_runtime *process, void *(*body)(void *), void *context);

/* Nobody will join it. */
void task_detach(struct task *one);

/* The process whose thread runs; NULL: the world. */
struct spotnik_runtime *task_process(void);

uint64_t task_now_ns(void);
uint64_t task_below(uint64_t limit); /* random, of this seed */

void task_sleep(uint64_t ns);
/* Until task_wake(on), or then. */
void task_wait(const void *on, uint64_t until_ns);
void task_wake(const void *on);

/* `process` was killed: none of its threads runs again. */
void task_kill(const struct spotnik_runtime *process);

/* Until all have ended, or then. */
void task_run(uint64_t until_ns);

#endif
