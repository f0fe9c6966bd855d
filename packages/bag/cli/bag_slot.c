/* SPDX-License-Identifier: Apache-2.0 */
/* One slot of a worker: a job from its claim to its end. What the folder is to know is said again
 * and again until the folder takes it. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bag/template.h"
#include "bag_run.h"
#include "base/time.h"

#define TEMPFAIL 75
#define PROBE_BYTES 65536
#define GONE_MAX 10     /* times that a save goes away while it is read */
#define OUTAGE_LOOKS 10 /* so long after an outage of the folder a failure is nobody's fault */
#define PAUSE_LOOKS 30  /* before the next job, after such a failure */
#define STATUS_MAX 100
#define TERM_SHARE 2 /* of the grace: the first half to write a restart file, the second to end */

void bag_attempt_path(const struct bag_work *work, const struct bag_slot *slot, const char *part,
                      char path[PATH_MAX])
{
    char name[NAME_MAX + 1];
    bag_attempt_name(slot->job, slot->attempt, name);
    bag_path(&work->bag, path, part, name);
}

uint64_t bag_slot_ran_ms(const struct bag_slot *slot, uint64_t now_ns)
{
    return slot->stage == BAG_STAGE_ENDED
               ? slot->figures.ran_ms
               : spotnik_time_since(now_ns, slot->started_ns) / SPOTNIK_MS;
}

/* ---- the start ---- */

static int inputs_link(const struct bag_work *work, const char *directory)
{
    char from[PATH_MAX], to[PATH_MAX];
    for (char *const *name = work->bag.terms.input; *name != NULL; name++) {
        bag_path(&work->bag, from, "inputs", *name);
        bag_join(to, directory, *name);
        if (symlink(from, to) != 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

/* The save is of no use, and the folder is well. False: the folder does not answer. */
static bool is_of_the_save(struct bag_work *work, int rc)
{
    return rc == -EILSEQ || bag_probe(&work->bag, PROBE_BYTES) == 0;
}

/* The newest save that is whole. 0 or -errno: the folder does not answer. Then the job is not begun
 * anew, for it may have saves. */
static int save_restore(struct bag_work *work, struct bag_slot *slot, const char *directory)
{
    struct bag_save save = { 0 };
    int gone = 0;
    for (;;) {
        const struct bag_save *before = save.name[0] != '\0' ? &save : NULL;
        int rc = bag_save_find(&work->bag, slot->job, before, &save);
        if (rc <= 0)
            return rc;
        rc = bag_save_restore(&work->bag, slot->job, &save, directory);
        if (rc == 0)
            break;
        if (rc == -ENOENT && ++gone < GONE_MAX) { /* somebody has made newer ones meanwhile */
            memset(&save, 0, sizeof save);
            continue;
        }
        if (!is_of_the_save(work, rc))
            return rc;
        bag_say(work, "job %s: the save %s cannot be used (%s); trying an older one",
                slot->job->name, save.name, rc == -EILSEQ ? "it is damaged" : strerror(-rc));
    }
    slot->from = save;
    slot->figures.base_ms = slot->figures.saved_ms = save.work_ms;
    bag_restart_look(directory, work->bag.terms.restart, save.work_ms, &slot->saved);
    slot->restart = slot->saved;
    return 0;
}

static int go_on(struct bag_work *work, struct bag_slot *slot, const char *directory)
{
    int rc = work->bag.terms.restart != NULL ? save_restore(work, slot, directory) : 0;
    if (rc == 0 && slot->from.name[0] == '\0' && slot->attempt > 1
        && work->bag.terms.restart != NULL)
        bag_say(work, "job %s: no restart file was saved; it starts from the beginning",
                slot->job->name);
    return rc;
}

static int directory_make(struct bag_work *work, struct bag_slot *slot, char directory[PATH_MAX])
{
    bag_attempt_path(work, slot, "work", directory);
    if (mkdir(directory, 0700) != 0)
        return -errno;
    int rc = inputs_link(work, directory);
    return rc == 0 ? go_on(work, slot, directory) : rc;
}

static int program_start(struct bag_work *work, struct bag_slot *slot, const char *directory)
{
    char log[PATH_MAX], unknown[BAG_NAME_MAX], attempt[16];
    bool resumes = slot->from.name[0] != '\0';
    struct bag_values values = { .job = slot->job,
                                 .folder = work->bag.folder,
                                 .restart = resumes ? slot->from.file : NULL };
    char *const *words = resumes && work->bag.terms.resume != NULL ? work->bag.terms.resume
                                                                   : work->bag.terms.command;
    snprintf(values.attempt, sizeof values.attempt, "%u", slot->attempt);
    snprintf(attempt, sizeof attempt, "%u", slot->attempt);
    const char *const environment[] = { "SPOTNIK_BAG",
                                        work->bag.folder,
                                        "SPOTNIK_BAG_JOB",
                                        slot->job->name,
                                        "SPOTNIK_BAG_ATTEMPT",
                                        attempt,
                                        "SPOTNIK_BAG_RESTART",
                                        resumes ? slot->from.file : "",
                                        NULL };
    char **command = bag_template_fill(words, bag_value, &values, unknown);
    if (command == NULL)
        return -EINVAL;
    bag_attempt_path(work, slot, "logs", log);
    slot->pid = bag_supervisor_start(command, directory, log, environment);
    bag_template_free(command);
    return slot->pid > 0 ? 0 : (int)slot->pid;
}

void bag_slot_start(struct bag_work *work, struct bag_slot *slot, struct bag_job *job,
                    uint64_t now_ns)
{
    char directory[PATH_MAX];
    memset(slot, 0, sizeof *slot);
    slot->job = job;
    slot->attempt = job->attempt;
    slot->started_ns = slot->looked_ns = now_ns;
    slot->mark.alarm = slot->mark.record = -1;
    slot->length_s = bag_length_s(work, job);
    int rc = directory_make(work, slot, directory);
    if (rc == 0) {
        bag_file_watcher_start(work, slot, directory);
        rc = program_start(work, slot, directory);
    }
    if (rc != 0) {
        bag_folder_fine(work, rc, "start a job");
        slot->pid = 0;
        slot->stage = BAG_STAGE_ENDED;
        slot->figures.status = TEMPFAIL << 8;
        return;
    }
    bag_slot_pace(work, slot, now_ns, NULL);
    if (slot->from.name[0] != '\0')
        bag_say(work, "job %s: goes on from %s, with %.1f s of work done (attempt %u)", job->name,
                slot->from.file, (double)slot->figures.base_ms / 1e3, slot->attempt);
}

/* ---- the end ---- */

static bool has_file(const char *directory, const char *pattern)
{
    bool found = false;
    DIR *list = opendir(directory);
    for (const struct dirent *at; list != NULL && !found && (at = readdir(list)) != NULL;)
        found = fnmatch(pattern, at->d_name, FNM_PERIOD) == 0;
    if (list != NULL)
        closedir(list);
    return found;
}

/* What is missing; NULL: nothing. */
static const char *missing(const struct bag_work *work, const char *directory)
{
    for (char *const *pattern = work->bag.terms.expect; *pattern != NULL; pattern++)
        if (!has_file(directory, *pattern))
            return *pattern;
    return NULL;
}

/* The folder is full, or did not answer of late: the program may have failed of that. */
static bool is_in_trouble(struct bag_work *work)
{
    uint64_t window_ns = OUTAGE_LOOKS * work->options->look_ns;
    if (work->trouble_ns != 0 && spotnik_time_since(bag_now_ns(), work->trouble_ns) < window_ns)
        return true;
    return !bag_folder_fine(work, bag_probe(&work->bag, PROBE_BYTES), "let a job write");
}

static const char *status_text(int status, char text[STATUS_MAX])
{
    if (WIFSIGNALED(status))
        snprintf(text, STATUS_MAX, "ended by signal %d (%s)%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL ? ", perhaps for want of memory" : "");
    else
        snprintf(text, STATUS_MAX, "exit status %d", WEXITSTATUS(status));
    return text;
}

/* A resume that fails before it has saved anything: the restart file may be to blame. */
static void blame(struct bag_work *work, struct bag_slot *slot)
{
    if (slot->from.name[0] == '\0' || slot->saves > 0)
        return;
    bag_say(work, "job %s: going on from %s failed; the next try takes an older one",
            slot->job->name, slot->from.file);
    bag_save_spoil(&work->bag, &slot->from);
}

/* Somebody took us for dead and has taken the job: our failure is no try of the job's. */
static bool was_taken(const struct bag_work *work, const struct bag_slot *slot)
{
    char name[NAME_MAX + 1];
    bag_attempt_name(slot->job, slot->attempt + 1, name);
    return bag_claim_is(&work->bag, name);
}

static enum bag_end failure(struct bag_work *work, struct bag_slot *slot, const char *why)
{
    char log[PATH_MAX];
    if (was_taken(work, slot))
        return BAG_END_LATE;
    if (WIFEXITED(slot->figures.status) && (WEXITSTATUS(slot->figures.status) & ~1) == 126) {
        bag_attempt_path(work, slot, "logs", log);
        bag_say(work, "the program cannot be run on this machine (see %s); this worker ends", log);
        work->broken = true;
        return BAG_END_RETURNED;
    }
    if (is_in_trouble(work)) {
        work->pause_ns = bag_now_ns() + PAUSE_LOOKS * work->options->look_ns;
        return BAG_END_RETURNED;
    }
    bag_attempt_path(work, slot, "logs", log);
    bag_say(work, "job %s failed: %s; see %s (try %u of %u)", slot->job->name, why, log,
            slot->job->failures + 1, work->bag.terms.tries);
    blame(work, slot);
    return BAG_END_FAILED;
}

static bool is_there(const struct bag_work *work)
{
    char path[PATH_MAX];
    bag_path(&work->bag, path, "bag.json", NULL);
    return access(path, F_OK) == 0;
}

/* Somebody wants the machine back. Slurm signals every process of a job. So the program may end by
 * the signal before we have asked it to, or heard of it ourselves. That is no failure, which would
 * cost the job a try. */
static bool was_sent_away(const struct bag_work *work, int status)
{
    return WIFSIGNALED(status) && (work->leaving || WTERMSIG(status) == SIGTERM);
}

/* What the end of the program means. */
static enum bag_end judge(struct bag_work *work, struct bag_slot *slot)
{
    char directory[PATH_MAX], text[STATUS_MAX], why[300];
    int status = slot->figures.status;
    bag_attempt_path(work, slot, "work", directory);
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool whole = fine && missing(work, directory) == NULL;
    /* who finished first has swept our directory, perhaps just when our program ended, too */
    if (!whole && (slot->unwanted || bag_result_is(&work->bag, slot->job)))
        return BAG_END_LATE;
    if (whole)
        return BAG_END_DONE;
    if (slot->stage_ns != 0 || was_sent_away(work, status)
        || (WIFEXITED(status) && WEXITSTATUS(status) == TEMPFAIL))
        return BAG_END_RETURNED;
    if (fine)
        snprintf(why, sizeof why, "it ended with 0, but there is no file %.200s",
                 missing(work, directory));
    return failure(work, slot, fine ? why : status_text(status, text));
}

static void forget(struct bag_work *work, struct bag_slot *slot, enum bag_end end)
{
    bag_file_watcher_end(work, slot);
    bag_outputs_drop(slot->outputs);
    if (slot->saves == 0 || bag_job_is_over(slot->job)) /* else its saves need what it holds */
        bag_attempt_remove(&work->bag, slot->job, slot->attempt);
    work->busy_before_ms += slot->figures.ran_ms;
    slot->job->end = end;
    slot->job = NULL;
}

/* The directory of this attempt is gone, and the folder is there: it was swept after somebody else
 * had finished, or a person took it away. */
static bool is_swept(const struct bag_work *work, const struct bag_slot *slot)
{
    char path[PATH_MAX];
    bag_attempt_path(work, slot, "work", path);
    bool gone = access(path, F_OK) != 0 && errno == ENOENT;
    return gone && is_there(work);
}

/* An upload may outlast the time after which others take this worker for dead. */
static void result_send(struct bag_work *work, struct bag_slot *slot)
{
    fflush(NULL);
    slot->sender = fork();
    if (slot->sender == 0)
        _exit(bag_result_send(&work->bag, slot->job, slot->attempt, &slot->figures, work->self.host)
              != 0);
    if (slot->sender < 0)
        slot->sender = 0;
}

/* False: try again. */
static bool result_put(struct bag_work *work, struct bag_slot *slot)
{
    int rc = bag_result_put(&work->bag, slot->job, slot->attempt, &slot->figures, work->self.host);
    if (rc == -EEXIST || (rc == -ENOENT && is_swept(work, slot))) {
        bool done = bag_result_is(&work->bag, slot->job);
        bag_say(work, "job %s: %s", slot->job->name,
                done ? "another worker has finished it; this copy is thrown away"
                     : "its directory was taken away; it is to be done again");
        slot->end = done ? BAG_END_LATE : BAG_END_RETURNED;
        return true;
    }
    slot->placed = rc == 0;
    return bag_folder_fine(work, rc, "put a result into place");
}

static void count_done(struct bag_work *work, struct bag_slot *slot)
{
    work->done_here++;
    work->length_sum_ms += slot->figures.base_ms + slot->figures.ran_ms;
    work->length_count++;
    slot->job->done = true;
}

/* Result, then the word, then the broom: a death in between leaves nothing that could be done
 * twice. */
static void end_turn(struct bag_work *work, struct bag_slot *slot)
{
    struct bag_job *job = slot->job;
    /* nothing can be judged by what is not seen */
    if (!bag_folder_fine(work, is_there(work) ? 0 : -errno, "reach the folder"))
        return;
    if (slot->end == BAG_END_NONE)
        slot->end = judge(work, slot);
    if (slot->end == BAG_END_DONE && bag_is_bucket(&work->bag) && !slot->sent) {
        result_send(work, slot);
        return;
    }
    if (slot->end == BAG_END_DONE && !slot->placed && !result_put(work, slot))
        return;
    enum bag_end end = slot->end;
    if (!bag_folder_fine(work, bag_end_put(&work->bag, job, slot->attempt, end, &slot->figures),
                         "end a job"))
        return;
    if (end == BAG_END_DONE)
        count_done(work, slot);
    if (end
        == BAG_END_LATE) /* the next listing may be some looks away: it is not to be taken again */
        job->done = bag_result_is(&work->bag, job);
    if (end == BAG_END_FAILED && ++job->failures >= work->bag.terms.tries) {
        job->aside = bag_folder_fine(work, bag_aside_put(&work->bag, job), "set a job aside");
        bag_say(work,
                "job %s is set aside after %u tries: %s/aside/%s; spotnik bag retry tries it again",
                job->name, job->failures, bag_where(&work->bag), job->name);
    }
    forget(work, slot, end);
    if (bag_job_is_over(job))
        bag_sweep(&work->bag, job);
}

static void stage_set(struct bag_slot *slot, enum bag_stage stage, uint64_t now_ns)
{
    slot->stage = stage;
    slot->stage_ns = slot->stage_ns != 0 ? slot->stage_ns : now_ns;
}

/* The way out: ask for a restart file, end it, kill it; each in time for the next. */
static void leave_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns)
{
    uint64_t left_ns = spotnik_time_since(work->deadline_ns, now_ns);
    uint64_t whole_ns = spotnik_time_since(work->deadline_ns, work->leave_ns);
    bool can_ask = work->bag.terms.ask != 0 && work->bag.terms.restart != NULL && !slot->unwanted;
    if (slot->stage == BAG_STAGE_RUNS && can_ask
        && bag_slot_ask(work, slot, bag_slot_work_ms(slot, now_ns))) {
        stage_set(slot, BAG_STAGE_ASKED, now_ns);
    } else if (slot->stage <= BAG_STAGE_ASKED
               && (!can_ask || slot->stage == BAG_STAGE_RUNS || left_ns < whole_ns / TERM_SHARE
                   || slot->figures.saved_ms >= slot->asked_ms)) {
        kill(-slot->pid, SIGTERM);
        stage_set(slot, BAG_STAGE_TERMED, now_ns);
    } else if (slot->stage == BAG_STAGE_TERMED && left_ns < whole_ns / (2 * TERM_SHARE)) {
        kill(-slot->pid, SIGKILL);
        stage_set(slot, BAG_STAGE_KILLED, now_ns);
    }
}

static void unwanted_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns)
{
    bool over = slot->job->done || slot->job->dropped;
    if (!over || slot->stage != BAG_STAGE_RUNS)
        return;
    bag_say(work, "job %s: %s; ending it here", slot->job->name,
            slot->job->done ? "another worker has finished it" : "it is no longer wanted");
    slot->unwanted = true;
    kill(-slot->pid, SIGKILL);
    stage_set(slot, BAG_STAGE_KILLED, now_ns);
}

void bag_slot_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns)
{
    if (slot->job == NULL)
        return;
    bag_slot_save_turn(work, slot, now_ns);
    if (slot->pid > 0) {
        unwanted_turn(work, slot, now_ns);
        if (work->leaving)
            leave_turn(work, slot, now_ns);
    } else if (slot->saver == 0 && slot->sender == 0) {
        end_turn(work, slot);
    }
}

static void program_ended(struct bag_work *work, struct bag_slot *slot, int status,
                          const struct rusage *usage, uint64_t now_ns)
{
    char directory[PATH_MAX];
    uint64_t done_ms = bag_slot_work_ms(slot, now_ns);
    slot->figures.ran_ms = bag_slot_ran_ms(slot, now_ns);
    slot->figures.status = status;
    slot->figures.cpu_ms = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000
                           + (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
    slot->pid = 0;
    slot->stage = BAG_STAGE_ENDED;
    if (work->bag.terms.restart == NULL || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return;
    bag_attempt_path(work, slot, "work", directory);
    if (WEXITSTATUS(status) != TEMPFAIL && slot->stage_ns == 0)
        return;
    struct bag_restart before = slot->restart;
    bag_restart_settle(directory, work->bag.terms.restart, done_ms, &slot->restart);
    bag_slot_outputs_look(work, slot, &before);
}

static bool send_done(struct bag_work *work, struct bag_slot *slot, bool fine)
{
    slot->sender = 0;
    return bag_folder_fine(work, fine ? 0 : -EIO, "send a result to the bucket");
}

bool bag_slot_reaped(struct bag_work *work, struct bag_slot *slot, pid_t pid, int status,
                     const struct rusage *usage, uint64_t now_ns)
{
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (slot->job == NULL || (pid != slot->pid && pid != slot->saver && pid != slot->sender))
        return false;
    if (pid == slot->saver)
        bag_slot_save_done(work, slot, fine, now_ns);
    else if (pid == slot->sender)
        slot->sent = send_done(work, slot, fine);
    else
        program_ended(work, slot, status, usage, now_ns);
    return true;
}
