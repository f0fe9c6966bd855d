/* SPDX-License-Identifier: Apache-2.0 */
/* What a member costs that has done its part and waits for another one: next to nothing, on either
 * transport. The other one is a process of its own that takes its time; the waiting one counts its
 * processor time, all threads, in three windows of a second that begin half a second after the step
 * did (what reducing costs is not waiting), and makes sure that it was waiting until they were
 * over. The middle one counts: what else a machine does in one of them is not ours. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "spotnik/spotnik.h"
#include "discovery/discovery.h"
#include "tests.h"

enum { COUNT = 1 << 18, QUICK = 20, PATIENCE_S = 5, WINDOWS = 3 };

struct watch {
    double share[WINDOWS]; /* processor time of all threads in each window, divided by its length */
    double ended_s;        /* CLOCK_MONOTONIC */
};

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double processor_s(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static double now_s(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void let_pass(struct timespec time)
{
    while (nanosleep(&time, &time))
        continue;
}

static double window_share(void)
{
    double processor_before_s = processor_s(), began_s = now_s();

    let_pass((struct timespec){ .tv_sec = 1 });
    return (processor_s() - processor_before_s) / (now_s() - began_s);
}

static void *watch(void *argument)
{
    struct watch *watch = argument;

    let_pass((struct timespec){ .tv_nsec = 500 * 1000 * 1000 });
    for (int i = 0; i < WINDOWS; i++)
        watch->share[i] = window_share();
    watch->ended_s = now_s();
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static spotnik_job *join(const char *folder, const char *transport)
{
    char key[96], peers[96];
    spotnik_config config;
    spotnik_job *job = NULL;

    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(peers, sizeof peers, "file:%s/%s", folder, transport);
    setenv("SPOTNIK_TRANSPORT", transport, 1);
    spotnik_config_init(&config);
    config.key_file = key;
    config.peers = peers;
    config.members_min = 2;
    config.members_max = 2;
    return spotnik_join(&config, &job) ? NULL : job;
}

/* One step. The time from the last call to its end goes to the member that is slow. */
static int step(spotnik_job *job, float *data, unsigned busy_s)
{
    spotnik_step begun;
    int rc = spotnik_step_begin(job, &begun);

    let_pass((struct timespec){ .tv_sec = busy_s });
    if (!rc)
        rc = spotnik_allreduce(job, 0, data, COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    return rc ? rc : spotnik_step_commit(job);
}

static void slow_member(const char *folder, const char *transport)
{
    static float data[COUNT];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    spotnik_job *job = join(folder, transport);
    for (int i = 0; i < QUICK + 1 && job; i++)
        if (step(job, data, i == QUICK ? PATIENCE_S : 0))
            _exit(1);
    _exit(!job || spotnik_leave(job));
}

/* Processor time per second of waiting, while the other one is busy. */
static double waiting_share(spotnik_job *job, float *data)
{
    struct watch watched = { 0 };
    pthread_t watcher;

    assert_int_equal(pthread_create(&watcher, NULL, watch, &watched), 0);
    assert_int_equal(step(job, data, 0), 0);
    double step_ended_s = now_s();
    assert_int_equal(pthread_join(watcher, NULL), 0);
    assert_true(watched.ended_s < step_ended_s);
    qsort(watched.share, WINDOWS, sizeof *watched.share, ascending);
    return watched.share[WINDOWS / 2];
}

static void wait_beside(const char *transport)
{
    static float data[COUNT];
    char folder[] = "/tmp/spotnik-test-XXXXXX", text[96];
    int status;

    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof text, "%s/%s", folder, transport);
    assert_int_equal(spotnik_discovery_fresh(text), 0);
    snprintf(text, sizeof text, "%s/key", folder);
    assert_int_equal(spotnik_key_create(text), 0);
    pid_t other = fork();
    if (other == 0)
        slow_member(folder, transport);
    spotnik_job *job = join(folder, transport);
    assert_non_null(job);
    for (int i = 0; i < QUICK; i++)
        assert_int_equal(step(job, data, 0), 0);
    double share = waiting_share(job, data);
    print_message("%s: %.2f %% of a processor while waiting\n", transport, 100 * share);
    assert_true(share < 0.01);
    assert_int_equal(spotnik_leave(job), 0);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    snprintf(text, sizeof text, "rm -rf -- %s", folder);
    assert_int_equal(system(text), 0);
}

TEST(shared_memory)
{
    wait_beside("auto");
}

TEST(tcp)
{
    wait_beside("tcp");
}

int main(void)
{
    static const char *const settings[] = { "SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_JOB",
                                            "SPOTNIK_MIN" };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    return tests_run(NULL, NULL);
}
