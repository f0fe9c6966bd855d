/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: looks at the bag once a second, takes what is open, and gives back what it cannot
 * finish. */
#include <errno.h>
#include <math.h>
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

#include "bag_run.h"
#include "base/time.h"

#define TOLD_NS (30 * SPOTNIK_S) /* between two lines of progress that go into a file */
#define NOTICE_MAX_NS (900 * SPOTNIK_S)
#define SCAN_SHARE 100
#define REFRESHES_BUCKET 6 /* of our record in T; the first look at it is late by as much */
#define WRITE_MIN_S 0.01
/* a look may be so much late and still count, as with peers; less where T is short */
#define SLACK_NS (1500 * SPOTNIK_MS)

uint64_t bag_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool on_terminal(const struct bag_work *work)
{
    return !work->options->quiet && isatty(STDERR_FILENO);
}

void bag_say(const struct bag_work *work, const char *format, ...)
{
    va_list arguments;
    if (work->options->quiet)
        return;
    fputs(on_terminal(work) ? "\r\033[Kbag: " : "bag: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

bool bag_folder_fine(struct bag_work *work, int rc, const char *what)
{
    if (rc != 0 && !work->trouble)
        bag_say(work, "cannot %s: %s%s. Nothing is lost; trying again", what,
                bag_why(&work->bag, rc), rc == -ENOSPC || rc == -EDQUOT ? ": free some space" : "");
    if (rc != 0) {
        work->trouble = true;
        work->trouble_ns = bag_now_ns();
    }
    return rc == 0;
}

double bag_machine_age_s(const struct bag_work *work, uint64_t now_ns)
{
    struct timespec up;
    if (work->options->born_s >= 0)
        return work->options->born_s + (double)spotnik_time_since(now_ns, work->begun_ns) / 1e9;
    clock_gettime(CLOCK_BOOTTIME, &up);
    return (double)up.tv_sec + (double)up.tv_nsec / 1e9;
}

/* What a save costs: as measured here, or else by other workers, since the first save of a new
 * machine is the one that counts most. */
double bag_write_s(struct bag_work *work)
{
    struct bag_worker *list = NULL;
    size_t count = 0, known = 0;
    double sum_s = 0;
    if (work->write_s <= 0 && bag_workers_list(&work->bag, &list, &count) == 0) {
        for (size_t i = 0; i < count; i++) {
            sum_s += (double)list[i].write_ms / 1e3;
            known += list[i].write_ms > 0;
        }
        work->write_s = known > 0 ? sum_s / (double)known : 0;
        free(list);
    }
    return fmax(work->write_s, WRITE_MIN_S);
}

/* ---- our record ---- */

static void self_fill(struct bag_work *work, uint64_t now_ns)
{
    struct bag_worker *self = &work->self;
    self->counter++;
    self->up_ms = spotnik_time_since(now_ns, work->begun_ns) / SPOTNIK_MS;
    self->machine_ms = (uint64_t)(bag_machine_age_s(work, now_ns) * 1e3);
    self->busy_ms = work->busy_before_ms;
    self->write_ms = (uint64_t)(work->write_s * 1e3);
    self->run_count = 0;
    for (uint32_t i = 0; i < work->options->slots; i++) {
        const struct bag_slot *slot = &work->slot[i];
        if (slot->job == NULL)
            continue;
        struct bag_run *run = &self->run[self->run_count++];
        strcpy(run->job, slot->job->name);
        run->attempt = slot->attempt;
        run->ran_ms = bag_slot_ran_ms(slot, now_ns);
        run->base_ms = slot->figures.base_ms;
        run->saved_ms = slot->figures.saved_ms;
        self->busy_ms += run->ran_ms;
    }
}

/* Each request to a bucket costs money. */
static uint64_t refresh_ns(const struct bag_work *work)
{
    return bag_is_bucket(&work->bag) ? work->options->stale_ns / REFRESHES_BUCKET
                                     : work->options->look_ns;
}

static bool self_put(struct bag_work *work, uint64_t now_ns)
{
    if (bag_is_bucket(&work->bag) && work->refreshed_ns != 0 && !work->trouble && !work->self.left
        && spotnik_time_since(now_ns, work->refreshed_ns) < refresh_ns(work))
        return true;
    self_fill(work, now_ns);
    int rc = bag_worker_put(&work->bag, &work->self);
    if (rc == 0 && work->trouble) {
        work->trouble = false; /* what else is wrong is said anew */
        bag_say(work, "the folder answers");
    }
    if (rc == 0)
        work->refreshed_ns = now_ns;
    return bag_folder_fine(work, rc, "write to the folder");
}

/* ---- taking ---- */

static struct bag_slot *slot_free(struct bag_work *work)
{
    for (uint32_t i = 0; i < work->options->slots; i++)
        if (work->slot[i].job == NULL)
            return &work->slot[i];
    return NULL;
}

static uint32_t slots_busy(const struct bag_work *work)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < work->options->slots; i++)
        busy += work->slot[i].job != NULL;
    return busy;
}

static bool is_ours(const struct bag_work *work, const struct bag_job *job)
{
    for (uint32_t i = 0; i < work->options->slots; i++)
        if (work->slot[i].job == job)
            return true;
    return false;
}

/* We hold it by the folder, and know nothing of it: the folder had said that the claim failed. */
static void stray_return(struct bag_work *work, struct bag_job *job)
{
    const struct bag_figures none = { 0 };
    if (bag_folder_fine(work, bag_end_put(&work->bag, job, job->attempt, BAG_END_RETURNED, &none),
                        "end a job"))
        job->end = BAG_END_RETURNED;
}

/* What the dead held is open again; what failed too often, and whose worker died before it could
 * say so, is set aside. */
static void claims_judge(struct bag_work *work)
{
    for (size_t i = 0; i < work->bag.job_count; i++) {
        struct bag_job *job = work->bag.job[i];
        struct bag_figures figures;
        if (bag_job_is_over(job))
            continue;
        if (bag_job_is_open(job)) {
            if (job->failures >= work->bag.terms.tries)
                job->aside =
                    bag_folder_fine(work, bag_aside_put(&work->bag, job), "set a job aside");
            continue;
        }
        if (job->owner == work->self.id && !is_ours(work, job))
            stray_return(work, job);
        if (job->owner == work->self.id
            || !bag_watch_is_dead(&work->watch, job->owner, work->options->stale_ns))
            continue;
        bag_watch_figures(&work->watch, job->owner, job->name, job->attempt, &figures);
        if (bag_folder_fine(work,
                            bag_end_put(&work->bag, job, job->attempt, BAG_END_LOST, &figures),
                            "end a job"))
            job->end = BAG_END_LOST;
        bag_say(work, "job %s: its worker is dead; it is open again", job->name);
    }
}

/* Jobs that have not failed come first. Returns how many are open. */
static size_t open_list(struct bag_work *work, struct bag_job **list, double *length_s)
{
    size_t count = 0;
    for (uint32_t failures = 0; count == 0 && failures < work->bag.terms.tries; failures++)
        for (size_t i = 0; i < work->bag.job_count; i++) {
            struct bag_job *job = work->bag.job[i];
            if (!bag_job_is_open(job) || job->failures != failures || is_ours(work, job))
                continue; /* ours: others took us for dead, and it still runs here */
            length_s[count] = bag_length_s(work, job);
            list[count++] = job;
        }
    return count;
}

/* 1: taken; 0: somebody was faster; -1: none is open, or the folder does not answer. */
static int take_one(struct bag_work *work, struct bag_slot *slot, struct bag_job **list,
                    double *length_s, uint64_t now_ns)
{
    const struct bag_life *life = &work->options->life;
    struct bag_figures figures = { 0 };
    double age_s = bag_machine_age_s(work, now_ns), work_s, expected_s = 0;
    size_t count = open_list(work, list, length_s);
    if (count == 0)
        return -1;
    size_t chosen = life->kind != BAG_LIFE_NONE && work->options->length != NULL
                        ? bag_slot_choose(life, age_s, length_s, count)
                        : 0;
    if (life->kind != BAG_LIFE_NONE && length_s[chosen] > 0 && list[chosen]->attempt == 0
        && bag_pace_next(life, length_s[chosen], age_s, bag_write_s(work), 0, &work_s, &expected_s,
                         NULL)
               == 0)
        figures.expected_ms = (uint64_t)(expected_s * 1e3);
    int rc = bag_claim(&work->bag, list[chosen], work->self.id, &figures);
    if (rc == -EEXIST) {
        list[chosen]->attempt++; /* the next look says whose it is */
        list[chosen]->end = BAG_END_NONE;
        list[chosen]->owner = 0;
        return 0;
    }
    if (!bag_folder_fine(work, rc, "take a job"))
        return -1;
    bag_slot_start(work, slot, list[chosen], now_ns);
    slot->figures.expected_ms = figures.expected_ms;
    return 1;
}

static void take(struct bag_work *work, uint64_t now_ns)
{
    struct bag_slot *slot;
    struct bag_job **list = calloc(work->bag.job_count + 1, sizeof(struct bag_job *));
    double *length_s = calloc(work->bag.job_count + 1, sizeof *length_s);
    while (list != NULL && length_s != NULL && !work->leaving && !work->trouble
           && now_ns >= work->pause_ns && (slot = slot_free(work)) != NULL)
        if (take_one(work, slot, list, length_s, now_ns) < 0)
            break;
    free(list);
    free(length_s);
}

static bool is_over(const struct bag_work *work)
{
    for (size_t i = 0; i < work->bag.job_count; i++)
        if (!bag_job_is_over(work->bag.job[i]))
            return false;
    return !work->options->wait;
}

/* ---- turns ---- */

static void progress_tell(struct bag_work *work, uint64_t now_ns)
{
    size_t done = 0, aside = 0, elsewhere = 0;
    if (work->options->quiet
        || (!on_terminal(work) && spotnik_time_since(now_ns, work->told_ns) < TOLD_NS))
        return;
    for (size_t i = 0; i < work->bag.job_count; i++) {
        const struct bag_job *job = work->bag.job[i];
        done += job->done;
        aside += job->aside && !job->done;
        elsewhere += !bag_job_is_over(job) && job->attempt > 0 && job->end == BAG_END_NONE
                     && job->owner != work->self.id;
    }
    fprintf(stderr, "%sbag: %zu of %zu done (%u here), %u run here, %zu elsewhere, %zu set aside%s",
            on_terminal(work) ? "\r\033[K" : "", done, work->bag.job_count, work->done_here,
            slots_busy(work), elsewhere, aside, on_terminal(work) ? "" : "\n");
    work->told_ns = now_ns;
}

/* Between two listings of the folder: a hundredth of the time at most goes there, unless the deaths
 * of others would be noticed late. */
static uint64_t scan_span_ns(const struct bag_work *work)
{
    if (bag_is_bucket(&work->bag))
        return work->options->stale_ns / 4;
    return spotnik_time_min(SCAN_SHARE * work->scan_took_ns, work->options->stale_ns / 4);
}

/* Read what others have done. */
static void scan(struct bag_work *work, uint64_t now_ns)
{
    struct spotnik_fault fault = { "" };
    uint64_t gap_ns = work->options->look_ns
                      + spotnik_time_min(SLACK_NS, work->options->stale_ns / 10)
                      + scan_span_ns(work);
    if (spotnik_time_since(now_ns, work->refreshed_ns) > 3 * refresh_ns(work) + SPOTNIK_S)
        gap_ns = 0; /* we cannot write: perhaps nobody can, so silence means nothing */
    if (bag_jobs_refresh(&work->bag, &fault) != 0)
        bag_say(work, "the jobs that were added are left out: %s", fault.text);
    int rc = bag_look(&work->bag);
    if (rc == 0)
        rc = bag_watch_look(&work->watch, &work->bag, work->self.id, now_ns, gap_ns);
    if (bag_folder_fine(work, rc, "read the folder"))
        claims_judge(work);
    else
        /* nobody else could write, either: the time until the next look does not count */
        work->watch.looked_ns = 0;
    work->scanned_ns = bag_now_ns();
    work->scan_took_ns = work->scanned_ns - now_ns;
}

static void turn(struct bag_work *work, uint64_t now_ns)
{
    self_put(work, now_ns);
    if (work->scanned_ns == 0 || spotnik_time_since(now_ns, work->scanned_ns) >= scan_span_ns(work))
        scan(work, now_ns);
    for (uint32_t i = 0; i < work->options->slots; i++)
        bag_slot_turn(work, &work->slot[i], now_ns);
    take(work, now_ns);
    self_put(work, now_ns); /* what we have taken stands there before anybody misses it */
    progress_tell(work, now_ns);
    work->looked_ns = now_ns;
}

/* What does not wait for the next look. */
static void saves_turn(struct bag_work *work, uint64_t now_ns)
{
    for (uint32_t i = 0; i < work->options->slots; i++)
        if (bag_slot_wake_ns(work, &work->slot[i]) <= now_ns)
            bag_slot_save_turn(work, &work->slot[i], now_ns);
}

static void leave(struct bag_work *work, uint64_t now_ns, uint64_t grace_ns, const char *why)
{
    work->looked_ns = 0;
    if (work->leaving) {
        work->deadline_ns = spotnik_time_min(work->deadline_ns, now_ns + grace_ns);
        return;
    }
    bag_say(work, "%s: giving back %u jobs, %.0f s at most", why, slots_busy(work),
            (double)grace_ns / 1e9);
    work->leaving = true;
    work->leave_ns = now_ns;
    work->deadline_ns = now_ns + grace_ns;
}

/* Most of the time that is left; where that is nothing, ours. */
static uint64_t notice_grace_ns(const struct bag_work *work, uint64_t given_ns)
{
    uint64_t grace_ns = given_ns > work->options->grace_ns ? given_ns : work->options->grace_ns;
    return spotnik_time_min(grace_ns, NOTICE_MAX_NS);
}

/* The notice is over, or has not come true. */
static void come_back(struct bag_work *work)
{
    if (!work->by_notice)
        return;
    bag_say(work, "the machine stays; taking jobs again");
    work->leaving = work->by_notice = false;
    for (uint32_t i = 0; i < work->options->slots; i++)
        if (work->slot[i].stage == BAG_STAGE_ASKED) {
            work->slot[i].stage = BAG_STAGE_RUNS;
            work->slot[i].stage_ns = 0;
        }
}

static void notices_heed(struct bag_work *work, uint64_t now_ns)
{
    struct notice notice;
    while (notice_watcher_next(&work->watcher, &notice)) {
        enum notice_watcher_act act =
            notice_watcher_heed(&work->watcher, &notice, now_ns, wall_ms());
        int64_t left_ms = notice.deadline_ms - wall_ms();
        uint64_t given_ns = left_ms > 0 ? (uint64_t)left_ms * SPOTNIK_MS / 10 * 9 : 0;
        notice_watcher_hook(&work->watcher, &notice);
        if (act == NOTICE_WATCHER_LEAVE) {
            work->by_notice = work->by_notice || !work->leaving;
            leave(work, now_ns, notice_grace_ns(work, given_ns), notice.text);
        } else if (act == NOTICE_WATCHER_BACK) {
            come_back(work);
        }
    }
    if (notice_watcher_lied(&work->watcher, now_ns))
        come_back(work);
}

static void children_reap(struct bag_work *work, uint64_t now_ns)
{
    struct rusage usage;
    int status;
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;)
        for (uint32_t i = 0; i < work->options->slots; i++)
            if (bag_slot_reaped(work, &work->slot[i], pid, status, &usage, now_ns))
                break;
}

static void signals_read(struct bag_work *work, int fd, uint64_t now_ns)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGCHLD) {
            children_reap(work, now_ns);
            work->looked_ns = 0; /* a slot is free: look at once */
        } else {
            /* Ctrl-C again */
            bool hurry = info.ssi_signo == SIGINT && work->leaving && !work->by_notice;
            leave(work, now_ns, hurry ? 0 : work->options->grace_ns,
                  strsignal((int)info.ssi_signo));
            work->by_notice = false;
        }
}

static int signals_open(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGUSR1); /* srun passes on what --signal asks for */
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGIO, SIG_IGN); /* a lease that is broken (bag/saves.c) */
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
}

static bool goes_on(const struct bag_work *work)
{
    if (work->by_notice && !work->broken)
        return true; /* the machine goes, or stays after all */
    if (work->broken || work->leaving)
        return slots_busy(work) > 0
               && (!work->leaving || bag_now_ns() < work->deadline_ns + SPOTNIK_S);
    return slots_busy(work) > 0 || !is_over(work);
}

static void wait_for(struct bag_work *work, int signals, uint64_t now_ns)
{
    uint64_t next_ns = work->looked_ns + work->options->look_ns;
    for (uint32_t i = 0; i < work->options->slots; i++)
        next_ns = spotnik_time_min(next_ns, bag_slot_wake_ns(work, &work->slot[i]));
    int timeout_ms = next_ns > now_ns ? (int)((next_ns - now_ns) / SPOTNIK_MS) + 1 : 0;
    struct pollfd wait[3] = { { .fd = signals, .events = POLLIN },
                              { .fd = work->watcher.fd, .events = POLLIN },
                              { .fd = work->alarm, .events = POLLIN } };
    poll(wait, 3, work->looked_ns == 0 ? 0 : timeout_ms);
}

static int work_open(struct bag_work *work, const char *folder)
{
    struct spotnik_fault fault;
    if (bag_open(folder, &work->bag, &fault) != 0) {
        fprintf(stderr, "spotnik bag: %s\n", fault.text);
        return 1;
    }
    int rc = bag_inputs_fetch(&work->bag);
    if (rc != 0) {
        fprintf(stderr, "spotnik bag: %s\n", bag_why(&work->bag, rc));
        return 1;
    }
    work->begun_ns = bag_now_ns();
    bag_leftovers_remove(&work->bag);
    bag_file_watcher_open(work);
    work->self.id = work->bag.writer;
    work->self.slots = work->options->slots;
    work->self.cores = work->options->cores;
    work->self.usd_per_h = work->options->usd_per_h;
    spotnik_process_self(&work->self.process);
    if (gethostname(work->self.host, sizeof work->self.host - 1) != 0 || work->self.host[0] == '\0')
        strcpy(work->self.host, "unknown");
    work->slot = calloc(work->options->slots, sizeof *work->slot);
    if (work->slot == NULL || !self_put(work, work->begun_ns))
        return 1;
    if (!notice_watcher_start(&work->watcher, &work->options->notice))
        bag_say(work, "no notices: %s",
                errno == ENOENT ? "spotnik-notice is not installed" : strerror(errno));
    return 0;
}

static int work_close(struct bag_work *work)
{
    struct spotnik_fault fault;
    size_t aside = 0;
    bool over = bag_look(&work->bag) == 0 && bag_jobs_refresh(&work->bag, &fault) == 0;
    for (size_t i = 0; i < work->bag.job_count; i++) {
        over = over && bag_job_is_over(work->bag.job[i]);
        aside += work->bag.job[i]->aside && !work->bag.job[i]->done;
    }
    notice_watcher_end(&work->watcher);
    work->self.left = slots_busy(work) == 0;
    self_put(work, bag_now_ns());
    if (on_terminal(work))
        fputs("\r\033[K", stderr);
    int status = work->broken ? 1 : !over ? 75 : aside > 0;
    bag_say(work, status == 75 ? "left with work to do; start it again, here or anywhere"
                  : over       ? "all done"
                               : "ended");
    return status;
}

int bag_loop(const char *folder, const struct bag_options *options)
{
    static struct bag_work work;
    work.options = options;
    work.watcher.fd = -1;
    int signals = signals_open();
    if (signals < 0 || work_open(&work, folder) != 0)
        return 1;
    do {
        uint64_t now_ns = bag_now_ns();
        signals_read(&work, signals, now_ns);
        notices_heed(&work, now_ns);
        bag_file_watcher_turn(&work);
        if (work.broken && !work.leaving)
            leave(&work, now_ns, options->grace_ns, "this machine lacks the program");
        if (work.looked_ns == 0 || spotnik_time_since(now_ns, work.looked_ns) >= options->look_ns)
            turn(&work, now_ns);
        saves_turn(&work, now_ns);
        if (goes_on(&work))
            wait_for(&work, signals, now_ns);
    } while (goes_on(&work));
    int status = work_close(&work);
    bag_watch_done(&work.watch);
    bag_close(&work.bag);
    free(work.slot);
    return status;
}
