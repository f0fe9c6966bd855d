/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose steps take the time that a machine needs for its share, on a fast clock. It sleeps
 * instead of computing, so that a laptop holds a fleet. For plan_loop.py.
 *
 *     plan_loop_worker STEPS BATCH MICROSECONDS_PER_SAMPLE
 *
 * Settings come from SPOTNIK_*. SIGTERM is a planned leave, as on a machine that is given back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <spotnik/spotnik.h>

static volatile sig_atomic_t told;

static void on_signal(int number)
{
    (void)number;
    told = 1;
}

static void compute(const spotnik_step *step, double sample_us)
{
    double ns = (double)step->sample_count * sample_us * 1e3;
    struct timespec pause = { .tv_sec = (time_t)(ns / 1e9) };

    pause.tv_nsec = (long)(ns - (double)pause.tv_sec * 1e9);
    /* what a signal cuts short is computed at once: the step is the last one here */
    nanosleep(&pause, NULL);
}

static int train(spotnik_job *job, double sample_us)
{
    static double state[1024], gradient[1024];
    spotnik_step step;
    int rc = spotnik_state_add(job, "state", state, 1024, SPOTNIK_F64);

    while (!rc) {
        if (told)
            spotnik_notice(job);
        rc = spotnik_step_begin(job, &step);
        if (rc)
            break;
        compute(&step, sample_us);
        rc = spotnik_allreduce(job, 0, gradient, 1024, SPOTNIK_F64, SPOTNIK_MEAN);
        if (!rc)
            rc = spotnik_step_commit(job);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            rc = 0; /* the others went on without us */
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_signal };
    spotnik_config config;
    spotnik_job *job;

    if (argc != 4) {
        fprintf(stderr, "usage: plan_loop_worker STEPS BATCH MICROSECONDS_PER_SAMPLE\n");
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    spotnik_config_init(&config);
    config.steps_max = strtoull(argv[1], NULL, 10);
    config.batch = strtoull(argv[2], NULL, 10);
    config.samples = config.batch * 16;
    int rc = spotnik_join(&config, &job);
    if (rc) {
        fprintf(stderr, "plan_loop_worker: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
        return 1;
    }
    rc = train(job, atof(argv[3]));
    if (rc != SPOTNIK_ERR_DONE && rc != SPOTNIK_ERR_LEAVING) {
        fprintf(stderr, "plan_loop_worker: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
        spotnik_abandon(job);
        return 1;
    }
    spotnik_leave(job);
    /* as spotnik run expects of a worker that was told to leave */
    return rc == SPOTNIK_ERR_DONE ? 0 : 75;
}
