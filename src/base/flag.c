/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flag.h"

#include "base/clock.h"

void spotnik_flag_init(struct spotnik_flag *flag)
{
    pthread_mutex_init(&flag->lock, NULL);
    spotnik_cond_init(&flag->raised);
    flag->is_raised = false;
}

void spotnik_flag_destroy(struct spotnik_flag *flag)
{
    pthread_cond_destroy(&flag->raised);
    pthread_mutex_destroy(&flag->lock);
}

void spotnik_flag_raise(struct spotnik_flag *flag)
{
    pthread_mutex_lock(&flag->lock);
    if (!flag->is_raised)
        pthread_cond_signal(&flag->raised);
    flag->is_raised = true;
    pthread_mutex_unlock(&flag->lock);
}

bool spotnik_flag_wait(struct spotnik_flag *flag, uint64_t timeout_ns)
{
    uint64_t until_ns = spotnik_clock_ns() + timeout_ns;
    bool in_time = true;

    pthread_mutex_lock(&flag->lock);
    while (!flag->is_raised && in_time)
        in_time = spotnik_cond_wait(&flag->raised, &flag->lock, until_ns);
    bool was_raised = flag->is_raised;
    flag->is_raised = false;
    pthread_mutex_unlock(&flag->lock);
    return was_raised;
}
